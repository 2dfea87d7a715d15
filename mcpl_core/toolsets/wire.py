"""Every JSON shape of toolsets and delegated access, made and read in one place (SPEC_NOTES R-toolsets-1).

Owns: what stands where on the wire: presence on listed tools, hint changes and their three carriers, the results of
``toolsets/*``, events in results, names and ids, times. Both sides use it. Does not own: the types of params and
results (``protocol.toolsets``), and every decision: when a hint is sent, which instance is meant, who may ask.

Provisional, as the drafts behind it are (RFC-014, RFC-015).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, TypeVar

from msgspec import UNSET, Raw, UnsetType

from ..content import ContentBlock
from ..errors import InvalidValueError
from ..protocol import (
    META_EVENTS,
    META_HINTS,
    META_INSTANCE,
    META_PRESENCE,
    AccessTokenParams,
    CarriedEvent,
    EndedInstance,
    HintChange,
    ToolPresence,
    ToolsetsChangedParams,
    ToolsetsCloseResult,
    ToolsetsListResult,
    ToolsetsOpenResult,
    read_hints,
)
from ..protocol import Toolset as ToolsetStatement
from ..protocol import ToolsetInstance as InstanceStatement
from ..protocol.base import read_item, read_items
from ..wire.values import decode_value, encode_value

__all__ = (
    "ADVERTISEMENT",
    "FALLBACK_TOOLS",
    "Key",
    "access_params",
    "call_meta",
    "carried_event",
    "changed_params",
    "close_result",
    "ended_statement",
    "fallback_definitions",
    "hint_change",
    "instance_id_taken_from",
    "instance_statement",
    "is_instance_id",
    "is_server_name",
    "is_text",
    "is_toolset_name",
    "list_result",
    "listed_tool",
    "minted_id",
    "open_result",
    "read_events",
    "read_instance",
    "read_presence",
    "read_result",
    "read_result_hints",
    "read_time",
    "time_text",
    "toolset_statement",
    "understands_toolsets",
    "with_slots",
)

#: A toolset, and the instance of it; ``None`` for a toolset without instances.
Key: TypeAlias = tuple[str, str | None]

#: What a host that understands hints adds to its ``experimental.mcpl``.
ADVERTISEMENT: Final[Mapping[str, Any]] = {"toolsets": True}

_SERVER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_INSTANCE_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
#: Shorter, so that an id made of it is one.
_TOOLSET_NAME = re.compile(r"[A-Za-z0-9._:-]{1,40}")
_MINTED = re.compile(r"(.+)-([1-9][0-9]*)")

T = TypeVar("T")


# -- names, ids, times


def is_server_name(name: Any) -> bool:
    """Whether a server with toolsets may have this name: it begins the names of its feature sets."""
    return isinstance(name, str) and _SERVER_NAME.fullmatch(name) is not None


def is_toolset_name(name: Any) -> bool:
    """Whether a toolset may have this name."""
    return isinstance(name, str) and _TOOLSET_NAME.fullmatch(name) is not None


def is_instance_id(id: Any) -> bool:
    """Whether an instance may have this id."""
    return isinstance(id, str) and _INSTANCE_ID.fullmatch(id) is not None


def is_text(value: Any) -> bool:
    """Whether it is Unicode text, which JSON strings with lone surrogates are not."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def minted_id(toolset: str, number: int) -> str:
    """The id that a server makes for the instance ``number`` of a toolset."""
    return f"{toolset}-{number}"


def instance_id_taken_from(id: str) -> tuple[str, int] | None:
    """The toolset name and number of which ``minted_id`` would make this id; ``None`` when it makes no such id."""
    found = _MINTED.fullmatch(id)
    return None if found is None else (found[1], int(found[2]))


def time_text(seconds: float) -> str:
    """A time as RFC 3339, UTC.

    Args:
        seconds: since the epoch.
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_time(text: Any) -> float:
    """The seconds since the epoch of an RFC 3339 time; without an offset it is UTC.

    Raises:
        InvalidValueError: it is none (``time``).
    """
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError) as exc:
        raise InvalidValueError("time", "no RFC 3339 time") from exc


# -- presence


def understands_toolsets(advertisement: Any) -> bool:
    """Whether a host says that it understands hints.

    Args:
        advertisement: its ``experimental.mcpl`` object, as received.
    """
    return isinstance(advertisement, dict) and advertisement.get("toolsets") is True


def listed_tool(
    definition: Mapping[str, Any],
    kind: Literal["static", "dynamic"],
    visible: bool,
    toolset: str | UnsetType = UNSET,
) -> dict[str, Any]:
    """A tool definition as ``tools/list`` shows it, with its presence."""
    meta = definition.get("_meta")
    presence = ToolPresence(kind=kind, visible=visible, toolset=toolset)
    return {**definition, "_meta": {**(meta if isinstance(meta, dict) else {}), META_PRESENCE: presence}}


def read_presence(definition: Any) -> ToolPresence | InvalidValueError | None:
    """The presence of a listed tool; ``None`` when it says nothing; never raises.

    Args:
        definition: a member of ``tools``, as received.
    """
    meta = definition.get("_meta") if isinstance(definition, dict) else None
    value = meta.get(META_PRESENCE, UNSET) if isinstance(meta, dict) else UNSET
    return None if value is UNSET else read_item(value, ToolPresence, f"$._meta.{META_PRESENCE}")


# -- hints


def hint_change(rev: int, key: Key, visible: Sequence[str] | None) -> HintChange:
    """One change.

    Args:
        rev: its number on the connection.
        key: which toolset, which instance.
        visible: the names of all visible tools; ``None``: it is closed.
    """
    toolset, instance = key
    return HintChange(
        rev=rev,
        toolset=toolset,
        instance=UNSET if instance is None else instance,
        open=visible is not None,
        visible=list(visible or ()),
    )


def changed_params(hints: Sequence[HintChange]) -> ToolsetsChangedParams:
    """The params of ``toolsets/changed``: changes that travel alone."""
    return ToolsetsChangedParams(hints=list(hints))


def read_result(raw: Raw, kind: type[T]) -> T | None:
    """A result as its type; ``None`` when it is none, which the request itself will say."""
    try:
        return decode_value(raw, kind)
    except InvalidValueError:
        return None


def read_result_hints(result: Any) -> list[HintChange | InvalidValueError]:
    """The changes that a result carries, each of them or what is wrong with it; never raises.

    Args:
        result: of ``tools/call``, ``toolsets/open`` or ``toolsets/close``, as received: plain JSON or its text.
    """
    return read_hints(_slot(result, META_HINTS), f"$._meta.{META_HINTS}")


# -- calls and results


def call_meta(instance: str) -> dict[str, Any]:
    """The ``_meta`` of a ``tools/call`` for one instance."""
    return {META_INSTANCE: instance}


def read_instance(meta: Any) -> str | None:
    """The instance that the ``_meta`` of a ``tools/call`` names; ``None`` when it names none.

    Raises:
        InvalidValueError: what stands there is no text.
    """
    value = meta.get(META_INSTANCE) if isinstance(meta, dict) else None
    if value is not None and not isinstance(value, str):
        raise InvalidValueError("type", "an instance is named by a text", f"$._meta.{META_INSTANCE}")
    return value


def carried_event(
    event_id: str, timestamp: str, content: Sequence[ContentBlock], tags: Sequence[str] = ()
) -> CarriedEvent:
    """An event in the result of the call that caused it."""
    return CarriedEvent(event_id=event_id, timestamp=timestamp, content=list(content), tags=list(tags) or UNSET)


def read_events(result: Any) -> list[CarriedEvent | InvalidValueError]:
    """The events that a result carries, each of them or what is wrong with it; never raises.

    Args:
        result: as for ``read_result_hints``.
    """
    return read_items(_slot(result, META_EVENTS), CarriedEvent, f"$._meta.{META_EVENTS}")


def with_slots(
    result: Raw,
    hints: Sequence[HintChange] = (),
    events: Sequence[CarriedEvent] = (),
    text: Sequence[str] = (),
) -> Raw:
    """A result with what it carries besides.

    Args:
        result: the text of the result of a call.
        hints: changes of presence.
        events: events that the call caused.
        text: further text blocks, for a host that does not look into ``_meta``.
    """
    if not hints and not events and not text:
        return result
    tree: dict[str, Any] = decode_value(result)
    slots = {META_HINTS: list(hints), META_EVENTS: list(events)}
    added = {name: members for name, members in slots.items() if members}
    if added:
        tree["_meta"] = {**(tree.get("_meta") or {}), **added}
    if text:
        tree["content"] = [*tree.get("content", []), *({"type": "text", "text": line} for line in text)]
    return Raw(encode_value(tree))


def _slot(result: Any, name: str) -> Any:
    if isinstance(result, bytes | Raw):
        result = decode_value(result)
    meta = result.get("_meta") if isinstance(result, dict) else None
    return meta.get(name, UNSET) if isinstance(meta, dict) else UNSET


# -- toolsets/*


def instance_statement(
    id: str, title: str, visible: Sequence[str], content: Sequence[ContentBlock], opened_at: float
) -> InstanceStatement:
    """An open instance, in ``toolsets/list``. ``opened_at``: seconds since the epoch."""
    return InstanceStatement(
        id=id, title=title, visible=list(visible), content=list(content), opened_at=time_text(opened_at)
    )


def ended_statement(key: tuple[str, str], title: str, reason: Any, ended_at: float) -> EndedInstance:
    """An instance that is no more, in ``toolsets/list``. ``ended_at``: seconds since the epoch."""
    return EndedInstance(toolset=key[0], instance=key[1], title=title, reason=reason, ended_at=time_text(ended_at))


def toolset_statement(
    name: str,
    *,
    title: str,
    summary: str,
    default: Literal["open", "closed"],
    tools: Sequence[str],
    visible: Sequence[str],
    open: bool,
    options_schema: dict[str, Any] | None = None,
    instances: Sequence[InstanceStatement] | None = None,
) -> ToolsetStatement:
    """A toolset, in ``toolsets/list``. ``instances``: the open ones; ``None``: it has none by its nature."""
    return ToolsetStatement(
        name=name,
        title=title,
        summary=summary,
        default=default,
        instances=instances is not None,
        open=open,
        tools=list(tools),
        visible=list(visible),
        options_schema=UNSET if options_schema is None else options_schema,
        open_instances=UNSET if instances is None else list(instances),
    )


def list_result(rev: int, toolsets: Iterable[ToolsetStatement], ended: Iterable[EndedInstance]) -> Raw:
    """The result of ``toolsets/list``. ``rev``: of the last change that was sent before it."""
    return Raw(encode_value(ToolsetsListResult(rev=rev, toolsets=list(toolsets), ended=list(ended))))


def open_result(key: Key, title: str, content: Sequence[ContentBlock], visible: Sequence[str]) -> Raw:
    """The result of ``toolsets/open``."""
    toolset, instance = key
    result = ToolsetsOpenResult(
        toolset=toolset,
        instance=UNSET if instance is None else instance,
        title=title,
        content=list(content),
        visible=list(visible),
    )
    return Raw(encode_value(result))


def close_result(closed: bool) -> Raw:
    """The result of ``toolsets/close``."""
    return Raw(encode_value(ToolsetsCloseResult(closed=closed)))


# -- the tools for hosts without hints

#: The names of the tools that such a host works toolsets with.
FALLBACK_TOOLS: Final = ("toolset_open", "toolset_close", "toolset_use")


def fallback_definitions(toolsets: Mapping[str, str], with_instances: Sequence[str]) -> list[dict[str, Any]]:
    """The definitions of these tools, in order; none when there is no toolset.

    Args:
        toolsets: the names of all toolsets, and what they are, for the model.
        with_instances: the names of those that have instances; without any there is no ``toolset_use``.
    """
    if not toolsets:
        return []
    named: dict[str, Any] = {"toolset": {"type": "string", "enum": list(toolsets)}}
    one: dict[str, Any] = {"instance": {"type": "string", "description": "The id of an open instance"}}
    options = {"options": {"type": "object", "description": "What the toolset asks for when it is opened"}}
    described = "".join(f"\n{name}: {text}" for name, text in toolsets.items())
    texts = (
        f"Opens a toolset, or a new instance of it, so that its tools can be called.{described}",
        "Closes a toolset, or one instance of it.",
        "Chooses the instance that the next calls of a toolset's tools are for.",
    )
    schemas = (
        _object(named | options, "toolset"),
        _object(named | one, "toolset"),
        _object({"toolset": {"type": "string", "enum": list(with_instances)}} | one, "toolset", "instance"),
    )
    made = [
        {"name": name, "description": text, "inputSchema": schema}
        for name, text, schema in zip(FALLBACK_TOOLS, texts, schemas, strict=True)
    ]
    return made if with_instances else made[:2]


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


# -- access


def access_params(audience: str, scopes: Sequence[str] = (), reason: str | None = None) -> AccessTokenParams:
    """The params of ``access/token``."""
    return AccessTokenParams(
        audience=audience, scopes=list(scopes) or UNSET, reason=UNSET if reason is None else reason
    )
