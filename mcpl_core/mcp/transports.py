"""Descriptions of the ways to an MCP server.

Owns: what a caller says about one: where, with which headers, signed by whom. They are values; nothing is dialled.
Does not own: dialling (``opening``, ``http``), and comparing (``pool``).

What may be secret (headers, hooks, providers, a child's environment, the query of a URL) is in no ``repr`` and in no
error. Credentials travel in headers or bodies: a URL with user and password is refused.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from ..errors import InvalidValueError
from ..transports.websocket import WebSocketTransport as WebSocketCarrier
from .settings import Settings, checked_settings

__all__ = (
    "Consent",
    "CredentialProvider",
    "CredentialRequest",
    "GatewayMode",
    "GatewayTransport",
    "HeaderSource",
    "HttpRequest",
    "HttpTransport",
    "RequestHook",
    "StdioTransport",
    "TransportDescription",
    "WebSocketTransport",
    "checked_headers",
)


@dataclass(slots=True, repr=False)
class HttpRequest:
    """One HTTP request as a hook sees it, right before it is sent: every one, of every kind.

    Attributes:
        method: ``POST``, ``GET`` or ``DELETE``.
        url: the whole URL.
        headers: all headers by lower-case name; what the hook changes here is what is sent.
        body: the bytes of the body.
    """

    method: str
    url: str
    headers: dict[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"<HttpRequest {self.method}>"


#: Signs a request: changes its ``headers``, or returns headers to be set. It has the last word on each name. What it
#: raises, the request fails with, and nothing is sent.
RequestHook: TypeAlias = Callable[[HttpRequest], Awaitable[Mapping[str, str] | None]]

#: ``machine``: two-legged; ``user``: three-legged.
GatewayMode = Literal["machine", "user"]


@dataclass(frozen=True, slots=True)
class CredentialRequest:
    """What a provider is asked for, once for each HTTP request.

    Attributes:
        service: as the transport says.
        scopes, mode: as the transport says; ``None`` where it says nothing (an absent mode means ``machine``).
    """

    service: str
    scopes: tuple[str, ...] | None = None
    mode: GatewayMode | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Consent:
    """A provider's answer: a person has to agree first.

    Attributes:
        authorization_url: where to send the person.
    """

    authorization_url: str

    def __repr__(self) -> str:
        return "<Consent>"


#: Vends the headers of one request. What it returns is used once and kept nowhere.
CredentialProvider: TypeAlias = Callable[[CredentialRequest], Awaitable[Mapping[str, str] | Consent]]

#: Arguments of the WebSocket that are not said otherwise.
_WEBSOCKET_OPTIONS = frozenset(signature(WebSocketCarrier).parameters) - {"url", "headers"}

#: Headers, or a function, sync or async, that gives them anew for each time of connecting.
HeaderSource: TypeAlias = Mapping[str, str] | Callable[[], Any]


@dataclass(frozen=True, slots=True, repr=False)
class StdioTransport:
    """A child process that speaks over its standard input and output.

    Attributes:
        command: the program and its arguments; never a shell line.
        env: variables added to a small safe part of our environment.
        replace_env: the child's whole environment, in the place of that; excludes ``env``.
        cwd: the child's working directory.
        on_stderr: called with each line of its standard error.
        settings: see ``Settings``.

    Raises:
        InvalidValueError: the command is a string or empty, both environments are given, or something is of another
            type or cannot be passed on; the error shows no value.
    """

    command: Sequence[str | os.PathLike[str]]
    env: Mapping[str, str] | None = None
    replace_env: Mapping[str, str] | None = None
    cwd: str | os.PathLike[str] | None = None
    on_stderr: Callable[[str], object] | None = None
    settings: Settings = field(default_factory=dict)

    def __post_init__(self) -> None:
        wrong = isinstance(self.command, str | bytes) or not isinstance(self.command, Sequence) or not self.command
        if wrong or not all(isinstance(word, str | os.PathLike) for word in self.command):
            raise InvalidValueError("command", "a command is a sequence of a program and its arguments", "$.command")
        if self.env is not None and self.replace_env is not None:
            raise InvalidValueError("env", "env adds to the environment, replace_env replaces it: one of both")
        if self.cwd is not None and not isinstance(self.cwd, str | os.PathLike):
            raise InvalidValueError("cwd", "a directory is a path", "$.cwd")
        if self.on_stderr is not None and not callable(self.on_stderr):
            raise InvalidValueError("on_stderr", "a function is needed", "$.on_stderr")
        # Copies: a description that changed later would still pass for the one that a client was opened with.
        object.__setattr__(self, "command", tuple(self.command))
        object.__setattr__(self, "env", _checked_variables("env", self.env))
        object.__setattr__(self, "replace_env", _checked_variables("replace_env", self.replace_env))
        object.__setattr__(self, "settings", checked_settings(self.settings))

    def __repr__(self) -> str:
        return f"<StdioTransport {os.path.basename(os.fspath(self.command[0]))}>"


@dataclass(frozen=True, slots=True, repr=False)
class HttpTransport:
    """Streamable HTTP.

    Attributes:
        url: ``http:`` or ``https:``, without user and password.
        headers: sent with every request, for the life of the connection; part of what a hook sees.
        request_hook: see ``RequestHook``.
        settings: see ``Settings``.

    Raises:
        InvalidValueError: the URL, a header or a setting is refused.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    request_hook: RequestHook | None = None
    settings: Settings = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_url(self.url, ("http", "https"))
        _check_hook(self.request_hook)
        object.__setattr__(self, "headers", checked_headers(self.headers))
        object.__setattr__(self, "settings", checked_settings(self.settings))

    def __repr__(self) -> str:
        return f"<HttpTransport {_shown(self.url)}>"


@dataclass(frozen=True, slots=True, repr=False)
class GatewayTransport:
    """Streamable HTTP through a gateway, with credentials that a provider vends for each request; none is kept.

    The order for one name: ``headers``, then what was vended, then the hook, which has the last word.

    Attributes:
        url: ``http:`` or ``https:``, without user and password.
        credentials: see ``CredentialProvider``. When it raises, the request fails and nothing is sent.
        service: what the credentials are for.
        scopes: passed to the provider as they are.
        mode: passed to the provider; left out, nothing is passed, which means ``machine``.
        headers: sent with every request; no place for secrets.
        request_hook: see ``RequestHook``.
        settings: see ``Settings``.

    Raises:
        InvalidValueError: the URL, the provider, the mode, a header or a setting is refused.
    """

    url: str
    credentials: CredentialProvider
    service: str = "gateway"
    scopes: Sequence[str] | None = None
    mode: GatewayMode | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    request_hook: RequestHook | None = None
    settings: Settings = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_url(self.url, ("http", "https"))
        if not callable(self.credentials):
            raise InvalidValueError("credentials", "a gateway needs a provider of credentials", "$.credentials")
        if self.mode not in (None, "machine", "user"):
            raise InvalidValueError("mode", "the mode is machine or user", "$.mode")
        if not isinstance(self.service, str) or not self.service:
            raise InvalidValueError("service", "a service has a name", "$.service")
        if self.scopes is not None:
            wrong = isinstance(self.scopes, str) or not isinstance(self.scopes, Sequence)
            if wrong or not all(isinstance(scope, str) for scope in self.scopes):
                raise InvalidValueError("scopes", "scopes are a list of names", "$.scopes")
            object.__setattr__(self, "scopes", tuple(self.scopes))
        _check_hook(self.request_hook)
        object.__setattr__(self, "headers", checked_headers(self.headers))
        object.__setattr__(self, "settings", checked_settings(self.settings))

    @property
    def credential_request(self) -> CredentialRequest:
        """What the provider is asked."""
        return CredentialRequest(self.service, None if self.scopes is None else tuple(self.scopes), self.mode)

    def __repr__(self) -> str:
        return f"<GatewayTransport {_shown(self.url)}>"


@dataclass(frozen=True, slots=True, repr=False)
class WebSocketTransport:
    """A WebSocket, each text one message.

    Attributes:
        url: ``ws:`` or ``wss:``, without user and password.
        headers: of the upgrade request; a function is called for each time of connecting, so that credentials are
            fresh.
        options: further arguments of ``mcpl_core.transports.websocket.WebSocketTransport`` (``ssl``, ``proxy``,
            ``ping_interval``, ...).
        settings: see ``Settings``.

    Raises:
        InvalidValueError: the URL, a header, an option or a setting is refused.
    """

    url: str
    headers: HeaderSource = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_url(self.url, ("ws", "wss"))
        if not callable(self.headers):
            object.__setattr__(self, "headers", checked_headers(self.headers))
        if not isinstance(self.options, Mapping) or not set(self.options) <= _WEBSOCKET_OPTIONS:
            raise InvalidValueError("options", "options are arguments of the transport", "$.options")
        object.__setattr__(self, "options", dict(self.options))
        object.__setattr__(self, "settings", checked_settings(self.settings))

    def __repr__(self) -> str:
        return f"<WebSocketTransport {_shown(self.url)}>"


#: Any of the descriptions.
TransportDescription: TypeAlias = StdioTransport | HttpTransport | GatewayTransport | WebSocketTransport


def _shown(url: str) -> str:
    """Scheme, host and port: what a URL shows of itself."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _check_url(url: Any, schemes: tuple[str, ...]) -> None:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        usable = parts is not None and bool(parts.hostname) and (parts.port is None or parts.port >= 0)
    except ValueError:
        parts, usable = None, False
    # The errors say nothing of the URL itself: where it is wrong, anything in it may be a secret.
    if parts is None or not usable or parts.scheme not in schemes:
        raise InvalidValueError("url", f"a URL with a host is needed, of {' or '.join(schemes)}", "$.url")
    if "@" in parts.netloc:
        raise InvalidValueError("userinfo", "user and password do not belong into a URL, but into headers", "$.url")


def _check_hook(hook: Any) -> None:
    if hook is not None and not callable(hook):
        raise InvalidValueError("request_hook", "a hook is a function", "$.request_hook")


def _checked_variables(name: str, variables: Any) -> dict[str, str] | None:
    """A copy of some variables of an environment. The errors show no value."""
    if variables is None:
        return None
    if not isinstance(variables, Mapping):
        raise InvalidValueError(name, "variables are a mapping of names to texts", f"$.{name}")
    for key, value in variables.items():
        if not isinstance(key, str) or not key or any(c in key for c in "=\0"):
            raise InvalidValueError(name, "the name of a variable has no = and no NUL", f"$.{name}")
        if not isinstance(value, str) or "\0" in value:
            raise InvalidValueError(name, f"the value of {key} is no text without NUL", f"$.{name}")
    return dict(variables)


def checked_headers(headers: Any) -> dict[str, str]:
    """A copy of some headers.

    Raises:
        InvalidValueError: they are no mapping (``headers``), or one is none (``header_name``, ``header_value``). The
            error shows no value.
    """
    if not isinstance(headers, Mapping):
        raise InvalidValueError("headers", "headers are a mapping of names to values", "$.headers")
    for name, value in headers.items():
        if not isinstance(name, str) or not name or not name.isascii() or any(c in name for c in ' \t\r\n:"(),/;'):
            raise InvalidValueError("header_name", "a header's name is a token", "$.headers")
        if not isinstance(value, str) or any(c in value for c in "\r\n\0"):
            raise InvalidValueError("header_value", f"the value of {name} is no header value", "$.headers")
    return dict(headers)
