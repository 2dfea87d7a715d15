"""The family of vectors about tools under authority: digests of values, snapshots, intents and calls.

Owns: what this package answers to a case. Does not own: the digests (``mcpl_core.catalog``, ``mcpl_core.approvals``).
Loaded for its cases alone: what it needs takes longer to import than all the rest of the command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..approvals import ApprovalIntent, approval_id_of
from ..catalog.identity import identity_digest, identity_text
from ..errors import InvalidValueError

__all__ = ("digest_answer",)


def digest_answer(given: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a case of ``identity-digests``."""
    try:
        if "intent" in given:
            return {"digest": ApprovalIntent.from_json(given["intent"]).digest}
        if "call" in given:
            return {"approvalId": approval_id_of(given["call"]["runId"], given["call"]["toolCallId"])}
        value = json.loads(given["valueText"]) if "valueText" in given else given["value"]
        return {"text": identity_text(value), "digest": identity_digest(value)}
    except InvalidValueError as error:
        return {"error": error.code}
