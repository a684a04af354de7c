"""aiomcache, an asyncio client, against host:port."""

import asyncio
import sys

import aiomcache

LARGE = b"0123456789abcdef" * 62_500  # a million bytes


async def main():
    host, port = sys.argv[1].rsplit(":", 1)
    client = aiomcache.Client(host, int(port), pool_size=4)
    assert await client.set(b"aio-a", b"1") and await client.get(b"aio-a") == b"1"
    assert await client.get(b"aio-none") is None and await client.get(b"aio-none", b"else") == b"else"
    assert not await client.add(b"aio-a", b"x") and await client.add(b"aio-b", b"x")
    assert await client.replace(b"aio-b", b"y") and not await client.replace(b"aio-none", b"y")
    assert await client.append(b"aio-b", b"z") and await client.prepend(b"aio-b", b"x")
    assert await client.get(b"aio-b") == b"xyz"
    assert await client.set(b"aio-n", b"40") and await client.incr(b"aio-n", 2) == 42
    assert await client.decr(b"aio-n", 100) == 0
    try:
        assert not await client.incr(b"aio-none"), "there is nothing to count"
    except aiomcache.exceptions.ClientException as error:
        assert "NOT_FOUND" in str(error)
    value, cas = await client.gets(b"aio-a")
    assert value == b"1" and await client.cas(b"aio-a", b"2", cas) and not await client.cas(b"aio-a", b"3", cas)
    keys = [b"aio-many%d" % number for number in range(200)]
    assert all(await asyncio.gather(*(client.set(key, b"of " + key) for key in keys)))
    assert await client.multi_get(*keys) == tuple(b"of " + key for key in keys)
    assert await client.touch(b"aio-a", 100) and not await client.touch(b"aio-none", 100)
    assert await client.set(b"aio-large", LARGE) and await client.get(b"aio-large") == LARGE
    assert await client.set(b"aio-gone", b"x", exptime=1000) and await client.delete(b"aio-gone")
    assert not await client.delete(b"aio-gone") and await client.get(b"aio-gone") is None
    assert await client.version() and b"pid" in await client.stats()
    await client.close()
    print("aiomcache: its whole round")


asyncio.run(asyncio.wait_for(main(), 30))
