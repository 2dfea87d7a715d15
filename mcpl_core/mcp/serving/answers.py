"""What a server of tools, resources and prompts answers, on whatever way the question came.

Owns: the methods of MCP that are served, reading their params, and the code of what is not found, which the eras of MCP
write differently. Does not own: the handshake and the envelope of results (each way of serving has its own), and
running a tool (``calling``).
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from msgspec import Raw

from ...content import ContentBlock
from ...errors import InternalError, InvalidParams, InvalidValueError, MethodNotFound, RpcError, UnencodableError
from ...server.blocks import tool_content
from ...server.results import MAX_RESULT_DEPTH
from ...wire.values import decode_value, depth_exceeds, encode_value
from .call import Notify, Peer, ToolCall
from .calling import CallRunner, bounded, unknown_tool
from .ledger import Offer, Prompt, Resource
from .tools import tool_entry

__all__ = ("RESOURCE_NOT_FOUND", "SERVED_METHODS", "Answers", "Identity", "error_object", "is_modern")

#: The code of a resource that is not there, until 2025-11-25; later it is that of any invalid param.
RESOURCE_NOT_FOUND: Final = -32002

#: The last version of the handshake era.
_LAST_HANDSHAKE_VERSION: Final = "2025-11-25"

#: Method -> the member of MCP's ``capabilities`` that promises it.
SERVED_METHODS: Final[Mapping[str, str]] = {
    "tools/list": "tools",
    "tools/call": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resources",
    "resources/read": "resources",
    "prompts/list": "prompts",
    "prompts/get": "prompts",
}


def is_modern(protocol_version: str) -> bool:
    """Whether a version belongs to the era without a handshake. Versions are dates: they compare as texts."""
    return protocol_version > _LAST_HANDSHAKE_VERSION


@dataclass(frozen=True, slots=True)
class Identity:
    """Who serves.

    Attributes:
        name, version, title, instructions: as in MCP's ``serverInfo`` and handshake.
    """

    name: str
    version: str
    title: str | None = None
    instructions: str | None = None

    @property
    def info(self) -> dict[str, Any]:
        """The ``serverInfo``."""
        return {"name": self.name, "version": self.version} | ({} if self.title is None else {"title": self.title})


class Answers:
    """Answers the requests of MCP.

    Args:
        identity: who serves.
        offer: what a caller is served; raises ``RpcError`` when it is none.
        kinds: the kinds that are promised: ``tools``, ``resources``, ``prompts``.
        runner: runs tools, and the functions of resources and prompts.
        input_schema: the input schema of a tool by name, where it does not depend on who asks; else ``None``.

    Attributes:
        identity, kinds, runner, input_schema: as given; the last one may change.
    """

    def __init__(
        self,
        identity: Identity,
        offer: Callable[[Peer], Awaitable[Offer]],
        kinds: Callable[[], frozenset[str]],
        runner: CallRunner,
        input_schema: Callable[[str], Mapping[str, Any] | None] | None = None,
    ) -> None:
        self.identity = identity
        self.kinds = kinds
        self.runner = runner
        self.input_schema = input_schema
        self._offer = offer
        self._methods: dict[str, Callable[[Offer, dict[str, Any], Peer, Notify], Awaitable[Raw]]] = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
        }

    def capabilities(self) -> dict[str, Any]:
        """MCP's ``capabilities``."""
        return {kind: {} for kind in ("tools", "resources", "prompts") if kind in self.kinds()}

    def serves(self, method: str) -> bool:
        """Whether a method is one of those that are promised."""
        return SERVED_METHODS.get(method) in self.kinds()

    async def answer(self, method: str, params: Any, peer: Peer, notify: Notify) -> Raw:
        """The result of a request, as JSON text, without an envelope.

        Args:
            method: a method that is served.
            params: its params, as received; ``None`` when there were none.
            peer: who asks.
            notify: sends a notification that belongs to this request.

        Raises:
            RpcError: the request cannot be answered; the code says why.
        """
        if not self.serves(method):
            raise MethodNotFound(message=f"no such method: {method}", data={"method": method})
        if not isinstance(params, dict | None):
            raise InvalidParams(message="params are an object", data={"path": "$"})
        offer = await self._offer(peer)
        return await self._methods[method](offer, params or {}, peer, notify)

    # -- tools

    async def _list_tools(self, offer: Offer, params: dict[str, Any], peer: Peer, notify: Notify) -> Raw:
        _only_page(params)
        return _raw({"tools": [tool_entry(tool) for tool in offer.tools.values()]})

    async def _call_tool(self, offer: Offer, params: dict[str, Any], peer: Peer, notify: Notify) -> Raw:
        name, meta = _text(params, "name"), params.get("_meta")
        tool = offer.tools.get(name)
        if tool is None:
            return unknown_tool(name, tuple(offer.tools))
        call = ToolCall(tool, params.get("arguments"), peer, meta if isinstance(meta, dict) else {}, _notify=notify)
        return await self.runner.run(call)

    # -- resources

    async def _list_resources(self, offer: Offer, params: dict[str, Any], peer: Peer, notify: Notify) -> Raw:
        _only_page(params)
        return _raw({"resources": [each.entry() for each in offer.resources.values() if not each.is_template]})

    async def _list_templates(self, offer: Offer, params: dict[str, Any], peer: Peer, notify: Notify) -> Raw:
        _only_page(params)
        return _raw({"resourceTemplates": [each.entry() for each in offer.resources.values() if each.is_template]})

    async def _read_resource(self, offer: Offer, params: dict[str, Any], peer: Peer, notify: Notify) -> Raw:
        uri = _text(params, "uri")
        for resource in sorted(offer.resources.values(), key=lambda each: each.is_template):
            if (variables := resource.match(uri)) is not None:
                return await self._made(resource.name, partial(_contents, resource, uri), resource.read, uri, variables)
        code = InvalidParams.default_code if is_modern(peer.protocol_version) else RESOURCE_NOT_FOUND
        raise RpcError(code, "Resource not found", {"uri": uri})

    # -- prompts

    async def _list_prompts(self, offer: Offer, params: dict[str, Any], peer: Peer, notify: Notify) -> Raw:
        _only_page(params)
        return _raw({"prompts": [each.entry() for each in offer.prompts.values()]})

    async def _get_prompt(self, offer: Offer, params: dict[str, Any], peer: Peer, notify: Notify) -> Raw:
        name = _text(params, "name")
        prompt = offer.prompts.get(name)
        if prompt is None:
            raise InvalidParams(message=f"no such prompt: {name[:128]}", data={"prompt": name})
        return await self._made(name, partial(_messages, prompt), prompt.get, _prompt_arguments(prompt, params))

    async def _made(self, name: str, shape: Callable[[Any], Any], function: Callable[..., Any], *args: Any) -> Raw:
        try:
            result = bounded(_raw(shape(await self.runner.call(function, *args))))
            if depth_exceeds(bytes(result), MAX_RESULT_DEPTH):
                raise UnencodableError(f"{name} nests deeper than {MAX_RESULT_DEPTH} levels")
            return result
        except RpcError:
            raise
        except Exception as exc:
            self.runner.report(exc)
            raise InternalError(message=f"{name} failed") from exc


def error_object(error: RpcError, report: Callable[[BaseException], object]) -> dict[str, Any]:
    """JSON-RPC's error object, as plain JSON; without ``data`` that has no JSON form.

    Args:
        error: the error.
        report: is told of such data.
    """
    told = {"code": error.code, "message": error.message}
    if error.data is None:
        return told
    try:
        return {**told, "data": decode_value(encode_value(error.data))}
    except UnencodableError as exc:
        report(exc)
        return told


def _raw(result: Any) -> Raw:
    return Raw(encode_value(result))


def _only_page(params: dict[str, Any]) -> None:
    """Lists have one page, so there is no cursor that somebody could have."""
    if params.get("cursor") is not None:
        raise InvalidParams(message="no such cursor", data={"path": "$.cursor"})


def _text(params: dict[str, Any], member: str) -> str:
    value = params.get(member)
    if not isinstance(value, str):
        raise InvalidParams(message=f"{member} is a text", data={"path": f"$.{member}"})
    return value


def _prompt_arguments(prompt: Prompt, params: dict[str, Any]) -> dict[str, str]:
    given = params.get("arguments")
    if given is None:
        given = {}
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise InvalidParams(message="the arguments of a prompt are texts", data={"path": "$.arguments"})
    missing = [each.name for each in prompt.arguments if each.required and each.name not in given]
    if missing:
        raise InvalidParams(message=f"missing: {', '.join(missing)}", data={"path": "$.arguments", "missing": missing})
    return given


def _contents(resource: Resource, uri: str, value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        if not all(isinstance(each, Mapping) and "uri" in each for each in value):
            raise InvalidValueError("contents", "a list that a resource gives is of MCP's contents", "$.contents")
        return {"contents": value}
    about = {"uri": uri} | ({} if resource.mime_type is None else {"mimeType": resource.mime_type})
    if isinstance(value, bytes | bytearray):
        return {"contents": [{**about, "blob": base64.b64encode(value).decode()}]}
    return {"contents": [{**about, "text": value if isinstance(value, str) else encode_value(value).decode()}]}


def _messages(prompt: Prompt, value: Any) -> dict[str, Any]:
    described = {} if prompt.description is None else {"description": prompt.description}
    return {**described, "messages": [_message(each) for each in (value if isinstance(value, list) else [value])]}


def _message(each: Any) -> Any:
    if isinstance(each, Mapping) and "role" in each:
        return each
    (block,) = tool_content([each])
    return {"role": "user", "content": _plain(block)}


def _plain(block: ContentBlock) -> Any:
    return decode_value(encode_value(block))
