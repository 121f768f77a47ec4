"""Every sample event is what a handler takes."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from functions.checkout import Checkout
from functions.create_zip import CreateZip
from sagas.core.states import SagaState
from sagas.errors import InvalidRequest, NotFound
from sagas.handlers import bulk, supervisor
from sagas.handlers import step as step_handler
from tests.handlers.conftest import EVENTS, Make, Site, load
from tests.support.aws import REGION, LambdaContext

SAMPLE = "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17"


@pytest.fixture
def reference(site: Make, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Site]:
    """The reference sagas' engine."""
    monkeypatch.setenv("ZIPS_BUCKET", "zips")
    monkeypatch.setenv("ANNOUNCE_TOPIC_ARN", "arn:aws:sns:eu-central-1:123456789012:zips")
    return lambda: site(CreateZip, Checkout)


def _stored(site: Site) -> SagaState:
    """The saga that the samples are about, with its journal."""
    started = site.engine.starter.start("create-zip", load("create_zip"))
    state = structs.replace(started.state, saga_id=SAMPLE, correlation_id=SAMPLE)
    assert site.engine.control.create(state, 120.0)
    [first] = site.engine.journal.history(started.state.saga_id, up_to=1)
    site.engine.journal.put(replace(first, saga_id=SAMPLE, correlation_id=SAMPLE))
    return state


def test_every_event_is_tested_here() -> None:
    bodies = {"approval", "approval_small", "checkout", "checkout_unservable", "create_zip"}
    bodies |= {"basket", "basket_unservable"}
    api = {"api_audit", "api_cancel", "api_get_saga", "api_list", "api_start_checkout", "api_start_create_zip"}
    scheduled = {"schedule_tick", "schedule_recover", "schedule_purge", "schedule_sweep", "schedule_verify"}
    others = {"sqs_malformed", "sqs_step"}
    assert {path.stem for path in EVENTS.glob("*.json")} == bodies | api | scheduled | others


@pytest.mark.parametrize("name", ["checkout", "create_zip"])
def test_starts(reference: Callable[[], Site], name: str) -> None:
    answer = reference().send(load(f"api_start_{name}"))
    assert (answer.status, answer.body["request"]) == (202, load(name))
    assert answer.headers["location"] == f"/prod/sagas/{answer.body['type']}/{answer.body['saga_id']}"
    assert uuid.UUID(answer.body["saga_id"]).version == (8 if name == "checkout" else 7)


def test_an_unservable_order_starts_too(reference: Callable[[], Site]) -> None:
    assert reference().call("POST", "/sagas/checkout", load("checkout_unservable")).status == 202


@pytest.mark.parametrize(("name", "status"), [("get_saga", 200), ("audit", 200), ("cancel", 200)])
def test_calls_about_one_saga(reference: Callable[[], Site], name: str, status: int) -> None:
    site = reference()
    assert site.send(load(f"api_{name}")).status == 404
    _stored(site)
    assert site.send(load(f"api_{name}")).status == status


def test_list(reference: Callable[[], Site]) -> None:
    site = reference()
    _stored(site)
    answer = site.send(load("api_list"))
    assert answer.status == 200
    assert set(answer.body) == {"sagas", "cursor"}


def test_step(reference: Callable[[], Site]) -> None:
    """The sources are really there."""
    site = reference()
    site.stack.s3.create_bucket(Bucket="sources", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    for key in load("create_zip")["keys"]:
        site.stack.s3.put_object(Bucket="sources", Key=key, Body=b"x")
    _stored(site)
    event = load("sqs_step")
    queue = site.stack.queues["create-zip"]["check"].rsplit("/", 1)[1]
    event["Records"][0]["eventSourceARN"] = f"arn:aws:sqs:eu-central-1:123456789012:{queue}"
    assert step_handler.handler(event, LambdaContext()) == {"batchItemFailures": []}
    saga = site.show(SAMPLE)
    assert (saga["status"], saga["steps"][0]["status"]) == ("RUNNING", "COMPLETED")


def test_malformed(reference: Callable[[], Site]) -> None:
    site = reference()
    event = load("sqs_malformed")
    before = site.tables()
    failed = step_handler.handler(event, LambdaContext())["batchItemFailures"]
    assert [item["itemIdentifier"] for item in failed] == [record["messageId"] for record in event["Records"]]
    assert site.tables() == before


def test_a_tick_at_midnight_runs_all_tasks(reference: Callable[[], Site]) -> None:
    reference()
    supervisor.reset()
    report = supervisor.handler(load("schedule_tick"), LambdaContext())
    nothing = {"found": 0, "messages": 0, "finished": True}
    assert report["recover"] == report["purge"] == nothing
    assert report["verify"] == {"verified": 0, "failed": 0, "broken": []}
    assert report["overview"] == {"needing": 0, "written": True}
    assert set(report) == {"recover", "overview", "purge", "verify", "sweep"}


def test_a_tick_with_nothing_to_recover(reference: Callable[[], Site]) -> None:
    reference()
    supervisor.reset()
    report = supervisor.handler(load("schedule_recover"), LambdaContext())
    assert report == {"found": 0, "messages": 0, "finished": True}
    report = supervisor.handler({"task": "recover"}, LambdaContext())
    assert all(value in (0, []) for value in report.values())


def test_a_tick_with_nothing_to_purge(reference: Callable[[], Site]) -> None:
    reference()
    supervisor.reset()
    report = supervisor.handler(load("schedule_purge"), LambdaContext())
    assert report == {"found": 0, "messages": 0, "finished": True}
    report = supervisor.handler({"task": "purge"}, LambdaContext())
    assert report == {"purged": 0, "untouched": 0, "failed": 0, "remaining": 0}


def test_a_night_with_nothing_to_verify(reference: Callable[[], Site]) -> None:
    reference()
    supervisor.reset()
    report = supervisor.handler(load("schedule_verify"), LambdaContext())
    assert report == {"verified": 0, "failed": 0, "broken": []}


BAD_TICKS: list[Any] = [
    None,
    [],
    "recover",
    {},
    {"task": ["recover"]},
    *(
        {"task": "recover", "stale_after": value}
        for value in (-1, True, "5", float("nan"), float("inf"), 1e300, 10**400)
    ),
    *({"task": "recover", "limit": value} for value in (0, 1001, True, 1.5, "5")),
    *({"task": "recover", "max_attempts": value} for value in (-1, 1001, True, "5")),
    *({"task": "recover", field: 5} for field in ("type", "saga_id")),
    *({"task": "sweep", "seconds": value} for value in (0, True, "5", float("nan"))),
    {"task": "recover", "queue": "yes"},
    {"task": "purge", "queue": False},
    {"task": "recover", "queue": True, "limit": 5},
    {"task": "sweep", "start_after": "\ud800"},
    {"task": "sweep", "now": "yes"},
    *({"task": task, field: "trip"} for task in ("recover", "purge", "sweep", "replay") for field in ("name", "saga")),
    {"task": "sweeps", "type": "trip"},
    *({"task": "verify", "sample": value} for value in (0, -1, 10_001, True, "5", 1.5, None)),
]


@pytest.mark.parametrize("event", BAD_TICKS, ids=ascii)
def test_a_tick_that_does_not_fit(reference: Callable[[], Site], event: Any) -> None:
    reference()
    supervisor.reset()
    with pytest.raises(InvalidRequest) as caught:
        supervisor.handler(event, LambdaContext())
    assert caught.value.problems


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ({"task": "recover", "limit": 0}, ("$.limit", "Expected `int` >= 1")),
        ({"task": "recover", "max_attempts": 1_001}, ("$.max_attempts", "Expected `int` <= 1000")),
        ({"task": "recover", "stale_after": "5"}, ("$.stale_after", "Expected `float | null`, got `str`")),
        ({"task": "recover", "dry_run": 1}, ("$.dry_run", "Expected `bool`, got `int`")),
        ({"task": "sweep", "seconds": 0}, ("$.seconds", "Expected `float` > 0.0")),
        ({"task": "sweep", "start_after": "x" * 1_025}, ("$.start_after", "Expected `str` of length <= 1024")),
    ],
)
def test_a_tick_names_the_field_that_does_not_fit_and_what_does(
    reference: Callable[[], Site], event: dict[str, Any], problem: tuple[str, str]
) -> None:
    reference()
    supervisor.reset()
    with pytest.raises(InvalidRequest) as caught:
        supervisor.handler(event, LambdaContext())
    (found,) = caught.value.problems
    assert (found.path, found.message) == problem


def test_a_field_of_a_tick_that_is_null_is_missing(reference: Callable[[], Site]) -> None:
    reference()
    supervisor.reset()
    nothing = dict.fromkeys(("stale_after", "type", "saga_id", "limit", "max_attempts"))
    assert supervisor.handler({"task": "recover", "dry_run": True, **nothing}, LambdaContext())["due"] == []
    nothing = dict.fromkeys(("type", "now", "force", "start_after", "seconds"))
    assert supervisor.handler({"task": "sweep", "dry_run": True, **nothing}, LambdaContext())["swept"]


@pytest.mark.parametrize(
    "fields", [{"type": "unknown"}, {"saga_id": "42"}, {"saga_id": str(uuid.UUID(int=7))}], ids=str
)
def test_a_tick_for_what_is_not_there(reference: Callable[[], Site], fields: dict[str, str]) -> None:
    reference()
    supervisor.reset()
    with pytest.raises(NotFound):
        supervisor.handler({"task": "recover", **fields}, LambdaContext())


def test_a_tick_with_nothing_to_sweep(reference: Callable[[], Site]) -> None:
    stack = reference().stack
    stack.s3.create_bucket(Bucket="zips", CreateBucketConfiguration={"LocationConstraint": REGION})
    supervisor.reset()
    bulk.reset()
    (report,) = supervisor.handler(load("schedule_sweep"), LambdaContext())["swept"]
    assert (report["type"], report["listed"], report["finished"], report["error"]) == ("create-zip", 0, False, "")
    assert bulk.handler({"Records": stack.receive_from(stack.work)}, LambdaContext()) == {"batchItemFailures": []}
    assert supervisor.handler(load("schedule_sweep"), LambdaContext()) == {"swept": []}
