"""``mcpl relay`` as a child process: between stdio, WebSockets and servers, under load, and in every way it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import anyio
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import serve
from websockets.typing import Origin

from mcpl_core.cli import main
from mcpl_core.connection import McplConnection
from tests.cli.processes import ECHO_SERVER, LIMIT, MCPL, gone, is_alive, mcpl, relay_to, running, terminal
from tests.transports.recording import resident_megabytes

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
MIB = 1024 * 1024

#: Says back each line, byte for byte.
CAT = [
    sys.executable,
    "-c",
    "import sys\nfor line in sys.stdin.buffer:\n sys.stdout.buffer.write(line); sys.stdout.flush()",
]


def test_a_command_is_reached_through_standard_input_and_output() -> None:
    done = mcpl("relay", "--", *ECHO_SERVER, input=json.dumps(PING).encode() + b"\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_stdio_server_on_a_websocket_and_a_remote_one_as_a_stdio_server() -> None:
    with relay_to("--", *ECHO_SERVER) as (endpoint, _), running("relay", endpoint) as local:
        local.say(PING)
        assert json.loads(local.out())["id"] == 1
        local.say({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        assert json.loads(local.out())["result"]["tools"][0]["name"] == "echo"
        assert local.end() == 0


@pytest.mark.anyio
async def test_a_host_runs_it_as_it_would_run_the_server() -> None:
    with relay_to("--", *ECHO_SERVER) as (endpoint, _):
        with anyio.fail_after(LIMIT):
            async with McplConnection.spawn([*MCPL, "relay", endpoint]) as conn:
                assert await conn.send_request("ping") == {}
                async with anyio.create_task_group() as tasks:
                    for _ in range(200):
                        tasks.start_soon(conn.send_request, "ping")


def test_a_child_for_each_connection_that_ends_with_it() -> None:
    code = "import os, sys\nprint(os.getpid(), flush=True)\nfor line in sys.stdin: pass"
    with relay_to("--", sys.executable, "-c", code) as (endpoint, relay):
        with connect(endpoint) as one, connect(endpoint) as two:
            pids = [int(ws.recv(LIMIT)) for ws in (one, two)]
            assert pids[0] != pids[1]
            one.close()
            assert gone(pids[0])
            assert is_alive(pids[1])
        assert gone(pids[1])
        for _ in range(2):
            assert "closed after 0 messages to the server and 1 back" in relay.err_until("closed after")


def test_a_page_in_a_browser_is_refused_unless_its_origin_is_named() -> None:
    with relay_to("--", *CAT, options=("--origin", "https://good.example")) as (endpoint, _):
        with pytest.raises(InvalidStatus) as caught:
            connect(endpoint, origin=Origin("https://evil.example"))
        assert caught.value.response.status_code == 403
        with connect(endpoint, origin=Origin("https://good.example")) as ws:
            ws.send("1")
            assert ws.recv(LIMIT) == "1"


def test_a_token_is_asked_for_and_given() -> None:
    secret = {"MCPL_TEST_TOKEN": "s3cret-\u00e9"}
    with running(
        "relay", "--listen", "ws://127.0.0.1:0", "--listen-token-env", "MCPL_TEST_TOKEN", "--", *CAT, env=secret
    ) as relay:
        endpoint = relay.err_until("listening on").rpartition(" ")[2]
        refused = mcpl("relay", endpoint)
        assert refused.returncode == 1
        assert "--token-env" in refused.stderr and refused.stderr.count("\n") == 1
        done = mcpl("relay", endpoint + "?token=s3cret-%C3%A9", input=b"")
        assert done.returncode == 0, done.stderr
    with running(
        "relay", "--listen", "ws://127.0.0.1:0", "--listen-token-env", "T", "--", *CAT, env={"T": "abc"}
    ) as relay:
        endpoint = relay.err_until("listening on").rpartition(" ")[2]
        with running("relay", "--token-env", "T", endpoint, env={"T": "abc"}) as client:
            client.say(1)
            assert client.out() == "1"


def test_pretty_printed_messages_become_lines() -> None:
    pretty = json.dumps({"a": [1, {"b": "x\ny"}]}, indent=4)
    with relay_to("--", *CAT) as (endpoint, _), connect(endpoint) as ws:
        ws.send(pretty)
        ws.send("2")
        assert ws.recv(LIMIT) == pretty.replace("\n", " ")
        assert ws.recv(LIMIT) == "2"


def test_sixteen_mebibytes_pass_byte_for_byte() -> None:
    message = json.dumps({"x": "y\u00e9" * 5_000_000}, ensure_ascii=False)
    assert 14 * MIB < len(message.encode()) < 16 * MIB
    with relay_to("--", *CAT) as (endpoint, _), connect(endpoint, max_size=None) as ws:
        ws.send(message)
        assert ws.recv(LIMIT) == message


def test_longer_ones_are_dropped_and_told() -> None:
    with running("relay", "--max-message-bytes", "2000", "--", *CAT) as relay:
        relay.say("x" * 3000, "short")
        assert relay.out() == '"short"'
        assert "too-long" in relay.err_until("malformed")
        assert relay.end() == 0


def test_memory_stays_bounded_while_the_server_stalls(tmp_path: Path) -> None:
    # Reads nothing until somebody opens the FIFO at its other end.
    code = (
        "import sys\nprint('up', flush=True)\nopen(sys.argv[1]).read()\n"
        "n = 0\nfor line in sys.stdin.buffer:\n  n += len(line)\n  if line == b'end\\n': print(n, flush=True)\n"
    )
    message = "x" * 50_000
    flag = tmp_path / "go on"
    os.mkfifo(flag)
    with relay_to("--", sys.executable, "-c", code, str(flag)) as (endpoint, relay):
        with connect(endpoint, ping_interval=None) as ws:
            assert ws.recv(LIMIT) == "up"
            before = resident_megabytes(relay.pid)
            sent = 0

            def flood() -> None:
                nonlocal sent
                for _ in range(2000):  # 100 MB
                    ws.send(message)
                    sent += 1
                ws.send("end")

            flooding = threading.Thread(target=flood)
            flooding.start()
            last = -1
            while last != sent:  # until it does not move any more
                last = sent
                flooding.join(0.5)
            assert 0 < sent < 1000
            assert resident_megabytes(relay.pid) - before < 20
            flag.write_text("")
            assert ws.recv(LIMIT) == str(2000 * 50_001 + 4)
            flooding.join()
            assert resident_megabytes(relay.pid) - before < 40


def test_a_server_that_dies_is_one_line_with_its_status() -> None:
    code = "import sys; print('oh no', file=sys.stderr, flush=True); print(1, flush=True); sys.exit(3)"
    with running("relay", "--", sys.executable, "-c", code) as relay:
        assert relay.out() == "1"
        assert relay.out() == ""
        assert relay.err() == "oh no"
        assert "exited with status 3" in relay.err()
        assert relay.process.wait(LIMIT) == 1
    with relay_to("--", sys.executable, "-c", code) as (endpoint, listening), connect(endpoint) as ws:
        assert ws.recv(LIMIT) == "1"
        assert "exited with status 3" in listening.err_until("closed after")
        assert listening.process.poll() is None


def test_a_remote_server_that_goes_away_ends_it() -> None:
    with relay_to("--", *CAT) as (endpoint, listening), running("relay", endpoint) as relay:
        relay.say(1)
        assert relay.out() == "1"
        listening.process.kill()
        assert relay.out() == ""
        assert relay.process.wait(LIMIT) == 1
        assert relay.err().startswith("mcpl: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_its_child(number: int) -> None:
    code = "import os, sys\nprint(os.getpid(), flush=True)\nfor line in sys.stdin: pass"
    with running("relay", "--", sys.executable, "-c", code) as relay:
        pid = int(relay.out())
        assert relay.end(number) == 0
        assert gone(pid)
        assert relay.err() == ""
    with relay_to("--", sys.executable, "-c", code) as (endpoint, listening), connect(endpoint) as ws:
        pid = int(ws.recv(LIMIT))
        assert listening.end(number) == 0
        assert gone(pid)


def test_notices_as_json() -> None:
    with running("relay", "--json", "--listen", "tcp://127.0.0.1:0", "--", *CAT) as relay:
        listening = json.loads(relay.err())
        assert listening["event"] == "listening"
        host, _, port = listening["endpoint"].removeprefix("tcp://").rpartition(":")
        with socket.create_connection((host, int(port)), LIMIT) as sock:
            assert json.loads(relay.err())["event"] == "opened"
            sock.sendall(b"1\n")
            assert sock.recv(10) == b"1\n"
        closed = json.loads(relay.err())
        assert (closed["event"], closed["sent"], closed["received"], closed["dropped"]) == ("closed", 1, 1, 0)


def test_quiet_keeps_notices_back() -> None:
    with running("relay", "-q", "--", sys.executable, "-c", "import sys; print('noise', file=sys.stderr)") as relay:
        assert relay.end() == 0
        assert relay.err() == ""


def test_the_environment_reaches_the_server_unless_told_otherwise() -> None:
    code = "import os, json; print(json.dumps([os.environ.get('A_SECRET'), os.environ.get('B')]))"
    command = ("--env", "B=2=3", "--", sys.executable, "-c", code)
    assert json.loads(mcpl("relay", *command, env={"A_SECRET": "1"}).stdout) == ["1", "2=3"]
    assert json.loads(mcpl("relay", "--clean-env", *command, env={"A_SECRET": "1"}).stdout) == [None, "2=3"]


def test_a_headers_way_to_the_server() -> None:
    got: list[str | None] = []

    def handler(ws: object) -> None:
        got.append(ws.request.headers.get("X-Room"))  # type: ignore[attr-defined]

    with serve(handler, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever).start()
        port = server.socket.getsockname()[1]
        done = mcpl("relay", "--header", "X-Room: 7", f"ws://127.0.0.1:{port}")
        server.shutdown()
    assert (done.returncode, got) == (0, ["7"])


def test_on_a_terminal_it_says_what_it_is_and_ends_with_the_input() -> None:
    with terminal("relay", "--", *CAT) as screen:
        screen.until("Ctrl-D")
        screen.type('{"a":1}\n')
        screen.until('{"a":1}\r\n{"a":1}')
        screen.type("\x04")
        assert screen.end() == 0
        assert "Traceback" not in screen.text


def test_on_a_terminal_ctrl_c_stops_it_cleanly() -> None:
    with terminal("relay", "--listen", "ws://127.0.0.1:0", "--", *CAT) as screen:
        screen.until("listening on")
        screen.press_ctrl_c()
        assert screen.end() == 0
        assert "Traceback" not in screen.text


def test_a_second_ctrl_c_does_not_wait() -> None:
    code = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True)\n"
        "sys.stdin.read(); print('told', file=sys.stderr, flush=True); time.sleep(600)"
    )
    with running("relay", "--", sys.executable, "-c", code) as relay:
        relay.out()
        relay.process.send_signal(signal.SIGINT)
        assert relay.err() == "told"
        start = time.monotonic()
        assert relay.end(signal.SIGINT) == 130
        assert time.monotonic() - start < 3
        assert relay.err() == "mcpl: interrupted"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "name an endpoint"),
        (["python", "server.py"], "put -- before the command"),
        (["--"], "must follow --"),
        (["ws://x", "--", "cat"], "not both"),
        (["nonsense"], "put -- before a command"),
        (["ws://user:pw@x"], "no place"),
        (["http://x"], "an endpoint begins with"),
        (["--header", "X", "ws://x"], "NAME:VALUE"),
        (["--header", "X:1", "tcp://x:1"], "not to tcp:"),
        (["--token-env", "NOT_SET_ANYWHERE", "ws://x"], "NOT_SET_ANYWHERE"),
        (["--env", "X", "--", "cat"], "NAME=VALUE"),
        (["--env", "X=1", "ws://x"], "takes no --env"),
        (["--ca", "/nonexistent", "wss://x"], "/nonexistent"),
        (["--listen", "http://x", "--", "cat"], "--listen"),
        (["--listen", "wss://127.0.0.1:0", "--", "cat"], "--cert"),
        (["--listen", "tcp://127.0.0.1:0", "--origin", "https://x", "--", "cat"], "are for ws:"),
        (["--max-message-bytes", "12", "--", "cat"], "--max-message-bytes"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(
    arguments: list[str], part: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["relay", *arguments]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mcpl: ") and captured.err.count("\n") == 1
    assert part in captured.err
    assert "pw@" not in captured.err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["ws://127.0.0.1:1"], "is it running"),
        (["unix:///nonexistent/s"], "is it running"),
        (["--", "/nonexistent/server"], "name of the program"),
        (["--listen", "ws://192.0.2.1:1", "--", "cat"], "192.0.2.1"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments: list[str], part: str) -> None:
    done = mcpl("relay", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    line = done.stderr.splitlines()[-1]
    assert line.startswith("mcpl: ") and part in line
    assert "Traceback" not in done.stderr


def test_who_lets_everybody_in_is_warned() -> None:
    with running("relay", "--listen", "ws://0.0.0.0:0", "--", *CAT) as relay:
        assert "--listen-token-env" in relay.err()


def test_standard_output_is_the_protocols_alone() -> None:
    done = subprocess.run([*MCPL, "relay", "--", *CAT], input=b"1\n\n\n2\noops\n", capture_output=True, timeout=LIMIT)
    assert done.stdout == b"1\n2\noops\n"
