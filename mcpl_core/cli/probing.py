"""Looking at a server as its host.

Owns: the order of a probe: connect, negotiate, look, call, watch; and its options. Does not own: the host
(``mcpl_core.host``), the facts (``probe_facts``), and how they look (``probe_view``).
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Annotated, Any

import anyio
import typer

from ..capabilities import VOCABULARY, advertised_capabilities_from_initialize
from ..errors import (
    CapabilityDenied,
    InvalidResultError,
    InvalidValueError,
    LocalProtocolError,
    McplError,
    MethodNotFound,
    PolicyRefusedError,
    RpcError,
)
from ..host import AuditRecord, HostHandlers, HostPolicy, HostSession, HostSettings, connect_server
from ..protocol import ProgressParams, method
from ..testing import Recorder
from .failures import failure
from .notices import Notices
from .output import CommandError, Output
from .probe_facts import call_facts, channel_facts, event_facts, server_facts
from .probe_view import ProbeView
from .running import run_until_stopped
from .target import Target

__all__ = ("GrantOptions", "Probing")

#: Granted in any case, so that there is something to see: asking for tools, and being told of channels.
_LOOKING = ("tools", "channels.register")
#: Granted besides to whoever watches.
_WATCHING = ("pushEvents", "channels.incoming")


@dataclass(frozen=True, slots=True)
class GrantOptions:
    """The options of granting."""

    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="PATH", help="Grant this capability, too (* is one segment: channels.*)."),
    ] = None
    allow_all: Annotated[
        bool, typer.Option("--allow-all", help="Grant everything but what must be named (inject.system).")
    ] = False
    deny: Annotated[list[str] | None, typer.Option("--deny", metavar="PATH", help="Grant this in no case.")] = None

    def policy(self, *, watching: bool) -> HostPolicy:
        """The policy.

        Raises:
            CommandError: an entry can have no effect.
        """
        allowed = [*_LOOKING, *(_WATCHING if watching else ()), *(self.allow or ())]
        if self.allow_all:
            allowed += [row.path for row in VOCABULARY.capabilities if not row.denied_by_default]
        try:
            return HostPolicy.allow(*allowed, deny=self.deny or ())
        except InvalidValueError as exc:
            raise CommandError(f"--allow and --deny take capability paths: {exc.detail}") from exc


@dataclass(slots=True)
class Probing:
    """One probe.

    Args:
        target: the server.
        policy: what it may do.
        notices: for what happens meanwhile.
        timeout: seconds for each answer.
        as_json: whether to print JSON: one object for the server, and one a line for each event.
        call: a tool and its arguments, to be called.
        watch: whether to go on and show what comes.
        output: where to show it.
    """

    target: Target
    policy: HostPolicy
    notices: Notices
    timeout: float = 30.0
    as_json: bool = False
    call: tuple[str, dict[str, Any]] | None = None
    watch: bool = False
    output: Output = field(default_factory=Output)
    _view: ProbeView = field(init=False)
    _watching: anyio.CancelScope | None = None
    _stopped: bool = False
    _recorder: Recorder | None = None
    #: Records from before the watching began.
    _early: deque[AuditRecord] = field(default_factory=lambda: deque(maxlen=100))

    def __post_init__(self) -> None:
        self._view = ProbeView(self.output)

    def run(self, recorder: Recorder | None = None) -> int:
        """Probes. Returns the exit status: 1 when the tool that was called failed.

        Args:
            recorder: records what passes.

        Raises:
            CommandError: the server cannot be probed.
            Stopped: somebody said stop.
        """
        self._recorder = recorder
        # What the host has to say comes as records, and is shown where it matters.
        logging.getLogger("mcpl_core").addHandler(logging.NullHandler())
        try:
            return run_until_stopped(self._probe, self._stop if self.watch else None)
        except PolicyRefusedError as exc:
            raise CommandError(f"{exc}; --allow PATH grants more", 1) from exc
        except McplError as exc:
            raise failure(exc, command=self.target.is_command) from exc

    def _stop(self) -> bool:
        """Ends the watching; false before it began."""
        if self._watching is None:
            return False
        self._stopped = True
        self._watching.cancel()
        return True

    async def _probe(self) -> int:
        transport = self.target.transport()
        if self._recorder is not None:
            transport = self._recorder.tap(transport)
        connecting = connect_server(
            transport,
            policy=self.policy,
            name="mcpl probe",
            settings=HostSettings(
                handshake_timeout=self.timeout, policy_timeout=self.timeout, call_timeout=self.timeout
            ),
            handlers=HostHandlers(on_audit=self._audited),
            connection_options={"request_timeout": self.timeout},
        )
        with ExitStack() as busy:
            busy.enter_context(self.notices.busy(f"connecting to {transport.name}"))
            async with connecting as session:
                busy.close()
                return await self._look(session, transport.name)

    async def _look(self, session: HostSession, endpoint: str) -> int:
        facts = server_facts(session, endpoint)
        if not self.as_json:
            self._view.server(facts)
        facts["tools"] = await self._ask("tools", session.list_tools, self._view.tools)
        facts["channels"] = await self._ask("channels", lambda: _channels(session), self._view.channels)
        failed = False
        if self.call is not None:
            facts["call"] = await self._call(session, *self.call)
            failed = facts["call"]["isError"]
        if self.as_json:
            self._print(facts)
        if self.watch:
            await self._follow(session)
        return int(failed)

    async def _ask(
        self,
        what: str,
        ask: Callable[[], Awaitable[list[dict[str, Any]]]],
        show: Callable[[list[dict[str, Any]]], object],
    ) -> list[dict[str, Any]] | dict[str, Any]:
        """Asks for a list. What the server may or can not give is shown as such, and is no failure of the probe."""
        try:
            found = await ask()
        except (RpcError, LocalProtocolError, InvalidResultError) as exc:
            why = _denied(exc) if isinstance(exc, CapabilityDenied) else str(exc)
            if not self.as_json:
                self._view.skipped(what, why)
            return {"error": why}
        if not self.as_json and (found or what == "tools"):
            show(found)
        return found

    async def _call(self, session: HostSession, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        def progress(params: ProgressParams) -> None:
            text = params.message if isinstance(params.message, str) else f"{params.progress:g}"
            self.notices.say("progress", f"{tool}: {text}", tool=tool, progress=params.progress)

        with self.notices.busy(f"calling {tool}"):
            try:
                result = await session.call_tool(tool, arguments, on_progress=progress)
            except CapabilityDenied as exc:
                raise CommandError(f"{tool} was not called: {_denied(exc)}; --deny keeps it back", 1) from exc
        facts = call_facts(tool, result)
        if not self.as_json:
            self._view.call(facts)
        return facts

    # -- watching

    async def _follow(self, session: HostSession) -> None:
        """Shows what comes until somebody says stop, or the server ends it."""
        self.notices.say("watching", "watching; Ctrl-C ends it")
        for record in self._early:
            self._remark(record)
        self._early.clear()
        count = 0
        with anyio.CancelScope() as self._watching:
            session.connection.on_close(self._watching.cancel)
            if session.is_closed:
                self._watching.cancel()
            async for event in session.events():
                count += 1
                facts = event_facts(event)
                if self.as_json:
                    self._print(facts)
                else:
                    self._view.event(facts)
        self.notices.say("watched", f"{count} events", events=count)
        if not self._stopped:
            reason = session.connection.close_reason
            if reason is not None:
                raise failure(reason)
            self.notices.say("closed", "the server closed the connection")

    def _audited(self, record: AuditRecord) -> None:
        if not self.watch or not _is_remarkable(record):
            return
        if self._watching is None:
            self._early.append(record)
        else:
            self._remark(record)

    def _remark(self, record: AuditRecord) -> None:
        if self.as_json:
            facts = {"operation": record.operation, "outcome": record.outcome, "code": record.code}
            self._print({"event": "audit", **facts, "detail": record.detail})
        else:
            self._view.remark(
                " ".join(part for part in (record.outcome, record.operation, record.code or "", record.detail) if part),
                good=record.outcome == "success",
            )

    def _print(self, facts: dict[str, Any]) -> None:
        print(json.dumps(facts), flush=True)


async def _channels(session: HostSession) -> list[dict[str, Any]]:
    """What is registered, and what the server lists besides."""
    channels = {channel.id: channel for channel in session.channels}
    if any(row.startswith("channels.") for row in advertised_capabilities_from_initialize(session.capabilities)):
        try:
            listed = await session.list_channels()
        except MethodNotFound:
            listed = []
        channels = {channel.id: channel for channel in listed} | channels
    return [channel_facts(channel) for channel in channels.values()]


def _denied(error: CapabilityDenied) -> str:
    data = error.data if isinstance(error.data, dict) else {}
    return f"{data.get('capability') or 'what it needs'} is not granted"


def _is_remarkable(record: AuditRecord) -> bool:
    """Whether somebody who watches wants to see it: what was refused, and what happens to channels."""
    if record.outcome != "success":
        return True
    return record.operation.startswith("channels/") and record.operation != method.CHANNELS_INCOMING
