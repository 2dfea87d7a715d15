"""TLS contexts of both sides, for tests alone: the key is no secret, and nobody trusts the certificate."""

from __future__ import annotations

import os
import ssl
import tempfile

#: For ``localhost`` and 127.0.0.1, from 2020 to 2120.
_PEM = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg//fKjjZXfm2MyERm
EIsh58A6Y0agHKjKRvDOnLtRBzuhRANCAAQRDVTXwBcuviTvi4yFokPLXGkJg8dV
mBO2NkLxsO0PN7pwHhaJSi4bqkXIZK7b7nX8/3hxuEO3eTO+F7B67d/i
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBijCCATCgAwIBAgIBATAKBggqhkjOPQQDAjAVMRMwEQYDVQQDDAptY3BsIHRl
c3RzMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAVMRMwEQYDVQQD
DAptY3BsIHRlc3RzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEQ1U18AXLr4k
74uMhaJDy1xpCYPHVZgTtjZC8bDtDze6cB4WiUouG6pFyGSu2+51/P94cbhDt3kz
vheweu3f4qNvMG0wGgYDVR0RBBMwEYIJbG9jYWxob3N0hwR/AAABMA8GA1UdEwEB
/wQFMAMBAf8wHQYDVR0OBBYEFHQBGxT6pJv3tcTKxRnXUGfS0AseMB8GA1UdIwQY
MBaAFHQBGxT6pJv3tcTKxRnXUGfS0AseMAoGCCqGSM49BAMCA0gAMEUCIQC/M4+6
BCQHR8h/5koFc/I2dw45RLoO0+nL2zptq460KwIge4ufAPpyf5BPx526dgdwMp/v
KiOTFOgtXIp/JjlruCc=
-----END CERTIFICATE-----
"""


def server_context() -> ssl.SSLContext:
    """The side that has the certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    fd, path = tempfile.mkstemp()
    try:
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(_PEM)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)
    return context


def client_context() -> ssl.SSLContext:
    """The side that trusts it."""
    return ssl.create_default_context(cadata=_PEM[_PEM.index("-----BEGIN CERT") :])
