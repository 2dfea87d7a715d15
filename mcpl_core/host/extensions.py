"""Parts of a host beyond its core, each beside every session (SPEC 5.2; methods: ``MethodTable``).

Owns: where such a part is asked and told. Does not own: what it does with it. A part sees what its host sees, under the
same grants; it widens nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from anyio.abc import TaskGroup
from msgspec import Raw

from ..errors import LocalProtocolError

__all__ = (
    "HostExtension",
    "joint_advertisement",
    "joint_handlers",
    "start_companions",
    "tell_grant_changed",
    "tell_tool_answered",
)


class HostExtension:
    """A part. Subclasses say what they need; all of it may be left as it is.

    The functions are plain ones, called in the event loop. What they raise is reported, and nothing else comes of it.
    ``session`` is a ``HostSession``, ``link`` the ``ServerLink`` of one.
    """

    @property
    def advertises(self) -> Mapping[str, Any]:
        """Further members of what the host says of itself (``experimental.mcpl``)."""
        return {}

    @property
    def handlers(self) -> Mapping[str, Callable[..., Any]]:
        """Handlers of further methods that a server sends; as ``HostHandlers.others``."""
        return {}

    def ready(self, session: Any) -> Callable[[], Awaitable[None]] | None:
        """A session is ready; nobody else knows yet, and nothing was asked of its server. What is returned is run
        beside the session, and cancelled when its connection closed."""
        return None

    def grant_changed(self, session: Any) -> None:
        """What the server of a session may do changed, or may have; also before the session is ready."""

    def tool_answered(self, link: Any, result: Raw) -> None:
        """A server answered a tool call; as its message is taken from the wire, before anything behind it is."""

    def shows_tool(self, link: Any, definition: Mapping[str, Any]) -> bool:
        """Whether a tool stands in the list that ``McplHost.tools`` gives."""
        return True


#: What a host says of itself by its own parts; no extension speaks for them.
_OWN: Final = frozenset(
    {
        "version", "pushEvents", "contextHooks", "inferenceLifecycle", "inferenceRequest", "modelInfo", "channels",
        "featureSets", "stateUpdate", "branches",
    }
)  # fmt: skip


def joint_advertisement(extensions: Iterable[HostExtension]) -> dict[str, Any]:
    """What all extensions add to the host's own words.

    Raises:
        LocalProtocolError: two say the same thing, or one says what is the host's to say.
    """
    return _joint((extension.advertises for extension in extensions), _OWN, "advertised")


def joint_handlers(
    extensions: Iterable[HostExtension], others: Mapping[str, Callable[..., Any]]
) -> dict[str, Callable[..., Any]]:
    """The handlers of all extensions, and those of the application.

    Raises:
        LocalProtocolError: two handle one method.
    """
    return _joint([others, *(extension.handlers for extension in extensions)], frozenset(), "handled")


def start_companions(session: Any, tasks: TaskGroup) -> None:
    """Tells all extensions that a session is ready, and starts what they run beside it in ``tasks``."""
    for extension in session.link.hub.handlers.extensions:
        try:
            companion = extension.ready(session)
        except Exception as exc:
            session.connection.report(exc)
            continue
        if companion is not None:
            tasks.start_soon(
                _accompany, session, companion, name=f"mcpl host: {session.id}: {type(extension).__name__}"
            )


async def _accompany(session: Any, companion: Callable[[], Awaitable[None]]) -> None:
    try:
        await companion()
    except Exception as exc:
        session.connection.report(exc)


def tell_grant_changed(session: Any) -> None:
    """Tells all extensions that the grant of a session changed."""
    for extension in session.link.hub.handlers.extensions:
        try:
            extension.grant_changed(session)
        except Exception as exc:
            session.connection.report(exc)


def tell_tool_answered(link: Any, result: Raw) -> None:
    """Tells all extensions of the result of a tool call."""
    for extension in link.hub.handlers.extensions:
        try:
            extension.tool_answered(link, result)
        except Exception as exc:
            link.connection.report(exc)


def _joint(parts: Iterable[Mapping[str, Any]], taken: frozenset[str], what: str) -> dict[str, Any]:
    joint: dict[str, Any] = {}
    for part in parts:
        for name in part:
            if name in joint or name in taken:
                raise LocalProtocolError(f"{name} is {what} already")
        joint |= part
    return joint
