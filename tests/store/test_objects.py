"""A bucket's objects, a sweep's checkpoint and the summary of sagas, on moto."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from sagas.aws import S3_NO_SUCH_KEY
from sagas.core.states import SagaStatus
from sagas.errors import SagaError, Unavailable
from sagas.store.index.summaries import SagaSummaries, SagaSummary
from sagas.store.journal.objects import Listed, Objects, connect_s3
from sagas.store.tables import StoreSettings, tables_for
from tests.store.conftest import STALE_AFTER, Store, connect
from tests.store.states import NOW, saga
from tests.support.aws import REGION
from tests.support.databases import Database, lead_nowhere
from tests.support.dynamodb import aws

BUCKET = "objects-payloads"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    lead_nowhere(monkeypatch)
    with aws("memory"):
        yield connect(Database("memory"), "objects")


@pytest.fixture
def objects(store: Store) -> Objects:
    return Objects(connect_s3(store.settings), BUCKET)


def put(store: Store, *keys: str) -> None:
    for key in keys:
        store.s3.put_object(Bucket=BUCKET, Key=key, Body=b"content")


def keys(store: Store) -> list[str]:
    return [item["Key"] for item in store.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


def client_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "secret"}}, "Operation")  # pyright: ignore[reportArgumentType]


def test_lists_in_order_under_the_prefix(store: Store, objects: Objects) -> None:
    put(store, "a/2", "a/1", "ab/1", "b/1", "a/ö +%\x01")
    page = objects.page("a/")
    assert [one.key for one in page.objects] == ["a/1", "a/2", "a/ö +%\x01"]
    assert page.last
    assert page.objects[0].size == 7
    assert page.objects[0].modified_at > 1_700_000_000
    assert '"' not in page.objects[0].etag


def test_goes_on_after_a_key(store: Store, objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.store.journal.objects.PAGE", 2)
    put(store, "a/1", "a/2", "a/3", "a/4")
    first = objects.page("a/")
    second = objects.page("a/", first.objects[-1].key)
    assert [one.key for one in (*first.objects, *second.objects)] == ["a/1", "a/2", "a/3", "a/4"]
    assert (first.last, second.last) == (False, True)
    assert objects.page("a/", "a/4").objects == ()
    assert objects.page("c/").last


def test_deletes_many_and_what_is_gone(store: Store, objects: Objects) -> None:
    put(store, "a/1", "a/2", "a/3")
    assert objects.delete(["a/1", "a/3", "a/none"]) == {}
    assert keys(store) == ["a/2"]


def test_deletes_what_no_list_of_keys_can_say(store: Store, objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 refuses the whole list as malformed XML."""
    odd = ["a/\x01", "a/1\x1f2", "a/\ufffe", "a/\uffff"]
    put(store, *odd, "a/1", "a/\r\n\t&<>", "a/\x7f", "a/\U0001f600")
    assert objects.delete([*(one.key for one in objects.page("a/").objects), "a/none\x01"]) == {}
    assert keys(store) == []
    put(store, *odd, "a/1")
    real: Any = cast("Any", BaseClient)._make_api_call

    def refuse(self: BaseClient, operation: str, parameters: dict[str, Any]) -> Any:
        if parameters.get("Key") == odd[0]:
            raise client_error(code)
        return real(self, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", refuse)
    code = "AccessDenied"
    assert objects.delete([*odd, "a/1"]) == {odd[0]: "AccessDenied"}
    assert keys(store) == [odd[0]]
    code = "SlowDown"
    with pytest.raises(Unavailable):
        objects.delete(odd)


def test_reads_the_errors_of_single_keys(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"Errors": [{"Key": "a/2", "Code": "AccessDenied", "Message": "no"}]}

    def respond(*_: Any) -> Any:
        return answer

    monkeypatch.setattr(BaseClient, "_make_api_call", respond)
    assert objects.delete(["a/1", "a/2"]) == {"a/2": "AccessDenied"}


@pytest.mark.parametrize(("code", "kind"), [("SlowDown", Unavailable), ("AccessDenied", SagaError)])
def test_errors_are_the_librarys(
    objects: Objects, monkeypatch: pytest.MonkeyPatch, code: str, kind: type[SagaError]
) -> None:
    def refuse(*_: Any) -> None:
        raise client_error(code)

    monkeypatch.setattr(BaseClient, "_make_api_call", refuse)
    for act in (lambda: objects.page("a/"), lambda: objects.delete(["a/1"])):
        with pytest.raises(kind, match=code) as caught:
            act()
        assert type(caught.value) is kind
        assert "secret" not in str(caught.value)


def test_no_such_bucket(store: Store) -> None:
    with pytest.raises(SagaError, match="NoSuchBucket"):
        Objects(connect_s3(store.settings), "nowhere").page("a/")


def test_archives_beside(store: Store, objects: Objects) -> None:
    store.s3.put_object(Bucket=BUCKET, Key="a/ö 1", Body=b"content", Metadata={"kind": "zip"})
    (listed,) = objects.page("a/").objects
    assert objects.archive(listed, "archive/") == ""
    assert keys(store) == ["a/ö 1", "archive/a/ö 1"]
    copy = store.s3.get_object(Bucket=BUCKET, Key="archive/a/ö 1")
    assert (copy["Body"].read(), copy["Metadata"]) == (b"content", {"kind": "zip"})


def test_archives_what_is_larger_than_one_copy_may_be(
    store: Store, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagas.store.journal.objects._LARGEST_COPY", 5)
    put(store, "a/1")
    assert objects.archive(objects.page("a/").objects[0], "archive/") == ""
    assert objects.archive(Listed("a/none", 6, "", 0.0), "archive/") in S3_NO_SUCH_KEY
    assert keys(store) == ["a/1", "archive/a/1"]


def test_tells_why_there_is_no_copy(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    assert objects.archive(Listed("a/none", 1, "", 0.0), "archive/") in S3_NO_SUCH_KEY

    def refuse(*_: Any) -> None:
        raise client_error(code)

    monkeypatch.setattr(BaseClient, "_make_api_call", refuse)
    code = "AccessDenied"
    assert objects.archive(Listed("a/1", 1, "", 0.0), "archive/") == "AccessDenied"
    code = "SlowDown"
    with pytest.raises(Unavailable):
        objects.archive(Listed("a/1", 1, "", 0.0), "archive/")


@pytest.mark.parametrize(("there", "told"), [(True, "AccessDenied"), (False, "NoSuchKey")])
def test_what_is_gone_and_denied_is_told_apart(
    store: Store, objects: Objects, monkeypatch: pytest.MonkeyPatch, there: bool, told: str
) -> None:
    """S3 denies also what is not there, to who may list a part of the bucket only."""
    put(store, "a/10", *(["a/1"] if there else []))
    real: Any = cast("Any", BaseClient)._make_api_call

    def refuse(self: BaseClient, operation: str, parameters: dict[str, Any]) -> Any:
        if operation in ("CopyObject", "HeadObject"):
            raise client_error("AccessDenied" if operation == "CopyObject" else "403")
        return real(self, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", refuse)
    assert objects.archive(Listed("a/1", 7, "", 0.0), "archive/") == told
    monkeypatch.setattr("sagas.store.journal.objects._LARGEST_COPY", 5)
    assert objects.archive(Listed("a/1", 7, "", 0.0), "archive/") in (told, "403")


def test_tells_how_sagas_stand(store: Store) -> None:
    done, waiting = saga(SagaStatus.COMPLETED), saga(SagaStatus.COMPENSATION_FAILED, attention=5.0)
    for state in (done, waiting):
        store.control.create(state, STALE_AFTER)
    summaries = SagaSummaries(store.tables, store.settings, store.tombstones)
    found = summaries.of([done.saga_id, waiting.saga_id, saga().saga_id])
    assert found == {
        done.saga_id: SagaSummary("trip", SagaStatus.COMPLETED, attention=False, settled_at=NOW, results=(1,)),
        waiting.saga_id: SagaSummary(
            "trip", SagaStatus.COMPENSATION_FAILED, attention=True, settled_at=NOW, results=(1,)
        ),
    }
    assert summaries.of([]) == {}


def test_asks_again_for_what_was_left_unprocessed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    states = [saga(SagaStatus.CANCELLED) for _ in range(3)]
    for state in states:
        store.control.create(state, STALE_AFTER)
    real: Any = cast("Any", BaseClient)._make_api_call
    calls: list[int] = []

    def leave_two(self: BaseClient, operation: str, parameters: dict[str, Any]) -> Any:
        asked: dict[str, Any] = parameters["RequestItems"][store.settings.sagas_table]
        assert asked["ConsistentRead"] is True
        calls.append(len(asked["Keys"]))
        left = asked["Keys"][1:]
        one = asked | {"Keys": asked["Keys"][:1]}
        answer: dict[str, Any] = real(self, operation, {"RequestItems": {store.settings.sagas_table: one}})
        rest = {store.settings.sagas_table: asked | {"Keys": left}} if left else {}
        return {**answer, "UnprocessedKeys": rest}

    monkeypatch.setattr(BaseClient, "_make_api_call", leave_two)
    found = SagaSummaries(store.tables, store.settings, store.tombstones).of([state.saga_id for state in states])
    assert set(found) == {state.saga_id for state in states}
    assert calls == [3, 2, 1]


def test_a_table_that_is_not_there_is_an_error(store: Store) -> None:
    tables = tables_for(StoreSettings("nowhere", "nowhere", "nowhere", region=REGION))
    with pytest.raises(SagaError):
        SagaSummaries(tables, StoreSettings("nowhere", "nowhere", "nowhere"), store.tombstones).of([saga().saga_id])
