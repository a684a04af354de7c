"""What is stored comes back."""

import drover_kv
import pytest


@pytest.mark.parametrize("size", [0, 1, 7, 8, 63, 64, 250, 1000, 4096, 60_000, 900_000])
def test_values_of_any_length(client, size):
    value = bytes(i % 251 for i in range(size))
    assert client.set("k", value) is True
    assert client.get("k") == value


@pytest.mark.parametrize("name", [b"k", b"\0", b"with space", b"\r\n", bytes(range(1, 200)), b"x" * 250])
def test_keys_of_any_bytes(addr, name):
    client = drover_kv.Client(addr)
    client.set(name, name)
    assert client.get(name) == name
    assert client.delete(name) is True
    assert client.get(name) is None


@pytest.mark.parametrize(
    ("value", "stored"),
    [(b"b", b"b"), ("text", b"text"), (5, b"5"), (-1.5, b"-1.5"), (bytearray(b"a"), b"a"), (memoryview(b"m"), b"m"), ("", b"")],
)
def test_values_without_a_serde(client, value, stored):
    client.set("k", value)
    assert client.get("k") == stored


@pytest.mark.parametrize("kind", [str, str.encode, lambda text: bytearray(text.encode())])
def test_keys_are_text_or_bytes(client, kind):
    client.set("fox", b"red")
    assert client.get(kind("fox")) == b"red"


def test_a_missing_key(client):
    assert client.get("none") is None
    assert client.get("none", "default") == "default"
    assert client.gets("none") == (None, None)
    assert client.gets("none", 1, 2) == (1, 2)
    assert client.delete("none") is False


def test_overwriting(client):
    for value in (b"long" * 100, b"", b"short"):
        client.set("k", value)
        assert client.get("k") == value


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 100, 1000])
def test_many_keys(client, count):
    values = {f"k{i}": b"%d" % i for i in range(count)}
    assert client.set_many(values) == []
    assert client.get_many(values) == values
    wanted = [*values, "none"]
    assert client.get_many(iter(wanted)) == values
    found = client.gets_many(wanted)
    assert {key: value for key, (value, _) in found.items()} == values
    assert client.delete_many(wanted) is True
    assert client.get_many(wanted) == {}


def test_names_of_pymemcache(client):
    assert client.set_multi({"a": b"1"}) == []
    assert client.get_multi(["a"]) == {"a": b"1"}
    assert client.delete_multi(["a"]) is True
    assert client.version()


def test_a_prefix(addr):
    plain, prefixed = drover_kv.Client(addr), drover_kv.Client(addr, key_prefix="p:")
    prefixed.set("k", b"v")
    assert plain.get("p:k") == b"v"
    assert prefixed.get_many(["k"]) == {"k": b"v"}


def test_unicode_keys(addr):
    client = drover_kv.Client(addr, allow_unicode_keys=True)
    client.set("猫", b"cat")
    assert client.get("猫".encode()) == b"cat"
    assert client.get_many(["猫"]) == {"猫": b"cat"}


def test_items(client):
    client["k"] = b"v"
    assert client["k"] == b"v"
    del client["k"]
    with pytest.raises(KeyError):
        client["k"]
    with pytest.raises(KeyError):
        del client["k"]


class Serde:
    """Text has the flag 1."""

    def serialize(self, key, value):
        return (value.encode(), 1) if isinstance(value, str) else (value, 0)

    def deserialize(self, key, value, flags):
        return value.decode() if flags & 1 else value


@pytest.mark.parametrize("value", ["text", b"bytes", "", "猫"])
def test_a_serde(addr, key, value):
    client = drover_kv.Client(addr, serde=Serde(), key_prefix=key)
    client.set("k", value)
    assert client.get("k") == value
    assert client.get_many(["k", "none"]) == {"k": value}
    assert client.gets("k")[0] == value
    assert client.set_many({"a": value, "b": value}) == []
    assert client.get("a") == value
    assert client.get("none") is None
