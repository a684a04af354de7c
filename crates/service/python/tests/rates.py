"""Rates of this client and of pymemcache over TCP, of one server, in turns: `DROVER=target/release/drover python rates.py`.

No test: a rate depends on the machine, and on what else it does. Prints each round's, and medians of the rounds' ratios.
"""

import statistics
import time

import drover_kv
import pymemcache
from conftest import Server

ROUNDS = 21
KEYS = [f"key{i}" for i in range(100)]


def rate(call, seconds=0.2):
    """Calls in a second."""
    count, start = 0, time.perf_counter()
    while True:
        for _ in range(100):
            call()
        count += 100
        took = time.perf_counter() - start
        if took >= seconds:
            return count / took


def main():
    server = Server().wait()
    native, tcp = drover_kv.Client(server.addr), pymemcache.Client(("127.0.0.1", server.port))
    native.set_many({key: b"v" * 32 for key in KEYS})
    ratios = {}
    for _ in range(ROUNDS):
        for name, work in (("get", lambda client: client.get("key1")), ("get_many(100)", lambda client: client.get_many(KEYS))):
            ours, theirs = rate(lambda: work(native)), rate(lambda: work(tcp))
            ratios.setdefault(name, []).append(ours / theirs)
            print(f"{name:14} {ours:9.0f}/s   pymemcache {theirs:9.0f}/s   {ours / theirs:5.1f}")
    for name, found in ratios.items():
        print(f"{name:14} {statistics.median(found):5.1f} times pymemcache's rate ({min(found):.1f} to {max(found):.1f})")
    server.stop()


if __name__ == "__main__":
    main()
