"""Sagas whose payloads are encrypted with a key of one's own: they run like any other, and nothing stored tells."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from sagas import Rejected, S3Object, Saga, children, step, wait_for
from sagas.aws import translated
from sagas.engine.attempt.call import LARGEST_RESULT
from sagas.errors import SagaError
from sagas.store.connection import Changed
from sagas.store.encryption import PayloadEncryption
from tests.support.aws import HandmadeStack, client
from tests.support.bench import Bench, Make, deploy_functions
from tests.support.engine import engine_of
from tests.support.sagas import LOG

SECRETS = ("the-request", "the-score", "the-answer", "the-large-result")


class Loan(Saga[dict[str, str]], name="loan"):
    """It has a request, a small and a large result, a signal, and an undo that takes a result."""

    @step
    def score(self, request: dict[str, str]) -> str:
        assert request["iban"] == "the-request"
        return "the-score"

    @score.compensate
    def forget(self, score: str) -> None:
        LOG.append(f"forgot {score}")

    approval = wait_for(str, timeout=timedelta(days=3))

    @step
    def pay(self, request: dict[str, str], score: str, approval: str) -> str:
        if approval == "no":
            raise Rejected("not approved")
        assert score == "the-score"
        assert approval.startswith("the-answer")
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


def moved(b: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The tables and the bucket restored under other names, and deployed with another stack, construct and name."""
    stack = HandmadeStack(*b.stack.classes, prefix="moved")
    tables = {b.stack.sagas_table: stack.sagas_table, b.stack.audit_table: stack.audit_table}
    for before, after in tables.items():
        for item in b.stack.dynamodb.scan(TableName=before)["Items"]:
            stack.dynamodb.put_item(TableName=after, Item=item)
    for one in b.stack.s3.list_objects_v2(Bucket=b.stack.bucket)["Contents"]:
        source = {"Bucket": b.stack.bucket, "Key": one["Key"]}
        stack.s3.copy_object(Bucket=stack.bucket, Key=one["Key"], CopySource=source)
    same = {name: os.environ[name] for name in ("SAGAS_PAYLOAD_KEY", "SAGAS_PAYLOAD_LIMIT")}
    named = {"POWERTOOLS_SERVICE_NAME": "Moved-Bank", "SAGAS_SERVICE": b.stack.prefix}  # the tables have this id
    after = deploy_functions(monkeypatch, stack, Bench, **same, **named)
    after.clock.time = b.clock.time
    return after


@pytest.mark.usefixtures("clean")
def test_payloads_are_readable_under_other_names_of_stack_service_and_tables(
    keyed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run_through(keyed)
    approved, large, refused = (keyed.start("loan", {"iban": "the-request"}) for _ in range(3))
    keyed.run()
    large_answer = "the-answer" * 1_000
    for saga_id, answer in ((approved, "the-answer"), (large, large_answer), (refused, "no")):
        keyed.engine.signals.send("loan", saga_id, "approval", answer, "ada")
    started = keyed.start("loan", {"iban": "the-request"})

    b = moved(keyed, monkeypatch)
    b.clock.advance(3_600)
    assert set(b.recover(60)) == {started, approved, large, refused}
    b.run()
    b.engine.signals.send("loan", started, "approval", "the-answer", "ada")
    b.run()
    assert {one: b.status(one) for one in (done, started, approved, large, refused)} == {
        done: "COMPLETED",
        started: "COMPLETED",
        approved: "COMPLETED",
        large: "COMPLETED",
        refused: "COMPENSATED",
    }
    assert LOG == ["forgot the-score"]
    for saga_id, answer in ((done, "the-answer"), (started, "the-answer"), (large, large_answer)):
        shown = b.show(saga_id)
        assert shown["request"] == {"iban": "the-request"}
        assert [one["result"] for one in shown["steps"]] == ["the-score", answer, "the-large-result" * 2_000]
        assert b.engine.verifier.verify("loan", saga_id).finding.bad is None


@pytest.mark.parametrize("swapped", [(1, 2), (2, 4)])
def test_two_payloads_of_a_saga_cannot_be_exchanged(keyed: Bench, swapped: tuple[int, int]) -> None:
    saga_id = run_through(keyed)
    table, dynamodb = keyed.stack.audit_table, keyed.stack.dynamodb
    keys = [{"saga_id": {"S": saga_id}, "seq": {"N": str(seq)}} for seq in swapped]
    one, other = (dynamodb.get_item(TableName=table, Key=key)["Item"] for key in keys)
    for item, taken in ((one, other), (other, one)):
        payload = {name: taken[name] for name in ("payload", "salt", "payload_hash")}
        dynamodb.put_item(TableName=table, Item=item | payload)
    for seq in swapped:
        with pytest.raises(Changed, match="is missing, was changed, or belongs to another saga"):
            keyed.engine.services.journal.entries(saga_id, [seq])


class Twice(Saga[str], name="twice"):
    """It waits for two values of one type."""

    first = wait_for(str, timeout=timedelta(days=3))
    second = wait_for(str, timeout=timedelta(days=3))

    @step
    def pay(self, first: str, second: str) -> str:
        return f"{first}, {second}"


def test_two_signals_cannot_be_exchanged(deployed: Make) -> None:
    arn = client("kms").create_key()["KeyMetadata"]["Arn"]
    b = deployed(Twice, SAGAS_PAYLOAD_KEY=arn)
    saga_id = b.start("twice", "")
    for name in ("first", "second"):
        b.engine.signals.send("twice", saga_id, name, name, "ada")
    table, dynamodb = b.stack.sagas_table, b.stack.dynamodb
    keys = [{"saga_id": {"S": f"{saga_id}#signal#{name}#0"}} for name in ("first", "second")]
    one, other = (dynamodb.get_item(TableName=table, Key=key)["Item"] for key in keys)
    for key, taken in zip(keys, (other, one), strict=True):
        dynamodb.put_item(TableName=table, Item=taken | key)
    b.run()
    assert (b.status(saga_id), b.show(saga_id)["attention"]["code"]) == ("DEAD_LETTERED", "type_changed")
    assert "SignalReceived" not in b.actions(saga_id)


def test_children_are_told_what_they_need_and_nobody_else(deployed: Make) -> None:
    arn = client("kms").create_key()["KeyMetadata"]["Arn"]
    b = deployed(Fleet, Box, SAGAS_PAYLOAD_KEY=arn)
    saga_id = b.start("fleet", {"iban": "the-request"})
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    assert b.show(saga_id)["result"] == "the-answer"
    assert not [secret for secret in SECRETS if secret in stored(b)]


class Wide(Saga[int], name="wide"):
    """Returns as much text as it is asked for."""

    @step
    def spread(self, request: int) -> str:
        return "x" * request


def test_the_largest_result_is_answered(deployed: Make) -> None:
    """Encryption makes it a third longer than an answer may be."""
    arn = client("kms").create_key()["KeyMetadata"]["Arn"]
    b = deployed(Wide, SAGAS_PAYLOAD_KEY=arn)
    saga_id = b.start("wide", LARGEST_RESULT - 2)
    b.run()
    shown = b.show(saga_id)
    assert len(shown["steps"][0]["result"]) == LARGEST_RESULT - 2
    assert "left_out" not in shown


def test_a_repeated_start_is_known_again(keyed: Bench) -> None:
    first = keyed.start("loan", {"iban": "the-request"}, key="one")
    assert keyed.start("loan", {"iban": "the-request"}, key="one") == first


def test_what_was_stored_before_is_read_as_it_is(deployed: Make) -> None:
    plain = deployed(Loan)
    saga_id = plain.start("loan", {"iban": "the-request"})
    arn = client("kms").create_key()["KeyMetadata"]["Arn"]
    keyed = engine_of(plain.stack.environment | {"SAGAS_PAYLOAD_KEY": arn})
    view: Any = keyed.reader.show("loan", saga_id)
    assert view["request"] == {"iban": "the-request"}


def test_without_the_key_it_says_so(keyed: Bench) -> None:
    saga_id = keyed.start("loan", {"iban": "the-request"})
    engine = engine_of(keyed.stack.environment)
    with pytest.raises(SagaError, match="is encrypted, but this function has no payload_key"):
        engine.reader.show("loan", saga_id)


def test_an_outcome_outlasts_a_moment_in_which_kms_fails_by_itself(
    keyed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, failing = PayloadEncryption.encrypt, list[str]()
    saga_id = keyed.start("loan", {"iban": "the-request"})

    def encrypt(self: PayloadEncryption, saga: str, place: str, text: str) -> str:
        if "the-score" in text and len(failing) < 2:
            failing.append(text)
            with translated("KMS"):
                answer: Any = {"Error": {"Code": "KMSInternalException"}}
                raise cast("Any", ClientError)(answer, "GenerateDataKey")
        return original(self, saga, place, text)

    monkeypatch.setattr(PayloadEncryption, "encrypt", encrypt)
    keyed.run()
    assert len(failing) == 2
    assert keyed.state(saga_id).steps[0].attempts.made == 1
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
    engine = engine_of(b.stack.environment | {"SAGAS_PAYLOAD_KEY": arn})
    left = engine.purger.purge("scan", saga_id, "", "ann")
    assert (left.state.status, left.objects, left.more_objects) == ("COMPLETED", (), 0)
    assert "the-key" not in stored(b)
