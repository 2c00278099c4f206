"""Where a server listens, what it shows to who knocks, and whom it lets in.

Off the loopback it shows a certificate and asks for a token, or does not start: unless it was told to do without.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from urllib.parse import urlsplit

from tightwire.algebra.errors import AccessError
from tightwire.links.access import Access, is_loopback, own_address
from tightwire.links.limits import Limits
from tightwire.links.tokens import Token, fresh_token, read_secret, read_tokens

LOOPBACK = "grpc://127.0.0.1:0"
TLS = "grpc+tls"


@dataclass(frozen=True)
class Door:
    """What a server needs to open. ``shown`` is what the rendezvous hands to the run's own workers."""

    listen: str
    tokens: tuple[Token, ...] = field(repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    client_authority: bytes = b""
    limits: Limits = field(default_factory=Limits)
    hands_out: bool = True  # the token, and a certificate that vouches for itself

    @property
    def address(self) -> str:
        """The host part."""
        return urlsplit(self.listen).hostname or ""


def embedded_door(access: Access, *, machines: int) -> Door:
    """The door of a server that a worker keeps for workers, and servers, on so many ``machines``."""
    address = "127.0.0.1" if machines == 1 else own_address(access.servers)
    if is_loopback(address):
        return Door(LOOPBACK, (fresh_token(""),))
    at = f"[{address}]" if ":" in address else address
    if access.keys == "none":
        return Door(f"grpc://{at}:0", (fresh_token(""),))
    if access.keys == "throw-away":
        from tightwire.links.certificates import throw_away  # noqa: PLC0415 -- loads cryptography

        made = throw_away()
        return Door(f"{TLS}://{at}:0", (fresh_token(""),), made.certificate, made.key)
    token, identity, missing = access.token(), access.identity(), access.missing()
    if token is None or identity is None or missing:
        raise AccessError(
            f"processes on {machines} machines come to this one, which without {' '.join(missing)} would be open "
            "to everybody on the network: tightwire keys makes them; or give --insecure (TIGHTWIRE_KEYS=none)"
        )
    token = replace(token, run="")  # one run is served here
    return Door(f"{TLS}://{at}:0", (token,), *identity, client_authority=access.authority(), hands_out=False)


def own_door(
    listen: str,
    *,
    token_file: str | None,
    certificate_file: str | None = None,
    key_file: str | None = None,
    client_authority_file: str | None = None,
    insecure: bool = False,
    limits: Limits | None = None,
) -> Door:
    """The door of a stand-alone server; refuses one that strangers could walk through."""
    parts = urlsplit(listen)
    if parts.scheme not in ("grpc", TLS) or not parts.hostname:
        raise AccessError(f"--listen {listen}: write grpc+tls://ADDRESS:PORT, or grpc://127.0.0.1:PORT")
    apart = not is_loopback(parts.hostname)
    if apart and parts.scheme == "grpc" and not insecure:
        raise AccessError(
            f"--listen {listen} would send weights and tokens readably over the network: listen on {TLS}://… with "
            "--cert and --key (tightwire keys makes them), or give --insecure"
        )
    if token_file is None and (apart and not insecure):
        raise AccessError(
            f"--listen {listen} without --token-file would let everybody in: tightwire keys makes one; or give "
            "--insecure"
        )
    if parts.scheme == TLS and (certificate_file is None or key_file is None):
        raise AccessError(f"--listen {listen} needs --cert and --key; tightwire keys makes them")
    certificate = read_secret(certificate_file, "certificate") if certificate_file else b""
    if certificate:
        _refuse_expired(certificate, str(certificate_file))
    key = read_secret(key_file, "key") if key_file else b""
    known = tuple(read_tokens(token_file)) if token_file else ()
    client = read_secret(client_authority_file, "clients' authority") if client_authority_file else b""
    return Door(listen, known, certificate, key, client, limits or Limits(), hands_out=False)


def _refuse_expired(certificate: bytes, where: str) -> None:
    from tightwire.links.certificates import expiry  # noqa: PLC0415 -- loads cryptography

    end = expiry(certificate, where)
    if end < datetime.now(UTC):
        raise AccessError(f"the certificate {where} ended on {end:%Y-%m-%d}; tightwire keys makes another")
