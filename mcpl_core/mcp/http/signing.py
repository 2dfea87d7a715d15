"""Every request gets its headers here, right before it is sent.

Owns: static headers, vended credentials, the hook that has the last word, one more reading of the credentials after
HTTP 401, and which redirects are not followed. Does not own: repeating (``retrying``), and what was asked (the SDK).

What is put on a request lives in a copy that only the network sees: the request that the SDK holds, logs and follows
redirects with never has it. So a redirect within the origin is signed and vended anew, and none carries anything to
another one.
"""

from __future__ import annotations

from collections.abc import Mapping

import httpx2

from ..errors import ConsentRequiredError, CredentialsUnavailableError
from ..replay import REFUSED_BEFORE_EXECUTION, Permission
from ..transports import Consent, CredentialProvider, CredentialRequest, HttpRequest, RequestHook
from .errors import RedirectRefusedError
from .exchange import exchange_of
from .headers import checked_headers, origin_of, redirect_origin, refuse_reserved
from .outer import OuterTransport

__all__ = ("SigningTransport",)

#: Of what stands in headers: each character one byte, of those that RFC 9110 allows.
_ENCODING = "latin-1"


class SigningTransport(OuterTransport):
    """An ``httpx2`` transport around another one.

    Args:
        inner: what sends.
        headers: static ones, by lower-case name.
        hook: see ``RequestHook``.
        credentials: the provider and what it is asked, once for each request.
    """

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        headers: Mapping[str, str],
        hook: RequestHook | None = None,
        credentials: tuple[CredentialProvider, CredentialRequest] | None = None,
    ) -> None:
        super().__init__(inner)
        self._headers = headers
        self._hook = hook
        self._credentials = credentials

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends the request with all its headers.

        Raises:
            ConsentRequiredError: a person has to agree before there are credentials; nothing was sent.
            CredentialsUnavailableError: the provider failed, or gave none; nothing was sent.
            RedirectRefusedError: the answer is a redirect that is not followed.
            Exception: whatever the hook raised; nothing was sent.
        """
        body = await request.aread()
        response = await self._send(request, body)
        if response.status_code == 401 and self._credentials is not None:
            # They may have run out since the provider read them.
            await response.aclose()
            if (exchange := exchange_of(request)) is not None:
                exchange.log.record("refused", 401, Permission("credentials", None, REFUSED_BEFORE_EXECUTION))
                exchange.log.begin(counted=False)
            response = await self._send(request, body)
        refused = _refused_redirect(request, response)
        if refused is not None:
            await response.aclose()
            raise refused
        return response

    async def _send(self, request: httpx2.Request, body: bytes) -> httpx2.Response:
        exchange = exchange_of(request)
        if exchange is not None:
            exchange.leave()
        # A copy of the text: what nobody touches goes out byte for byte as it was.
        headers = httpx2.Headers(request.headers.raw, encoding=_ENCODING)
        headers.update(httpx2.Headers({**self._headers, **await self._vended()}, encoding=_ENCODING))
        url = str(request.url)
        if self._hook is not None:
            await self._hooked(self._hook, HttpRequest(request.method, url, dict(headers.items()), body), headers)
        signed = httpx2.Request(request.method, url, headers=headers, content=body, extensions=request.extensions)
        if exchange is not None:
            exchange.sent = True
        return await self._inner.handle_async_request(signed)

    async def _hooked(self, hook: RequestHook, seen: HttpRequest, headers: httpx2.Headers) -> None:
        """Lets the hook change the headers: in place, and by what it returns."""
        returned = await hook(seen)
        wanted = checked_headers({**seen.headers, **({} if returned is None else checked_headers(returned))})
        for name in headers.keys() - wanted.keys():
            del headers[name]
        for name, value in wanted.items():
            if headers.get(name) != value:
                headers[name] = value

    async def _vended(self) -> Mapping[str, str]:
        if self._credentials is None:
            return {}
        provider, wanted = self._credentials
        failed: Exception | None = None
        vended: Mapping[str, str] | Consent = {}
        try:
            vended = await provider(wanted)
            if not isinstance(vended, Consent):
                vended = refuse_reserved(vended)
        except Exception as exc:
            # What the provider raised may hold what it read; its class has to do.
            failed = CredentialsUnavailableError(wanted.service)
            failed.add_note(f"the provider raised {type(exc).__name__}")
        if failed is not None:
            raise failed
        if isinstance(vended, Consent):
            raise ConsentRequiredError(wanted.service, vended.authorization_url)
        if not vended:
            raise CredentialsUnavailableError(wanted.service)
        return vended


def _refused_redirect(request: httpx2.Request, response: httpx2.Response) -> RedirectRefusedError | None:
    """The SDK follows what stays within the origin and keeps the method; what it does not follow has a class here."""
    status, location = response.status_code, response.headers.get("location")
    if not 300 <= status < 400 or location is None:
        return None
    url = str(request.url)
    target = redirect_origin(url, location)
    keeps_method = status in (307, 308) or (request.method == "GET" and status in (301, 302, 303))
    return None if keeps_method and target == origin_of(url) else RedirectRefusedError(status, target)
