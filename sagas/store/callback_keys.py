"""The keys that sign callback URLs: the current and the previous version of a secret in Secrets Manager."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any, Literal

from botocore.exceptions import ClientError
from msgspec import Struct

from sagas.aws import HOT, code_of, connect, translated
from sagas.errors import Unavailable

_Stage = Literal["AWSCURRENT", "AWSPREVIOUS"]

_FRESH = 300.0
"""Seconds for which a key is cached. After this time, a new key is in use everywhere."""
_LEAST_AGE = 10.0
"""Minimum seconds between reads of an unknown key. Otherwise each forged token would cost a request."""
_LEAST_BYTES = 32
"""Minimum bytes of a key: as many as a signature has."""


class CallbackKey(Struct, frozen=True):
    """A key.

    Args:
        id: eight characters derived from the secret, by which tokens name the key.
        secret: its bytes.
    """

    id: str
    secret: bytes


class CallbackKeys:
    """Reads a secret, and caches it for five minutes.

    Args:
        secret_id: the secret's name or ARN.
        now: the function that returns the time, in epoch seconds.
        region: the secret's region; ``None`` for the environment's region.
        endpoint_url: the URL of Secrets Manager; ``None`` for the environment's URL.
        too_short: called at each read of a current version that is too short for a key.
    """

    def __init__(
        self,
        secret_id: str,
        now: Callable[[], float],
        region: str | None = None,
        endpoint_url: str | None = None,
        too_short: Callable[[], None] = lambda: None,
    ) -> None:
        self._secret_id = secret_id
        self._too_short = too_short
        self._now = now
        self._region = region
        self._endpoint_url = endpoint_url
        self._cache: dict[_Stage, tuple[CallbackKey | None, float]] = {}

    def signing(self) -> CallbackKey:
        """Return the key for signing: the current one or, if that is too short, the previous one. Raises
        ``Unavailable`` if both are too short."""
        key = self._get("AWSCURRENT", _FRESH) or self._get("AWSPREVIOUS", _FRESH)
        if key is None:
            short = f"is shorter than {_LEAST_BYTES} bytes, and no previous version is longer"
            raise Unavailable(f"the secret that signs callback URLs {short}; store a longer one")
        return key

    def named(self, key_id: str) -> CallbackKey | None:
        """Return the current or previous key if it has this id; ``None`` otherwise."""
        for freshness in (_FRESH, _LEAST_AGE):
            for stage in ("AWSCURRENT", "AWSPREVIOUS"):
                key = self._get(stage, freshness)
                if key is not None and key.id == key_id:
                    return key
        return None

    def _get(self, stage: _Stage, freshness: float) -> CallbackKey | None:
        """Return the key of a version, read at most ``freshness`` seconds ago; during an outage, the cached key."""
        now = self._now()
        cached = self._cache.get(stage)
        if cached is None or now - cached[1] > freshness:
            try:
                cached = self._read(stage), now
            except Unavailable:
                if cached is None:
                    raise
                cached = cached[0], now
            self._cache[stage] = cached
        return cached[0]

    def _read(self, stage: _Stage) -> CallbackKey | None:
        client = connect("secretsmanager", HOT, region=self._region, endpoint_url=self._endpoint_url)
        with translated("secretsmanager"):
            try:
                answer: dict[str, Any] = client.get_secret_value(SecretId=self._secret_id, VersionStage=stage)
            except ClientError as error:
                if code_of(error) != "ResourceNotFoundException":
                    raise
                if stage == "AWSPREVIOUS":
                    return None  # the secret was never rotated
                raise Unavailable(f"the secret {self._secret_id}, which signs callback URLs, is missing") from error
        secret: bytes = str(answer.get("SecretString") or "").encode() or answer.get("SecretBinary") or b""
        if len(secret) < _LEAST_BYTES:
            if stage == "AWSCURRENT":
                self._too_short()
            return None
        digest = hashlib.sha256(b"id of a callback key:" + secret).digest()
        return CallbackKey(urlsafe_b64encode(digest[:6]).decode(), secret)
