"""mc's style: thousands of meta requests outstanding on one connection, told apart by their opaques, most of them quiet.

Takes host:port. What it must be told is kept in a dictionary beside it.
"""

import base64
import random
import socket
import sys

REQUESTS = 4000
ROUNDS = 5
KEYS = 300


class Stream:
    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb", buffering=1 << 16)

    def answers(self, requests):
        """Sends all at once, and reads up to the answer of `mn`. By opaque: status, flags and value."""
        self.socket.sendall(b"".join(requests) + b"mn\r\n")
        found = {}
        while (line := self.file.readline()) != b"MN\r\n":
            assert line.endswith(b"\r\n"), line
            status, *flags = line.split()
            value = None
            if status == b"VA":
                size = int(flags.pop(0))
                value = self.file.read(size)
                assert self.file.read(2) == b"\r\n"
            told = {flag[:1]: flag[1:] for flag in flags}
            opaque = int(told[b"O"])
            assert opaque not in found and (not found or opaque > max(found)), "answers come in order, once each"
            found[opaque] = (status, told, value)
        return found


def key_of(number):
    """Every third key is bytes that no text could carry."""
    if number % 3:
        return b"mc%d" % number, b""
    return base64.b64encode(b"mc\x00\r\n \xff%d" % number), b" b"


def draw(rng, held, requests, wanted, opaque):
    number = rng.randrange(KEYS)
    key, b64 = key_of(number)
    tail = b"%b O%d\r\n" % (b64, opaque)
    kind = rng.randrange(10)
    if kind < 4:
        requests.append(b"mg %b v k f q%b" % (key, tail))
        if number in held:
            value, flags = held[number]
            wanted[opaque] = (b"VA", {b"k": key, b"f": b"%d" % flags}, value)
    elif kind < 7:
        value = rng.randbytes(rng.choice([0, 1, 10, 100, 3000]))
        flags = rng.choice([0, 1, 4294967295])
        requests.append(b"ms %b %d F%d T1000 q%b%b\r\n" % (key, len(value), flags, tail, value))
        held[number] = (value, flags)
    elif kind == 7:
        requests.append(b"md %b q%b" % (key, tail))
        # Of a delete q hides what went well and not that nothing was there.
        if held.pop(number, None) is None:
            wanted[opaque] = (b"NF", {}, None)
    elif kind == 8:
        requests.append(b"ms %b 3 ME q%babc\r\n" % (key, tail))
        if number in held:
            wanted[opaque] = (b"NS", {}, None)
        else:
            held[number] = (b"abc", 0)
    else:
        requests.append(b"ma %b N1000 J5 v%b" % (b"mc-count", tail.replace(b" b", b"")))
        count = held["count"] = held.get("count", 4) + 1
        wanted[opaque] = (b"VA", {}, b"%d" % count)


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    stream, rng = Stream((host, int(port))), random.Random(7)
    held, opaque = {}, 0
    for _ in range(ROUNDS):
        requests, wanted = [], {}
        for _ in range(REQUESTS):
            opaque += 1
            draw(rng, held, requests, wanted, opaque)
        found = stream.answers(requests)
        assert found.keys() == wanted.keys(), sorted(found.keys() ^ wanted.keys())[:5]
        for nth, (status, flags, value) in wanted.items():
            told = found[nth]
            assert told[0] == status and told[2] == value, (nth, told, status, value)
            assert all(told[1].get(letter) == text for letter, text in flags.items()), (nth, told)
    print(f"mc's style: {ROUNDS * REQUESTS} requests, {REQUESTS} outstanding")


main()
