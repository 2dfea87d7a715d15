"""What can go wrong between this package and an HTTP endpoint, as far as no other class says it.

Owns: the classes. Does not own: deciding when. None of them holds a header, a body, or more of a URL than scheme, host
and port.

    McplError
    +-- ConnectionClosedError
    |   +-- SessionEndedError            the server does not know the session any more (HTTP 404)
    +-- TransportError
    |   +-- RedirectRefusedError         a redirect that is not followed
    +-- RpcError
        +-- HttpStatusError              an answer that is an HTTP status and nothing more
"""

from __future__ import annotations

from ...errors import ERR_INTERNAL_ERROR, ConnectionClosedError, RpcError, TransportError

__all__ = ("HttpStatusError", "RedirectRefusedError", "SessionEndedError")


class HttpStatusError(RpcError):
    """The server answered a request with an HTTP status that is no success, and with no JSON-RPC error.

    It is an answer, as the peer gave it. ``code`` is -32603.

    Attributes:
        status: the HTTP status.
        retry_after: seconds after which the server wants to be asked again, where it said so.
    """

    def __init__(self, status: int, retry_after: float | None = None) -> None:
        super().__init__(ERR_INTERNAL_ERROR, f"the server answered with HTTP status {status}")
        self.args = (status, retry_after)
        self.status = status
        self.retry_after = retry_after


class SessionEndedError(ConnectionClosedError):
    """The server does not know the session any more: it ended it, or was started anew. A new one has to be opened.

    Attributes:
        status: the HTTP status that said so.
        outcome, reason: as for every ``ConnectionClosedError``.
    """

    def __init__(self, status: int = 404) -> None:
        super().__init__("no-response", None)
        self.args = (status,)
        self.status = status

    def __str__(self) -> str:
        return f"the server does not know the session any more (HTTP status {self.status})"


class RedirectRefusedError(TransportError):
    """The server redirected a request to another origin, or so that its message would be lost; it was not followed.

    Attributes:
        status: the HTTP status.
        origin: scheme, host and port of where it leads, ``None`` when that is no URL.
    """

    def __init__(self, status: int, origin: str | None) -> None:
        super().__init__(f"a redirect (HTTP status {status}) to {origin or 'nowhere'} was not followed")
        self.args = (status, origin)
        self.status = status
        self.origin = origin
