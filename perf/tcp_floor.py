#!/usr/bin/env python3
"""What raw TCP does on this machine's loopback, for rows between pretended machines: tcp_floor.py FILE writes {"round_trip_us", "stream_us"}.

round_trip_us: 8 bytes there and back between two processes that poll; stream_us: by size, one message of one connection after the other.
Medians of five.
"""
import json, os, socket, statistics, sys, time

SIZES = [64 << 10 << 2 * i for i in range(6)]


def receive(peer, into):
    view, got = memoryview(into), 0
    while got < len(view):
        try:
            got += peer.recv_into(view[got:])
        except BlockingIOError:
            pass


def send(peer, data):
    view = memoryview(data)
    while view:
        try:
            view = view[peer.send(view):]
        except BlockingIOError:
            pass


def connected(peer):
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setblocking(False)
    return peer


def counts(size):
    return max(4, min(256, (256 << 20) // size))


def serve(listener):
    peer = connected(listener.accept()[0])
    word = bytearray(8)
    for _ in range(5 * 2000):
        receive(peer, word)
        send(peer, word)
    for size in SIZES:
        data = bytearray(size)
        for _ in range(5):
            for _ in range(counts(size)):
                receive(peer, data)
            send(peer, word)


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    if os.fork() == 0:
        serve(listener)
        os._exit(0)
    peer, word = connected(socket.create_connection(listener.getsockname())), bytearray(8)

    def timed(n, work):
        began = time.perf_counter()
        work()
        return (time.perf_counter() - began) / n * 1e6

    def trips():
        for _ in range(2000):
            send(peer, word)
            receive(peer, word)

    def stream(size):
        data = bytearray(size)

        def work():
            for _ in range(counts(size)):
                send(peer, data)
            receive(peer, word)

        return statistics.median(timed(counts(size), work) for _ in range(5))

    trip = statistics.median(timed(2000, trips) for _ in range(5))
    with open(sys.argv[1], "w") as file:
        json.dump({"round_trip_us": trip, "stream_us": {size: stream(size) for size in SIZES}}, file)
    os.wait()


if __name__ == "__main__":
    main()
