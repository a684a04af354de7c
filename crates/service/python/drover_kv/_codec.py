"""Keys and values as bytes, and requests as the native module takes them."""

from drover_kv.errors import BadKey, BadOption, NotANumber

#: Conditions of requests.
ALWAYS, IF_ABSENT, IF_PRESENT, IF_VERSION = "", "a", "p", "v"
#: Numbers that are counted are below.
NUMBER_MAX = 1 << 64


class Codec:
    """What both clients know of keys, values, and answers."""

    def __init__(self, serde, key_prefix, encoding, allow_unicode_keys):
        self._serde = serde
        self._prefix = self._bytes(key_prefix, "ascii")
        self._encoding = encoding
        self._keys_are = "utf-8" if allow_unicode_keys else "ascii"
        #: Without a serde, flags are not needed, and a look-up may be cheaper.
        self._look_up = "g" if serde is None else "G"

    @staticmethod
    def _bytes(text, encoding):
        return text.encode(encoding) if isinstance(text, str) else bytes(text)

    def key(self, key):
        """The key's bytes."""
        if isinstance(key, str):
            try:
                key = key.encode(self._keys_are)
            except UnicodeEncodeError:
                raise BadKey(f"{key!r} is not {self._keys_are}: allow_unicode_keys=True") from None
        elif not isinstance(key, (bytes, bytearray, memoryview)):
            raise TypeError(f"a key is bytes or str, not {type(key).__name__}")
        return self._prefix + key if self._prefix else bytes(key)

    def keys(self, keys):
        """The keys' bytes."""
        if not self._prefix:
            encoding = self._keys_are
            try:
                # The usual kinds, without a call for each.
                return [
                    key.encode(encoding) if type(key) is str else key if type(key) is bytes else self.key(key)
                    for key in keys
                ]
            except UnicodeEncodeError:
                pass
        return [self.key(key) for key in keys]

    def encoded(self, key, value, flags):
        """The value's bytes and flags."""
        if self._serde is not None:
            value, own = self._serde.serialize(key, value)
            flags = own if flags is None else flags
        if isinstance(value, str):
            try:
                value = value.encode(self._encoding)
            except UnicodeEncodeError:
                raise BadOption(f"a value that is not {self._encoding}: pass bytes, an encoding, or a serde") from None
        elif isinstance(value, (bytearray, memoryview)):
            value = bytes(value)
        elif isinstance(value, (int, float)):
            value = str(value).encode("ascii")
        elif not isinstance(value, bytes):
            raise TypeError(f"a value is bytes, str or a number, not {type(value).__name__}: pass a serde for others")
        return value, flags or 0

    def decoded(self, key, answer, default):
        """The value of an answer to a look-up."""
        if answer is None:
            return default
        if self._serde is None:
            return answer
        value, flags, _ = answer
        return self._serde.deserialize(key, value, flags)

    def get_request(self, key):
        """Request for a value, and for its flags if they matter."""
        return (self._look_up, self.key(key), None, 0, 0, ALWAYS, 0, False)

    def item_request(self, key):
        """Request for a value with flags and version."""
        return ("G", self.key(key), None, 0, 0, ALWAYS, 0, False)

    def put_request(self, key, value, expire, flags, condition=ALWAYS, version=0):
        """Request to store a value."""
        value, flags = self.encoded(key, value, flags)
        return ("p", self.key(key), value, _seconds(expire), flags, condition, version, False)

    def change_request(self, key, value, version):
        """Request to change a value's bytes alone, if it has this version."""
        return ("p", self.key(key), value, 0, 0, IF_VERSION, version, True)

    def delete_request(self, key):
        """Request to remove a key."""
        return ("d", self.key(key), None, 0, 0, ALWAYS, 0, False)

    def touch_request(self, key, expire):
        """Request to have a key expire."""
        return ("t", self.key(key), None, _seconds(expire), 0, ALWAYS, 0, False)


def _seconds(expire):
    if isinstance(expire, bool) or not isinstance(expire, int) or not 0 <= expire < 1 << 32:
        raise BadOption(f"expire={expire!r}: seconds, a whole number from 0 (never) to {(1 << 32) - 1}")
    return expire


def version_of(cas):
    """The version that `gets` returned."""
    if isinstance(cas, (str, bytes)) and cas.isdigit():
        cas = int(cas)
    if isinstance(cas, bool) or not isinstance(cas, int) or not 0 <= cas < NUMBER_MAX:
        raise BadOption(f"cas={cas!r}: what gets returned beside the value")
    return cas


def step(delta):
    """By how much a number is counted."""
    if isinstance(delta, bool) or not isinstance(delta, int) or not 0 <= delta < NUMBER_MAX:
        raise NotANumber(f"{delta!r}: a whole number from 0 to {NUMBER_MAX - 1}")
    return delta


def counted(value, delta):
    """The number after counting up by `delta`, round at 64 bits, or down by `-delta`, to 0 at least."""
    if not value.isdigit() or int(value) >= NUMBER_MAX:
        raise NotANumber(f"{value[:32]!r} is not a number that can be counted")
    number = int(value) + delta
    return number % NUMBER_MAX if delta >= 0 else max(number, 0)


def keywords(connect_timeout, timeout, window, credentials, tls_ca, tls_name, tls_cert, tls_key):
    """Options of the connection, as the native module takes them."""
    if (tls_cert is None) != (tls_key is None):
        raise BadOption("tls_cert and tls_key: give both, or none")
    if tls_ca is None and (tls_name or tls_cert):
        raise BadOption("tls_ca: the other options of TLS need it")
    return {
        "connect_timeout": 5.0 if connect_timeout is None else float(connect_timeout),
        "timeout": 5.0 if timeout is None else float(timeout),
        "window": window,
        "credentials": credentials,
        "tls_ca": tls_ca,
        "tls_name": tls_name,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
    }
