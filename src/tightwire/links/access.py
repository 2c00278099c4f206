"""How workers come to parameter servers: which servers, with which keys.

one machine                 nothing is needed: the server listens on the loopback, the rendezvous hands out a token
the lab                     throw-away keys: made by the run, handed out by a rendezvous that nobody else can reach
several machines            given keys: token, certificate, key and authority, in files that `tightwire keys` makes
                            … or none (``insecure``): whoever reaches the port can read and change the weights
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from tightwire.algebra.errors import AccessError
from tightwire.links.tokens import Token, read_secret, read_tokens

Keys = Literal["given", "throw-away", "none"]
ADDRESS = "TIGHTWIRE_ADDRESS"
_FILES = {"token_file": "TOKEN_FILE", "certificate_file": "CERT", "key_file": "KEY", "authority_file": "CA"}


@dataclass(frozen=True)
class Access:
    """Where servers are, and the files with what opens them. Without ``servers`` the workers keep them themselves.

    So many ``copies`` of every shard are kept by different servers, a push is acknowledged when all have it, and shards
    move when servers come and go; None: one copy, which stays where it was dealt to.
    """

    servers: tuple[str, ...] = ()
    token_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    authority_file: str | None = None
    keys: Keys = "given"
    copies: int | None = None

    @classmethod
    def told_by(cls, environment: Mapping[str, str]) -> Access:
        """What the environment says: TIGHTWIRE_SERVER, _COPIES, _TOKEN_FILE, _CERT, _KEY, _CA, and TIGHTWIRE_KEYS,
        which is given, throw-away or none.

        >>> Access.told_by({"TIGHTWIRE_KEYS": "throw-away"}).keys
        'throw-away'
        """
        keys = environment.get("TIGHTWIRE_KEYS", "given")
        if keys not in ("given", "throw-away", "none"):
            raise AccessError(f"TIGHTWIRE_KEYS={keys}: it is given, throw-away or none")
        files = {field: environment.get(f"TIGHTWIRE_{name}") for field, name in _FILES.items()}
        servers = tuple(filter(None, environment.get("TIGHTWIRE_SERVER", "").split(",")))
        copies = environment.get("TIGHTWIRE_COPIES")
        if copies is not None and not (copies.isdigit() and 1 <= int(copies) <= max(1, len(servers))):
            raise AccessError(f"TIGHTWIRE_COPIES={copies}: from 1 to the number of servers, which is {len(servers)}")
        return cls(servers, **files, keys=keys, copies=int(copies) if copies else None)  # type: ignore[arg-type]

    def token(self) -> Token | None:
        """The token in the file, which a worker needs to write."""
        if self.token_file is None:
            return None
        return next(iter(sorted(read_tokens(self.token_file), key=lambda token: token.may != "write")))

    def authority(self) -> bytes:
        """Whose certificates are believed; nothing: those that the machine believes."""
        return b"" if self.authority_file is None else read_secret(self.authority_file, "authority's certificate")

    def identity(self) -> tuple[bytes, bytes] | None:
        """This worker's own certificate and key, if it has both."""
        if self.certificate_file is None or self.key_file is None:
            return None
        return read_secret(self.certificate_file, "certificate"), read_secret(self.key_file, "key")

    def missing(self) -> list[str]:
        """Which options a server between machines still needs."""
        wanted = {
            "--token-file": self.token_file, "--cert": self.certificate_file, "--key": self.key_file,
            "--ca": self.authority_file,
        }  # fmt: skip
        return [option for option, file in wanted.items() if file is None]


def own_address(servers: Sequence[str] = ()) -> str:
    """The address under which other machines of this run reach this one; also ``servers`` where workers share one."""
    told = os.environ.get(ADDRESS)
    if told:
        return told
    master = os.environ.get("MASTER_ADDR", socket.gethostname())
    address = _way_to(master, int(os.environ.get("MASTER_PORT", "9")))
    far = [parts for parts in map(urlsplit, servers) if not is_loopback(parts.hostname or "")]
    return _way_to(far[0].hostname or "", far[0].port or 9) if far and is_loopback(address) else address


def _way_to(host: str, port: int) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # nothing is sent: the kernel only finds the way
        try:
            probe.connect((host, port))
        except OSError as error:
            raise AccessError(
                f"no way leads from here to {host} ({error.strerror}); set {ADDRESS} to this machine's address"
            ) from None
        return str(probe.getsockname()[0])


def is_deserted(where: str, timeout_s: float = 1.0) -> bool:
    """Whether the machine there says that nobody listens: the process has ended, rather than being slow or cut off."""
    parts = urlsplit(where)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 0), timeout_s).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def is_loopback(address: str) -> bool:
    """Whether an address is one that only this machine reaches.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return address == "localhost"


def is_address(where: str) -> bool:
    """Whether a server can be found under this.

    >>> is_address("grpc+tls://node7:7000"), is_address("grpc://node7"), is_address("grpc://[")
    (True, False, False)
    """
    try:
        parts = urlsplit(where)
        return parts.scheme in ("grpc", "grpc+tls") and bool(parts.hostname) and bool(parts.port)
    except ValueError:
        return False


def this_host() -> str:
    """This machine and its network namespace: who says the same can share memory, and reaches the same loopback."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}:{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return socket.gethostname()
