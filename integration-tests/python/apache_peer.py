"""A program of somebody else's: code that the Apache Thrift compiler generated from our IDL, on Apache's own Python library, over the
header transport, nothing else."""

import argparse
import contextlib
import sys
import threading
import types as python_types


def load(arguments):
    sys.path.insert(0, arguments.idl)
    import facebook.bistro.common.ttypes as common
    import facebook.bistro.scheduler.BistroScheduler as scheduler
    import facebook.bistro.scheduler.ttypes as scheduler_types
    import facebook.bistro.worker.BistroWorker as worker

    own = {name: getattr(scheduler_types, name) for name in ("BistroJobConfig", "StatusUpdate")}
    types = python_types.SimpleNamespace(**vars(common), **own)
    return types, scheduler, worker


class Apache:
    def __init__(self, arguments):
        from thrift.protocol.THeaderProtocol import THeaderProtocol, THeaderProtocolFactory
        from thrift.server.TServer import TThreadedServer
        from thrift.Thrift import TApplicationException
        from thrift.transport import TSocket, TTransport
        from thrift.transport.THeaderTransport import THeaderClientType, THeaderSubprotocolID

        self.types, self.scheduler, self.worker = load(arguments)
        self.refusal = TApplicationException
        self.port = arguments.scheduler
        self.sub = {"compact": THeaderSubprotocolID.COMPACT, "binary": THeaderSubprotocolID.BINARY}[arguments.protocol]
        self.only_header = (THeaderClientType.HEADERS,)
        self.header_protocol, self.header_factory = THeaderProtocol, THeaderProtocolFactory
        self.sockets, self.transports, self.threaded_server = TSocket, TTransport, TThreadedServer

    @contextlib.contextmanager
    def client(self):
        socket = self.sockets.TSocket("127.0.0.1", self.port)
        socket.setTimeout(10_000)
        protocol = self.header_protocol(socket, self.only_header, self.sub)
        client = self.scheduler.Client(protocol)
        protocol.trans.open()
        try:
            yield client
        finally:
            protocol.trans.close()

    def serve(self, handler, port):
        socket = self.sockets.TServerSocket("127.0.0.1", port)
        server = self.threaded_server(
            self.worker.Processor(handler),
            socket,
            self.transports.TTransportFactoryBase(),
            self.header_factory(self.only_header, self.sub),
            daemon=True,
        )
        threading.Thread(target=server.serve, daemon=True).start()


if __name__ == "__main__":
    import peer

    parser = argparse.ArgumentParser(description=__doc__)
    peer.add_arguments(parser)
    arguments = parser.parse_args()
    peer.main(Apache(arguments), arguments)
