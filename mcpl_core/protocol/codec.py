"""From the raw params or result of a message to its type, by way of the table.

Owns: which type a message is read as, absent params, and the error for what does not fit. Does not own: JSON
(``wire.values``), the types, and whether the message is allowed. Authority comes first: nothing here is to be
called before the method is known and granted (SPEC 5.4).
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import InvalidParams, InvalidValueError
from ..wire.values import decode_value
from .base import misfit
from .methods import MessageForm, Method

__all__ = ("decode_params", "decode_result", "decode_typed")


def decode_typed(raw: bytes | msgspec.Raw, kind: Any) -> Any:
    """JSON text as ``kind``.

    Raises:
        InvalidValueError: it does not fit; ``code`` and ``path`` say how and where, also where a type of this
            package refused the value itself.
    """
    try:
        return decode_value(raw, kind)
    except InvalidValueError as exc:
        if isinstance(exc.__cause__, msgspec.ValidationError):
            raise misfit(exc.__cause__) from exc
        raise


def decode_params(entry: Method, raw: bytes | msgspec.Raw, form: MessageForm = "request") -> Any:
    """The params of a message of this method.

    Args:
        entry: the row of the method.
        raw: the params as received. Empty or null reads as ``{}``: JSON-RPC lets them be left out.
        form: how the message came.

    Returns:
        A value of ``entry.params_of(form)``.

    Raises:
        InvalidParams: they do not fit; ``data`` is ``{path, detail}``.
    """
    text: bytes | msgspec.Raw = raw
    if len(memoryview(raw)) <= 4 and bytes(raw) in (b"", b"null"):
        text = b"{}"
    try:
        return decode_typed(text, entry.params_of(form))
    except InvalidValueError as exc:
        message = f"Invalid params at {exc.path}: {exc.detail}"
        raise InvalidParams(message=message, data={"path": exc.path, "detail": exc.detail}) from exc


def decode_result(entry: Method, raw: bytes | msgspec.Raw) -> Any:
    """The result that answers a request of this method.

    Returns:
        A value of ``entry.result``.

    Raises:
        InvalidValueError: it does not fit, or the method has no result (``no_result``).
    """
    if entry.result is None:
        raise InvalidValueError("no_result", f"{entry.name} is never answered")
    return decode_typed(raw, entry.result)
