"""Where a command listens, and whom it lets in.

Owns: the options of listening, and what they mean. Does not own: the listeners, and the check of ``Origin`` and
``Host`` (``transports``): no page in a browser gets in unless its origin is named.
"""

from __future__ import annotations

import hmac
import ssl
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from ..errors import InvalidValueError
from ..transports.base import DEFAULT_MAX_CONNECTIONS, Listener
from ..transports.endpoints import listener_for
from ..transports.websocket_address import is_loopback
from .output import CommandError
from .target import secret_from

__all__ = ("ListenOptions", "LocalToken")


class LocalToken:
    """Lets in whoever has the token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def __call__(self, request: Any) -> str | None:
        """The principal of an upgrade request; ``None`` for nobody."""
        given = request.token
        return "token" if given is not None and hmac.compare_digest(given.encode(), self._token) else None


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """The options of listening."""

    listen: Annotated[
        str,
        typer.Option("--listen", metavar="URL", help="Accept connections on this ws:, wss:, tcp:, tls: or unix: URL."),
    ] = ""
    origin: Annotated[
        list[str] | None,
        typer.Option("--origin", metavar="URL", help="Let pages of this origin connect; none may by default."),
    ] = None
    listen_token_env: Annotated[
        str,
        typer.Option(
            "--listen-token-env", metavar="VARIABLE", help="Let in only who sends the token in this variable."
        ),
    ] = ""
    cert: Annotated[
        str, typer.Option("--cert", metavar="FILE", help="The certificate for wss: and tls: (PEM, with its chain).")
    ] = ""
    key: Annotated[
        str, typer.Option("--key", metavar="FILE", help="Its key, when it is not in the certificate's file.")
    ] = ""
    max_connections: Annotated[
        int, typer.Option("--max-connections", metavar="COUNT", min=1, help="How many may be connected at once.")
    ] = DEFAULT_MAX_CONNECTIONS

    def listener(self, max_message_bytes: int, *, max_connections: int | None = None) -> Listener:
        """What to listen with, not started.

        Args:
            max_message_bytes: the longest message.
            max_connections: in the place of the option.

        Raises:
            CommandError: the options make no sense.
        """
        scheme = self.listen.partition(":")[0].lower()
        options: dict[str, Any] = {
            "max_message_bytes": max_message_bytes,
            "max_connections": self.max_connections if max_connections is None else max_connections,
        }
        web = scheme in ("ws", "wss")
        if self.origin or self.listen_token_env:
            if not web:
                raise CommandError(f"--origin and --listen-token-env are for ws: and wss:, not for {scheme}:")
            options["origins"] = self.origin or []
        if self.listen_token_env:
            options["authenticate"] = LocalToken(secret_from(self.listen_token_env))
        if scheme in ("wss", "tls"):
            options["ssl"] = self._context(scheme)
        elif self.cert or self.key:
            raise CommandError(f"--cert and --key are for wss: and tls:, not for {scheme}:")
        try:
            return listener_for(self.listen, **options)
        except InvalidValueError as exc:
            raise CommandError(f"--listen: {exc.detail}") from exc

    def check_unused(self) -> None:
        """For a command that does not listen: nobody believes to be protected by what has no effect.

        Raises:
            CommandError: one of the other options is given.
        """
        given = {
            "--origin": self.origin,
            "--listen-token-env": self.listen_token_env,
            "--cert": self.cert,
            "--key": self.key,
        }
        for name, value in given.items():
            if value:
                raise CommandError(f"{name} goes with --listen URL")

    def unprotected(self) -> bool:
        """Whether other machines may get in, and nothing is asked of them."""
        host = urlsplit(self.listen).hostname
        return host is not None and not is_loopback(host) and not self.listen_token_env

    def _context(self, scheme: str) -> ssl.SSLContext:
        if not self.cert:
            raise CommandError(f"--listen {scheme}: needs a certificate: --cert FILE")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.cert, self.key or None)
        except OSError as exc:  # ssl.SSLError is one
            raise CommandError(f"cannot read the certificate or its key: {exc.strerror or exc}") from exc
        return context
