"""Other libraries' loggers: silent about our sessions, as they were about everything else."""

from __future__ import annotations

import ast
import logging
from importlib.util import find_spec
from pathlib import Path

import anyio
import pytest

from mcpl_core.mcp.http.quiet import LOUD_LOGGERS, ours, quiet


@pytest.mark.spec("R-mcphttp-17")
def test_only_what_belongs_to_a_session_is_silenced(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logger = logging.getLogger("httpx2")
    with quiet():
        with ours():
            logger.info("HTTP Request: GET https://example.com/?token=canary")
        logger.info("somebody else's request")
    with ours():
        logger.info("after the session")
    assert [record.message for record in caplog.records] == ["somebody else's request", "after the session"]


def test_sessions_do_not_take_each_others_silence_away(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logger = logging.getLogger("httpcore2.http11")
    before = list(logger.filters)
    with quiet(), ours():
        with quiet():
            pass
        logger.debug("canary")
    assert caplog.records == []
    assert logger.filters == before


@pytest.mark.anyio
async def test_tasks_inherit_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="mcp.client.streamable_http")

    async def log() -> None:
        logging.getLogger("mcp.client.streamable_http").debug("canary")

    with quiet(), ours():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(log)
    assert "canary" not in caplog.text


def _logger_names(package: str, *folders: str) -> set[str]:
    """The names of the loggers that the modules of a library make."""
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None
    names = set()
    for path in Path(spec.origin).parent.rglob("*.py"):
        parts = path.relative_to(Path(spec.origin).parent).with_suffix("").parts
        if folders and parts[0] not in folders:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger" and node.args:
                (argument,) = node.args
                literal = isinstance(argument, ast.Constant)
                names.add(str(ast.literal_eval(argument)) if literal else ".".join([package, *parts]))
    return names


def test_no_logger_of_the_http_libraries_is_forgotten() -> None:
    assert _logger_names("httpx2") | _logger_names("httpcore2") <= set(LOUD_LOGGERS) | {"httpcore2.http11"}


def test_no_logger_of_the_sdk_that_a_session_reaches_is_forgotten() -> None:
    unreached = ("mcp.client.stdio", "mcp.client.sse", "mcp.client.caching", "mcp.client.auth", "mcp.client.__main__")
    beside = {"mcp.shared.direct_dispatcher", "mcp.shared.tool_name_validation", "mcp.client.session_group"}
    found = _logger_names("mcp", "client", "shared") - beside
    assert {name for name in found if not name.startswith(unreached)} <= set(LOUD_LOGGERS)
