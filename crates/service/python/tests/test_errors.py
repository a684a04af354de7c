"""Errors are exceptions that say what to do."""

import drover_kv
import pytest
from conftest import Server


@pytest.mark.parametrize("name", [b"", b"x" * 251, "x" * 1024])
def test_keys_that_are_none(addr, name):
    client = drover_kv.Client(addr)
    for call in (client.get, client.gets, client.delete, client.touch, lambda key: client.set(key, b"v")):
        with pytest.raises(drover_kv.BadKey):
            call(name)
    with pytest.raises(drover_kv.BadKey):
        client.get_many([b"good", name])
    assert client.set_many({name: b"v", "good": b"v"}) == [name]


@pytest.mark.parametrize("name", [None, 1, 1.5, ["k"], object()])
def test_keys_of_other_types(client, name):
    with pytest.raises(TypeError):
        client.get(name)
    with pytest.raises(TypeError):
        client.get_many([name])


@pytest.mark.parametrize("value", [None, ["v"], {}, object()])
def test_values_of_other_types(client, value):
    with pytest.raises(TypeError):
        client.set("k", value)


def test_text_that_is_not_ascii(client):
    with pytest.raises(drover_kv.BadKey):
        client.get("猫")
    with pytest.raises(drover_kv.BadKey):
        client.get_many(["猫"])
    with pytest.raises(drover_kv.BadOption):
        client.set("k", "猫")


@pytest.mark.parametrize("size", [2 << 20, 64 << 20])
def test_values_that_are_too_long(client, size):
    with pytest.raises(drover_kv.TooLarge):
        client.set("k", bytes(size))
    assert client.get("k") is None
    assert client.set_many({"k": bytes(size), "short": b"v"}) == ["k"]


@pytest.mark.parametrize("text", ["", "nonsense", "http://host", "rdma://"])
def test_what_is_no_address(text):
    with pytest.raises(drover_kv.BadAddress):
        drover_kv.Client(text)


def test_nobody_there():
    with pytest.raises(drover_kv.NotConnected, match="/nowhere"):
        drover_kv.Client("unix:/nowhere.sock")
    with pytest.raises(ConnectionError):
        drover_kv.Client("unix:/nowhere.sock")


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"connect_timeout": float("nan")},
        {"credentials": "no colon"},
        {"tls_name": "host"},
        {"tls_ca": "/nowhere.pem"},
        {"tls_ca": "/nowhere.pem", "tls_cert": "/nowhere.pem"},
    ],
)
def test_options_that_make_no_sense(addr, options):
    with pytest.raises(drover_kv.BadOption):
        drover_kv.Client(addr, **options)


def test_classes():
    for name in drover_kv.errors.__all__:
        assert issubclass(getattr(drover_kv, name), drover_kv.DroverError)


def test_a_closed_client(addr):
    client = drover_kv.Client(addr)
    client.close()
    client.close()
    with pytest.raises(drover_kv.Closed):
        client.get("k")


def test_a_server_that_ends():
    server = Server().wait()
    client = drover_kv.Client(server.addr, timeout=0.5)
    careless = drover_kv.Client(server.addr, timeout=0.5, ignore_exc=True)
    client.set("k", b"v")
    server.stop()
    with pytest.raises(drover_kv.ServerError):
        client.get("k")
    assert careless.get("k", "default") == "default"
    assert careless.get_many(["k"]) == {}


def test_users(tmp_path):
    users = tmp_path / "users"
    users.write_text("me:secret\n")
    users.chmod(0o600)
    server = Server("-Y", str(users)).wait("me:secret")
    client = drover_kv.Client(server.addr, credentials="me:secret")
    client.set("k", b"v")
    assert client.get("k") == b"v"
    for wrong in (None, "me:wrong", "you:secret"):
        with pytest.raises(drover_kv.NotConnected):
            drover_kv.Client(server.addr, credentials=wrong)
    server.stop()
