"""The client for asyncio."""

import asyncio

import drover_kv
import pytest
from drover_kv import AsyncClient


@pytest.fixture
def run(addr, key):
    """Runs a coroutine that is given a client."""

    def run(work, **options):
        async def main():
            async with await AsyncClient.connect(addr, key_prefix=key + b":", **options) as client:
                return await work(client)

        return asyncio.run(main())

    return run


@pytest.mark.parametrize("size", [0, 1, 100, 5000, 200_000])
def test_values_come_back(run, size):
    async def work(client):
        assert await client.get("k") is None
        assert await client.get("k", "default") == "default"
        assert await client.set("k", bytes(size)) is True
        assert await client.get("k") == bytes(size)
        assert await client.delete("k") is True
        assert await client.delete("k") is False

    run(work)


@pytest.mark.parametrize("count", [1, 16, 100, 3000])
def test_many_are_under_way(run, count):
    async def work(client):
        values = {f"k{i}": b"%d" % i for i in range(count)}
        assert await client.set_many(values) == []
        assert await client.get_many([*values, "none"]) == values
        answers = await asyncio.gather(*(client.get(key) for key in values))
        assert answers == list(values.values())
        assert await client.delete_many(values) is True
        assert await client.get_many(values) == {}

    run(work)


def test_conditions_and_counting(run):
    async def work(client):
        assert await client.replace("k", b"1") is False
        assert await client.add("k", b"1") is True
        assert await client.add("k", b"1") is False
        assert await client.replace("k", b"5") is True
        value, version = await client.gets("k")
        assert value == b"5"
        assert await client.cas("k", b"6", version) is True
        assert await client.cas("k", b"7", version) is False
        assert await client.cas("none", b"7", version) is None
        assert await client.incr("k", 4) == 10
        assert await client.decr("k", 20) == 0
        assert await client.incr("none") is None
        assert await client.append("k", b"!") is True
        assert await client.prepend("k", b"?") is True
        assert await client.get("k") == b"?0!"
        assert await client.touch("k", 100) is True
        assert await client.touch("none", 100) is False
        with pytest.raises(drover_kv.NotANumber):
            await client.incr("k")

    run(work)


@pytest.mark.parametrize("count", [2, 20])
def test_no_step_of_counting_is_lost(run, count):
    async def work(client):
        await client.set("k", 0)

        async def steps():
            for _ in range(20):
                await client.incr("k")

        await asyncio.gather(*(steps() for _ in range(count)))
        assert await client.get("k") == b"%d" % (20 * count)

    run(work)


def test_errors(run):
    async def work(client):
        with pytest.raises(drover_kv.BadKey):
            await client.get(b"x" * 251)
        with pytest.raises(TypeError):
            await client.get(None)
        with pytest.raises(drover_kv.TooLarge):
            await client.set("k", bytes(2 << 20))
        assert await client.set_many({"k": bytes(2 << 20), "good": b"v"}) == ["k"]
        assert await client.get("good") == b"v"

    run(work)


def test_who_does_not_connect():
    with pytest.raises(drover_kv.NotConnected):
        asyncio.run(AsyncClient.connect("unix:/nowhere.sock"))
    with pytest.raises(drover_kv.BadAddress):
        asyncio.run(AsyncClient.connect("nonsense"))
    with pytest.raises(drover_kv.BadOption):
        asyncio.run(AsyncClient.connect("unix:/nowhere.sock", timeout=0))


def test_the_loop_goes_on_while_operations_wait(run, server):
    async def work(client):
        await client.set("k", b"v")
        server.halt()
        waiting = asyncio.ensure_future(client.get("k"))
        steps = 0
        while steps < 100:
            await asyncio.sleep(0.001)
            steps += 1
        assert not waiting.done()
        server.resume()
        assert await waiting == b"v"

    run(work)


def test_cancelled_operations(run):
    async def work(client):
        for _ in range(50):
            task = asyncio.ensure_future(client.get("k"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await client.set("k", b"v")
        assert await client.get("k") == b"v"

    run(work)


def test_closing_with_operations_under_way(addr, server):
    async def main():
        client = await AsyncClient.connect(addr, timeout=60)
        server.halt()
        waiting = [asyncio.ensure_future(client.get("k")) for _ in range(5)]
        await asyncio.sleep(0.01)
        await client.close()
        server.resume()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(answer, drover_kv.Closed) for answer in answers), answers
        with pytest.raises(drover_kv.Closed):
            await client.get("k")

    asyncio.run(main())
