"""emcache, an asyncio client written in Cython, against host:port."""

import asyncio
import sys

import emcache

LARGE = b"0123456789abcdef" * 62_500  # a million bytes


async def is_stored(request):
    """What emcache raises when a value was not stored, as an answer."""
    try:
        await request
    except emcache.NotStoredStorageCommandError:
        return False
    return True


async def main():
    host, port = sys.argv[1].rsplit(":", 1)
    client = await emcache.create_client([emcache.MemcachedHostAddress(host, int(port))], timeout=10.0)
    assert await is_stored(client.set(b"em-a", b"1", flags=7))
    item = await client.get(b"em-a", return_flags=True)
    assert (item.value, item.flags) == (b"1", 7) and await client.get(b"em-none") is None
    assert not await is_stored(client.add(b"em-a", b"x")) and await is_stored(client.add(b"em-b", b"x"))
    assert await is_stored(client.replace(b"em-b", b"y")) and not await is_stored(client.replace(b"em-none", b"y"))
    assert await is_stored(client.append(b"em-b", b"z")) and await is_stored(client.prepend(b"em-b", b"x"))
    assert (await client.get(b"em-b")).value == b"xyz"
    assert await is_stored(client.set(b"em-n", b"40")) and await client.increment(b"em-n", 2) == 42
    assert await client.decrement(b"em-n", 100) == 0
    item = await client.gets(b"em-a")
    assert await is_stored(client.cas(b"em-a", b"2", item.cas))
    assert not await is_stored(client.cas(b"em-a", b"3", item.cas))
    keys = [b"em-many%d" % number for number in range(200)]
    await asyncio.gather(*(client.set(key, b"of " + key) for key in keys))
    found = await client.get_many([*keys, b"em-none"])
    assert {key: item.value for key, item in found.items()} == {key: b"of " + key for key in keys}
    await client.touch(b"em-a", 100)
    assert (await client.gat(100, b"em-a")).value == b"2"
    assert await is_stored(client.set(b"em-large", LARGE)) and (await client.get(b"em-large")).value == LARGE
    await client.delete(b"em-b")
    assert await client.get(b"em-b") is None
    await client.close()
    print("emcache: its whole round")


asyncio.run(asyncio.wait_for(main(), 30))
