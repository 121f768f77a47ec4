"""Events that nobody meant: no exception escapes, every answer has its shape, what is good beside them is done.

In the gate the same examples each time; with ``SAGAS_PROOF=full`` many more, other ones every time.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.checkout import Checkout
from functions.create_zip import CreateZip
from sagas.errors import InvalidRequest, NotFound
from sagas.handlers import step as step_handler
from sagas.handlers import supervisor
from tests.handlers.conftest import Answer, Make, Site, load, request
from tests.support.aws import REGION, LambdaContext
from tests.support.hostile import anything, texts
from tests.support.sagas import Fatal, Trip

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")  # only of an example that failed

NOBODY = str(uuid.UUID(int=7))
GOOD: dict[str, Any] = {"saga_id": NOBODY, "saga": "trip", "step": "book", "index": 0, "undo": False, "dispatch": 1}
TYPES: dict[str, type[Any]] = {name: type(value) for name, value in (GOOD | {"hops": 0, "correlation_id": ""}).items()}
COMMIT: dict[str, Any] = {
    "action": "StepCompleted",
    "attempt": 1,
    "token": 1,
    "seq": 1,
    "owner": "somebody",
    "details": {},
    "trace_id": "",
    "payload": "null",
}

# Records of SQS.


def _dumped(value: Any) -> str:
    return json.dumps(value)


def _spoilt(original: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with one field changed to anything else."""
    changed = st.tuples(st.sampled_from(sorted(original)), anything)
    return changed.map(lambda pair: original | {pair[0]: pair[1]})


def _wrong(name: str) -> st.SearchStrategy[dict[str, Any]]:
    wrong = anything.filter(lambda value: type(value) is not TYPES[name])
    return wrong.map(lambda value: GOOD | {name: value})


BODIES: st.SearchStrategy[str] = st.one_of(
    texts,
    anything.map(_dumped),
    st.sampled_from(sorted(TYPES)).flatmap(_wrong).map(_dumped),
    st.sampled_from(sorted(GOOD)).map(lambda name: _dumped({k: v for k, v in GOOD.items() if k != name})),
    st.tuples(st.sampled_from(["saga_id", "saga", "step"]), texts).map(lambda pair: _dumped(GOOD | {pair[0]: pair[1]})),
    _spoilt(COMMIT).map(lambda commit: _dumped(GOOD | {"commit": commit})),
    anything.map(lambda commit: _dumped(GOOD | {"commit": commit})),
    st.sampled_from(
        ["[" * 100_000, '{"a":' * 5_000, "1" * 10_000, _dumped(GOOD), _dumped(GOOD | {"dispatch": 10**30})]
    ),
)
"""Bodies that fit no saga there is: all of them are malformed, or name one that does not exist."""

ENVELOPES: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just(dict[str, Any]()),
    st.tuples(st.sampled_from(["body", "attributes", "messageAttributes", "receiptHandle"]), anything).map(
        lambda pair: {pair[0]: pair[1]}
    ),
    anything.map(lambda value: {"attributes": {"ApproximateReceiveCount": value, "SentTimestamp": value}}),
)
"""What of the record itself is another than SQS makes it, except its queue: that sends a message on to its own."""

RECORDS: st.SearchStrategy[dict[str, Any]] = st.tuples(BODIES, ENVELOPES).map(
    lambda pair: {"receiptHandle": "none", "body": pair[0]} | pair[1]
)


@pytest.fixture
def trip(site: Make, request: pytest.FixtureRequest) -> Site:
    """Sagas whose messages are handled by hand. Each test has a logger: one stays with the output it had first."""
    return site(Trip, Fatal, POWERTOOLS_SERVICE_NAME=request.node.name)


@pytest.mark.slow
def test_bad_records_are_reported_and_good_ones_beside_them_done(
    trip: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    @given(st.lists(RECORDS, min_size=1, max_size=3), st.integers(0, 3))
    def prove(bad: list[dict[str, Any]], place: int) -> None:
        saga_id = trip.start("trip", {"item": "train"})
        [good] = trip.stack.receive("trip", "book")
        queue = good["eventSourceARN"]
        bad = [one | {"messageId": f"bad-{number}", "eventSourceARN": queue} for number, one in enumerate(bad)]
        capsys.readouterr()
        records = [*bad[:place], good, *bad[place:]]
        answer = step_handler.handler({"Records": records}, LambdaContext())
        told = capsys.readouterr()
        assert [item["itemIdentifier"] for item in answer["batchItemFailures"]] == [one["messageId"] for one in bad]
        assert trip.engine.reader.state("trip", saga_id).cursor == 1
        assert trip.actions(saga_id) == ["SagaStarted", "StepCompleted"]
        lines = [json.loads(line) for line in told.out.splitlines()]
        refused = [line["message_id"] for line in lines if line.get("message") == "message refused"]
        assert refused == [one["messageId"] for one in bad]
        assert "Traceback" not in told.out + told.err
        trip.stack.settle("trip", "book", [good], answer)

    prove()


@pytest.mark.slow
def test_a_message_changed_in_one_place_harms_no_saga(trip: Site) -> None:
    """It may be a late one, a copy, or that of another saga; the saga it names is as before, or one step on."""

    @given(st.data())
    def prove(data: st.DataObject) -> None:
        saga_id = trip.start("trip", {"item": "train"})
        records = trip.stack.receive("trip", "book", 10)  # with what the examples before left there
        [record] = (one for one in records if json.loads(one["body"])["saga_id"] == saga_id)
        body = json.loads(record["body"]) | {"commit": COMMIT | {"token": 0}}
        if data.draw(st.booleans()):
            del body["commit"]
        answer = step_handler.handler(
            {"Records": [record | {"body": _dumped(data.draw(_spoilt(body)))}]}, LambdaContext()
        )
        assert set(answer) == {"batchItemFailures"}
        state = trip.engine.reader.state("trip", saga_id)
        assert (state.cursor, len(trip.stack.entries(saga_id))) in ((0, 1), (1, 2))
        trip.stack.settle("trip", "book", records, {"batchItemFailures": []})

    prove()


def _refused_or(call: Callable[[], dict[str, Any]], *kinds: type[Exception]) -> dict[str, Any] | None:
    """What the function returns; ``None`` when it refuses the event in words."""
    try:
        return call()
    except kinds as error:
        words = [str(error), *(problem.path for problem in getattr(error, "problems", ()))]
    assert all(words)
    return None


@given(
    anything | st.fixed_dictionaries({"Records": anything | st.lists(st.fixed_dictionaries({"messageId": anything}))})
)
def _check_other_events(event: Any) -> None:
    answer = _refused_or(lambda: step_handler.handler(event, LambdaContext()), InvalidRequest)
    if answer is not None:
        failed = [item["itemIdentifier"] for item in answer["batchItemFailures"]]
        assert failed == [record["messageId"] for record in event.get("Records", [])]


def test_an_event_that_is_not_sqs_fails_as_a_whole(trip: Site) -> None:
    """Lambda then keeps all of its records; an answer that names none of them would delete them."""
    _check_other_events()


# Calls of the API.

PATHS: st.SearchStrategy[str] = st.lists(
    st.sampled_from(
        [
            "sagas",
            "trip",
            "fatal",
            "attention",
            "types",
            "openapi.json",
            "audit",
            "retry",
            "resolve",
            "purge",
            NOBODY,
            "{id}",
            "",
        ]
    )
    | texts,
    max_size=5,
).map(lambda parts: "/" + "/".join(parts))
KNOWN = st.sampled_from(
    [
        "/sagas/trip",
        "/sagas/trip/{id}",
        "/sagas/trip/{id}/audit",
        "/sagas/trip/{id}/verification",
        "/sagas/trip/{id}/retry",
        "/sagas/trip/{id}/compensate",
        "/sagas/trip/{id}/resolve",
        "/sagas/trip/{id}/purge",
        "/sagas",
        "/attention",
        "/types/fatal",
    ]
)
METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]) | texts
NAMES = st.sampled_from(["limit", "cursor", "status", "type"]) | texts
API_BODIES: st.SearchStrategy[str | None] = st.one_of(
    st.none(),
    texts,
    anything.map(_dumped),
    st.fixed_dictionaries({}, optional={"item": anything, "count": anything}).map(_dumped),
    st.fixed_dictionaries(
        {"reason": anything | texts}, optional={"action": texts, "steps": st.just(["book"]) | anything, "x": anything}
    ).map(_dumped),
    st.fixed_dictionaries({"active": st.booleans()}, optional={"reason": texts}).map(_dumped),
    st.sampled_from(
        ["[" * 100_000, '{"item":' * 900, '{"item":"x","item":"y"}', "\ufeff{}", '{"item":"' + "x" * 300_000]
    ),
)
HEADERS = st.dictionaries(
    st.sampled_from(["Idempotency-Key", "idempotency-key", "content-type"]) | texts, texts, max_size=3
)


def _checked(answer: Answer) -> Answer:
    """The answer, which has the shape that the contract gives it; the site has held it to the description."""
    json.dumps(answer.body, allow_nan=False)
    assert answer.headers["content-type"] == "application/json"
    assert "Traceback" not in json.dumps(answer.body)
    if answer.status >= 400:
        assert answer.code
        details = answer.body["error"]["details"]
        assert (answer.status == 422) == (details is not None)
        assert details is None or answer.paths
    return answer


def test_every_call_gets_an_answer_of_the_one_shape(trip: Site) -> None:
    saga_id = trip.begin("trip")

    @given(METHODS, KNOWN | PATHS, st.dictionaries(NAMES, texts, max_size=3), HEADERS, API_BODIES, st.booleans())
    def prove(
        method: str, path: str, query: dict[str, str], headers: dict[str, str], body: str | None, encoded: bool
    ) -> None:
        event = request(method, path.replace("{id}", saga_id), body)
        event["queryStringParameters"], event["isBase64Encoded"] = query or None, encoded
        event["headers"] = headers or None
        answer = _checked(trip.send(event))
        assert answer.status < 500 or answer.code == "disabled"

    prove()


def test_known_calls_with_hostile_bodies(trip: Site) -> None:
    """The calls that read a body, so that each is tried often."""
    saga_id = trip.begin("trip")
    calls = [
        ("POST", path) for path in ("/sagas/trip", *(f"/sagas/trip/{saga_id}/{verb}" for verb in ("retry", "resolve")))
    ]

    @given(st.sampled_from([*calls, ("PUT", "/types/fatal")]), API_BODIES, st.none() | texts)
    def prove(call: tuple[str, str], body: str | None, key: str | None) -> None:
        answer = _checked(trip.send(request(*call, body, key=key)))
        assert answer.status in (200, 202, 400, 409, 413, 422)

    prove()


def test_events_that_are_no_calls_are_answered_too(trip: Site) -> None:
    fields = ["httpMethod", "resource", "path", "pathParameters", "headers", "queryStringParameters", "requestContext"]
    fields += ["body", "isBase64Encoded"]
    spoilt = st.dictionaries(st.sampled_from(fields), anything, min_size=1).map(
        lambda odd: request("GET", "/sagas") | odd
    )

    @given(anything | spoilt)
    def prove(event: Any) -> None:
        assert _checked(trip.send(event)).status < 500

    prove()


# Ticks of the schedule.


@pytest.fixture
def reference(site: Make, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The reference sagas' engine, with a bucket to sweep."""
    monkeypatch.setenv("ZIPS_BUCKET", "zips")
    monkeypatch.setenv("ANNOUNCE_TOPIC_ARN", "arn:aws:sns:eu-central-1:123456789012:zips")
    made = site(CreateZip, Checkout)
    made.stack.s3.create_bucket(Bucket="zips", CreateBucketConfiguration={"LocationConstraint": REGION})
    supervisor.reset()
    return made


TICKS = st.dictionaries(
    st.sampled_from(
        [
            "stale_after",
            "type",
            "name",
            "saga_id",
            "limit",
            "max_attempts",
            "saga",
            "now",
            "dry_run",
            "force",
            "start_after",
            "seconds",
            "queue",
            "time",
            "sample",
        ]
    ),
    anything,
    max_size=3,
)
TASKS = st.sampled_from(["tick", "recover", "purge", "sweep"]) | anything


def test_a_malformed_tick_is_refused_in_clear_words(reference: Site) -> None:
    @given(st.tuples(TASKS, TICKS).map(lambda pair: {"task": pair[0]} | pair[1]) | anything)
    def prove(event: Any) -> None:
        before = reference.tables()
        report = _refused_or(lambda: supervisor.handler(event, LambdaContext()), InvalidRequest, NotFound)
        if report is None:
            assert reference.tables() == before
        else:
            assert event["task"] in ("tick", "recover", "purge", "sweep")
            json.dumps(report, ensure_ascii=False).encode()
            assert all(one["error"] == "" for one in report.get("swept", []))

    prove()


def test_the_samples_are_no_hostile_ones(reference: Site) -> None:
    for name in ("schedule_tick", "schedule_recover", "schedule_purge", "schedule_sweep", "schedule_verify"):
        assert supervisor.handler(load(name), LambdaContext())
