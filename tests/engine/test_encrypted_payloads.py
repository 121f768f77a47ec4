"""Sagas whose payloads are encrypted with a key of one's own: they run like any other, and nothing stored tells."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from sagas import S3Object, Saga, children, step, wait_for
from sagas.aws import translated
from sagas.engine.engine import from_environment
from sagas.errors import SagaError
from sagas.store.encryption import PayloadEncryption
from tests.support.aws import client
from tests.support.bench import Bench

Make = Callable[..., Bench]
SECRETS = ("the-request", "the-score", "the-answer", "the-large-result")


class Loan(Saga[dict[str, str]], name="loan"):
    """It has a request, a small and a large result, and a signal."""

    @step
    def score(self, request: dict[str, str]) -> str:
        assert request["iban"] == "the-request"
        return "the-score"

    approval = wait_for(str, timeout=timedelta(days=3))

    @step
    def pay(self, request: dict[str, str], score: str, approval: str) -> str:
        assert (score, approval) == ("the-score", "the-answer")
        return "the-large-result" * 2_000


class Box(Saga[str], name="box", result="label"):
    """A child: what it is given and gives back is told to nobody either."""

    @step
    def label(self, request: str) -> str:
        assert request == "the-request"
        return "the-score"


class Fleet(Saga[dict[str, str]], name="fleet"):
    """It has two children."""

    @children(Box)
    def boxes(self, request: dict[str, str]) -> list[str]:
        return [request["iban"]] * 2

    @step
    def close(self, boxes: list[str]) -> str:
        assert boxes == ["the-score"] * 2
        return "the-answer"


def stored(b: Bench) -> str:
    """All that is in tables, bucket and queues."""
    tables = [b.stack.dynamodb.scan(TableName=one)["Items"] for one in (b.stack.sagas_table, b.stack.audit_table)]
    keys = [one["Key"] for one in b.stack.s3.list_objects_v2(Bucket=b.stack.bucket).get("Contents", [])]
    bodies = [b.stack.s3.get_object(Bucket=b.stack.bucket, Key=key)["Body"].read().decode() for key in keys]
    return repr(tables) + "".join(bodies)


@pytest.fixture
def keyed(deployed: Make) -> Bench:
    """A service with a key of its own."""
    arn = client("kms").create_key()["KeyMetadata"]["Arn"]
    return deployed(Loan, SAGAS_PAYLOAD_KEY=arn, SAGAS_PAYLOAD_LIMIT="4096")


def run_through(b: Bench) -> str:
    """Start a saga and see it through; its id."""
    saga_id = b.start("loan", {"iban": "the-request"})
    for saga, name in b.stack.steps():
        for record in b.stack.receive(saga, name):
            assert "the-request" not in json.dumps(record)
            b.stack.sqs.change_message_visibility(
                QueueUrl=b.stack.queues[saga][name], ReceiptHandle=record["receiptHandle"], VisibilityTimeout=0
            )
    b.run()
    b.engine.signals.send("loan", saga_id, "approval", "the-answer", "ada")
    assert not [secret for secret in SECRETS if secret in stored(b)]
    b.run()
    return saga_id


def test_nothing_stored_tells_and_all_is_there(keyed: Bench) -> None:
    saga_id = run_through(keyed)
    assert not [secret for secret in SECRETS if secret in stored(keyed)]
    view: Any = keyed.engine.reader.show("loan", saga_id)
    assert view["status"] == "COMPLETED"
    assert view["request"] == {"iban": "the-request"}
    assert [one["result"] for one in view["steps"]] == ["the-score", "the-answer", "the-large-result" * 2_000]


def test_only_code_that_knows_of_it_goes_on(keyed: Bench) -> None:
    saga_id = run_through(keyed)
    formats = {one["action"]: int(one.get("format", 1)) for one in keyed.stack.entries(saga_id)}
    with_payload = {"SagaStarted", "StepCompleted", "SignalReceived"}
    assert {action for action, number in formats.items() if number == 4} == with_payload


def test_the_audit_trail_can_be_verified(keyed: Bench) -> None:
    saga_id = run_through(keyed)
    assert keyed.engine.verifier.verify("loan", saga_id).finding.bad is None


def test_a_payload_that_was_changed_is_found(keyed: Bench) -> None:
    saga_id = run_through(keyed)
    key = {"saga_id": {"S": saga_id}, "seq": {"N": "2"}}
    table, dynamodb = keyed.stack.audit_table, keyed.stack.dynamodb
    item = dynamodb.get_item(TableName=table, Key=key)["Item"]
    text = item["payload"]["S"]
    item["payload"] = {"S": f"{text[:-8]}{'A' if text[-8] != 'A' else 'B'}{text[-7:]}"}
    dynamodb.put_item(TableName=table, Item=item)
    bad = keyed.engine.verifier.verify("loan", saga_id).finding.bad
    assert bad is not None
    assert (bad.seq, bad.wrong.name) == (2, "CHANGED")


def test_children_are_told_what_they_need_and_nobody_else(deployed: Make) -> None:
    arn = client("kms").create_key()["KeyMetadata"]["Arn"]
    b = deployed(Fleet, Box, SAGAS_PAYLOAD_KEY=arn)
    saga_id = b.start("fleet", {"iban": "the-request"})
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    assert b.show(saga_id)["result"] == "the-answer"
    assert not [secret for secret in SECRETS if secret in stored(b)]


def test_a_repeated_start_is_known_again(keyed: Bench) -> None:
    first = keyed.start("loan", {"iban": "the-request"}, key="one")
    assert keyed.start("loan", {"iban": "the-request"}, key="one") == first


def test_what_was_stored_before_is_read_as_it_is(deployed: Make) -> None:
    plain = deployed(Loan)
    saga_id = plain.start("loan", {"iban": "the-request"})
    arn = client("kms").create_key()["KeyMetadata"]["Arn"]
    view: Any = from_environment(plain.stack.environment | {"SAGAS_PAYLOAD_KEY": arn}).reader.show("loan", saga_id)
    assert view["request"] == {"iban": "the-request"}


def test_without_the_key_it_says_so(keyed: Bench) -> None:
    saga_id = keyed.start("loan", {"iban": "the-request"})
    engine = from_environment(keyed.stack.environment)
    with pytest.raises(SagaError, match="is encrypted, and this function has no payload_key"):
        engine.reader.show("loan", saga_id)


def test_an_outcome_outlasts_a_moment_in_which_kms_fails_by_itself(
    keyed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, failing = PayloadEncryption.encrypt, list[str]()
    saga_id = keyed.start("loan", {"iban": "the-request"})

    def encrypt(self: PayloadEncryption, saga: str, text: str) -> str:
        if "the-score" in text and len(failing) < 2:
            failing.append(text)
            with translated("KMS"):
                answer: Any = {"Error": {"Code": "KMSInternalException"}}
                raise cast("Any", ClientError)(answer, "GenerateDataKey")
        return original(self, saga, text)

    monkeypatch.setattr(PayloadEncryption, "encrypt", encrypt)
    keyed.run()
    assert len(failing) == 2
    assert keyed.state(saga_id).steps[0].attempts == 1
    assert keyed.state(saga_id).steps[0].status == "COMPLETED"


class Scan(Saga[dict[str, str]], name="scan"):
    """Its results name objects."""

    @step
    def small(self) -> S3Object:
        return S3Object("scans", "the-key-of-ann")

    @step
    def large(self) -> list[S3Object]:
        return [S3Object("scans", f"the-key-of-{number}") for number in range(500)]


def test_a_purge_names_no_object_in_clear_text(deployed: Make) -> None:
    arn = client("kms").create_key()["KeyMetadata"]["Arn"]
    b = deployed(Scan, SAGAS_PAYLOAD_KEY=arn, SAGAS_PAYLOAD_LIMIT="4096")
    saga_id = b.start("scan", {})
    b.run()
    b.clock.advance(3_600)
    engine = from_environment(b.stack.environment | {"SAGAS_PAYLOAD_KEY": arn})
    left = engine.purger.purge("scan", saga_id, "", "ann")
    assert (left.state.status, left.objects, left.more_objects) == ("COMPLETED", (), 0)
    assert "the-key" not in stored(b)
