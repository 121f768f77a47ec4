"""Payloads encrypted with a key of one's own: what is stored, who can open it, and how often KMS is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from sagas.errors import SagaError
from sagas.store import encryption
from sagas.store.encryption import PayloadEncryption, is_encrypted
from sagas.store.outcomes import Changed
from tests.support.aws import REGION, client

ID, OTHER = "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17", "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b18"
TEXT = '{"iban": "DE02 1203 0000 0000 2020 51"}'


@pytest.fixture
def key_id() -> Iterator[str]:
    with mock_aws():
        yield client("kms").create_key()["KeyMetadata"]["Arn"]


def environment(key_id: str, service: str = "shop") -> PayloadEncryption:
    """What an execution environment has."""
    return PayloadEncryption(key_id, service, REGION)


def asked(one: PayloadEncryption) -> list[str]:
    """A list to which the requests of an environment to KMS are added."""
    names: list[str] = []

    def note(model: Any, **_more: Any) -> None:
        names.append(model.name)

    kms: Any = one._client  # pyright: ignore[reportPrivateUsage] - to count its requests
    kms.meta.events.register("before-call.kms", note)
    return names


def test_what_one_environment_encrypts_another_decrypts(key_id: str) -> None:
    encrypted = environment(key_id).encrypt(ID, TEXT)
    assert is_encrypted(encrypted)
    assert not is_encrypted(TEXT)
    assert "iban" not in encrypted
    assert environment(key_id).decrypt(ID, encrypted) == TEXT


def test_the_same_payload_is_encrypted_otherwise_each_time(key_id: str) -> None:
    one = environment(key_id)
    assert one.encrypt(ID, TEXT) != one.encrypt(ID, TEXT)


@pytest.mark.parametrize("place", [-20, -6])
def test_what_was_changed_is_refused(key_id: str, place: int) -> None:
    one = environment(key_id)
    encrypted = one.encrypt(ID, TEXT)
    changed = list(encrypted)
    changed[place] = "A" if encrypted[place] != "A" else "B"
    with pytest.raises(Changed, match=f"a payload of saga {ID} is gone, was changed, or is of another saga"):
        one.decrypt(ID, "".join(changed))


def test_what_is_no_base64_is_refused(key_id: str) -> None:
    with pytest.raises(Changed, match="was changed"):
        environment(key_id).decrypt(ID, "encrypted1:{}")


@pytest.mark.parametrize(("saga_id", "service"), [(OTHER, "shop"), (ID, "bank")])
def test_kms_unwraps_no_key_of_another_saga_or_service(key_id: str, saga_id: str, service: str) -> None:
    encrypted = environment(key_id).encrypt(ID, TEXT)
    with pytest.raises(Changed, match=f"a payload of saga {saga_id} is gone, was changed, or is of another saga"):
        environment(key_id, service).decrypt(saga_id, encrypted)


def test_a_key_that_is_not_there(key_id: str) -> None:
    with pytest.raises(SagaError, match="KMS"):
        environment(f"{key_id[:-1]}x").encrypt(ID, TEXT)


def test_kms_is_asked_once_a_saga_in_each_environment(key_id: str) -> None:
    one, other = environment(key_id), environment(key_id)
    names = asked(one)
    encrypted = [one.encrypt(ID, TEXT) for _ in range(3)]
    assert [other.decrypt(ID, text) for text in encrypted] == [TEXT] * 3
    encrypted.append(other.encrypt(ID, TEXT))
    assert [one.decrypt(ID, text) for text in encrypted] == [TEXT] * 4
    assert names == ["GenerateDataKey", "Decrypt"]
    other.encrypt(OTHER, TEXT)
    assert names[2:] == ["GenerateDataKey"]


def test_keys_are_not_kept_for_ever(key_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "_KEPT", 2)
    one = environment(key_id)
    ids = [f"{ID}{number}" for number in range(3)]
    texts = [one.encrypt(saga_id, TEXT) for saga_id in ids]
    assert [one.decrypt(saga_id, text) for saga_id, text in zip(ids, texts, strict=True)] == [TEXT] * 3
