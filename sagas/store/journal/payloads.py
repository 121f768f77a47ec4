"""Payloads too large for a journal entry, in S3 under ``payloads/{hash}/{saga_id}/{seq}/{token}/{digest}``.

The key contains the fencing token, so a late writer with an old token cannot overwrite the payload of a newer entry.
The key also contains a digest of the content: two starts with one idempotency key have the same token, and the refused
start must not overwrite the other's request. A hash of the saga's id comes first, because ids begin with the time, and
S3 takes 3,500 puts per second and prefix.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sagas.aws import PAYLOADS, connect, translated
from sagas.errors import SagaError, TooLarge
from sagas.store.documents import is_encrypted
from sagas.store.settings import StoreSettings

if TYPE_CHECKING:
    from sagas.store.encryption import PayloadEncryption

_DIGITS = 32
"""How many hexadecimal digits of SHA-256 a key contains, enough to be unique."""

_SPREAD = 4
"""How many hexadecimal digits come before the ids."""


def prefix_of(saga_id: str) -> str:
    """Return the prefix of the keys of all payloads of a saga."""
    return f"payloads/{hashlib.sha256(saga_id.encode()).hexdigest()[:_SPREAD]}/{saga_id}/"


class Payloads:
    """Stores large payloads in a bucket, and reads them."""

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings

    @cached_property
    def _client(self) -> Any:
        return connect("s3", PAYLOADS, region=self._settings.region, endpoint_url=self._settings.endpoint_url)

    @cached_property
    def _encryption(self) -> PayloadEncryption | None:
        settings = self._settings
        if not settings.payload_key:
            return None
        from sagas.store.encryption import PayloadEncryption

        return PayloadEncryption(settings.payload_key, settings.region, settings.endpoint_url)

    def encrypted(self, saga_id: str, place: str, payload: str) -> str:
        """Return the stored form of a payload. It is encrypted if a key is configured."""
        return payload if self._encryption is None else self._encryption.encrypt(saga_id, place, payload)

    def decrypted(self, saga_id: str, place: str, stored: str) -> str:
        """Return the original form of a stored payload."""
        if not is_encrypted(stored):
            return stored
        if self._encryption is None:
            raise SagaError(f"a payload of saga {saga_id} is encrypted, but this function has no payload_key")
        return self._encryption.decrypt(saga_id, place, stored)

    def is_large(self, payload: str) -> bool:
        """Whether a payload, which is a JSON text, must go to S3."""
        return len(payload.encode()) > self._settings.payload_limit

    def put(self, saga_id: str, seq: int, token: int, payload: str) -> str:
        """Store ``payload`` and return its key."""
        if not self._settings.payload_bucket:
            raise TooLarge(f"a payload of more than {self._settings.payload_limit} bytes needs a payload bucket")
        body = payload.encode()
        key = f"{prefix_of(saga_id)}{seq}/{token}/{hashlib.sha256(body).hexdigest()[:_DIGITS]}"
        with translated("S3"):
            self._client.put_object(
                Bucket=self._settings.payload_bucket, Key=key, Body=body, ContentType="application/json"
            )
        return key

    def get(self, key: str) -> str:
        """Return the payload stored under ``key``."""
        return self.get_within(key)[0] or ""

    def get_within(self, key: str, most: int | None = None) -> tuple[str | None, int]:
        """Return the payload stored under ``key``, and its size. A payload of more than ``most`` bytes is ``None``."""
        with translated("S3"):
            answer = self._client.get_object(Bucket=self._settings.payload_bucket, Key=key)
            size, body = int(answer["ContentLength"]), answer["Body"]
            if most is not None and size > most:
                body.close()
                return None, size
            return body.read().decode(errors="replace"), size  # a changed payload may not be UTF-8

    def delete_all(self, saga_id: str) -> None:
        """Delete all payloads of a saga, including those that no entry names."""
        if not self._settings.payload_bucket:
            return
        from sagas.store.journal.objects import Objects  # imported here, because only a purge deletes

        objects = Objects(self._client, self._settings.payload_bucket)
        last = False
        while not last:
            page = objects.page(prefix_of(saga_id))
            last = page.last
            if page.objects and (errors := objects.delete([item.key for item in page.objects])):
                key, code = next(iter(errors.items()))
                raise SagaError(f"cannot delete the payload {key} in S3: {code}")
