"""Looks at every call before anything else does: it carries a token that is known, or it ends here."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow.flight as fl  # type: ignore[import-untyped]

from tightwire.algebra.errors import AccessError
from tightwire.links.flight import AUTHORIZATION
from tightwire.links.tokens import Token, Tokens

TOKEN = "token"
ANYBODY = Token("open", "write", "")
"""Whom a server takes everybody for that was told to do without tokens."""


class Doorkeeper(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets in who has a token; how long the comparison takes tells nothing about it."""

    def __init__(self, tokens: Tokens, refuse: Callable[[Exception], None]) -> None:
        super().__init__()
        self._tokens = tokens
        self._refuse = refuse

    def start_call(self, info: fl.CallInfo, headers: dict[str, list[str | bytes]]) -> Admitted:
        """Look at the header."""
        if not len(self._tokens):
            return Admitted(ANYBODY)
        for given in headers.get(AUTHORIZATION, []):
            token = self._tokens.find(given if isinstance(given, bytes) else given.encode())
            if token is not None:
                return Admitted(token)
        text = "this server belongs to a run, and the call does not carry its token"
        self._refuse(AccessError(text))
        raise fl.FlightUnauthenticatedError(text)


class Admitted(fl.ServerMiddleware):  # type: ignore[misc]
    """A call that was let in, and by which token."""

    def __init__(self, token: Token) -> None:
        super().__init__()
        self.token = token


def token_of(context: fl.ServerCallContext) -> Token:
    """By which token a call was let in."""
    found: Token = context.get_middleware(TOKEN).token
    return found
