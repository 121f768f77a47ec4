"""The keys under which callback URLs are signed: versions of a secret in Secrets Manager, of which two are valid."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from botocore.exceptions import ClientError

from sagas.aws import HOT, code_of, connect, translated
from sagas.errors import SagaError, Unavailable

_Stage = Literal["AWSCURRENT", "AWSPREVIOUS"]

_FRESH = 300.0
"""Seconds for which what was read is good: a new key is in use everywhere that much later."""
_LEAST_AGE = 10.0
"""Seconds before which a key that is not known is not looked for anew, or forged tokens would each cost a request."""
_LEAST_BYTES = 32
"""Of a key: as many as the code that it makes."""


@dataclass(frozen=True, slots=True)
class CallbackKey:
    """A key.

    Args:
        id: eight characters by which tokens name it; follows from the secret.
        secret: its bytes.
    """

    id: str
    secret: bytes


class CallbackKeys:
    """Reads a secret once, and again when it is no longer fresh.

    Args:
        secret_id: its name or ARN.
        now: tells the time, in epoch seconds.
        region: of the secret; ``None`` takes the environment's.
        endpoint_url: of Secrets Manager; ``None`` takes the environment's.
    """

    def __init__(
        self, secret_id: str, now: Callable[[], float], region: str | None = None, endpoint_url: str | None = None
    ) -> None:
        self._secret_id = secret_id
        self._now = now
        self._region, self._endpoint_url = region, endpoint_url
        self._known: dict[_Stage, tuple[CallbackKey | None, float]] = {}

    def signing(self) -> CallbackKey:
        """Return the key to sign with."""
        key = self._get("AWSCURRENT", _FRESH)
        if key is None:
            raise SagaError(f"the secret that callback URLs are signed with has fewer than {_LEAST_BYTES} bytes")
        return key

    def named(self, key_id: str) -> CallbackKey | None:
        """Return the valid key of that id: the current one, or the one before it; ``None`` if there is none."""
        for freshness in (_FRESH, _LEAST_AGE):
            for stage in ("AWSCURRENT", "AWSPREVIOUS"):
                key = self._get(stage, freshness)
                if key is not None and key.id == key_id:
                    return key
        return None

    def _get(self, stage: _Stage, freshness: float) -> CallbackKey | None:
        """What a version holds, by a reading that is no older; while no other can be made, by any."""
        now, known = self._now(), self._known.get(stage)
        if known is None or now - known[1] > freshness:
            try:
                known = self._read(stage), now
            except Unavailable:
                if known is None:
                    raise
                known = known[0], now
            self._known[stage] = known
        return known[0]

    def _read(self, stage: _Stage) -> CallbackKey | None:
        client = connect("secretsmanager", HOT, region=self._region, endpoint_url=self._endpoint_url)
        with translated("secretsmanager"):
            try:
                found: dict[str, Any] = client.get_secret_value(SecretId=self._secret_id, VersionStage=stage)
            except ClientError as error:
                if stage == "AWSPREVIOUS" and code_of(error) == "ResourceNotFoundException":
                    return None  # it was never rotated
                raise
        secret: bytes = str(found.get("SecretString") or "").encode() or found.get("SecretBinary") or b""
        if len(secret) < _LEAST_BYTES:
            return None
        digest = hashlib.sha256(b"id of a callback key:" + secret).digest()
        return CallbackKey(urlsafe_b64encode(digest[:6]).decode(), secret)
