"""Where a command connects to: an endpoint, or a program to start.

Owns: the options of connecting, and what they mean for each kind of endpoint. Does not own: the transports.

A secret on a command line can be read by everybody on the machine; so a token is given as the name of the environment
variable that holds it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ..errors import InvalidValueError
from ..transports.base import Transport
from ..transports.endpoints import transport_for
from ..wire.framing import DEFAULT_MAX_MESSAGE_BYTES
from .options import command_after_dashes
from .output import CommandError

__all__ = ("Target", "TargetOptions", "secret_from", "tls_context")

_WEB = ("ws", "wss", "mcpl")
_SECURE = ("wss", "mcpl", "tls")


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """The options of connecting."""

    context: typer.Context
    endpoint: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENDPOINT | -- COMMAND",
            show_default=False,
            help="mcpl:, wss:, ws:, tls:, tcp: or unix: URL; or, after --, a program to start and its arguments.",
        ),
    ] = None
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME:VALUE", help="Send this header when opening a WebSocket."),
    ] = None
    token_env: Annotated[
        str,
        typer.Option(
            "--token-env", metavar="VARIABLE", help="Send the token in this environment variable (Authorization)."
        ),
    ] = ""
    ca: Annotated[
        str, typer.Option("--ca", metavar="FILE", help="Trust these certificates instead of the system's.")
    ] = ""
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="Set a variable for the program that is started."),
    ] = None
    clean_env: Annotated[
        bool, typer.Option("--clean-env", help="Give the program only a small, safe part of the environment.")
    ] = False
    max_message_bytes: Annotated[
        int, typer.Option("--max-message-bytes", metavar="BYTES", min=1024, help="The longest message.")
    ] = DEFAULT_MAX_MESSAGE_BYTES

    def given(self) -> bool:
        """Whether there is a target at all."""
        return bool(self.endpoint) or command_after_dashes(self.context) is not None

    def target(self, on_stderr: Callable[[str], object] | None = None) -> Target:
        """What to connect to.

        Args:
            on_stderr: gets each line that a program writes to its standard error.

        Raises:
            CommandError: the options make no sense together.
        """
        words = command_after_dashes(self.context)
        if words is not None:
            return self._command(words, on_stderr)
        if not self.endpoint:
            raise CommandError("name an endpoint, or put -- and a program with its arguments at the end")
        if len(self.endpoint) > 1:
            raise CommandError(f"put -- before the command: -- {' '.join(self.endpoint)}")
        return self._endpoint(self.endpoint[0])

    def _command(self, words: list[str], on_stderr: Callable[[str], object] | None) -> Target:
        if self.endpoint:
            raise CommandError(f"give an endpoint ({self.endpoint[0]}) or a command after --, not both")
        if not words:
            raise CommandError("a program to start must follow --")
        _refuse({"--header": self.header, "--token-env": self.token_env, "--ca": self.ca}, "a command takes no")
        options = {"env": _variables(self.env or []), "inherit_env": not self.clean_env, "on_stderr": on_stderr}
        return Target(words, options | {"max_message_bytes": self.max_message_bytes}).checked()

    def _endpoint(self, url: str) -> Target:
        scheme = url.partition(":")[0].lower()
        _refuse({"--env": self.env, "--clean-env": self.clean_env}, "an endpoint takes no")
        options: dict[str, Any] = {"max_message_bytes": self.max_message_bytes}
        headers = [_header(text) for text in self.header or []]
        if self.token_env:
            headers.append(("Authorization", f"Bearer {secret_from(self.token_env)}"))
        if headers:
            if scheme not in _WEB:
                raise CommandError(f"headers and tokens go to WebSockets ({', '.join(_WEB)}), not to {scheme}:")
            options["headers"] = headers
        if self.ca:
            if scheme not in _SECURE:
                raise CommandError(f"--ca is for {', '.join(_SECURE)}, not for {scheme}:")
            options["ssl"] = tls_context(self.ca)
        return Target(url, options).checked()


@dataclass(frozen=True, slots=True, repr=False)
class Target:
    """An endpoint or a command, with the options of its transport, which may be secret.

    Attributes:
        where: a URL or the words of a command.
        options: of the transport.
    """

    where: str | list[str]
    options: dict[str, Any]

    @property
    def is_command(self) -> bool:
        """Whether it is a program to start."""
        return not isinstance(self.where, str)

    def transport(self) -> Transport:
        """A new transport to it, not started."""
        return transport_for(self.where, **self.options)

    def checked(self) -> Target:
        """Itself.

        Raises:
            CommandError: no transport can be made of it.
        """
        try:
            self.transport()
        except InvalidValueError as exc:
            detail = exc.detail
            if exc.code == "scheme":
                detail += "; put -- before a command"
            raise CommandError(detail if exc.code != "header" else f"--header: {detail}") from exc
        return self


def secret_from(variable: str) -> str:
    """The value of an environment variable that holds a secret.

    Raises:
        CommandError: it is not set.
    """
    value = os.environ.get(variable, "").strip()
    if not value:
        raise CommandError(f"the environment variable {variable} is not set; put the token there")
    return value


def tls_context(ca: str) -> ssl.SSLContext:
    """A client's context that trusts the certificates in a file.

    Raises:
        CommandError: there are none in it.
    """
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as exc:
        raise CommandError(f"cannot read certificates from {ca}: {exc.strerror or exc}") from exc


def _refuse(options: dict[str, Any], why: str) -> None:
    for name, value in options.items():
        if value:
            raise CommandError(f"{why} {name}; leave it out")


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise CommandError("write a header as NAME:VALUE")
    return name.strip(), value.strip()


def _variables(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if not all(name and equals for name, equals, _ in pairs):
        raise CommandError("write a variable as NAME=VALUE")
    return {name: value for name, _, value in pairs}
