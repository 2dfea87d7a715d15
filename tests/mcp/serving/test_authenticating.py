"""What is left of the errors of the one who says who calls."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import anyio
import pytest

from mcpl_core.mcp.serving.authenticating import discreet

pytestmark = pytest.mark.anyio


async def test_its_answer_is_its_answer() -> None:
    async def later(request: Any) -> Any:
        return request

    for authenticate in (later, lambda request: request):
        for answer in ("ann", None, True, 0):
            assert await discreet(authenticate)(answer) == answer


@pytest.mark.parametrize("error", [ValueError("CANARY"), SystemExit("CANARY"), GeneratorExit("CANARY")])
async def test_its_errors_are_known_by_their_type_alone(error: BaseException) -> None:
    def at_once(request: Any) -> Any:
        raise error

    async def later(request: Any) -> Any:
        raise error

    for authenticate in (at_once, later):
        with pytest.raises(RuntimeError) as raised:
            await discreet(authenticate)("request")
        said = "".join(traceback.format_exception(raised.value))
        assert "CANARY" not in said
        assert ("RuntimeError" if not isinstance(error, Exception) else "ValueError") in str(raised.value)


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])
async def test_what_it_awaited_and_was_cancelled_is_its_failure(anyio_backend: Any) -> None:
    async def authenticate(request: Any) -> Any:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError):
        await discreet(authenticate)("request")


async def test_a_cancellation_goes_on() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await discreet(lambda request: anyio.sleep_forever())("request")
    assert scope.cancelled_caught
