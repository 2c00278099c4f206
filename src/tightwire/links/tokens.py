"""Who may come in: a token is 256 random bits that open one run, for its workers or only to watch it.

    # a file of tokens: run, what its bearer may do, the secret
    mnist-easgd  write  9c1f…
    mnist-easgd  read   07ab…

A server knows many tokens, a worker has one. Every known token is compared, each in constant time, so that how long a
refusal takes tells nothing.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from tightwire.algebra.errors import AccessError

May = Literal["write", "read"]
_FEWEST_DIGITS = 32  # of a secret: half of what we make


@dataclass(frozen=True)
class Token:
    """One secret, and what it opens."""

    run: str
    may: May
    secret: str = field(repr=False)

    def line(self) -> str:
        """As in a file."""
        return f"{self.run}  {self.may}  {self.secret}"


def fresh_token(run: str = "run", may: May = "write") -> Token:
    """A new secret.

    >>> len(fresh_token().secret)
    64
    """
    return Token(run, may, secrets.token_hex(32))


class Tokens:
    """All that a server lets in.

    >>> Tokens([Token("mnist", "read", "5eed" * 16)]).find(b"Bearer " + b"5eed" * 16).run
    'mnist'
    """

    def __init__(self, known: Iterable[Token]) -> None:
        self._known = [(f"Bearer {token.secret}".encode(), token) for token in known]

    def __len__(self) -> int:
        """How many there are."""
        return len(self._known)

    def find(self, header: bytes) -> Token | None:
        """The token that a call carries; None if it carries none that is known."""
        found = None
        for expected, token in self._known:
            if hmac.compare_digest(header, expected):
                found = token
        return found


def parse_tokens(text: str, where: str = "a file of tokens") -> list[Token]:
    """All tokens of a file; refuses a line that is none, without repeating it."""
    tokens = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 3 or words[1] not in get_args(May) or len(words[2]) < _FEWEST_DIGITS:
            raise AccessError(
                f"line {number} of {where} is no token: it has a run's name, write or read, and a secret of at least "
                f"{_FEWEST_DIGITS} digits; tightwire keys makes such files"
            )
        tokens.append(Token(words[0], "write" if words[1] == "write" else "read", words[2]))
    if not tokens:
        raise AccessError(f"{where} holds no token; tightwire keys makes such files")
    return tokens


def read_tokens(path: str) -> list[Token]:
    """The tokens in a file."""
    return parse_tokens(read_secret(path, "token file").decode(errors="replace"), path)


def read_secret(path: str, what: str) -> bytes:
    """A file's bytes, or one sentence about why there are none."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise AccessError(f"the {what} {path} cannot be read ({error.strerror}); tightwire keys makes one") from None
