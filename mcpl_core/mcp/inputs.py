"""Requests that the server answers with questions (MCP 2026-07-28, ``resultType: input_required``).

In that era a server sends no requests. What it wants to know stands in a result, and the client sends the request again
with the answers and, untouched, the server's state.

Owns: these rounds, and their bound. Does not own: the answers (handlers of the application), and sending. The rounds
are requests of their own: while a person is asked between two of them, no time runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ..errors import InvalidResultError
from .errors import McpInputRequiredError

__all__ = ("INPUT_METHODS", "MOST_ROUNDS", "with_inputs")

#: The requests that may be answered so.
INPUT_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
#: Times that a request is sent again.
MOST_ROUNDS: Final = 10

_RESPONSES, _STATE = "inputResponses", "requestState"


async def with_inputs(
    server: str,
    method: str,
    params: dict[str, Any],
    send: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]],
    handlers: Mapping[str, Callable[[Any], Any]],
) -> dict[str, Any]:
    """Sends a request until its result is one.

    Args:
        server: the name that the caller gave the server.
        method: one of ``INPUT_METHODS``.
        params: of the request; the same in each round.
        send: sends one round.
        handlers: method of a question -> takes its params, returns the answer, or an awaitable of it.

    Raises:
        McpInputRequiredError: a question that nobody answers, or more rounds than are allowed. Nothing was answered in
            this round; the caller may go on with ``inputResponses`` and ``requestState``.
        InvalidResultError: the questions are none.
    """
    sent = params
    left = MOST_ROUNDS
    while (result := await send(sent)).get("resultType") == "input_required":
        questions, state = _questions(method, result)
        if not left or any(asked["method"] not in handlers for asked in questions.values()):
            raise McpInputRequiredError(server, method, questions, state)
        left -= 1
        sent = {name: value for name, value in params.items() if name not in (_RESPONSES, _STATE)}
        if questions:
            # One after the other: people are asked one thing at a time.
            sent[_RESPONSES] = {key: await _answered(handlers, asked) for key, asked in questions.items()}
        if state is not None:
            sent[_STATE] = state
    return result


def _questions(method: str, result: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], str | None]:
    questions, state = result.get("inputRequests"), result.get(_STATE)
    if questions is None:
        questions = {}
    if not isinstance(questions, dict) or not all(map(_is_question, questions.values())):
        raise InvalidResultError(method, "inputRequests are requests by name", "$.inputRequests")
    if not (isinstance(state, str) or (state is None and questions)):
        raise InvalidResultError(method, "a state is a text, and without one there are questions", "$.requestState")
    return questions, state


def _is_question(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("method"), str)


async def _answered(handlers: Mapping[str, Callable[[Any], Any]], asked: dict[str, Any]) -> Any:
    answer = handlers[asked["method"]](asked.get("params"))
    return await answer if inspect.isawaitable(answer) else answer
