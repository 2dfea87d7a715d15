"""Channels and state, as a server tells of them (SPEC 14.3, 14.5; the state extension).

Owns: the way of ``channels/register``, ``changed`` and ``list``, and of ``state/update`` and ``state/get``, into the
registry and the trees, and the records of it. Does not own: the decisions (``channels``, ``state``), the grant's first
word (``session``), and what a tool call brings (``remote``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import UNSET

from ..dispatch import Later
from ..errors import InvalidParams, NoHostManagedState
from ..protocol import (
    ChannelsChangedResult,
    ChannelsListResult,
    ChannelsRegisterResult,
    DescriptorResult,
    StateGetParams,
    StateGetResult,
    StateUpdateParams,
    StateUpdateResult,
    decode_params,
    method,
)
from ..wire.messages import Notification, Request
from .link import Effect, ServerLink

__all__ = ("ChannelDesk", "StateDesk")


class ChannelDesk:
    """The channels that one server tells of.

    Args:
        link: the session's facts.
        changed: is told that the server's channels are others now.
    """

    def __init__(self, link: ServerLink, changed: Callable[[], object]) -> None:
        self._link = link
        self._changed = changed

    def effects(self) -> dict[str, Effect]:
        """What its messages do."""
        return {
            method.CHANNELS_REGISTER: self._register,
            method.CHANNELS_CHANGED: self._change,
            method.CHANNELS_LIST: self._list,
        }

    def _register(self, message: Request) -> ChannelsRegisterResult:
        results = self._link.channels.register(_tree(message).get("channels"))
        self._record(method.CHANNELS_REGISTER, results)
        return ChannelsRegisterResult(results=results)

    def _change(self, message: Request | Notification) -> ChannelsChangedResult:
        tree = _tree(message)
        members = (tree.get(name, []) for name in ("added", "removed", "updated"))
        results = self._link.channels.change(*members)
        refused = self._record(method.CHANNELS_CHANGED, results)
        if refused and isinstance(message, Notification):
            # It has no answer: the two sides would disagree about which channels there are, and nobody would know.
            self._link.audit.note(method.CHANNELS_CHANGED, "channels_filtered", f"{refused} descriptors were refused")
        return ChannelsChangedResult(results=results)

    def _record(self, name: str, results: list[DescriptorResult]) -> int:
        refused = [result for result in results if not result.accepted]
        detail = f"{len(results) - len(refused)} of {len(results)} descriptors"
        reasons = sorted({str(result.reason) for result in refused})
        self._link.audit.record(
            name, "denied" if refused else "success", code=reasons[0] if reasons else None, detail=detail
        )
        self._changed()
        return len(refused)

    def _list(self, message: Request) -> ChannelsListResult:
        return ChannelsListResult(channels=self._link.channels.listing())


class StateDesk:
    """The state that one server hands to its host outside of calls.

    Args:
        link: the session's facts.
    """

    def __init__(self, link: ServerLink) -> None:
        self._link = link

    def effects(self) -> dict[str, Effect]:
        """What its messages do. A patch may take a while, so both wait for a worker, in their order."""
        return {method.STATE_UPDATE: self._update, method.STATE_GET: self._get}

    def _update(self, message: Request) -> Later:
        params = decode_params(self._link.row(method.STATE_UPDATE), message.raw_params)
        self._link.check_claim(method.STATE_UPDATE, params.feature_set)
        return Later(partial(self._record, params))

    def _record(self, params: StateUpdateParams) -> StateUpdateResult:
        link = self._link
        self._link.check_claim(method.STATE_UPDATE, params.feature_set)
        tree = link.hub.states.tree(link.server, params.feature_set)
        problem = tree.record(params.checkpoint, params.parent, params.data, params.patch, successor=True)
        if problem is not None:
            link.audit.record(
                method.STATE_UPDATE,
                "failure",
                feature_set=params.feature_set,
                code=problem.reason,
                detail=problem.detail,
            )
            return StateUpdateResult(accepted=False, reason=problem.reason)
        link.hub.states.saved(link.server, params.feature_set)
        link.audit.record(method.STATE_UPDATE, "success", feature_set=params.feature_set)
        return StateUpdateResult(accepted=True)

    def _get(self, message: Request) -> Later:
        params = decode_params(self._link.row(method.STATE_GET), message.raw_params)
        self._link.check_claim(method.STATE_GET, params.feature_set)
        return Later(partial(self._current, params))

    def _current(self, params: StateGetParams) -> StateGetResult:
        link = self._link
        self._link.check_claim(method.STATE_GET, params.feature_set)
        head = link.hub.states.tree(link.server, params.feature_set).head
        if head is None:
            return StateGetResult(checkpoint=None, data=None)
        if head.data is UNSET:
            raise NoHostManagedState(data={"featureSet": params.feature_set})
        return StateGetResult(checkpoint=head.id, data=head.data)


def _tree(message: Request | Notification) -> dict[str, Any]:
    params = message.params
    if not isinstance(params, dict):
        raise InvalidParams(data={"path": "$", "detail": "expected an object"})
    return params
