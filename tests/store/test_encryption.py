"""Payloads encrypted with a key of one's own: what is stored, who can open it, and how often KMS is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from sagas.errors import SagaError
from sagas.store import encryption
from sagas.store.connection import Changed
from sagas.store.encryption import PayloadEncryption
from sagas.store.tables import is_encrypted
from tests.support.aws import REGION, client

ID, OTHER = "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17", "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b18"
PLACE = "3/2/StepCompleted"
TEXT = '{"iban": "DE02 1203 0000 0000 2020 51"}'


@pytest.fixture
def key_id() -> Iterator[str]:
    with mock_aws():
        yield client("kms").create_key()["KeyMetadata"]["Arn"]


def environment(key_id: str) -> PayloadEncryption:
    """What an execution environment has."""
    return PayloadEncryption(key_id, REGION)


def asked(one: PayloadEncryption) -> list[str]:
    """A list to which the requests of an environment to KMS are added."""
    names: list[str] = []

    def note(model: Any, **_more: Any) -> None:
        names.append(model.name)

    kms: Any = one._client  # pyright: ignore[reportPrivateUsage] - to count its requests
    kms.meta.events.register("before-call.kms", note)
    return names


def test_what_one_environment_encrypts_another_decrypts(key_id: str) -> None:
    encrypted = environment(key_id).encrypt(ID, PLACE, TEXT)
    assert is_encrypted(encrypted)
    assert not is_encrypted(TEXT)
    assert "iban" not in encrypted
    assert environment(key_id).decrypt(ID, PLACE, encrypted) == TEXT


def test_the_same_payload_is_encrypted_otherwise_each_time(key_id: str) -> None:
    one = environment(key_id)
    assert one.encrypt(ID, PLACE, TEXT) != one.encrypt(ID, PLACE, TEXT)


@pytest.mark.parametrize("place", [-20, -6])
def test_what_was_changed_is_refused(key_id: str, place: int) -> None:
    one = environment(key_id)
    encrypted = one.encrypt(ID, PLACE, TEXT)
    changed = list(encrypted)
    changed[place] = "A" if encrypted[place] != "A" else "B"
    with pytest.raises(Changed, match=f"a payload of saga {ID} is missing, was changed, or belongs to another saga"):
        one.decrypt(ID, PLACE, "".join(changed))


def test_what_is_no_base64_is_refused(key_id: str) -> None:
    with pytest.raises(Changed, match="was changed"):
        environment(key_id).decrypt(ID, PLACE, "encrypted1:{}")


def test_kms_unwraps_no_key_of_another_saga(key_id: str) -> None:
    encrypted = environment(key_id).encrypt(ID, PLACE, TEXT)
    with pytest.raises(Changed, match=f"a payload of saga {OTHER} is missing, was changed, or belongs to another saga"):
        environment(key_id).decrypt(OTHER, PLACE, encrypted)


@pytest.mark.parametrize("other", ["1/2/StepCompleted", "3/1/StepCompleted", "3/2/SagaStarted", "signal#approval#0"])
def test_a_payload_is_refused_in_another_place_of_its_saga(key_id: str, other: str) -> None:
    one = environment(key_id)
    encrypted = one.encrypt(ID, PLACE, TEXT)
    with pytest.raises(Changed, match=f"a payload of saga {ID} is missing, was changed, or belongs to another saga"):
        one.decrypt(ID, other, encrypted)


def test_a_key_that_is_not_there(key_id: str) -> None:
    with pytest.raises(SagaError, match="KMS"):
        environment(f"{key_id[:-1]}x").encrypt(ID, PLACE, TEXT)


def test_kms_is_asked_once_a_saga_in_each_environment(key_id: str) -> None:
    one, other = environment(key_id), environment(key_id)
    names = asked(one)
    encrypted = [one.encrypt(ID, PLACE, TEXT) for _ in range(3)]
    assert [other.decrypt(ID, PLACE, text) for text in encrypted] == [TEXT] * 3
    encrypted.append(other.encrypt(ID, PLACE, TEXT))
    assert [one.decrypt(ID, PLACE, text) for text in encrypted] == [TEXT] * 4
    assert names == ["GenerateDataKey", "Decrypt"]
    other.encrypt(OTHER, PLACE, TEXT)
    assert names[2:] == ["GenerateDataKey"]


def test_keys_are_not_kept_for_ever(key_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "_CACHED_KEYS", 2)
    one = environment(key_id)
    ids = [f"{ID}{number}" for number in range(3)]
    texts = [one.encrypt(saga_id, PLACE, TEXT) for saga_id in ids]
    assert [one.decrypt(saga_id, PLACE, text) for saga_id, text in zip(ids, texts, strict=True)] == [TEXT] * 3
