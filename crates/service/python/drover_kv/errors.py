"""What clients raise. Each class stands for one kind of error of the native client."""

__all__ = [
    "BadAddress",
    "BadKey",
    "BadOption",
    "ClientError",
    "Closed",
    "DroverError",
    "Full",
    "Indeterminate",
    "NotANumber",
    "NotConnected",
    "NotOffered",
    "Refused",
    "ServerError",
    "TooLarge",
    "Unavailable",
]


class DroverError(Exception):
    """Any of these."""


class ClientError(DroverError):
    """The program asked for something that cannot be; nothing happened."""


class BadOption(ClientError, ValueError):
    """An option of a client makes no sense."""


class BadAddress(ClientError, ValueError):
    """The text is no address of a service."""


class BadKey(ClientError, ValueError):
    """A key has 1 to 250 bytes."""


class NotANumber(ClientError, ValueError):
    """The value to be counted up or down is not a decimal number of 64 bits."""


class NotOffered(ClientError, NotImplementedError):
    """The service's system has no such operation."""


class Closed(ClientError):
    """The client was closed, or is that of a parent process."""


class ServerError(DroverError):
    """The service could not do it."""


class NotConnected(ServerError, ConnectionError):
    """No session with the service: nobody listens at the address, or the service refused the client."""


class TooLarge(ServerError, ValueError):
    """The value is longer than this server takes. Nothing happened."""


class Full(ServerError):
    """The server has no space for the item, and must not evict others. Nothing happened."""


class Refused(ServerError):
    """The server refused the operation for another reason. Nothing happened."""


class Unavailable(ServerError, TimeoutError):
    """Nobody answered in time. Nothing happened."""


class Indeterminate(ServerError):
    """The server or the network failed: the operation may or may not have happened."""
