"""The reference sagas through API, queues, functions and tables of the local stack."""

from __future__ import annotations

import io
import json
import re
import uuid
import zipfile
from decimal import Decimal
from typing import Any
from urllib.parse import urljoin

import pytest

from tests.e2e.api import Api
from tests.e2e.stack import REPOSITORY, Stack, poll

pytestmark = pytest.mark.e2e


@pytest.fixture
def api(local_stack: Stack) -> Api:
    return Api(local_stack)


def _event(name: str) -> dict[str, Any]:
    return json.loads((REPOSITORY / "events" / name).read_text())


class Books:
    """Stock and ledger."""

    def __init__(self, stack: Stack) -> None:
        self._dynamodb = stack.client("dynamodb")
        self._outputs = stack.description["outputs"]

    def stock_up(self, sku: str, available: int) -> None:
        item = {"sku": {"S": sku}, "available": {"N": str(available)}}
        self._dynamodb.put_item(TableName=self._outputs["StockTable"], Item=item)

    def available(self, sku: str) -> int:
        found = self._dynamodb.get_item(TableName=self._outputs["StockTable"], Key={"sku": {"S": sku}})
        return int(found["Item"]["available"]["N"])

    def earned(self) -> Decimal:
        items = self._dynamodb.scan(TableName=self._outputs["LedgerTable"])["Items"]
        return sum((Decimal(item["amount"]["N"]) for item in items), Decimal(0))


def test_create_zip_archives_what_it_was_given(local_stack: Stack, api: Api) -> None:
    s3, bucket = local_stack.client("s3"), local_stack.description["outputs"]["ZipsBucket"]
    contents = {f"sources/e2e/{n}.txt": f"file {n}\n".encode() * 500 * n for n in range(1, 6)}
    for key, data in contents.items():
        s3.put_object(Bucket=bucket, Key=key, Body=data)
    saga = api.run("create-zip", {"bucket": bucket, "keys": list(contents)})
    assert saga["status"] == "COMPLETED", saga
    upload = saga["steps"][1]["result"]
    archive = s3.get_object(Bucket=upload["bucket"], Key=upload["key"])["Body"].read()
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        assert {name: opened.read(name) for name in opened.namelist()} == contents


def test_create_zip_of_a_missing_object_leaves_nothing(local_stack: Stack, api: Api) -> None:
    bucket = local_stack.description["outputs"]["ZipsBucket"]
    saga = api.run("create-zip", {"bucket": bucket, "keys": ["sources/e2e/nowhere.txt"]})
    assert saga["status"] == "COMPENSATED"
    assert saga["error"]["step"] == "check"
    listed = local_stack.client("s3").list_objects_v2(Bucket=bucket, Prefix=f"create-zip/{saga['saga_id']}/")
    assert listed.get("KeyCount", 0) == 0


def test_checkout_moves_stock_and_money(local_stack: Stack, api: Api) -> None:
    books, request = Books(local_stack), _event("checkout.json")
    for item in request["items"]:
        books.stock_up(item["sku"], 7)
    before = books.earned()
    saga = api.run("checkout", request)
    assert saga["status"] == "COMPLETED", saga
    assert [books.available(item["sku"]) for item in request["items"]] == [7 - i["quantity"] for i in request["items"]]
    assert books.earned() == before + Decimal(request["amount"])


def test_failed_checkout_leaves_the_books_as_they_were(local_stack: Stack, api: Api) -> None:
    books, request = Books(local_stack), _event("checkout_unservable.json")
    for item in request["items"]:
        books.stock_up(item["sku"], 7)
    before = books.earned()
    saga = api.run("checkout", request)
    assert saga["status"] == "COMPENSATED", saga
    assert saga["error"]["step"] == "ship"
    assert all(books.available(item["sku"]) == 7 for item in request["items"])
    assert books.earned() == before
    _, audit, _ = api.call("GET", f"/sagas/checkout/{saga['saga_id']}/audit")
    actions = [entry["action"] for entry in audit["entries"]]
    assert actions[0] == "SagaStarted"
    assert actions[-3:] == ["StepCompensated"] * 3
    assert [entry["seq"] for entry in audit["entries"]] == list(range(1, len(actions) + 1))


def test_out_of_stock_is_rejected(local_stack: Stack, api: Api) -> None:
    books, request = Books(local_stack), _event("checkout.json")
    for item in request["items"]:
        books.stock_up(item["sku"], 0)
    saga = api.run("checkout", request)
    assert (saga["status"], saga["error"]["type"]) == ("COMPENSATED", "Rejected")
    assert saga["steps"][0]["attempts"] == 1


@pytest.mark.parametrize(
    ("event", "status", "ends"),
    [
        ("basket.json", "COMPLETED", {"COMPLETED"}),
        ("basket_unservable.json", "COMPENSATED", {"COMPENSATED", "CANCELLED"}),
    ],
)
def test_three_carriers_take_a_basket_or_none_does(
    local_stack: Stack, api: Api, event: str, status: str, ends: set[str]
) -> None:
    books, request = Books(local_stack), _event(event)
    items = [item for parcel in request["parcels"] for item in parcel["items"]]
    for item in items:
        books.stock_up(item["sku"], 9)
    before = books.earned()
    saga = api.wait(api.start("basket", request), deadline=90)
    assert saga["status"] == status, saga
    children = api.call("GET", f"/sagas?parent={saga['saga_id']}")[1]["sagas"]
    assert len(children) == 3
    assert {child["status"] for child in children} <= ends
    left = {sku: 9 - sum(item["quantity"] for item in items if item["sku"] == sku) for sku in ("mug-blue", "tea-assam")}
    done = status == "COMPLETED"
    assert {sku: books.available(sku) for sku in left} == (left if done else dict.fromkeys(left, 9))
    assert books.earned() == before + (Decimal(request["amount"]) if done else 0)


def test_location_and_links_lead_to_the_saga(api: Api) -> None:
    status, saga, headers = api.call("POST", "/sagas/create-zip", {"bucket": "none", "keys": []})
    assert status == 202
    assert saga["links"]["self"] == headers["Location"]
    _, found, _ = api.send("GET", urljoin(api.url, headers["Location"]))
    assert found["saga_id"] == saga["saga_id"]


def test_an_idempotency_key_starts_one_saga(local_stack: Stack, api: Api) -> None:
    request, key = _event("checkout.json"), str(uuid.uuid4())
    status, first, _ = api.call("POST", "/sagas/checkout", request, Idempotency_Key=key)
    assert status == 202
    turned = dict(reversed(list(request.items())))
    status, second, _ = api.call("POST", "/sagas/checkout", turned, Idempotency_Key=key)
    assert (status, second["saga_id"]) == (200, first["saga_id"])
    other = request | {"order_id": "another"}
    status, answer, _ = api.call("POST", "/sagas/checkout", other, Idempotency_Key=key)
    assert (status, answer["error"]["code"]) == (422, "idempotency_key_reused")


CHECKOUT = _event("checkout.json")


@pytest.mark.parametrize(
    ("path", "body", "status", "paths"),
    [
        ("/sagas/nothing", CHECKOUT, 404, None),
        ("/sagas/checkout", b"{not json", 400, None),
        ("/sagas/checkout", b"", 400, None),
        ("/sagas/checkout", [], 422, {"$"}),
        ("/sagas/checkout", {**CHECKOUT, "amount": True, "card": 5}, 422, {"$.amount", "$.card"}),
        ("/sagas/checkout", {k: v for k, v in CHECKOUT.items() if k != "card"}, 422, {"$.card"}),
        ("/sagas/checkout", {**CHECKOUT, "extra": 1}, 422, {"$.extra"}),
        ("/sagas/create-zip", {"bucket": "b", "keys": ["a", 5]}, 422, {"$.keys[1]"}),
        ("/sagas/create-zip", {"bucket": "b", "keys": ["x" * 300_000]}, 413, None),
    ],
)
def test_bad_input_is_told_and_starts_nothing(
    api: Api, path: str, body: Any, status: int, paths: set[str] | None
) -> None:
    before = [api.count(name) for name in ("checkout", "create-zip")]
    raw = body if isinstance(body, bytes) else None
    got, answer, _ = api.call("POST", path, None if raw is not None else body, raw=raw)
    assert got == status, answer
    assert set(answer["error"]) == {"code", "message", "details"}
    if paths is not None:
        assert {detail["path"] for detail in answer["error"]["details"]} == paths
    assert [api.count(name) for name in ("checkout", "create-zip")] == before


def test_unknown_ids_and_routes(api: Api) -> None:
    assert api.call("GET", "/sagas/checkout/not-a-uuid")[0] == 404
    assert api.call("GET", f"/sagas/checkout/{uuid.uuid4()}")[0] == 404
    status, answer, _ = api.call("GET", "/nowhere")
    assert status in (403, 404)
    assert "message" in answer["error"]
    assert api.call("GET", "/sagas?limit=0")[1]["error"]["details"][0]["path"] == "query.limit"


def test_a_malformed_message_ends_in_the_dead_letter_queue_and_harms_no_other(local_stack: Stack, api: Api) -> None:
    sqs, queue = local_stack.client("sqs"), local_stack.description["queues"]["checkout"]["reserve"]
    dead = local_stack.description["dead_letter_queues"]["checkout"]
    marker = f"not json {uuid.uuid4()}"
    sqs.send_message(QueueUrl=queue, MessageBody=marker)
    request = _event("checkout.json")
    books = Books(local_stack)
    for item in request["items"]:
        books.stock_up(item["sku"], 7)
    assert api.run("checkout", request)["status"] == "COMPLETED"

    def dead_lettered() -> dict[str, Any] | None:
        messages = sqs.receive_message(QueueUrl=dead, VisibilityTimeout=0, MaxNumberOfMessages=10).get("Messages", [])
        return next((message for message in messages if message["Body"] == marker), None)

    letter = poll("the malformed message in the dead-letter queue", dead_lettered)
    sqs.delete_message(QueueUrl=dead, ReceiptHandle=letter["ReceiptHandle"])


def test_the_readme_of_the_events_invokes_each(local_stack: Stack) -> None:
    """What it says of the responses is what the deployed functions answer."""
    functions, answers = local_stack.client("lambda"), dict[str, dict[str, Any]]()
    names = [each["FunctionName"] for each in functions.list_functions(MaxItems=100)["Functions"]]
    readme = (REPOSITORY / "events" / "README.md").read_text()
    for part, file in re.findall(r"`invoke (\w+) (\w+\.json)`", readme):
        [name] = [name for name in names if part in name]
        answer = functions.invoke(FunctionName=name, Payload=(REPOSITORY / "events" / file).read_bytes())
        answers[file] = json.loads(answer["Payload"].read())
    statuses = {file: answer["statusCode"] for file, answer in answers.items() if file.startswith("api_")}
    assert {status for file, status in statuses.items() if file.startswith("api_start")} <= {200, 202}
    assert [statuses[f"api_{name}.json"] for name in ("list", "get_saga", "audit", "cancel")] == [200, 404, 404, 404]
    assert answers["sqs_step.json"] == {"batchItemFailures": []}
    assert len(answers["sqs_malformed.json"]["batchItemFailures"]) == 3
    assert {"found", "swept", "verified"} <= {key for answer in answers.values() for key in answer}
    bodies = set(re.findall(r"`sagas start [a-z-]+ --file events/(\w+\.json)", readme))
    assert bodies | answers.keys() == {file.name for file in (REPOSITORY / "events").glob("*.json")}
