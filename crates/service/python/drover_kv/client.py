"""The client that waits."""

from drover_kv import _codec
from drover_kv._codec import IF_ABSENT, IF_PRESENT, IF_VERSION
from drover_kv._native import Sessions, __version__


class Client(_codec.Codec):
    """A client that waits for each answer, without the interpreter's lock.

    Methods are those of pymemcache's `Client`: a program that imports this one instead names a service in place of a host and
    port. Threads may share a client: each has a session of its own, which it makes when it first calls. After `os.fork`, so does the
    child. `noreply` is accepted, and does nothing: the answer is always known.

    :param server: the service: `"shm:NAME"`, `"unix:/path.sock"`, `"rdma://host:port"`, or `"etcd://host[,host...]/NAME"` for a
        service of several members (`?tls-ca=FILE` behind it: TLS to etcd, see docs/cluster.md)
    :param serde: an object with `serialize(key, value) -> (bytes, flags)` and `deserialize(key, value, flags)`; without one, values
        are bytes (text is encoded, numbers are written in decimal)
    :param connect_timeout: longest time of each step of connecting, seconds
    :param timeout: time after which an operation without an answer fails, seconds
    :param ignore_exc: look-ups that fail find nothing instead
    :param key_prefix: bytes before every key
    :param allow_unicode_keys: text of keys is UTF-8 instead of ASCII
    :param encoding: of text as values
    :param window: operations that are under way at once in `get_many` and such, for each shard of the service
    :param credentials: `"user:password"`, where the service has a file of users; the password is not sent
    :param tls_ca: file of the CA to trust, where the control channel is TCP with TLS; `tls_name`: name in the certificate;
        `tls_cert`, `tls_key`: files of the client's own certificate
    """

    def __init__(
        self,
        server="shm:drover",
        serde=None,
        connect_timeout=None,
        timeout=None,
        ignore_exc=False,
        key_prefix=b"",
        default_noreply=True,
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
        super().__init__(serde, key_prefix, encoding, allow_unicode_keys)
        options = _codec.keywords(
            connect_timeout, timeout, window, credentials, tls_ca, tls_name, tls_cert, tls_key
        )
        self._ignore_exc = ignore_exc
        self._sessions = Sessions(server, options)
        self._call = self._sessions.call
        self._get = self._sessions.get
        self._calls = self._sessions.calls

    def get(self, key, default=None):
        """The value of `key`, or `default` if there is none."""
        try:
            if self._serde is None:
                value = self._get(self.key(key))
                return default if value is None else value
            return self.decoded(key, self._call(self.item_request(key)), default)
        except Exception:
            if self._ignore_exc:
                return default
            raise

    def get_many(self, keys):
        """The values of those of `keys` that there are, as a dict."""
        keys = list(keys)
        try:
            if self._serde is None:
                values = self._sessions.get_many(self.keys(keys))
                return {key: value for key, value in zip(keys, values) if value is not None}
            answers = self._all([self.item_request(key) for key in keys])
            return {key: self.decoded(key, answer, None) for key, answer in zip(keys, answers) if answer is not None}
        except Exception:
            if self._ignore_exc:
                return {}
            raise

    get_multi = get_many

    def gets(self, key, default=None, cas_default=None):
        """The value of `key` and its version, for `cas`; the defaults if there is none."""
        answer = self._call(self.item_request(key))
        return (default, cas_default) if answer is None else self._item(key, answer)

    def gets_many(self, keys):
        """The values and versions of those of `keys` that there are, as a dict."""
        keys = list(keys)
        answers = self._all([self.item_request(key) for key in keys])
        return {key: self._item(key, answer) for key, answer in zip(keys, answers) if answer is not None}

    def set(self, key, value, expire=0, noreply=None, flags=None):
        """Stores `value` under `key` for `expire` seconds (0: for ever)."""
        return self._call(self.put_request(key, value, expire, flags))

    def set_many(self, values, expire=0, noreply=None, flags=None):
        """Stores all of a dict's values, and returns the list of keys that were not stored."""
        keys = list(values)
        answers = self._calls([self.put_request(key, values[key], expire, flags) for key in keys])
        return [key for key, answer in zip(keys, answers) if answer is not True]

    set_multi = set_many

    def add(self, key, value, expire=0, noreply=None, flags=None):
        """Stores `value` if `key` does not exist; returns whether it was stored."""
        return self._call(self.put_request(key, value, expire, flags, IF_ABSENT))

    def replace(self, key, value, expire=0, noreply=None, flags=None):
        """Stores `value` if `key` exists; returns whether it was stored."""
        return self._call(self.put_request(key, value, expire, flags, IF_PRESENT)) is True

    def cas(self, key, value, cas, expire=0, noreply=False, flags=None):
        """Stores `value` if `key` has the version that `gets` returned; `False`: it has another, `None`: there is no key."""
        return self._call(self.put_request(key, value, expire, flags, IF_VERSION, _codec.version_of(cas)))

    def append(self, key, value, expire=0, noreply=None, flags=None):
        """Adds bytes at the end of the value, if there is one; returns whether there is."""
        added, _ = self.encoded(key, value, flags)
        return self._change(key, lambda old: old + added) is not None

    def prepend(self, key, value, expire=0, noreply=None, flags=None):
        """Adds bytes at the start of the value, if there is one; returns whether there is."""
        added, _ = self.encoded(key, value, flags)
        return self._change(key, lambda old: added + old) is not None

    def incr(self, key, value=1, noreply=False):
        """Counts the number up, round at 64 bits, and returns it; `None`: there is no such key."""
        return self._count(key, _codec.step(value))

    def decr(self, key, value=1, noreply=False):
        """Counts the number down, to 0 at least, and returns it; `None`: there is no such key."""
        return self._count(key, -_codec.step(value))

    def touch(self, key, expire=0, noreply=None):
        """Has `key` expire in `expire` seconds (0: never); returns whether it exists."""
        return self._call(self.touch_request(key, expire)) is True

    def delete(self, key, noreply=None):
        """Removes `key`; returns whether it existed."""
        return self._call(self.delete_request(key)) is True

    def delete_many(self, keys, noreply=None):
        """Removes keys; returns True."""
        self._all([self.delete_request(key) for key in keys])
        return True

    delete_multi = delete_many

    def version(self):
        """The package's version, as bytes."""
        return __version__.encode("ascii")

    def close(self):
        """Ends the sessions of this thread; those of other threads end with them, or when they next use a client."""
        self._sessions.close()

    quit = close
    disconnect_all = close

    def _all(self, requests):
        """Answers, or the first exception among them."""
        answers = self._calls(requests)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def _item(self, key, answer):
        value, flags, version = answer
        if self._serde is not None:
            value = self._serde.deserialize(key, value, flags)
        return value, version

    def _change(self, key, change):
        """Replaces the value by `change` of it, unless somebody else does so meanwhile: then once more. Returns the new one."""
        while True:
            found = self._call(self.item_request(key))
            if found is None:
                return None
            value = change(found[0])
            if self._call(self.change_request(key, value, found[2])):
                return value

    def _count(self, key, delta):
        value = self._change(key, lambda old: b"%d" % _codec.counted(old, delta))
        return None if value is None else int(value)

    def __getitem__(self, key):
        missing = object()
        value = self.get(key, missing)
        if value is missing:
            raise KeyError(key)
        return value

    def __setitem__(self, key, value):
        self.set(key, value)

    def __delitem__(self, key):
        if not self.delete(key):
            raise KeyError(key)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
