"""Callback URLs: where people and systems without AWS credentials send a signal. Who has the URL may send it."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass

from sagas.errors import NotFound
from sagas.store.callback_keys import CallbackKey, CallbackKeys

_PURPOSE = b"lambda-sagas callback 1:"
"""Precedes what is signed, so that no code made under the secret for anything else passes for a token."""
_PARTS = 4


@dataclass(frozen=True, slots=True)
class Called:
    """What a token is for: a step of a saga."""

    saga: str
    saga_id: str
    step: str


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Makes and reads the tokens of callback URLs.

    A token is base64url of name, id, step and key id, a dot, and base64url of their HMAC-SHA256. So it is the same on
    every attempt, as long as the key is.

    Args:
        base: of the URLs, without a slash at the end.
        keys: of the service.
    """

    base: str
    keys: CallbackKeys

    def url(self, saga: str, saga_id: str, step: str) -> str:
        """Return where a signal for that step is sent."""
        return f"{self.base}/callbacks/{_token(Called(saga, saga_id, step), self.keys.signing())}"

    def read(self, token: str) -> Called:
        """Return what a token is for."""
        try:
            text = token.partition(".")[0].encode("ascii")
            parts = urlsafe_b64decode(text + b"=" * (-len(text) % 4)).decode().split("/")
        except ValueError:
            parts = []
        key = self.keys.named(parts[3]) if len(parts) == _PARTS else None
        if key is None:
            raise NotFound("there is no such resource")
        called = Called(*parts[:3])
        # The whole token, not its code alone: base64 writes one text in several ways, and only one of them is ours.
        if not hmac.compare_digest(_token(called, key).encode(), token.encode("utf-8", "surrogatepass")):
            raise NotFound("there is no such resource")
        return called


def _token(called: Called, key: CallbackKey) -> str:
    text = f"{called.saga}/{called.saga_id}/{called.step}/{key.id}".encode()
    code = hmac.digest(key.secret, _PURPOSE + text, "sha256")
    return f"{_base64url(text)}.{_base64url(code)}"


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
