"""Which tools are visible, and what each connection was told of it (SPEC_NOTES R-toolsets-2, R-toolsets-3).

Owns: the truth of one principal, and for each connection the difference between it and what was told, with the numbers
of its changes. Pure. Does not own: when something is told, and what carries it.

A change is no message that waits somewhere. It is worked out when bytes are made, so that nothing is lost or told
twice, whatever order things happen in; and it counts as told with the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ..protocol import HintChange
from .wire import Key, hint_change

__all__ = ("Presence", "View")


class View:
    """What one connection was told.

    Args:
        presence: the truth.
        wake: called when there is something to tell.

    Attributes:
        rev: the number of the last change that was told; 0 at first.
        based: a list was answered, and changes have something to build on. Before that none is told.
    """

    def __init__(self, presence: Presence, wake: Callable[[], object]) -> None:
        self._presence = presence
        self._wake = wake
        self._told: dict[Key, tuple[str, ...]] = {}
        self._differs: dict[Key, None] = {}
        self.rev = 0
        self.based = False

    def state(self) -> int:
        """A full statement is made: it says everything up to now. Returns the number that it carries."""
        self._told = dict(self._presence)
        self._differs.clear()
        self.based = True
        return self.rev

    def base(self) -> None:
        """A list of tools is answered: the first one is a statement."""
        if not self.based:
            self.state()

    def changes(self) -> list[HintChange]:
        """What is to be told now, numbered on from ``rev``; empty before the first statement. Nothing is told by this:
        see ``tell``."""
        return [hint_change(self.rev + n, key, self._presence.get(key)) for n, key in enumerate(self._differs, 1)]

    def tell(self, changes: Sequence[HintChange]) -> None:
        """What ``changes`` returned, in this very turn, is on its way."""
        if changes:
            self.rev = changes[-1].rev
            for key in self._differs:
                self._note(key)
            self._differs.clear()

    def _note(self, key: Key) -> None:
        visible = self._presence.get(key)
        if visible is None:
            self._told.pop(key, None)
        else:
            self._told[key] = visible

    def look(self, key: Key) -> None:
        """The truth about ``key`` may be another one."""
        if not self.based:
            return
        if self._told.get(key) == self._presence.get(key):
            self._differs.pop(key, None)
        elif key not in self._differs:
            self._differs[key] = None
            self._wake()


class Presence:
    """The visible tools of everything that is open, for one principal. Iterates as ``dict``s do, over items."""

    def __init__(self) -> None:
        self._visible: dict[Key, tuple[str, ...]] = {}
        self._views: dict[View, None] = {}

    def __iter__(self) -> Iterator[tuple[Key, tuple[str, ...]]]:
        return iter(self._visible.items())

    def get(self, key: Key) -> tuple[str, ...] | None:
        """The names of the visible tools, in their order; ``None``: it is not open."""
        return self._visible.get(key)

    def set(self, key: Key, visible: Iterable[str] | None) -> None:
        """From now on these are visible; ``None``: it is closed."""
        if visible is None:
            self._visible.pop(key, None)
        else:
            self._visible[key] = tuple(visible)
        for view in self._views:
            view.look(key)

    def attach(self, wake: Callable[[], object]) -> View:
        """A connection that understands changes begins."""
        view = View(self, wake)
        self._views[view] = None
        return view

    def detach(self, view: View) -> None:
        """It ended."""
        self._views.pop(view, None)
