"""Credentials from a host, for one principal (SPEC_NOTES R-toolsets-8).

Owns: asking, and how long an answer is kept. Does not own: which connection is asked (``runtime``), and the decision,
which is the host's alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import anyio
from msgspec import Raw, UnsetType

from ..errors import ERR_CAPABILITY_DENIED, ERR_METHOD_NOT_FOUND, InvalidResultError, InvalidValueError, RpcError
from ..protocol import METHODS, AccessTokenResult, decode_result, method
from .errors import AccessDenied
from .link import Link
from .wire import access_params, read_time

__all__ = ("AccessDesk",)

#: Seconds before its end from which a credential is not given out any more.
_MARGIN: Final = 30.0
_REFUSALS: Final = frozenset({ERR_METHOD_NOT_FOUND, ERR_CAPABILITY_DENIED})


class _Request(NamedTuple):
    audience: str
    scopes: tuple[str, ...]


class _Kept(NamedTuple):
    credential: AccessTokenResult
    until: float
    link: Link

    def __repr__(self) -> str:
        return f"_Kept({self.credential!r}, {self.until!r})"


class AccessDesk:
    """The credentials of one principal.

    Args:
        clock: seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[_Request, _Kept] = {}
        self._asking: dict[_Request, anyio.Event] = {}

    async def get(
        self,
        link: Link | None,
        audience: str,
        scopes: Sequence[str],
        reason: str | None,
        timeout: float | None | UnsetType,
    ) -> AccessTokenResult:
        """A credential that is kept, or the host's.

        Args:
            link: whom to ask; ``None``: there is nobody.

        Raises:
            AccessDenied: see there.
            InvalidResultError: the answer is no credential.
        """
        request = _Request(audience, tuple(sorted(set(scopes))))
        while True:
            kept = self._kept.get(request)
            if kept is not None and self._clock() < kept.until:
                return kept.credential
            self._kept.pop(request, None)
            asking = self._asking.get(request)
            if asking is None:
                break
            # A person need not be asked twice for the same.
            await asking.wait()
        self._asking[request] = anyio.Event()
        try:
            return await self._ask(link, request, reason, timeout)
        finally:
            self._asking.pop(request).set()

    async def _ask(
        self, link: Link | None, request: _Request, reason: str | None, timeout: float | None | UnsetType
    ) -> AccessTokenResult:
        if link is None:
            raise AccessDenied(request.audience)
        if not link.mcpl:
            raise AccessDenied(request.audience, ERR_METHOD_NOT_FOUND)
        grants = link.grants
        params = access_params(request.audience, request.scopes, reason)
        try:
            raw = await link.connection.send_request(method.ACCESS_TOKEN, params, timeout=timeout, result_type=Raw)
        except RpcError as exc:
            if exc.code in _REFUSALS:
                raise AccessDenied(request.audience, exc.code) from exc
            raise
        try:
            credential: AccessTokenResult = decode_result(METHODS[method.ACCESS_TOKEN], raw)
            until = read_time(credential.expires_at) - _MARGIN
        except InvalidValueError as exc:
            # What was answered may be a secret in the wrong place: nothing of it is repeated.
            raise InvalidResultError(method.ACCESS_TOKEN, "no credential", exc.path) from None
        if grants == link.grants and not link.gone and self._clock() < until:
            # What is over is not asked for again by everybody.
            self._kept = {r: kept for r, kept in self._kept.items() if self._clock() < kept.until}
            self._kept[request] = _Kept(credential, until, link)
        return credential

    def drop(self, link: Link | None = None) -> None:
        """What this connection brought is not given out any more; ``None``: nothing is."""
        self._kept = {} if link is None else {r: kept for r, kept in self._kept.items() if kept.link is not link}
