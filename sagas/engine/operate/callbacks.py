"""Callback URLs, to which callers without AWS credentials post signals. Anyone with such a URL can use it."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode

from msgspec import Struct

from sagas.errors import NotFound
from sagas.store.callback_keys import CallbackKey, CallbackKeys

_PURPOSE = b"lambda-sagas callback 1:"
"""Prefix of the signed text. With it, a signature that was made for another purpose is never a valid token."""
_PARTS = 4


class CallbackTarget(Struct, frozen=True):
    """The step of a saga for which a token is valid."""

    saga: str
    saga_id: str
    step: str


class Callbacks(Struct, frozen=True):
    """Creates and verifies the tokens of callback URLs.

    A token is base64url of name, id, step and key id, a dot, and base64url of their HMAC-SHA256. All attempts of a step
    get the same token until the key is rotated.

    Args:
        base: the start of all URLs, without a slash at the end.
        keys: the service's signing keys.
    """

    base: str
    keys: CallbackKeys

    def url(self, saga: str, saga_id: str, step: str) -> str:
        """Return the URL for signals to this step."""
        return f"{self.base}/callbacks/{_token(CallbackTarget(saga, saga_id, step), self.keys.signing())}"

    def read(self, token: str) -> CallbackTarget:
        """Verify a token, and return the step for which it is valid."""
        try:
            text = token.partition(".")[0].encode("ascii")
            parts = urlsafe_b64decode(text + b"=" * (-len(text) % 4)).decode().split("/")
        except ValueError:
            parts = []
        key = self.keys.named(parts[3]) if len(parts) == _PARTS else None
        if key is None:
            raise NotFound("no such resource")
        target = CallbackTarget(*parts[:3])
        # Compare the whole token, not only its signature: base64 has several encodings of a text. Accept only one.
        if not hmac.compare_digest(_token(target, key).encode(), token.encode("utf-8", "surrogatepass")):
            raise NotFound("no such resource")
        return target


def _token(target: CallbackTarget, key: CallbackKey) -> str:
    text = f"{target.saga}/{target.saga_id}/{target.step}/{key.id}".encode()
    code = hmac.digest(key.secret, _PURPOSE + text, "sha256")
    return f"{_base64url(text)}.{_base64url(code)}"


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
