"""An MCP server with one tool that writes, in five modes. It needs the standard library alone.

python write_server.py MODE FOLDER

``store_value`` takes one fixed value and writes it to FOLDER/value. FOLDER/ledger has one line for each thing that
happened, on the disk before anything else happens; it is locked for as long as this process lives. The ledger is
evidence for whoever looks, and nobody's command.

success             writes and answers
response_lost       writes, and its answer gets lost
exit_before_write   ends when it is called, with status 3
exit_after_write    writes and ends, with status 4
error_after_write   writes and answers with an error

Two more, for hosts that are to die while they wait: kill_before_write and kill_after_write end the process that started
this one, and then itself.
"""

import fcntl
import json
import os
import signal
import sys
from typing import Any, NoReturn

VALUE = "the one value"
SECRET = "words of the server"
TOOL = {
    "name": "store.value",
    "description": "Stores the value",
    "inputSchema": {
        "type": "object",
        "properties": {"value": {"type": "string", "maxLength": 64}},
        "required": ["value"],
        "additionalProperties": False,
    },
    "outputSchema": {
        "type": "object",
        "properties": {"stored": {"type": "boolean"}},
        "required": ["stored"],
        "additionalProperties": False,
    },
}


class Ledger:
    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        fcntl.flock(self.file, fcntl.LOCK_EX)
        self.add("started")

    def add(self, event: str, **facts: Any) -> None:
        os.write(self.file, json.dumps({"event": event, "pid": os.getpid(), **facts}).encode() + b"\n")
        os.fsync(self.file)


def write(folder: str) -> None:
    file = os.open(os.path.join(folder, "value"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, VALUE.encode() + b"\n")
    os.fsync(file)
    os.close(file)


def leave(ledger: Ledger, status: int) -> NoReturn:
    ledger.add("exited", status=status)
    os._exit(status)


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def call(mode: str, folder: str, ledger: Ledger, message: dict[str, Any]) -> None:
    params = message["params"]
    ledger.add("received", arguments=params.get("arguments"))
    if params.get("name") != TOOL["name"] or params.get("arguments") != {"value": VALUE}:
        ledger.add("refused")
        send({"id": message["id"], "error": {"code": -32602, "message": SECRET}})
        return
    if mode == "exit_before_write":
        leave(ledger, 3)
    if mode == "kill_before_write":
        os.kill(os.getppid(), signal.SIGKILL)
        leave(ledger, 0)
    write(folder)
    ledger.add("written")
    if mode == "exit_after_write":
        leave(ledger, 4)
    if mode == "kill_after_write":
        os.kill(os.getppid(), signal.SIGKILL)
        leave(ledger, 0)
    if mode == "response_lost":
        ledger.add("lost")
        os.close(1)
    elif mode == "error_after_write":
        send({"id": message["id"], "error": {"code": -32603, "message": SECRET}})
        ledger.add("answered")
    else:
        text = [{"type": "text", "text": "stored"}]
        send({"id": message["id"], "result": {"content": text, "structuredContent": {"stored": True}}})
        ledger.add("answered")


def main() -> None:
    mode, folder = sys.argv[1:]
    ledger = Ledger(os.path.join(folder, "ledger"))
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if method == "initialize":
            facts = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            send({"id": message["id"], "result": {**facts, "serverInfo": {"name": "values", "version": "1"}}})
        elif method == "tools/list":
            send({"id": message["id"], "result": {"tools": [TOOL]}})
        elif method == "tools/call":
            call(mode, folder, ledger, message)
        elif "id" in message:
            send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
    leave(ledger, 0)


if __name__ == "__main__":
    main()
