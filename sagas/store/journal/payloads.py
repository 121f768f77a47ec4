"""Payloads too large for a journal entry, in S3 under ``payloads/{hash}/{saga_id}/{seq}/{token}/{digest}``.

The fencing token is part of the key: a late writer with an old token cannot overwrite what a newer entry points to. A
digest of the content is too, because two starts under one idempotency key have the same token: the one that is refused
must not overwrite the other's request. A hash of the saga's id comes first: ids begin with the time, and S3 takes 3,500
puts a second under one beginning.
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
"""Hexadecimal digits of SHA-256 in a key: enough that no two requests share it."""

_SPREAD = 4
"""Hexadecimal digits in front of the ids."""


def prefix_of(saga_id: str) -> str:
    """Return what the keys of all payloads of a saga begin with."""
    return f"payloads/{hashlib.sha256(saga_id.encode()).hexdigest()[:_SPREAD]}/{saga_id}/"


class Payloads:
    """Puts large payloads into a bucket and gets them back."""

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
        """Return a payload as it is to be stored: encrypted, where a key is configured."""
        return payload if self._encryption is None else self._encryption.encrypt(saga_id, place, payload)

    def decrypted(self, saga_id: str, place: str, stored: str) -> str:
        """Return a payload that is stored, as it was before."""
        if not is_encrypted(stored):
            return stored
        if self._encryption is None:
            raise SagaError(f"a payload of saga {saga_id} is encrypted, and this function has no payload_key")
        return self._encryption.decrypt(saga_id, place, stored)

    def is_large(self, payload: str) -> bool:
        """Whether ``payload`` (JSON text) goes to S3."""
        return len(payload.encode()) > self._settings.payload_limit

    def put(self, saga_id: str, seq: int, token: int, payload: str) -> str:
        """Store ``payload`` and return its key."""
        if not self._settings.payload_bucket:
            raise TooLarge(f"a payload over {self._settings.payload_limit} bytes needs a payload bucket")
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
        """Return the payload stored under ``key``, ``None`` if it has more than ``most`` bytes, and how many it has."""
        with translated("S3"):
            answer = self._client.get_object(Bucket=self._settings.payload_bucket, Key=key)
            size, body = int(answer["ContentLength"]), answer["Body"]
            if most is not None and size > most:
                body.close()  # what was not read stays where it is
                return None, size
            return body.read().decode(errors="replace"), size  # what was changed may be no text

    def delete_all(self, saga_id: str) -> None:
        """Delete every payload of a saga, those included that no entry points to."""
        if not self._settings.payload_bucket:
            return
        from sagas.store.journal.objects import Objects  # only a purge deletes

        objects = Objects(self._client, self._settings.payload_bucket)
        last = False
        while not last:
            page = objects.page(prefix_of(saga_id))
            last = page.last
            if page.objects and (refused := objects.delete([one.key for one in page.objects])):
                raise SagaError(f"S3 deletes no payload: {next(iter(refused.values()))}")
