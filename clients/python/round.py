"""pymemcache and pylibmc (libmemcached), each through its own interface, against host:port, which may be followed by the path
of a Unix socket, or by `user:password` and the file of a certificate."""

import ssl
import sys
import threading
import time

import pylibmc
import pymemcache
from pymemcache.client.base import PooledClient

LARGE = b"0123456789abcdef" * 62_500  # a million bytes


def pure_python(address, **options):
    def connect(**more):
        return pymemcache.Client(address, connect_timeout=5, timeout=10, **options, **more)

    client = connect(default_noreply=False)
    if login := LOGIN:
        refused = connect(default_noreply=False)
        try:
            assert not refused.raw_command(b"get py-a"), "strangers are refused"
        except pymemcache.exceptions.MemcacheClientError as error:
            assert error.args == (b"unauthenticated",)
        command = b"set login 0 0 %d\r\n%s" % (len(login), login)
        assert client.raw_command(command) == b"STORED", "who is known is let in"
    assert client.set("py-a", b"1") and client.get("py-a") == b"1"
    assert client.get("py-none") is None
    assert client.add("py-a", b"2") is False and client.add("py-new", b"2")
    assert client.replace("py-a", b"3") and client.replace("py-none", b"3") is False
    assert client.append("py-a", b"4") and client.prepend("py-a", b"2") and client.get("py-a") == b"234"
    assert client.incr("py-a", 6) == 240 and client.decr("py-a", 1000) == 0 and client.incr("py-none", 1) is None
    value, cas = client.gets("py-new")
    assert value == b"2" and client.cas("py-new", b"5", cas) is True
    assert client.cas("py-new", b"6", cas) is False and client.cas("py-none", b"6", cas) is None
    assert client.set_many({f"py-many{n}": str(n).encode() for n in range(100)}) == []
    many = client.get_many([f"py-many{n}" for n in range(150)])
    assert len(many) == 100 and many["py-many42"] == b"42"
    assert len(client.gets_many(["py-many1", "py-many2", "py-none"])) == 2
    assert client.delete("py-a") and client.delete("py-a") is False and client.delete_many(["py-many1", "py-many2"])
    assert client.touch("py-new", 100) and client.touch("py-none", 100) is False
    assert client.raw_command(b"gat 100 py-new", b"END\r\n").startswith(b"VALUE py-new 0 1\r\n5")
    assert client.set("py-flags", b"x", flags=4294967295)
    assert client.raw_command(b"get py-flags", b"END\r\n").startswith(b"VALUE py-flags 4294967295 1\r\nx")
    assert client.set("py-gone", b"x", expire=-1) and client.get("py-gone") is None
    assert client.set("py-soon", b"x", expire=1) and client.set("py-later", b"x", expire=1000)
    assert client.set("py-quiet", b"q", noreply=True) and client.get("py-quiet") == b"q"
    assert client.set("py-large", LARGE) and client.get("py-large") == LARGE
    assert client.set("py-empty", b"") and client.get("py-empty") == b""
    assert client.set("k" * 250, b"long") and client.get("k" * 250) == b"long"
    assert client.version() and b"pid" in client.stats()
    thousand = {f"py-thousand{n}": b"%d" % n * (n % 50) for n in range(1000)}
    assert client.set_many(thousand, noreply=True) == [] and client.get_many(thousand) == thousand
    # An item has 60 bytes besides: key, flags and value share the rest of a mebibyte.
    for size, fits in [((1 << 20) - 80, True), ((1 << 20) + 1, False)]:
        try:
            assert client.set("py-limit", b"z" * size) is fits
        except pymemcache.exceptions.MemcacheServerError as error:
            assert not fits and b"too large" in error.args[0]
        client.close()
        client = connect(default_noreply=False)
        if LOGIN:
            assert client.raw_command(command) == b"STORED"
        assert (client.get("py-limit") is not None) is fits, "a value over the limit takes the old one away"
    race(client, connect) if not LOGIN else None
    time.sleep(2.1)
    assert client.get("py-soon") is None and client.get("py-later") == b"x"
    pool = PooledClient(address, max_pool_size=4, **options) if not LOGIN else client
    assert pool.set("py-pool", b"p", noreply=False) and pool.get("py-pool") == b"p"
    assert client.flush_all() and client.get("py-later") is None


def race(client, connect):
    """Some clients count by cas: none of their steps is lost."""
    assert client.set("py-race", b"0")

    def count():
        mine = connect(default_noreply=False)
        for _ in range(100):
            while True:
                value, cas = mine.gets("py-race")
                if mine.cas("py-race", b"%d" % (int(value) + 1), cas):
                    break

    threads = [threading.Thread(target=count, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert client.get("py-race") == b"400"


def libmemcached(server):
    client = pylibmc.Client([server], binary=False, behaviors={"tcp_nodelay": True, "cas": True})
    assert client.set("lib-a", "text") and client.get("lib-a") == "text"
    assert client.set("lib-object", {"n": [1, 2, 3]}) and client.get("lib-object") == {"n": [1, 2, 3]}
    assert client.set("lib-n", 41) and client.incr("lib-n") == 42 and client.decr("lib-n", 2) == 40
    assert not client.add("lib-a", "x") and client.add("lib-b", "x") and client.replace("lib-b", "y")
    assert client.append("lib-b", "z") and client.prepend("lib-b", "x") and client.get("lib-b") == "xyz"
    assert client.set_multi({f"lib-many{n}": n for n in range(100)}) == []
    assert len(client.get_multi([f"lib-many{n}" for n in range(120)])) == 100
    value, cas = client.gets("lib-a")
    assert value == "text" and client.cas("lib-a", "new", cas) and not client.cas("lib-a", "old", cas)
    assert client.touch("lib-a", 100) and client.delete("lib-a") and not client.delete("lib-a")
    assert client.set("lib-large", LARGE) and client.get("lib-large") == LARGE
    assert client.set_multi({f"lib-thousand{n}": n for n in range(1000)}) == []
    assert client.get_multi([f"lib-thousand{n}" for n in range(1000)])["lib-thousand999"] == 999
    quiet = pylibmc.Client([server], binary=False, behaviors={"no_block": True, "tcp_nodelay": True})
    assert all(quiet.set(f"lib-unblocked{n}", n) for n in range(500)) and quiet.get("lib-unblocked499") == 499
    assert client.get_stats()[0][1]


LOGIN = None


def main():
    global LOGIN
    host, port = sys.argv[1].rsplit(":", 1)
    server, address, options = sys.argv[1], (host, int(port)), {}
    if len(sys.argv) == 4:
        LOGIN = sys.argv[2].replace(":", " ").encode()
        options["tls_context"] = ssl.create_default_context(cafile=sys.argv[3])
    elif len(sys.argv) == 3:
        server, address = sys.argv[2], sys.argv[2]
    pure_python(address, **options)
    print("pymemcache: its whole round", flush=True)
    if not options:
        libmemcached(server)
        print("pylibmc: its whole round", flush=True)


main()
