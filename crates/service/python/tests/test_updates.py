"""Conditions, versions, counting, and expiry."""

import time

import drover_kv
import pytest


def test_add(client):
    assert client.add("k", b"1") is True
    assert client.add("k", b"2") is False
    assert client.get("k") == b"1"


def test_replace(client):
    assert client.replace("k", b"1") is False
    client.set("k", b"1")
    assert client.replace("k", b"2") is True
    assert client.get("k") == b"2"


@pytest.mark.parametrize("kind", [int, str, lambda version: b"%d" % version])
def test_cas(client, kind):
    assert client.cas("k", b"1", kind(1)) is None
    client.set("k", b"1")
    value, version = client.gets("k")
    assert value == b"1"
    assert client.cas("k", b"2", kind(version)) is True
    assert client.cas("k", b"3", kind(version)) is False
    assert client.get("k") == b"2"


@pytest.mark.parametrize("cas", ["", "x", b"-1", -1, 1 << 64, None, 1.5, True])
def test_what_is_no_version(client, cas):
    with pytest.raises(drover_kv.BadOption):
        client.cas("k", b"v", cas)


def test_append_and_prepend(client):
    assert client.append("k", b"x") is False
    assert client.prepend("k", b"x") is False
    client.set("k", b"b")
    assert client.append("k", "c") is True
    assert client.prepend("k", b"a") is True
    assert client.get("k") == b"abc"


@pytest.mark.parametrize(
    ("start", "step", "up", "down"),
    [(b"0", 1, 1, 0), (b"10", 5, 15, 5), (b"3", 7, 10, 0), (b"18446744073709551615", 1, 0, 18446744073709551614), (b"7", 0, 7, 7)],
)
def test_counting(client, start, step, up, down):
    client.set("k", start)
    assert client.incr("k", step) == up
    client.set("k", start)
    assert client.decr("k", step) == down
    assert client.get("k") == b"%d" % down


def test_counting_what_there_is_not(client):
    assert client.incr("none", 1) is None
    assert client.decr("none", 1) is None


@pytest.mark.parametrize("value", [b"", b"x", b"-1", b"1.5", b" 1", b"18446744073709551616"])
def test_counting_what_is_no_number(client, value):
    client.set("k", value)
    with pytest.raises(drover_kv.NotANumber):
        client.incr("k", 1)
    assert client.get("k") == value


@pytest.mark.parametrize("step", [-1, 1 << 64, "1", None, 1.5])
def test_steps_that_are_none(client, step):
    with pytest.raises(drover_kv.NotANumber):
        client.incr("k", step)


def test_expiry(client):
    client.set("soon", b"v", expire=1)
    client.set("late", b"v", expire=1000)
    client.set("touched", b"v", expire=1)
    client.set("shortened", b"v")
    assert client.touch("touched", 1000) is True
    assert client.touch("shortened", 1) is True
    assert client.touch("none", 1) is False
    kept = ["late", "touched"]
    gone = ["soon", "shortened"]
    for _ in range(600):
        if not client.get_many(gone):
            break
        time.sleep(0.05)
    assert sorted(client.get_many(kept + gone)) == kept


def test_counting_keeps_the_expiry(client):
    client.set("k", b"1", expire=2)
    client.incr("k", 1)
    client.append("k", b"1")
    for _ in range(600):
        if client.get("k") is None:
            return
        time.sleep(0.05)
    raise AssertionError("it has no expiry any more")


@pytest.mark.parametrize("expire", [-1, 1.5, None, "1", 1 << 32, True])
def test_what_is_no_expiry(client, expire):
    with pytest.raises(drover_kv.BadOption):
        client.set("k", b"v", expire=expire)
