"""The table of methods (SPEC 4.1, 14.1, 17; MCP for its own; SPEC_NOTES R-chan-1 to R-chan-4, R-ext-1).

Owns: for each method who sends it, in which form, what it needs, what it carries, and whether its order
matters. Does not own: the decisions that follow from a row (``grants``, ``connection``, the runtimes), and
the reading of params (``codec``).

A method is order-sensitive when what it changes decides how later messages are to be understood (ready,
grant, registration, visibility of tools, state, branches), or when it is a piece of one stream. Whole
messages (``push/event``, ``channels/incoming``, ``channels/publish``) are neither: each is complete, and one
slow channel must not hold up the others. ``notifications/cancelled`` acts in the peer itself, and
``notifications/progress`` carries its own count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar, overload

from ..errors import InvalidValueError
from . import (
    branches,
    channels,
    handshake,
    hooks,
    inference,
    manifest,
    method,
    policy,
    push,
    state,
    tools,
    toolsets,
)

__all__ = ("METHODS", "Direction", "Form", "MessageForm", "Method", "MethodTable", "Role")

T = TypeVar("T")

Role: TypeAlias = Literal["host", "server"]
Direction: TypeAlias = Literal["host->server", "server->host", "either"]
#: How one message comes.
MessageForm: TypeAlias = Literal["request", "notification"]
#: How a method may come.
Form: TypeAlias = Literal["request", "notification", "either"]

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One row.

    Attributes:
        name: on the wire.
        direction: who sends it.
        form: with an answer, without one, or as the sender likes.
        params: the type of its params, any that msgspec decodes.
        result: the type of its result; ``None`` when it is never answered.
        capabilities: alternatives, one of which the grant must hold; empty when nothing gates the method.
        also: members of the params that need one more capability when they are true, as
            ``(attribute, path)`` (SPEC 6.2: ``inferenceRequest.streaming``).
        notification_params: the type of the params of the notification form, where it is another one.
        order_sensitive: see the module.
        extension: which extension of SPEC 0.5 it belongs to, ``None`` for the SPEC's and MCP's own.
    """

    name: str
    direction: Direction
    form: Form
    params: Any
    result: Any = None
    capabilities: frozenset[str] = frozenset()
    also: tuple[tuple[str, str], ...] = ()
    notification_params: Any = None
    order_sensitive: bool = False
    extension: str | None = None

    @property
    def constant(self) -> str:
        """Its name in the module ``method``: ``PUSH_EVENT`` for ``push/event``."""
        return _CAMEL.sub("_", self.name.removeprefix("notifications/")).replace("/", "_").upper()

    def sent_by(self, role: Role) -> bool:
        """Whether a host, or a server, may send it."""
        return self.direction == "either" or self.direction.startswith(role)

    def has_form(self, form: MessageForm) -> bool:
        """Whether it may come as a request, or as a notification."""
        return self.form in ("either", form)

    def params_of(self, form: MessageForm) -> Any:
        """The type of its params in this form."""
        if form == "notification" and self.notification_params is not None:
            return self.notification_params
        return self.params

    def further_capabilities(self, params: Any) -> tuple[str, ...]:
        """Paths that these params need beside one of ``capabilities``; all of them.

        Args:
            params: a value of ``params``.
        """
        return tuple(path for attribute, path in self.also if getattr(params, attribute, None) is True)


class MethodTable(Mapping[str, Method]):
    """Method name -> row. Immutable, and safe to ask for any name that a peer sends.

    Raises:
        InvalidValueError: two rows have one name (``duplicate_method``).
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: Iterable[Method] = ()) -> None:
        self._rows: dict[str, Method] = {}
        for row in rows:
            if self._rows.setdefault(row.name, row) is not row:
                raise InvalidValueError("duplicate_method", f"{row.name} is there already")

    def __getitem__(self, name: str) -> Method:
        return self._rows[name]

    @overload
    def get(self, name: str, /) -> Method | None: ...
    @overload
    def get(self, name: str, /, default: Method | T) -> Method | T: ...
    def get(self, name: str, /, default: Any = None) -> Any:
        """As of any mapping; that of the base class asks and fails, which takes each message longer."""
        return self._rows.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"MethodTable({len(self)} methods)"

    def extend(self, *rows: Method) -> MethodTable:
        """A new table with more rows; this one stays as it is.

        Raises:
            InvalidValueError: a row has a name that is taken (``duplicate_method``).
        """
        return MethodTable((*self._rows.values(), *rows))

    def without(self, *extensions: str) -> MethodTable:
        """A new table without the rows of these extensions."""
        return MethodTable(row for row in self._rows.values() if row.extension not in extensions)


def _row(
    name: str,
    direction: Direction,
    form: Form,
    needs: str,
    *,
    params: Any,
    result: Any = None,
    ordered: bool = False,
    extension: str | None = None,
    also: tuple[tuple[str, str], ...] = (),
    notification_params: Any = None,
) -> Method:
    return Method(
        name=name,
        direction=direction,
        form=form,
        params=params,
        result=result,
        capabilities=frozenset(needs.split()),
        also=also,
        notification_params=notification_params,
        order_sensitive=ordered,
        extension=extension,
    )


_HOST: Final = "host->server"
_SERVER: Final = "server->host"
_BOTH: Final = "either"
_REQ: Final = "request"
_NOTE: Final = "notification"
_HOOK: Final = " ".join(
    f"contextHooks.beforeInference.{leaf}"
    for leaf in ("observe", "inject.system", "inject.beforeUser", "inject.afterUser")
)

#: Every method that this package knows.
# One line says what a method is, the next what it carries.
# fmt: off
METHODS: Final = MethodTable((
    # MCP
    _row(method.INITIALIZE, _HOST, _REQ, "", ordered=True,
         params=handshake.InitializeParams, result=handshake.InitializeResult),
    _row(method.INITIALIZED, _HOST, _NOTE, "", ordered=True,
         params=handshake.InitializedParams),
    _row(method.PING, _BOTH, _REQ, "",
         params=handshake.PingParams, result=handshake.PingResult),
    _row(method.CANCELLED, _BOTH, _NOTE, "",
         params=handshake.CancelledParams),
    _row(method.PROGRESS, _BOTH, _NOTE, "",
         params=handshake.ProgressParams),
    _row(method.TOOLS_LIST, _HOST, _REQ, "",
         params=tools.ToolsListParams, result=tools.ToolsListResult),
    _row(method.TOOLS_CALL, _HOST, _REQ, "tools",
         params=tools.ToolsCallParams, result=tools.ToolsCallResult),
    _row(method.TOOLS_LIST_CHANGED, _SERVER, _NOTE, "", ordered=True,
         params=tools.ToolsListChangedParams),
    # SPEC 6 to 12
    _row(method.FEATURE_SETS_UPDATE, _HOST, _BOTH, "", ordered=True,
         params=policy.FeatureSetsUpdateParams, result=policy.FeatureSetsUpdateResult,
         notification_params=policy.FeatureSetsUpdateNotice),
    _row(method.STATE_ROLLBACK, _HOST, _REQ, "", ordered=True,
         params=state.StateRollbackParams, result=state.StateRollbackResult),
    _row(method.PUSH_EVENT, _SERVER, _REQ, "pushEvents",
         params=push.PushEventParams, result=push.PushEventResult),
    _row(method.CONTEXT_BEFORE_INFERENCE, _HOST, _REQ, _HOOK,
         params=hooks.ContextBeforeInferenceParams, result=hooks.ContextBeforeInferenceResult),
    _row(method.INFERENCE_LIFECYCLE, _HOST, _NOTE, "inferenceLifecycle", ordered=True,
         params=hooks.InferenceLifecycleParams),
    _row(method.INFERENCE_REQUEST, _SERVER, _REQ, "inferenceRequest",
         params=inference.InferenceRequestParams, result=inference.InferenceRequestResult,
         also=(("stream", "inferenceRequest.streaming"),)),
    _row(method.INFERENCE_CHUNK, _HOST, _NOTE, "inferenceRequest.streaming", ordered=True,
         params=inference.InferenceChunkParams),
    _row(method.MODEL_INFO, _SERVER, _REQ, "modelInfo",
         params=inference.ModelInfoParams, result=inference.ModelInfo),
    # SPEC 14
    _row(method.CHANNELS_REGISTER, _SERVER, _REQ, "channels.register", ordered=True,
         params=channels.ChannelsRegisterParams, result=channels.ChannelsRegisterResult),
    _row(method.CHANNELS_CHANGED, _SERVER, _BOTH, "channels.register", ordered=True,
         params=channels.ChannelsChangedParams, result=channels.ChannelsChangedResult),
    _row(method.CHANNELS_LIST, _BOTH, _REQ, "channels.register",
         params=channels.ChannelsListParams, result=channels.ChannelsListResult),
    _row(method.CHANNELS_OPEN, _HOST, _REQ, "channels.lifecycle", ordered=True,
         params=channels.ChannelsOpenParams, result=channels.ChannelsOpenResult),
    _row(method.CHANNELS_CLOSE, _HOST, _REQ, "channels.lifecycle", ordered=True,
         params=channels.ChannelsCloseParams, result=channels.ChannelsCloseResult),
    _row(method.CHANNELS_PUBLISH, _HOST, _BOTH, "channels.publish",
         params=channels.ChannelsPublishParams, result=channels.ChannelsPublishResult),
    _row(method.CHANNELS_INCOMING, _SERVER, _REQ, "channels.incoming",
         params=channels.ChannelsIncomingParams, result=channels.ChannelsIncomingResult),
    _row(method.CHANNELS_OUTGOING_CHUNK, _HOST, _NOTE, "channels.streaming", ordered=True,
         params=channels.ChannelsOutgoingChunkParams),
    _row(method.CHANNELS_OUTGOING_COMPLETE, _HOST, _NOTE, "channels.streaming", ordered=True,
         params=channels.ChannelsOutgoingCompleteParams),
    _row(method.CHANNELS_ACKNOWLEDGE, _HOST, _REQ, "channels.acknowledge",
         params=channels.ChannelsAcknowledgeParams, result=channels.ChannelsAcknowledgeResult),
    _row(method.CHANNELS_TYPING, _HOST, _BOTH, "channels.typing",
         params=channels.ChannelsTypingParams, result=channels.ChannelsTypingResult),
    # SPEC 17: deliberately ungated (17.3)
    _row(method.MCPL_MANIFEST_CHANGED, _SERVER, _NOTE, "", ordered=True,
         params=manifest.ManifestChangedParams),
    _row(method.MCPL_MANIFEST, _HOST, _REQ, "",
         params=manifest.ManifestParams, result=manifest.Manifest),
    # State and branches: a change is told to whom may list
    _row(method.STATE_UPDATE, _SERVER, _REQ, "stateUpdate", ordered=True, extension="state",
         params=state.StateUpdateParams, result=state.StateUpdateResult),
    _row(method.STATE_GET, _SERVER, _REQ, "stateUpdate", extension="state",
         params=state.StateGetParams, result=state.StateGetResult),
    _row(method.BRANCHES_LIST, _SERVER, _REQ, "branches.list", extension="branches",
         params=branches.BranchesListParams, result=branches.BranchesListResult),
    _row(method.BRANCHES_CURRENT, _SERVER, _REQ, "branches.list", extension="branches",
         params=branches.BranchesCurrentParams, result=branches.BranchesCurrentResult),
    _row(method.BRANCHES_CREATE, _SERVER, _REQ, "branches.create", ordered=True, extension="branches",
         params=branches.BranchesCreateParams, result=branches.BranchesCreateResult),
    _row(method.BRANCHES_SWITCH, _SERVER, _REQ, "branches.switch", ordered=True, extension="branches",
         params=branches.BranchesSwitchParams, result=branches.BranchesSwitchResult),
    _row(method.BRANCHES_DELETE, _SERVER, _REQ, "branches.delete", ordered=True, extension="branches",
         params=branches.BranchesDeleteParams, result=branches.BranchesDeleteResult),
    _row(method.BRANCHES_CHANGED, _HOST, _NOTE, "branches.list", ordered=True, extension="branches",
         params=branches.BranchesChangedParams),
    # Toolsets and delegated access
    _row(method.TOOLSETS_LIST, _HOST, _REQ, "tools", extension="toolsets",
         params=toolsets.ToolsetsListParams, result=toolsets.ToolsetsListResult),
    _row(method.TOOLSETS_OPEN, _HOST, _REQ, "tools", ordered=True, extension="toolsets",
         params=toolsets.ToolsetsOpenParams, result=toolsets.ToolsetsOpenResult),
    _row(method.TOOLSETS_CLOSE, _HOST, _REQ, "tools", ordered=True, extension="toolsets",
         params=toolsets.ToolsetsCloseParams, result=toolsets.ToolsetsCloseResult),
    _row(method.TOOLSETS_CHANGED, _SERVER, _NOTE, "tools", ordered=True, extension="toolsets",
         params=toolsets.ToolsetsChangedParams),
    _row(method.ACCESS_TOKEN, _SERVER, _REQ, "access.token", extension="access",
         params=toolsets.AccessTokenParams, result=toolsets.AccessTokenResult),
))
# fmt: on
