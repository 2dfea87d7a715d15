"""Credentials: asked for before the call, given to it, told to nobody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpl_core.mcp import ConsentRequiredError
from mcpl_core.mcp.serving import ServedTool, ToolCall
from mcpl_core.mcp.serving.credentials import resolve_credentials
from mcpl_core.mcp.serving.tools import needs_of
from mcpl_core.mcp.transports import Consent, CredentialRequest
from tests.mcp.serving.clients import runner

pytestmark = pytest.mark.anyio

URL = "https://accounts.example/CANARY"
TOOL = ServedTool("t", lambda arguments, call: None, needs=("mail", CredentialRequest("files", ("read",), "user")))


async def resolved(answer: Any) -> tuple[ToolCall, str | None, list[CredentialRequest], list[BaseException]]:
    asked: list[CredentialRequest] = []
    reports: list[BaseException] = []

    async def provider(request: CredentialRequest) -> Any:
        asked.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    call = ToolCall(TOOL)
    return call, await resolve_credentials(call, needs_of(TOOL), provider, reports.append), asked, reports


async def test_each_need_is_asked_for_as_it_was_declared_and_injected() -> None:
    call, refusal, asked, _ = await resolved({"authorization": "Bearer x"})
    assert refusal is None
    assert asked == [CredentialRequest("mail"), CredentialRequest("files", ("read",), "user")]
    assert call.credentials == {"mail": {"authorization": "Bearer x"}, "files": {"authorization": "Bearer x"}}


async def test_a_call_that_does_not_run_has_none_of_them() -> None:
    async def provider(request: CredentialRequest) -> Any:
        return "key" if request.service == "mail" else None

    call = ToolCall(TOOL)
    refusal = await resolve_credentials(call, needs_of(TOOL), provider, lambda error: None)
    assert refusal is not None
    assert "files" in refusal
    assert call.credentials == {}


async def test_a_provider_may_be_a_plain_function_and_ends_nothing_but_the_call() -> None:
    def key(request: CredentialRequest) -> str:
        return f"key of {request.service}"

    async def leaving(request: CredentialRequest) -> str:
        raise SystemExit("CANARY")

    async def cancelled(request: CredentialRequest) -> str:
        raise asyncio.CancelledError("CANARY")

    tool = ServedTool("t", lambda arguments, call: call.credentials["mail"], needs=("mail",))
    for provider, said in (
        (key, b"key of mail"),
        (leaving, b"no credentials for mail"),
        (cancelled, b"no credentials"),
    ):
        reports: list[BaseException] = []
        made = await runner(credentials=provider, reports=reports).run(ToolCall(tool))
        assert said in bytes(made)
        assert "CANARY" not in str([str(report) for report in reports])


@pytest.mark.parametrize(
    "answer",
    [Consent(URL), ConsentRequiredError("mail", URL), ValueError(URL), None],
    ids=["consent", "consent raised", "failure", "nothing"],
)
@pytest.mark.spec("R-mcpserve-10")
async def test_a_blocked_credential_names_its_service_and_nothing_else(answer: Any) -> None:
    call, refusal, asked, reports = await resolved(answer)
    assert refusal is not None
    assert "mail" in refusal
    assert "CANARY" not in refusal + str([str(report) for report in reports])
    assert len(asked) == 1
    assert call.credentials == {}
