"""The reference sagas as wholes, by the means any author has: ``sagas.testing.run`` and AWS in process."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any, cast

import boto3
import pytest
from moto import mock_aws

from functions.checkout import Capture, Checkout
from functions.create_zip import CreateZip, CreateZipRequest
from sagas import S3Object
from sagas.testing import run
from tests.unit.functions.books import ENVIRONMENT, Shop, order

REGION = "eu-central-1"
FILES = {"a.txt": b"alpha" * 1000, "dir/b.bin": bytes(range(256))}


def client(service: str) -> Any:
    return cast(Any, boto3).client(service, region_name=REGION)


@pytest.fixture(autouse=True)
def _aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {**ENVIRONMENT, "ZIPS_BUCKET": "zips"}.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        for bucket in ("sources", "zips"):
            client("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        topic = client("sns").create_topic(Name="archives")["TopicArn"]
        monkeypatch.setenv("ANNOUNCE_TOPIC_ARN", topic)
        yield


@pytest.fixture
def files() -> CreateZipRequest:
    for key, body in FILES.items():
        client("s3").put_object(Bucket="sources", Key=key, Body=body)
    return CreateZipRequest("sources", list(FILES))


def archives() -> list[str]:
    return [found["Key"] for found in client("s3").list_objects_v2(Bucket="zips").get("Contents", [])]


def test_an_archive_is_made_and_announced(files: CreateZipRequest) -> None:
    outcome = run(CreateZip, files, clients=client)
    assert outcome.status == "COMPLETED"
    upload: S3Object = outcome.results["upload"]
    body = client("s3").get_object(Bucket=upload.bucket, Key=upload.key)["Body"].read()
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == FILES
    assert [source.key for source in outcome.results["sources"].objects] == list(FILES)
    assert outcome.results["announce"]


def test_an_archive_that_cannot_be_announced_waits_for_an_operator(files: CreateZipRequest) -> None:
    outcome = run(CreateZip, files, fail={"announce": RuntimeError("no topic")}, clients=client)
    assert outcome.status == "DEAD_LETTERED"
    assert len(archives()) == 1
    assert outcome.error == {"step": "announce", "type": "RuntimeError", "message": "no topic"}


def test_an_upload_that_fails_leaves_nothing(files: CreateZipRequest) -> None:
    outcome = run(CreateZip, files, fail={"upload": OSError("disk")}, clients=client)
    assert outcome.status == "COMPENSATED"
    assert outcome.steps["upload"] == "COMPENSATED", "undone although it never completed"
    assert archives() == []


def test_an_object_that_is_not_there_is_refused_at_once() -> None:
    outcome = run(CreateZip, CreateZipRequest("sources", ["nothing"]), clients=client)
    assert outcome.status == "COMPENSATED"
    assert [entry.action for entry in outcome.audit].count("StepFailed") == 1
    assert outcome.error is not None
    assert outcome.error.type == "Rejected"


def test_an_order_is_paid_and_shipped() -> None:
    shop = Shop({"mug": 3})
    outcome = run(Checkout, order({"mug": 2}), clients={"dynamodb": shop.client}, saga_id="saga-1")
    assert outcome.status == "COMPLETED"
    paid: Capture = outcome.results["payment"]
    assert shop.balances() == {"saga-1": paid.amount}
    assert shop.available() == {"mug": 1}
    assert shop.booked() == {outcome.results["shipment"].shipment_key}


@pytest.mark.parametrize("failing", ["reserve", "capture", "ship"])
def test_an_order_that_fails_leaves_the_books_as_they_were(failing: str) -> None:
    shop = Shop({"mug": 3})
    outcome = run(Checkout, order({"mug": 2}), fail={failing: OSError("down")}, clients={"dynamodb": shop.client})
    assert outcome.status == "COMPENSATED"
    assert (shop.available(), shop.reserved(), shop.booked()) == ({"mug": 3}, {}, set())
    assert not any(shop.balances().values())


def test_a_declined_card_is_not_tried_again() -> None:
    shop = Shop({"mug": 3})
    outcome = run(Checkout, order({"mug": 1}, card="tok_declined"), clients={"dynamodb": shop.client})
    assert (outcome.status, shop.available()) == ("COMPENSATED", {"mug": 3})
    assert [entry.action for entry in outcome.audit].count("StepFailed") == 1


def test_a_refund_that_fails_for_good_stops_no_other_undo() -> None:
    shop = Shop({"mug": 3})
    fail: dict[str, BaseException] = {"ship": OSError("down"), "refund": OSError("down")}
    outcome = run(Checkout, order({"mug": 1}), fail=fail, clients={"dynamodb": shop.client})
    assert outcome.status == "COMPENSATION_FAILED"
    assert outcome.steps == {"reserve": "COMPENSATED", "capture": "COMPENSATION_FAILED", "ship": "COMPENSATED"}
