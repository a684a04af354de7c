"""A service of two members, found by its etcd:// address."""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import drover_kv
import pytest
from drover_kv import AsyncClient

HERD_ALONE = os.environ.get("DROVER_SYSTEM", "herd") == "herd"

pytestmark = [
    pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed (Debian: etcd-server)"),
    pytest.mark.skipif(not HERD_ALONE, reason="services of other systems have one member"),
]


def free_port(host):
    with socket.socket() as free:
        free.bind((host, 0))
        return free.getsockname()[1]


class Cluster:
    """An etcd and two members, which end with their tests."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="drover-python-")
        client, peer = (f"http://127.0.0.1:{free_port('127.0.0.1')}" for _ in range(2))
        self.url = f"etcd://{client.removeprefix('http://')}/python"
        words = ["etcd", "--data-dir", f"{self.folder}/etcd", "--log-level", "error"]
        words += ["--listen-client-urls", client, "--advertise-client-urls", client]
        words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        words += ["--initial-cluster", f"default={peer}"]
        self.processes = [subprocess.Popen(words)]
        self.members = {name: self.start(name, host) for name, host in (("a", "127.0.0.1"), ("b", "127.0.0.2"))}

    def start(self, name, host):
        words = [os.environ["DROVER"], "serve", "--cluster", self.url, "--member-name", name]
        words += ["--advertise", f"{host}:{free_port(host)}", "--fabric", f"shm:{self.folder}/{name}.sock"]
        words += ["-l", host, "-p", str(free_port(host)), "-t", "1", "-m", "64"]
        process = subprocess.Popen(words)
        self.processes.append(process)
        return process

    def cluster(self, command, *words):
        """Runs a command about the service and returns its exit status."""
        line = [os.environ["DROVER"], "cluster", command, *words, "--cluster", self.url]
        return subprocess.run(line, stdout=subprocess.DEVNULL).returncode

    def wait(self):
        """Returns when both members serve."""
        while self.cluster("check") != 0:
            assert all(process.poll() is None for process in self.processes), "a process has ended"
            time.sleep(0.1)
        return self

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
        shutil.rmtree(self.folder)


@pytest.fixture(scope="module")
def cluster():
    one = Cluster()
    yield one.wait()
    one.stop()


VALUES = {f"key-{number}": b"%d" % number for number in range(300)}


def test_keys_of_all_members(cluster):
    with drover_kv.Client(cluster.url) as client:
        assert client.set_many(VALUES) == []
        assert client.get_many([*VALUES, "none"]) == VALUES
        value, version = client.gets("key-7")
        assert client.cas("key-7", value, version) is True
        assert client.delete("key-8") is True
        assert client.get("key-8") is None


def test_calls_of_a_loop(cluster):
    async def main():
        async with await AsyncClient.connect(cluster.url, key_prefix="aio:") as client:
            assert await client.set_many(VALUES) == []
            answers = await asyncio.gather(*(client.get(key) for key in VALUES))
            assert answers == list(VALUES.values())

    asyncio.run(main())


def test_members_come_and_go_under_a_client(cluster):
    over = threading.Event()
    missing = []

    def read():
        with drover_kv.Client(cluster.url, key_prefix="moved:") as client:
            while not over.is_set():
                missing.extend(VALUES.items() - client.get_many(VALUES).items())

    with drover_kv.Client(cluster.url, key_prefix="moved:") as client:
        assert client.set_many(VALUES) == []
    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert cluster.cluster("drain", "b") == 0
        assert cluster.cluster("undrain", "b") == 0
        cluster.wait()
    finally:
        over.set()
        reader.join()
    assert missing == []


def test_a_service_that_nobody_serves(cluster):
    with pytest.raises(drover_kv.NotConnected):
        drover_kv.Client(cluster.url.replace("/python", "/nobody"))
