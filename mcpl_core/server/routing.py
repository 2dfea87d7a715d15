"""The way of a host's messages to their handlers, with the question of authority asked on arrival.

Owns: that a message which its sender may not send now is refused as it is taken from the wire, before anything behind
it is looked at; and that a message has the form that its method has (SPEC 4.1). A handler that waited for a worker asks
again: a reduction reaches what was queued before it, an expansion does not. Does not own: the answer to the question
(``session``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..dispatch import Handler, Router
from ..errors import InvalidRequest, RpcError
from ..protocol import Method, MethodTable
from ..wire.messages import Notification, Request

__all__ = ("GatedRouter",)


class GatedRouter(Router):
    """A router that asks before a message is queued.

    Args:
        methods: as for ``Router``.
        denial: takes a method; returns why it may not be used now, or ``None``.
    """

    def __init__(self, methods: MethodTable, denial: Callable[[str], RpcError | None]) -> None:
        super().__init__(methods=methods)
        self.inline = self._gate = _Gate(denial)

    def add(self, method: str, handler: Handler, *, ordered: bool | None = None, inline: bool = False) -> None:
        """As ``Router.add``; the handler gets messages of the method's form alone."""
        entry = self._methods.get(method)
        if entry is None or entry.form == "either":
            formed = handler
        else:
            formed = partial(_in_form, Request if entry.form == "request" else Notification, entry, handler)
        super().add(method, formed, ordered=ordered, inline=inline)

    def add_gated(self, method: str, handler: Handler, *, ordered: bool | None = None) -> None:
        """As ``add``, for a handler that waits for a worker: the question is asked on arrival."""
        self.add(method, handler, ordered=ordered)
        self._gate.waiting.add(method)


def _in_form(
    form: type[Request] | type[Notification], entry: Method, handler: Handler, message: Request | Notification
) -> Any:
    if not isinstance(message, form):
        raise InvalidRequest(message=f"{entry.name} is a {entry.form}")
    return handler(message)


class _Gate(dict[str, Handler]):
    """The inline handlers, and, in the place of a handler that waits for a worker, a refusal while there is one."""

    def __init__(self, denial: Callable[[str], RpcError | None]) -> None:
        super().__init__()
        self._denial = denial
        #: Methods whose messages wait for a worker.
        self.waiting: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """The inline handler of a message that is just taken from the wire."""
        denied = self._denial(name) if name in self.waiting else None
        if denied is None:
            return dict.get(self, name, default)

        def refuse(_: object) -> None:
            raise denied

        return refuse
