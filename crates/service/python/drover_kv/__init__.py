"""Clients of drover, an in-memory key-value service over shared memory and RDMA.

    >>> from drover_kv import Client
    >>> client = Client("shm:drover")
    >>> client.set("fox", b"red")
    True
    >>> client.get("fox")
    b'red'

`Client` has the methods of pymemcache's client of that name; `AsyncClient` has them as coroutines of asyncio.
"""

from drover_kv import errors
from drover_kv._native import __version__
from drover_kv.aio import AsyncClient
from drover_kv.client import Client
from drover_kv.errors import *  # noqa: F403

__all__ = ["AsyncClient", "Client", "__version__", *errors.__all__]
