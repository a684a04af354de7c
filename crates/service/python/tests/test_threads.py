"""Threads, signals, children, and the interpreter's end."""

import os
import signal
import subprocess
import sys
import threading
import time

import drover_kv
import pytest


def in_threads(count, work):
    """Runs `work` in threads, and raises what one of them raises."""
    errors = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("count", [1, 2, 8, 32])
def test_threads_share_a_client(client, count):
    def work(number):
        for i in range(50):
            client.set(f"{number}-{i}", b"%d" % i)
            assert client.get(f"{number}-{i}") == b"%d" % i

    in_threads(count, work)


@pytest.mark.parametrize("count", [2, 8])
def test_no_step_of_counting_is_lost(client, count):
    client.set("k", 0)
    in_threads(count, lambda _: [client.incr("k", 1) for _ in range(100)])
    assert client.get("k") == b"%d" % (100 * count)


def test_other_threads_go_on_while_one_waits(server):
    client = drover_kv.Client(server.addr, timeout=5)
    steps = 0
    done = threading.Event()

    def wait():
        server.halt()
        try:
            client.get("k")
        except drover_kv.ServerError:
            pass
        finally:
            done.set()

    thread = threading.Thread(target=wait)
    thread.start()
    while not done.wait(0.001):
        steps += 1
        if steps == 200:
            server.resume()
    server.resume()
    thread.join()
    assert steps >= 200


def test_closing_while_others_use_it(addr):
    client = drover_kv.Client(addr)
    begun = threading.Barrier(5)

    def work(number):
        client.set("k", b"v")
        begun.wait()
        if number == 0:
            client.close()
            return
        with pytest.raises(drover_kv.Closed):
            while True:
                client.get("k")

    in_threads(5, work)


def test_a_handler_of_signals_may_use_the_client(server, key):
    client = drover_kv.Client(server.addr, key_prefix=key)
    client.set("k", b"v")
    found = []

    def handle(*_):
        server.resume()
        found.append(client.get("k"))

    old = signal.signal(signal.SIGALRM, handle)
    server.halt()
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        assert client.get("k") == b"v"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert found == [b"v"]


def test_ctrl_c_interrupts(server):
    client = drover_kv.Client(server.addr, timeout=60)
    client.set("k", b"v")
    # Whoever runs the tests may have Ctrl-C ignored, as a shell does in the background.
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    server.halt()
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            client.get("k")
    finally:
        timer.join()
        signal.signal(signal.SIGINT, old)
        server.resume()
    # The answer that nobody waited for is not taken for another one's.
    client.set("other", b"w")
    assert client.get("other") == b"w"
    assert client.get("k") == b"v"


def test_children_connect_anew(client):
    client.set("k", b"v")
    child = os.fork()
    if child == 0:
        ok = client.get("k") == b"v" and client.set("child", b"c") is True
        os._exit(0 if ok else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert client.get("child") == b"c"


SHUTDOWN = """
import os, signal, sys, threading
import drover_kv
client = drover_kv.Client(sys.argv[1], timeout=60)
client.set("k", b"v")
os.kill(int(sys.argv[2]), signal.SIGSTOP)
thread = threading.Thread(target=client.get, args=("k",), daemon=True)
thread.start()
threading.Event().wait(0.2)
"""


def test_the_interpreter_ends_with_operations_under_way(server):
    child = subprocess.Popen([sys.executable, "-c", SHUTDOWN, server.addr, str(server.process.pid)])
    try:
        assert child.wait(timeout=60) == 0
    finally:
        server.resume()


def test_many_clients_leave_nothing(addr):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    drover_kv.Client(addr).close()
    before = descriptors()
    for _ in range(20):
        drover_kv.Client(addr).close()
    in_threads(20, lambda _: drover_kv.Client(addr).set("k", b"v"))
    for _ in range(100):
        if descriptors() <= before:
            break
        time.sleep(0.05)
    assert descriptors() <= before
