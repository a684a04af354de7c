"""The client for asyncio."""

import asyncio

from drover_kv import _codec
from drover_kv._codec import IF_ABSENT, IF_PRESENT, IF_VERSION
from drover_kv._native import Calls
from drover_kv.errors import Closed


class AsyncClient(_codec.Codec):
    """A client whose methods are coroutines, for one event loop; a thread of its own, without the interpreter's lock, talks to the
    service. Parameters are those of `Client`.

        client = await AsyncClient.connect("shm:drover")
        await client.set("fox", b"red")
    """

    def __init__(self, calls, loop, serde, key_prefix, encoding, allow_unicode_keys):
        super().__init__(serde, key_prefix, encoding, allow_unicode_keys)
        self._calls = calls
        self._loop = loop
        self._waiting = {}
        loop.add_reader(calls.fileno(), self._take)

    @classmethod
    async def connect(
        cls,
        server="shm:drover",
        serde=None,
        connect_timeout=None,
        timeout=None,
        key_prefix=b"",
        allow_unicode_keys=False,
        encoding="ascii",
        *,
        window=16,
        credentials=None,
        tls_ca=None,
        tls_name=None,
        tls_cert=None,
        tls_key=None,
    ):
        """Connects to the service; the loop goes on meanwhile."""
        options = _codec.keywords(
            connect_timeout, timeout, window, credentials, tls_ca, tls_name, tls_cert, tls_key
        )
        loop = asyncio.get_running_loop()
        calls = await loop.run_in_executor(None, Calls, server, options)
        return cls(calls, loop, serde, key_prefix, encoding, allow_unicode_keys)

    async def get(self, key, default=None):
        """As `Client.get`."""
        return self.decoded(key, await self._call(self.get_request(key)), default)

    async def get_many(self, keys):
        """As `Client.get_many`."""
        keys = list(keys)
        answers = await self._all([self.get_request(key) for key in keys])
        return {key: self.decoded(key, answer, None) for key, answer in zip(keys, answers) if answer is not None}

    async def gets(self, key, default=None, cas_default=None):
        """As `Client.gets`."""
        answer = await self._call(self.item_request(key))
        if answer is None:
            return default, cas_default
        return self.decoded(key, answer, None) if self._serde else answer[0], answer[2]

    async def set(self, key, value, expire=0, flags=None):
        """As `Client.set`."""
        return await self._call(self.put_request(key, value, expire, flags))

    async def set_many(self, values, expire=0, flags=None):
        """As `Client.set_many`."""
        keys = list(values)
        requests = [self.put_request(key, values[key], expire, flags) for key in keys]
        answers = await asyncio.gather(*map(self._call, requests), return_exceptions=True)
        return [key for key, answer in zip(keys, answers) if answer is not True]

    async def add(self, key, value, expire=0, flags=None):
        """As `Client.add`."""
        return await self._call(self.put_request(key, value, expire, flags, IF_ABSENT))

    async def replace(self, key, value, expire=0, flags=None):
        """As `Client.replace`."""
        return await self._call(self.put_request(key, value, expire, flags, IF_PRESENT)) is True

    async def cas(self, key, value, cas, expire=0, flags=None):
        """As `Client.cas`."""
        return await self._call(self.put_request(key, value, expire, flags, IF_VERSION, _codec.version_of(cas)))

    async def append(self, key, value):
        """As `Client.append`."""
        added, _ = self.encoded(key, value, None)
        return await self._change(key, lambda old: old + added) is not None

    async def prepend(self, key, value):
        """As `Client.prepend`."""
        added, _ = self.encoded(key, value, None)
        return await self._change(key, lambda old: added + old) is not None

    async def incr(self, key, value=1):
        """As `Client.incr`."""
        return await self._count(key, _codec.step(value))

    async def decr(self, key, value=1):
        """As `Client.decr`."""
        return await self._count(key, -_codec.step(value))

    async def touch(self, key, expire=0):
        """As `Client.touch`."""
        return await self._call(self.touch_request(key, expire)) is True

    async def delete(self, key):
        """As `Client.delete`."""
        return await self._call(self.delete_request(key)) is True

    async def delete_many(self, keys):
        """As `Client.delete_many`."""
        await self._all([self.delete_request(key) for key in keys])
        return True

    async def close(self):
        """Stops the client's thread; operations under way fail with `Closed`."""
        self._loop.remove_reader(self._calls.fileno())
        await self._loop.run_in_executor(None, self._calls.close)
        self._take()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Closed("the client is closed"))
        self._waiting.clear()

    def _call(self, request):
        """Starts an operation, and returns the future of its answer."""
        future = self._loop.create_future()
        self._waiting[self._calls.start(request)] = future
        return future

    async def _all(self, requests):
        return await asyncio.gather(*map(self._call, requests))

    def _take(self):
        """Passes on what is done."""
        for number, answer in self._calls.take():
            future = self._waiting.pop(number)
            # The program may not wait any more.
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    async def _change(self, key, change):
        while True:
            found = await self._call(self.item_request(key))
            if found is None:
                return None
            value = change(found[0])
            if await self._call(self.change_request(key, value, found[2])):
                return value

    async def _count(self, key, delta):
        value = await self._change(key, lambda old: b"%d" % _codec.counted(old, delta))
        return None if value is None else int(value)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()
