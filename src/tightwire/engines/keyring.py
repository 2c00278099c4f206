"""A folder of keys: an authority, certificates for servers and workers, and tokens.

DIR/ca.pem, ca-key.pem           the authority; its key makes certificates, and is needed nowhere else
DIR/server.pem, server-key.pem   for servers, made out to the hosts they are found under
DIR/worker.pem, worker-key.pem   for workers, where servers ask for a certificate (mutual TLS)
DIR/tokens                       what servers let in: two tokens for each run
DIR/RUN.token, RUN.watch.token   what a run's workers show; what people show who may only watch

Whatever is there already is kept; another run adds its tokens. Keys and tokens are readable by their owner only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tightwire.algebra.errors import AccessError
from tightwire.links.certificates import Signed, issue, make_authority
from tightwire.links.tokens import fresh_token, read_tokens


def make_keys(folder: Path, *, run: str, hosts: Sequence[str], days: float) -> list[Path]:
    """Make what is missing; returns the new files."""
    if not run.isprintable() or not run or any(mark in run for mark in " /#"):
        raise AccessError(f"--run {run!r}: a run's name has no spaces, slashes or number signs")
    if (folder / f"{run}.token").exists():
        raise AccessError(f"{folder} has a token for {run} already, and a token opens one run; name another --run")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return [*_certificates(folder, hosts, days), *_tokens(folder, run)]
    except OSError as error:
        raise AccessError(f"{folder} cannot be written ({error.strerror}); name another folder") from None


def _certificates(folder: Path, hosts: Sequence[str], days: float) -> list[Path]:
    made = []
    if not (folder / "ca.pem").exists():
        made += _write_pair(folder, "ca", make_authority("tightwire authority", days))
    authority = Signed((folder / "ca.pem").read_bytes(), (folder / "ca-key.pem").read_bytes())
    for name, found_under in (("server", hosts), ("worker", ())):
        if not (folder / f"{name}.pem").exists():
            made += _write_pair(folder, name, issue(authority, name, found_under, days))
    return made


def _tokens(folder: Path, run: str) -> list[Path]:
    write, read = fresh_token(run, "write"), fresh_token(run, "read")
    known = folder / "tokens"
    before = read_tokens(str(known)) if known.exists() else []
    return [
        _write_secret(known, "".join(f"{token.line()}\n" for token in (*before, write, read)).encode()),
        _write_secret(folder / f"{run}.token", f"{write.line()}\n".encode()),
        _write_secret(folder / f"{run}.watch.token", f"{read.line()}\n".encode()),
    ]


def _write_pair(folder: Path, name: str, signed: Signed) -> list[Path]:
    certificate = folder / f"{name}.pem"
    key = _write_secret(folder / f"{name}-key.pem", signed.key)
    certificate.write_bytes(signed.certificate)
    return [certificate, key]


def _write_secret(path: Path, content: bytes) -> Path:
    """Nobody else can read it, not even for a moment."""
    partial = path.with_name(f".{path.name}")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    partial.rename(path)
    return path
