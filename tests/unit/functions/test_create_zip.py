"""The create-zip saga, step by step, against S3 and SNS in process."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import boto3
import pytest

from benchmarks.create_zip_memory import GeneratedS3, generated_sources
from functions.create_zip import PART_SIZE, CreateZip, CreateZipRequest, Sources
from functions.sources import MAX_SOURCES, MAX_TOTAL_BYTES
from sagas import PermanentError, Rejected, S3Object
from sagas.errors import Cancelled
from sagas.testing import FakeContext

MIB = 2**20
FILES = {"a.txt": b"alpha" * 1000, "dir/b.bin": bytes(range(256)) * 100, "empty": b"", "été.txt": b"summer"}


@cache
def shared_client(service: str) -> Any:
    return cast(Any, boto3).client(service)


def context(step: str, **attributes: Any) -> FakeContext:
    given: dict[str, Any] = {"client": shared_client} | attributes
    return FakeContext(saga="create-zip", step=step, **given)


def put(s3: Any, files: dict[str, bytes]) -> CreateZipRequest:
    for key, body in files.items():
        s3.put_object(Bucket="sources", Key=key, Body=body)
    return CreateZipRequest("sources", list(files))


def saga(topic: str = "arn:aws:sns:eu-central-1:123456789012:archives") -> CreateZip:
    return CreateZip("zips", topic)


def checked(request: CreateZipRequest) -> Sources:
    return saga().check(request=request, ctx=context("check"))


def upload(request: CreateZipRequest, sources: Sources, **attributes: Any) -> S3Object:
    return saga().upload(request=request, sources=sources, ctx=context("upload", **attributes))


def unfinished(s3: Any) -> list[Any]:
    return s3.list_multipart_uploads(Bucket="zips").get("Uploads", [])


def archives(s3: Any) -> list[str]:
    return [found["Key"] for found in s3.list_objects_v2(Bucket="zips").get("Contents", [])]


def test_check_tells_size_and_version_of_every_object(s3: Any) -> None:
    sources = checked(put(s3, FILES))
    assert [(o.key, o.name, o.size) for o in sources.objects] == [(k, k, len(v)) for k, v in FILES.items()]
    assert [o.etag.strip('"') for o in sources.objects] == [
        hashlib.md5(v, usedforsecurity=False).hexdigest() for v in FILES.values()
    ]
    assert sources.total_bytes == sum(map(len, FILES.values()))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([], "1 to"),
        ([f"k{n}" for n in range(MAX_SOURCES + 1)], "1 to"),
        (["a.txt", "a.txt"], "twice"),
        (["a.txt", "A.TXT"], "collide"),
        (["../a.txt"], "cannot be"),
        (["a.txt", "gone.txt"], "no object 'gone.txt'"),
    ],
)
def test_check_rejects_what_cannot_become_an_archive(s3: Any, keys: list[str], message: str) -> None:
    put(s3, FILES)
    with pytest.raises(Rejected, match=message):
        checked(CreateZipRequest("sources", keys))


def test_check_rejects_a_bucket_that_is_not_there(s3: Any) -> None:
    with pytest.raises(Rejected, match="no-such-bucket"):
        checked(CreateZipRequest("no-such-bucket", ["a"]))


class HugeObjects:
    """Says of every object that it is as large as an archive may be in all."""

    def head_object(self, **_: Any) -> dict[str, Any]:
        return {"ContentLength": MAX_TOTAL_BYTES, "ETag": '"x"'}

    exceptions = SimpleNamespace(ClientError=KeyError)


def test_check_rejects_too_many_bytes() -> None:
    ctx = context("check", client={"s3": HugeObjects()})
    assert saga().check(request=CreateZipRequest("b", ["one"]), ctx=ctx).total_bytes == MAX_TOTAL_BYTES
    with pytest.raises(Rejected, match="bytes together"):
        saga().check(request=CreateZipRequest("b", ["one", "two"]), ctx=ctx)


def test_check_and_upload_stop_when_cancelled(s3: Any) -> None:
    request = put(s3, FILES)
    with pytest.raises(Cancelled):
        saga().check(request=request, ctx=context("check", cancelled=True))
    with pytest.raises(Cancelled):
        upload(request, checked(request), cancelled=True)
    assert archives(s3) == unfinished(s3) == []


def test_upload_zips_the_objects(s3: Any) -> None:
    request = put(s3, FILES)
    archive = upload(request, checked(request))
    stored = s3.get_object(Bucket=archive.bucket, Key=archive.key)
    body = stored["Body"].read()
    assert archive.key.startswith("create-zip/")
    assert archive.key.endswith("/archive.zip")
    assert (archive.bucket, archive.size, archive.etag) == ("zips", len(body), stored["ETag"])
    assert stored["ContentType"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(body)) as zipped:
        assert zipped.testzip() is None
        assert {name: zipped.read(name) for name in zipped.namelist()} == FILES


def test_a_repeated_upload_writes_the_same_archive_to_the_same_key(s3: Any) -> None:
    request = put(s3, FILES)
    sources = checked(request)
    assert upload(request, sources) == upload(request, sources, attempt=2)
    assert len(archives(s3)) == 1


def test_a_retry_aborts_what_a_killed_attempt_left(s3: Any) -> None:
    request = put(s3, FILES)
    sources = checked(request)
    key = upload(request, sources).key
    s3.create_multipart_upload(Bucket="zips", Key=key)
    other = s3.create_multipart_upload(Bucket="zips", Key=f"{key}.other")["UploadId"]
    upload(request, sources, attempt=2)
    assert [left["UploadId"] for left in unfinished(s3)] == [other]


def test_archives_of_several_parts_arrive_whole(s3: Any) -> None:
    noise = os.urandom(9 * MIB)
    request = put(s3, {"noise": noise, "more": noise})
    archive = upload(request, checked(request))
    assert archive.size is not None
    assert archive.size > 2 * PART_SIZE
    assert archive.etag is not None
    assert archive.etag.strip('"').endswith("-3")
    with zipfile.ZipFile(io.BytesIO(s3.get_object(Bucket="zips", Key=archive.key)["Body"].read())) as zipped:
        assert hashlib.sha256(zipped.read("more")).digest() == hashlib.sha256(noise).digest()


def changed(s3: Any) -> None:
    s3.put_object(Bucket="sources", Key="dir/b.bin", Body=b"other")


def removed(s3: Any) -> None:
    s3.delete_object(Bucket="sources", Key="dir/b.bin")


@pytest.mark.parametrize("meddle", [changed, removed])
def test_a_source_that_changed_after_the_check_fails_for_good(s3: Any, meddle: Callable[[Any], None]) -> None:
    request = put(s3, FILES)
    sources = checked(request)
    meddle(s3)
    with pytest.raises(PermanentError, match=r"dir/b\.bin.* changed"):
        upload(request, sources)
    assert archives(s3) == unfinished(s3) == []


def test_an_attempt_out_of_time_ends_itself_and_aborts(s3: Any) -> None:
    request = put(s3, FILES)
    with pytest.raises(TimeoutError):
        upload(request, checked(request), remaining_time=0.5)
    assert archives(s3) == unfinished(s3) == []


class Failing:
    """A client one of whose methods fails."""

    def __init__(self, client: Any, *methods: str) -> None:
        self._client = client
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        if name in self._methods:
            raise ConnectionError(name)
        return getattr(self._client, name)


@pytest.mark.parametrize(
    "method", ["create_multipart_upload", "get_object", "upload_part", "complete_multipart_upload"]
)
def test_an_upload_that_fails_anywhere_leaves_nothing(s3: Any, method: str) -> None:
    request = put(s3, FILES)
    with pytest.raises(ConnectionError, match=method):
        upload(request, checked(request), client={"s3": Failing(s3, method)})
    assert archives(s3) == unfinished(s3) == []


def test_a_failing_abort_does_not_hide_why_the_upload_failed(s3: Any) -> None:
    request = put(s3, FILES)
    sources = checked(request)
    broken = Failing(s3, "upload_part", "abort_multipart_upload")
    with pytest.raises(ConnectionError, match="upload_part"):
        upload(request, sources, client={"s3": broken})
    assert len(unfinished(s3)) == 1
    saga().delete_upload(upload=None, ctx=context("upload", undo=True))
    assert unfinished(s3) == []


def test_delete_upload_deletes_the_archive_known_or_not(s3: Any) -> None:
    request = put(s3, FILES)
    sources = checked(request)
    for known in (True, False):
        archive = upload(request, sources)
        saga().delete_upload(upload=archive if known else None, ctx=context("upload", undo=True))
        assert archives(s3) == []


def test_delete_upload_tolerates_that_there_is_nothing(s3: Any) -> None:
    for _ in range(2):
        saga().delete_upload(upload=None, ctx=context("upload", undo=True))


def test_memory_stays_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functions.create_zip.PART_SIZE", 2 * MIB)
    sources, generated = generated_sources(2, 8 * MIB), GeneratedS3()
    ctx = context("upload", client={"s3": generated})
    request = CreateZipRequest("sources", [source.key for source in sources.objects])
    tracemalloc.start()
    try:
        saga().upload(request=request, sources=sources, ctx=ctx)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert generated.received > 16 * MIB
    assert peak < 10 * MIB, peak
    assert ctx.progressed == sorted(ctx.progressed)
    assert ctx.progressed[-1][0] == 1.0


def test_announce_publishes_where_the_archive_is(s3: Any, topic: str) -> None:
    sqs: Any = cast(Any, boto3).client("sqs")
    queue = sqs.create_queue(QueueName="subscriber")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    cast(Any, boto3).client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    request = put(s3, FILES)
    sources = checked(request)
    archive = upload(request, sources)
    ctx = context("announce")
    message_id = saga(topic).announce(sources=sources, upload=archive, ctx=ctx)
    [received] = sqs.receive_message(QueueUrl=queue)["Messages"]
    envelope = json.loads(received["Body"])
    assert envelope["MessageId"] == message_id
    assert envelope["MessageAttributes"]["idempotency_key"]["Value"] == ctx.idempotency_key
    assert json.loads(envelope["Message"]) == {
        "saga_id": ctx.saga_id,
        "entries": len(FILES),
        "archive": {"bucket": "zips", "key": archive.key, "size": archive.size, "etag": archive.etag},
    }


def test_configuration_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZIPS_BUCKET", raising=False)
    with pytest.raises(KeyError, match="ZIPS_BUCKET"):
        CreateZip.create()
    monkeypatch.setenv("ZIPS_BUCKET", "zips")
    monkeypatch.setenv("ANNOUNCE_TOPIC_ARN", "arn")
    assert isinstance(CreateZip.create(), CreateZip)
