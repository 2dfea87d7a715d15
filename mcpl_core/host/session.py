"""One server at one connection: handshake, policy, and the way of each message to its part (SPEC 5.3, 5.4, 6.6, 6.7).

Owns: the connection's life, the exchange of policies one after the other, and the first look at every incoming message:
the method table, then the grant in force, before any of its params is read. Does not own: what messages do (the parts),
the decisions (``authority``), and connecting again (``host``).

What changes how later messages are understood changes as its message is taken from the wire: the receipt of a policy, a
registration, a manifest. Requests whose handling has to wait are looked at in that moment too, and answered later.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec import Raw

from ..connection import McplConnection
from ..dispatch import Later, Router
from ..errors import (
    InvalidRequest,
    InvalidResultError,
    InvalidValueError,
    MalformedMessageError,
    McplError,
    PolicyRefusedError,
)
from ..grants import GrantState, Malformed
from ..manifest import ManifestReading
from ..negotiation import PolicyChange, ServerMode, policy_params
from ..ontology import Acceptance, TagOntology
from ..protocol import InitializeResult, MessageForm, Method, decode_params, method
from ..receipts import AcceptedReceipt, Receipt, RefusedReceipt, UnavailableFeature, read_receipt
from ..transports.loop import current_loop
from ..wire.messages import Notification, Request
from ..wire.values import decode_value
from .audit import AuditOutcome
from .branches import BranchDesk
from .calls import Calls
from .desks import ChannelDesk, StateDesk
from .events import EventQueue
from .extensions import start_companions, tell_grant_changed
from .handshake import checked_version, initialize_params
from .hub import Hub
from .inference import InferenceDesk
from .lifecycle import Inference
from .link import Effect, ServerLink
from .manifests import ManifestDesk, note_problems
from .policy import HostPolicy
from .reception import Reception
from .remote import RemoteServer

__all__ = ("HostSession",)

_logger = logging.getLogger("mcpl_core.host")


class HostSession(RemoteServer):
    """A connected server. ``connect_server`` and ``McplHost`` make them.

    Args:
        hub: what all servers of the host share.
        server: the id that the host gives this one.
        connection: to it, not entered yet; the session owns it.
        policy: the host's rules.
        require_mcpl: whether a server that is, or falls back to, a plain MCP server is a failure.

    Attributes:
        id: the server's id.
        info: what the server says that it is (``serverInfo``); names nothing that decides anything.
        instructions: for the model, as the server says; ``None`` when it does not.
        protocol_version: of MCP.
        capabilities: the ``capabilities`` of its ``initialize`` result, as received.
    """

    def __init__(
        self, hub: Hub, server: str, connection: McplConnection, policy: HostPolicy, *, require_mcpl: bool = False
    ) -> None:
        self.id = server
        self._require_mcpl = require_mcpl
        self.info: dict[str, Any] = {}
        self.instructions: str | None = None
        self.protocol_version = ""
        self.capabilities: dict[str, Any] = {}
        self._link = ServerLink(hub, server, connection, policy)
        self._calls = Calls(connection, anyio.current_time, hub.handlers.trace)
        self._manifests = ManifestDesk(self._link, self._grant_changed, self._negotiate)
        self._lock = anyio.Lock()
        self._ended = anyio.Event()
        self._tasks: TaskGroup | None = None
        self._tools: list[dict[str, Any]] | None = None
        self._listing = 0

    # ------------------------------------------------------------------------------------ what it is

    @property
    def link(self) -> ServerLink:
        """The facts of this connection."""
        return self._link

    @property
    def calls(self) -> Calls:
        """The long requests of this connection."""
        return self._calls

    @property
    def connection(self) -> McplConnection:
        """The connection itself."""
        return self._link.connection

    @property
    def mode(self) -> ServerMode:
        """``mcpl``; ``mcp-only`` for a plain MCP server and after a fallback; ``close`` after a refusal."""
        return self._link.authority.mode

    @property
    def grant(self) -> GrantState:
        """What the server may do at this moment."""
        return self._link.authority.grant

    @property
    def receipt(self) -> Receipt | Malformed | None:
        """The server's last answer to a policy; testimony for people, and no input to any rule (SPEC 6.7)."""
        return self._link.authority.receipt

    @property
    def degraded(self) -> tuple[UnavailableFeature, ...]:
        """What the receipt said that the server will not provide."""
        return self._link.authority.degraded

    @property
    def manifest(self) -> ManifestReading | None:
        """The manifest in force; ``None`` for a plain MCP server."""
        return self._link.authority.reading

    @property
    def is_closed(self) -> bool:
        """Whether the connection closed."""
        return self._link.connection.is_closed

    # ------------------------------------------------------------------------------------ life

    async def run(self, *, task_status: TaskStatus[HostSession] = anyio.TASK_STATUS_IGNORED) -> None:
        """Connects, and serves the connection until it closed. ``task_status`` is told once the session is ready.

        Raises:
            McplError: it cannot be reached, or the handshake failed.
            PolicyRefusedError: it refused the initial policy and closes.
        """
        failure: Exception | None = None
        async with self.connection:
            self.connection.on_close(self._ended.set)
            self.connection.on_error(self._reported)
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                self._calls.clock = current_loop(tasks).time
                tasks.start_soon(self._serve, name=f"mcpl host: {self.id}")
                try:
                    await self._open()
                    start_companions(self, tasks)
                    tasks.start_soon(self._manifests.run)
                    tasks.start_soon(self._manifests.tell)
                    task_status.started(self)
                    if not self.is_closed:
                        await self._ended.wait()
                except Exception as exc:
                    # Raised again outside the group, which would wrap it.
                    failure = exc
                tasks.cancel_scope.cancel()
        self._link.audit.record("connection", "success" if failure is None else "failure", code="closed")
        if failure is not None:
            raise failure

    async def aclose(self) -> None:
        """Closes the connection; what was sent is flushed. From any task, any number of times."""
        await self.connection.aclose()

    def _reported(self, error: BaseException) -> None:
        """What the connection reports: of the peer's defects the kind, never an excerpt."""
        if isinstance(error, McplError):
            code = error.kind if isinstance(error, MalformedMessageError) else type(error).__name__
            self._link.audit.note("connection", code)
        else:
            _logger.error("%s: %s", self.id, error, exc_info=error)
            self._link.audit.record("handler", "failure", code=type(error).__name__)

    async def _serve(self) -> None:
        settings = self._link.hub.settings
        try:
            await self.connection.serve(self._router(), limit=settings.handler_limit, grace=settings.grace)
        except McplError as exc:
            self.connection.report(exc)
        await self.connection.aclose()

    async def _open(self) -> None:
        """The handshake and the initial policy, which is sent even when it grants nothing (SPEC 5.3)."""
        link = self._link
        settings = link.hub.settings
        result = await self.connection.send_request(
            method.INITIALIZE,
            initialize_params(link.hub, link.authority.policy),
            timeout=settings.handshake_timeout,
            result_type=InitializeResult,
        )
        self.protocol_version = checked_version(result)
        self.info = {"name": result.server_info.name, "version": result.server_info.version}
        self.capabilities = result.capabilities
        self.instructions = result.instructions if isinstance(result.instructions, str) else None
        try:
            reading = link.authority.introduce(result.capabilities)
        except InvalidValueError as exc:
            link.audit.note("handshake", exc.code, "experimental.mcpl is no object")
            reading = None
        await self.connection.send_notification(method.INITIALIZED)
        if reading is not None:
            note_problems(link, reading)
            link.hub.acceptances, _ = link.hub.acceptances.revalidate(self.id, reading.ontology_digests)
            await self._negotiate()
        link.open = True
        link.audit.record("handshake", "success", code=self.mode, detail="" if reading else "it advertises no MCPL")
        if self.mode == "mcpl":
            return
        if isinstance(self.receipt, RefusedReceipt) and (self.mode == "close" or self._require_mcpl):
            raise PolicyRefusedError(self.id, self.receipt.reason)
        if self._require_mcpl:
            raise InvalidResultError(method.INITIALIZE, "it is no MCPL server", "$.capabilities.experimental.mcpl")

    # ------------------------------------------------------------------------------------ policy

    async def set_policy(self, policy: HostPolicy) -> ServerMode:
        """Other rules hold. What they take away is gone before this awaits anything; what they add is in force once the
        server accepted it. Returns what the server is then."""
        self.adopt(policy)
        return await self._negotiate()

    def adopt(self, policy: HostPolicy) -> None:
        """Takes away what other rules do not allow, at once; ``set_policy`` tells the server."""
        self._link.authority.adopt(policy)
        self._grant_changed()

    async def renegotiate(self) -> ServerMode:
        """Judges by the rules what the server advertises by now: the decision on expansions that a manifest change left
        pending (SPEC 17.5)."""
        self._link.authority.renegotiate()
        self._grant_changed()
        return await self._negotiate()

    async def fetch_manifest(self) -> ManifestReading | None:
        """Fetches the manifest now, with all its consequences (SPEC 17.4); ``None`` when nothing readable came."""
        self._link.check_sending(method.MCPL_MANIFEST)
        return await self._manifests.fetch()

    async def _negotiate(self) -> ServerMode:
        """Tells the server of the policy, if there is something to tell; one exchange after the other."""
        async with self._lock:
            change = self._link.authority.begin()
            self._grant_changed()
            if change is not None and not self.is_closed:
                await self._exchange(change)
        return self.mode

    async def _exchange(self, change: PolicyChange) -> None:
        link = self._link
        heard = False

        def answered(raw: Raw) -> None:
            # As the receipt is taken from the wire: what the server sends behind it, it sends under this grant.
            nonlocal heard
            heard = True
            self._settle(change, _receipt(raw))

        try:
            await self.connection.send_request(
                method.FEATURE_SETS_UPDATE,
                policy_params(change.proposed, link.authority.advertised),
                timeout=link.hub.settings.policy_timeout,
                on_answer=answered,
            )
        except McplError as exc:
            if not heard:
                link.audit.record(method.FEATURE_SETS_UPDATE, "failure", detail=type(exc).__name__)
                self._settle(change, None)

    def _settle(self, change: PolicyChange, answer: Receipt | Malformed | None) -> None:
        link = self._link
        mode = link.authority.settle(change, answer)
        self._grant_changed()
        if answer is not None:
            accepted = isinstance(answer, AcceptedReceipt)
            code = (
                "refused" if isinstance(answer, RefusedReceipt) else ("accepted" if accepted else "malformed_receipt")
            )
            outcome: Any = "success" if accepted else "denied"
            link.audit.record(method.FEATURE_SETS_UPDATE, outcome, code=code, detail=mode)
        if mode == "close" and self._tasks is not None and link.open:
            self._tasks.start_soon(self.aclose)

    def _grant_changed(self) -> None:
        """Channels that no longer may be are gone (SPEC 14.5)."""
        self._link.channels.prune()
        tell_grant_changed(self)

    # ------------------------------------------------------------------------------------ ontologies

    def ontology(self, feature_set: str) -> tuple[TagOntology, str] | None:
        """What a feature set declares about its tags, with the digest to accept it by; ``None`` when it does not."""
        reading = self.manifest
        if reading is None or feature_set not in reading.ontology_digests:
            return None
        return reading.ontologies[feature_set], reading.ontology_digests[feature_set]

    def accept_ontology(
        self, feature_set: str, digest: str, *, accepted_by: str, implies: bool = True, treatment: bool = True
    ) -> None:
        """Lets an ontology have effect on this server's events (SPEC 16.5). It ends when the declaration changes.

        Args:
            feature_set: the set that declares it.
            digest: of what was shown to whoever decides.
            accepted_by: who decided.
            implies, treatment: whether its edges, and its suggested treatments, are in force.

        Raises:
            InvalidValueError: the declaration is not the one of ``digest`` (``ontology_changed``), or nobody is named.
        """
        current = self.ontology(feature_set)
        if current is None:
            raise InvalidValueError("ontology_changed", f"{feature_set} declares no ontology")
        acceptance = Acceptance(
            self.id, feature_set, digest, accepted_by, current[0], implies=implies, treatment=treatment
        )
        hub = self._link.hub
        hub.acceptances = hub.acceptances.accept(acceptance, current_digest=current[1])

    # ------------------------------------------------------------------------------------ events and inferences

    def events(self) -> EventQueue:
        """The events of its host, to iterate over."""
        return self._link.hub.delivery.queue

    def inference(self, *, conversation_id: str, **options: Any) -> Inference:
        """An inference that this server alone hears of; arguments as ``Inference``."""
        options.setdefault("hook_timeout", self._link.hub.settings.hook_timeout)
        if self._link.hub.handlers.trace is not None:
            options.setdefault("trace", self._link.hub.handlers.trace())
        return Inference(lambda: [self._link], conversation_id=conversation_id, **options)

    # ------------------------------------------------------------------------------------ tools

    async def tools(self) -> list[dict[str, Any]]:
        """``list_tools``, asked once until the server says that its list changed."""
        if self._tools is not None:
            return self._tools
        listing = self._listing
        tools = await self.list_tools()
        if listing == self._listing:
            self._tools = tools
        return tools

    def _tools_changed(self, then: Effect, message: Notification) -> None:
        self._tools = None
        self._listing += 1
        then(message)

    # ------------------------------------------------------------------------------------ incoming messages

    def _router(self) -> Router:
        link = self._link
        parts = (
            Reception(link),
            ChannelDesk(link, partial(self._manifests.surface_changed, "channels")),
            StateDesk(link),
            BranchDesk(link),
            InferenceDesk(link),
            self._manifests,
        )
        effects: dict[str, Effect] = {name: effect for part in parts for name, effect in part.effects().items()}
        listed = effects[method.TOOLS_LIST_CHANGED]
        effects[method.TOOLS_LIST_CHANGED] = partial(self._tools_changed, listed)
        effects |= {name: partial(self._call_other, name) for name in link.hub.others}
        effects[method.PING] = lambda message: {}
        effects[method.PROGRESS] = self._calls.progress
        effects[method.CANCELLED] = lambda message: None
        router = Router(methods=link.hub.methods)
        for name, effect in effects.items():
            entry = link.hub.methods.get(name)
            if entry is None:
                # MCP's own notifications: they carry nothing, and nothing gates them.
                router.add(name, effect, inline=True)
            else:
                router.add(name, self._guarded(entry, effect), inline=True)
        return router

    def _guarded(self, entry: Method, effect: Effect) -> Callable[[Request | Notification], Any]:
        """The first look at every message of a method: its form, then the grant in force; params are not read yet."""

        def receive(message: Request | Notification) -> Any:
            link = self._link
            form: MessageForm = "request" if isinstance(message, Request) else "notification"
            denied = link.authority.check(entry.capabilities)
            if form == "notification" and (denied is not None or not entry.has_form(form)):
                # It has no answer; the record is all there is.
                code = "wrong_form" if denied is None else str((denied.data or {}).get("reason", denied.code))
                link.audit.record(entry.name, "denied", code=code)
                return None
            if not entry.has_form(form):
                raise InvalidRequest(message=f"{entry.name} is a notification")
            if denied is not None:
                link.deny(entry.name, denied)
            return effect(message)

        return receive

    def _call_other(self, name: str, message: Request | Notification) -> Any:
        link = self._link
        entry = link.hub.methods[name]
        form: MessageForm = "request" if isinstance(message, Request) else "notification"
        params = decode_params(entry, message.raw_params, form)
        handler = link.hub.others[name]
        if form == "request":
            return Later(partial(self._answer_other, entry, handler, params))
        return handler(self, params)

    async def _answer_other(self, entry: Method, handler: Callable[..., Any], params: Any) -> Any:
        denied = self._link.authority.check(entry.capabilities)
        if denied is not None:
            self._link.deny(entry.name, denied)
        result = handler(self, params)
        return await result if inspect.isawaitable(result) else result


#: What is recorded of an answer to a policy.
_RECORDS: dict[type, tuple[str, AuditOutcome]] = {
    AcceptedReceipt: ("accepted", "success"),
    RefusedReceipt: ("refused", "denied"),
    Malformed: ("malformed_receipt", "denied"),
}


def _receipt(raw: Raw) -> Receipt | Malformed:
    try:
        return read_receipt(decode_value(raw))
    except InvalidValueError as exc:
        return Malformed.from_error(exc)
