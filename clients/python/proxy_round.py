"""pymemcache through a proxy before two servers: takes host:port of the proxy, then of both servers."""

import sys

import pymemcache

KEYS = {f"proxied{number}": b"of %d" % number for number in range(400)}


def connect(address):
    host, port = address.rsplit(":", 1)
    return pymemcache.Client((host, int(port)), connect_timeout=5, timeout=10, default_noreply=False)


def main():
    proxy, *servers = map(connect, sys.argv[1:])
    assert proxy.set_many(KEYS) == []
    assert proxy.get_many([*KEYS, "proxied-none"]) == KEYS
    held = [server.get_many(list(KEYS)) for server in servers]
    shares = [len(share) for share in held]
    assert sum(shares) == len(KEYS) and min(shares) > len(KEYS) // 8, f"both servers have a share: {shares}"
    assert {**held[0], **held[1]} == KEYS
    assert not proxy.add("proxied1", b"x") and proxy.replace("proxied1", b"1") and proxy.append("proxied1", b"0")
    assert proxy.incr("proxied1", 5) == 15 and proxy.decr("proxied1", 5) == 10
    value, cas = proxy.gets("proxied2")
    assert value == b"of 2" and proxy.cas("proxied2", b"new", cas) and proxy.cas("proxied2", b"old", cas) is False
    assert proxy.touch("proxied2", 100) and not proxy.touch("proxied-none", 100)
    assert proxy.set("proxied-large", b"x" * 500_000) and len(proxy.get("proxied-large")) == 500_000
    assert proxy.delete("proxied3") and not proxy.delete("proxied3") and proxy.get("proxied3") is None
    print(f"nutcracker: its whole round, {shares[0]} and {shares[1]} keys")


main()
