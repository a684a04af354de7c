"""Runs pymemcache's own integration tests with drover's client in place of its: a plugin of pytest.

What is changed is the client alone: host and port become the service's address, names of exceptions those of this package. `flush_all`,
which native clients do not have, goes to the service's memcached port.
"""

import socket

import drover_kv
import pymemcache.client.base
import pymemcache.exceptions
import pytest
from conftest import Server

pymemcache.exceptions.MemcacheClientError = drover_kv.ClientError
pymemcache.exceptions.MemcacheServerError = drover_kv.ServerError
pymemcache.exceptions.MemcacheIllegalInputError = drover_kv.ClientError

#: What does not apply, and why.
OTHERS = {
    "test_misc": "stats and cache_memlimit are for memcached's port, or drover stats",
    "test_errors": "keys may be any bytes, so spaces are no error",
    "test_tls": "pymemcache skips it itself",
}

_server = None


class Adapted(drover_kv.Client):
    """A client that is made as pymemcache's is."""

    def __init__(self, server, socket_module=None, **options):
        self._port = server[1]
        super().__init__(_server.addr, **options)

    def flush_all(self):
        with socket.create_connection(("127.0.0.1", self._port)) as stream:
            stream.sendall(b"flush_all\r\n")
            assert stream.recv(64) == b"OK\r\n"


pymemcache.client.base.Client = Adapted


def pytest_configure(config):
    global _server
    _server = Server().wait()
    config.addinivalue_line("markers", "integration: pymemcache's tests of a server")


def pytest_unconfigure():
    _server.stop()


def pytest_collection_modifyitems(items):
    for item in items:
        why = OTHERS.get(item.name.split("[")[0])
        if why:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture
def client_class():
    return Adapted


@pytest.fixture
def host():
    return "127.0.0.1"


@pytest.fixture
def port():
    return _server.port


@pytest.fixture(params=[b"", b"prefix:"])
def key_prefix(request):
    return request.param


@pytest.fixture
def socket_module():
    return None
