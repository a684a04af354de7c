"""pymemcache and pylibmc (libmemcached), each through its own interface, against host:port."""

import sys
import time

import pylibmc
import pymemcache
from pymemcache.client.base import PooledClient

LARGE = b"0123456789abcdef" * 62_500  # a million bytes


def pure_python(host, port):
    client = pymemcache.Client((host, port), default_noreply=False, connect_timeout=5, timeout=10)
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
    time.sleep(2.1)
    assert client.get("py-soon") is None and client.get("py-later") == b"x"
    pool = PooledClient((host, port), max_pool_size=4)
    assert pool.set("py-pool", b"p", noreply=False) and pool.get("py-pool") == b"p"
    assert client.flush_all() and client.get("py-later") is None


def libmemcached(host, port):
    client = pylibmc.Client([f"{host}:{port}"], binary=False, behaviors={"tcp_nodelay": True, "cas": True})
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
    quiet = pylibmc.Client([f"{host}:{port}"], binary=False, behaviors={"no_block": True, "tcp_nodelay": True})
    assert all(quiet.set(f"lib-unblocked{n}", n) for n in range(500)) and quiet.get("lib-unblocked499") == 499
    assert client.get_stats()[0][1]


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    for name, play in [("pymemcache", pure_python), ("pylibmc", libmemcached)]:
        play(host, int(port))
        print(f"{name}: its whole round", flush=True)


main()
