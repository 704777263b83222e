"""The cables of one test network: carries packets between namespaces, and loses, doubles, delays and reorders them as told.

Arguments: a seed, and for each host the id of a process in its namespace. Host N has the address 10.77.0.(N + 1). Each line of standard
input is a command as JSON, answered by one line when it is in force. The end of standard input is the end of the network.

Why not the kernel's own emulation of bad links: many kernels are built without it. TUN devices are in all of them, carry whole packets
with correct checksums, and let one seed decide what happens to each.
"""

import fcntl
import heapq
import json
import os
import random
import selectors
import struct
import subprocess
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
# Larger than any packet of an interface with the default MTU.
MAX_PACKET = 65536
# Packets under way. A real cable holds fewer; beyond it, they are lost.
MAX_UNDER_WAY = 10_000
# Where the destination's last byte stands in an IPv4 header.
DESTINATION_END = 19


def plug(host, pid):
    """Makes a device and moves its network side into the namespace of `pid`; this side stays here."""
    name = f"wire{host}"
    wire = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(wire, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    subprocess.run(["ip", "link", "set", name, "netns", pid], check=True)
    return wire


class Switch:
    def __init__(self, seed, pids):
        self.random = random.Random(seed)
        self.wires = [plug(host, pid) for host, pid in enumerate(pids)]
        # (from, to): loss, doubling (both from 0 to 1), least and greatest delay in seconds.
        self.links = {}
        self.under_way = []
        self.order = 0
        self.newest = {}
        self.counts = {"carried": 0, "lost": 0, "doubled": 0, "reordered": 0}

    def take(self, source):
        """Reads all packets that a host has sent."""
        while True:
            try:
                packet = os.read(self.wires[source], MAX_PACKET)
            except (BlockingIOError, OSError):
                return
            if packet[0] >> 4 != 4 or len(packet) <= DESTINATION_END:
                continue
            target = packet[DESTINATION_END] - 1
            if 0 <= target < len(self.wires) and target != source:
                self.send(source, target, packet)

    def send(self, source, target, packet):
        loss, doubling, least, greatest = self.links.get((source, target), (0, 0, 0, 0))
        if self.random.random() < loss:
            self.counts["lost"] += 1
            return
        copies = 1
        if self.random.random() < doubling:
            self.counts["doubled"] += 1
            copies = 2
        for _ in range(copies):
            if greatest == 0:
                self.deliver(source, target, self.order, packet)
            elif len(self.under_way) < MAX_UNDER_WAY:
                due = time.monotonic() + self.random.uniform(least, greatest)
                heapq.heappush(self.under_way, (due, self.order, source, target, packet))
            self.order += 1

    def deliver(self, source, target, order, packet):
        if order < self.newest.get((source, target), 0):
            self.counts["reordered"] += 1
        else:
            self.newest[source, target] = order
        # What was under way when the link was cut is lost too.
        if self.links.get((source, target), (0,))[0] >= 1:
            self.counts["lost"] += 1
            return
        try:
            os.write(self.wires[target], packet)
            self.counts["carried"] += 1
        except OSError:
            # The interface is down, or full: a lost packet.
            self.counts["lost"] += 1

    def deliver_due(self):
        """Delivers what is due; tells for how long there is nothing to do."""
        while self.under_way:
            left = self.under_way[0][0] - time.monotonic()
            if left > 0:
                return left
            _, order, source, target, packet = heapq.heappop(self.under_way)
            self.deliver(source, target, order, packet)
        return None

    def obey(self, line):
        command = json.loads(line)
        if "link" in command:
            link = command["link"]
            self.links[link["from"], link["to"]] = (link["loss"], link["doubling"], link["least"], link["greatest"])
        print(json.dumps(self.counts), flush=True)


def main():
    switch = Switch(int(sys.argv[1]), sys.argv[2:])
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ, None)
    for host, wire in enumerate(switch.wires):
        selector.register(wire, selectors.EVENT_READ, host)
    print("ready", flush=True)
    rest = b""
    while True:
        for key, _ in selector.select(switch.deliver_due()):
            if key.data is not None:
                switch.take(key.data)
                continue
            text = os.read(0, MAX_PACKET)
            if not text:
                return
            *lines, rest = (rest + text).split(b"\n")
            for line in lines:
                switch.obey(line)


main()
