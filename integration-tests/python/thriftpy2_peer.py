"""A program of somebody else's: reads our IDL at run time with thriftpy2, and speaks framed compact or framed binary, nothing else."""

import argparse
import contextlib
import pathlib
import threading
import types as python_types

import thriftpy2
from thriftpy2.protocol import TBinaryProtocolFactory, TCompactProtocolFactory
from thriftpy2.rpc import client_context
from thriftpy2.server import TThreadedServer
from thriftpy2.thrift import TApplicationException, TProcessor
from thriftpy2.transport import TFramedTransportFactory, TServerSocket

import peer


class Thriftpy2:
    refusal = TApplicationException

    def __init__(self, arguments):
        idl = pathlib.Path(arguments.idl)
        load = lambda name: thriftpy2.load(str(idl / f"{name}.thrift"), module_name=f"{name}_thrift")
        common, self.scheduler, self.worker = load("common"), load("scheduler"), load("worker")
        own = {name: getattr(self.scheduler, name) for name in ("BistroJobConfig", "StatusUpdate")}
        self.types = python_types.SimpleNamespace(**vars(common), **own)
        self.port = arguments.scheduler
        self.protocol = {"compact": TCompactProtocolFactory, "binary": TBinaryProtocolFactory}[arguments.protocol]

    @contextlib.contextmanager
    def client(self):
        with client_context(
            self.scheduler.BistroScheduler,
            "127.0.0.1",
            self.port,
            proto_factory=self.protocol(),
            trans_factory=TFramedTransportFactory(),
            connect_timeout=10_000,
            socket_timeout=10_000,
        ) as client:
            yield client

    def serve(self, handler, port):
        socket = TServerSocket(host="127.0.0.1", port=port, client_timeout=None)
        server = TThreadedServer(
            TProcessor(self.worker.BistroWorker, handler),
            socket,
            iprot_factory=self.protocol(),
            itrans_factory=TFramedTransportFactory(),
            daemon=True,
        )
        socket.listen()
        threading.Thread(target=server.serve, daemon=True).start()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    peer.add_arguments(parser)
    arguments = parser.parse_args()
    peer.main(Thriftpy2(arguments), arguments)
