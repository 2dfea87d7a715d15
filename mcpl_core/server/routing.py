"""The way of a host's messages to their handlers, with the question of authority asked on arrival.

Owns: that a message which its sender may not send now is refused as it is taken from the wire, before anything behind
it is looked at. A handler that waited for a worker asks again: a reduction reaches what was queued before it, an
expansion does not. Does not own: the answer to the question (``session``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch import Handler, Router
from ..errors import RpcError
from ..protocol import MethodTable

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

    def add_gated(self, method: str, handler: Handler, *, ordered: bool | None = None) -> None:
        """As ``add``, for a handler that waits for a worker: the question is asked on arrival."""
        self.add(method, handler, ordered=ordered)
        self._gate.waiting.add(method)


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
            return super().get(name, default)

        def refuse(_: object) -> None:
            raise denied

        return refuse
