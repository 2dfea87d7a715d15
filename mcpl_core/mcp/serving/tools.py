"""What can be served as a tool, and what of it a client is told.

Owns: the shape of a tool, a ready-made class of that shape, and its entry in ``tools/list``. Does not own: tools made
of functions (``functions``), tools of a registry (``projection``), and calling (``calling``).

The entry has MCP's own members and no others: whatever else a tool carries (category, tier, cost, role, ...) stays
inside, where the one who runs it sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from ...errors import UnencodableError
from ...wire.values import encode_value
from ..transports import CredentialRequest
from .errors import ServingRefusedError

__all__ = ("EMPTY_SCHEMA", "ServableTool", "ServedTool", "checked_tool", "needs_of", "tool_entry")

#: The input schema of a tool that has none.
EMPTY_SCHEMA: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}

#: Member on the wire -> attribute of the tool, in the order of the wire.
_OPTIONAL: Final = (
    ("title", "title", str),
    ("description", "description", str),
    ("inputSchema", "input_schema", Mapping),
    ("outputSchema", "output_schema", Mapping),
    ("annotations", "annotations", Mapping),
    ("_meta", "meta", Mapping),
)


@runtime_checkable
class ServableTool(Protocol):
    """What every served tool has. It is served as the object that was handed over: ``execute`` is looked up on it with
    each call, so whatever it is wrapped in runs too.

    Optional attributes: ``title``, ``description``, ``input_schema``, ``output_schema``, ``annotations``, ``meta`` (as
    in MCP), ``needs`` (see ``ServedTool``) and ``requires_consent``.
    """

    @property
    def name(self) -> str:
        """Its name on the wire."""

    def execute(self, arguments: Any, call: Any) -> Any:
        """Runs it, sync or async.

        Args:
            arguments: what the client sent, unchanged: mostly an object, but that is for the tool to see.
            call: the ``ToolCall``.
        """


@dataclass(frozen=True, slots=True)
class ServedTool:
    """A tool in its parts.

    Attributes:
        name: its name on the wire.
        execute: ``execute(arguments, call)``, sync or async; see ``ServableTool``.
        description, title, input_schema, output_schema, annotations, meta: as in MCP's tool.
        needs: credentials that are asked for before each call: names of services, or ``CredentialRequest``.
        requires_consent: a person has to agree to each call. Such a tool is not served over MCP.
        details: whatever else belongs to it; never on the wire.
    """

    name: str
    execute: Callable[[Any, Any], Any]
    description: str | None = None
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    title: str | None = None
    annotations: Mapping[str, Any] | None = None
    meta: Mapping[str, Any] | None = None
    needs: tuple[str | CredentialRequest, ...] = ()
    requires_consent: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)


def tool_entry(tool: ServableTool) -> dict[str, Any]:
    """The tool as ``tools/list`` shows it; schemas as they are, an empty object's where there is none."""
    entry: dict[str, Any] = {"name": tool.name}
    for member, attribute, _ in _OPTIONAL:
        value = getattr(tool, attribute, None)
        if value is not None:
            entry[member] = value
        elif member == "inputSchema":
            entry[member] = dict(EMPTY_SCHEMA)
    return entry


def needs_of(tool: Any) -> tuple[CredentialRequest, ...]:
    """The credentials that a tool needs, in its order."""
    needs: Iterable[str | CredentialRequest] = getattr(tool, "needs", None) or ()
    if isinstance(needs, str):
        needs = (needs,)
    return tuple(CredentialRequest(need) if isinstance(need, str) else need for need in needs)


def checked_tool(tool: Any) -> ServableTool:
    """The tool, when it can be listed and called.

    Raises:
        ServingRefusedError: it cannot (``not-a-tool``): one such tool would cost a client the whole list.
    """
    name = getattr(tool, "name", None)
    if not isinstance(name, str) or not name or not callable(getattr(tool, "execute", None)):
        raise ServingRefusedError("not-a-tool", (), f"a {type(tool).__name__} has no name and execute(arguments, call)")
    for member, attribute, kind in _OPTIONAL:
        if not isinstance(getattr(tool, attribute, None), kind | None):
            raise ServingRefusedError("not-a-tool", (name,), f"the {member} of a tool is not what MCP wants")
    try:
        encode_value(tool_entry(tool))
        strange = [need for need in needs_of(tool) if not isinstance(need, CredentialRequest)]
    except (UnencodableError, TypeError) as exc:
        raise ServingRefusedError("not-a-tool", (name,), f"a tool cannot be told to a client ({exc})") from exc
    if strange:
        raise ServingRefusedError(
            "not-a-tool", (name,), "what a tool needs are names of services or CredentialRequests"
        )
    return tool  # type: ignore[no-any-return]
