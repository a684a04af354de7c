"""libmc, a client written in C++, against host:port."""

import sys

import libmc

LARGE = b"0123456789abcdef" * 62_500  # a million bytes


def main():
    client = libmc.Client([sys.argv[1]])
    client.config(libmc.MC_POLL_TIMEOUT, 10_000)
    client.config(libmc.MC_CONNECT_TIMEOUT, 5_000)
    assert client.set("mc-a", "text") and client.get("mc-a") == "text" and client.get("mc-none") is None
    assert client.set("mc-object", {"n": [1, 2, 3]}) and client.get("mc-object") == {"n": [1, 2, 3]}
    assert client.set("mc-n", 40) and client.incr("mc-n", 2) == 42 and client.decr("mc-n", 100) == 0
    assert client.incr("mc-none") is None
    assert not client.add("mc-a", "x") and client.add("mc-b", b"x")
    assert client.replace("mc-b", b"y") and not client.replace("mc-none", b"y")
    assert client.append("mc-b", b"z") and client.prepend("mc-b", b"x") and client.get("mc-b") == b"xyz"
    value, cas = client.gets("mc-a")
    assert value == "text" and client.cas("mc-a", "new", 0, cas) and not client.cas("mc-a", "old", 0, cas)
    many = {f"mc-many{number}": number for number in range(200)}
    assert client.set_multi(many) and client.get_multi([*many, "mc-none"]) == many
    assert client.touch("mc-a", 100) and not client.touch("mc-none", 100)
    assert client.set("mc-large", LARGE) and client.get("mc-large") == LARGE
    # Of a key that was not there libmc says that it is deleted, too.
    assert client.delete("mc-a") and client.get("mc-a") is None and client.delete_multi(list(many))
    assert client.get_multi(list(many)) == {}
    assert list(client.version()) and list(client.stats().values())[0]["pid"]
    print("libmc: its whole round")


main()
