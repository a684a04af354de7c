"""A server of each run, and clients of it. DROVER is the program to start; DROVER_SYSTEM chooses its system."""

import itertools
import os
import signal
import socket
import subprocess
import tempfile
import time

import drover_kv
import pytest


class Server:
    """A `drover serve` that ends with its tests."""

    def __init__(self, *options):
        self.folder = tempfile.mkdtemp(prefix="drover-python-")
        self.addr = f"shm:{self.folder}/service.sock"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        words = ["serve", "--fabric", self.addr, "-p", str(self.port), "-t", "1", "-m", "64", *options]
        self.process = subprocess.Popen([os.environ["DROVER"], *words])

    def wait(self, credentials=None):
        """Returns when it answers."""
        for _ in range(600):
            try:
                drover_kv.Client(self.addr, credentials=credentials).close()
                return self
            except drover_kv.NotConnected:
                assert self.process.poll() is None, "the server has ended"
                time.sleep(0.05)
        raise AssertionError("the server does not answer")

    def halt(self):
        """Has it stand still, and waits until it does: it answers nothing until `resume`."""
        self.process.send_signal(signal.SIGSTOP)
        while True:
            with open(f"/proc/{self.process.pid}/stat") as stat:
                if stat.read().rsplit(")", 1)[1].split()[0] == "T":
                    return
            time.sleep(0.001)

    def resume(self):
        """Has it go on."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        """Has it end, and waits."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


@pytest.fixture(scope="session")
def server():
    one = Server("--system", os.environ.get("DROVER_SYSTEM", "herd")).wait()
    yield one
    one.stop()


@pytest.fixture
def addr(server):
    return server.addr


@pytest.fixture
def client(addr, key):
    with drover_kv.Client(addr, key_prefix=key + b":") as one:
        yield one


_numbers = itertools.count()


@pytest.fixture
def key():
    """Bytes that no other test uses in keys."""
    return b"%d" % next(_numbers)
