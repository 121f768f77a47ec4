"""Encrypts payloads before they leave the function, with AES-256-GCM and KMS data keys per saga.

Each encrypted text contains its data key, wrapped by KMS. So tables, buckets and backups are unreadable without
``kms:Decrypt``, each entry can be decrypted on its own, and a purge deletes a saga's keys together with its payloads.
KMS binds a wrapped key to the saga's id, and AES-GCM binds each text to its place in the saga. Both are stored with the
payload and never change. Nothing is bound to the name of a stack, construct, service or table, so payloads stay
readable if these change. An environment encrypts with the last key that it has used for the saga, and only requests a
new one from KMS if it has none.

AES-GCM comes from ``cryptography``, not the AWS Encryption SDK. The SDK calls KMS for each payload, and needs 20 MB in
the layer for its many kinds of keys and algorithms. This library needs only one of each.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections import OrderedDict
from functools import cached_property
from threading import Lock
from typing import Any

from botocore.exceptions import ClientError

from sagas.aws import HOT, code_of, connect, translated
from sagas.store.connection import Changed
from sagas.store.tables import MARK

_NONCE = 12
"""Bytes of a random nonce. With some dozens of payloads per key, no two nonces are ever the same in practice."""
_LENGTH = 2
"""Bytes that hold the length of a wrapped key."""
_CACHED_KEYS = 1_000
"""How many unwrapped data keys an environment caches. So it calls KMS once for a saga that runs there."""


class PayloadEncryption:
    """Encrypts and decrypts the payloads of sagas.

    Args:
        key_id: ARN of the KMS key.
        region: the key's region; ``None`` for the environment's region.
        endpoint_url: the URL of KMS; ``None`` for the environment's URL.
    """

    def __init__(self, key_id: str, region: str | None = None, endpoint_url: str | None = None) -> None:
        self._key_id = key_id
        self._region = region
        self._endpoint_url = endpoint_url
        self._unwrapped: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._in_use: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    @cached_property
    def _client(self) -> Any:
        return connect("kms", HOT, region=self._region, endpoint_url=self._endpoint_url)

    def encrypt(self, saga_id: str, place: str, text: str) -> str:
        """Return the encrypted payload as text."""
        with self._lock:
            wrapped = self._in_use.get(saga_id)
            key = None if wrapped is None else self._unwrapped.get((saga_id, wrapped))
        if wrapped is None or key is None:
            with translated("KMS", resource=lambda: self._key_id):
                generated = self._client.generate_data_key(
                    KeyId=self._key_id, KeySpec="AES_256", EncryptionContext=_context(saga_id)
                )
            wrapped = bytes(generated["CiphertextBlob"])
            key = bytes(generated["Plaintext"])
            self._keep(saga_id, wrapped, key)
        nonce = os.urandom(_NONCE)
        encrypted = _cipher(key).encrypt(nonce, text.encode(), _bound_to(saga_id, place))
        return MARK + b64encode(len(wrapped).to_bytes(_LENGTH) + wrapped + nonce + encrypted).decode()

    def decrypt(self, saga_id: str, place: str, text: str) -> str:
        """Return the decrypted payload."""
        from cryptography.exceptions import InvalidTag

        try:
            stored = b64decode(text.removeprefix(MARK), validate=True)
        except ValueError:
            raise Changed(saga_id) from None
        begin = _LENGTH + int.from_bytes(stored[:_LENGTH])
        wrapped = stored[_LENGTH:begin]
        nonce = stored[begin : begin + _NONCE]
        encrypted = stored[begin + _NONCE :]
        with self._lock:
            key = self._unwrapped.get((saga_id, wrapped))
        if key is None:
            with translated("KMS", resource=lambda: self._key_id):
                try:
                    answer = self._client.decrypt(
                        KeyId=self._key_id, CiphertextBlob=wrapped, EncryptionContext=_context(saga_id)
                    )
                except ClientError as error:
                    if code_of(error) != "InvalidCiphertextException":
                        raise
                    raise Changed(saga_id) from None
            key = bytes(answer["Plaintext"])
            self._keep(saga_id, wrapped, key)
        try:
            return _cipher(key).decrypt(nonce, encrypted, _bound_to(saga_id, place)).decode()
        except (InvalidTag, ValueError):
            raise Changed(saga_id) from None

    def _keep(self, saga_id: str, wrapped: bytes, key: bytes) -> None:
        with self._lock:
            self._unwrapped[saga_id, wrapped] = key
            self._in_use[saga_id] = wrapped
            for cache in (self._unwrapped, self._in_use):
                while len(cache) > _CACHED_KEYS:
                    cache.popitem(last=False)


def _context(saga_id: str) -> dict[str, str]:
    """Return the encryption context. KMS binds data keys to this context and logs it, and a policy can require it."""
    return {"sagas:id": saga_id}


def _bound_to(saga_id: str, place: str) -> bytes:
    """Return the associated data to which AES-GCM binds a payload."""
    return f"{saga_id}/{place}".encode()


def _cipher(key: bytes) -> Any:
    # Only services with a payload key have the package in their layer.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
