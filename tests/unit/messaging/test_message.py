"""What stands in a queue: how bodies are written and read, and what is wrong with one, by path."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

from sagas.core.text import outside_xml
from sagas.errors import FORMAT, InvalidRequest, NewerFormat
from sagas.messaging.message import CarriedInput, Message, PendingCommit, Trace, parse_record

SAGA_ID = "019aa5cd-4f25-7b02-8d6c-3f21d2a4c951"
OTHER = "019aa59c-fb41-7d0b-8a37-c2d15e94f603"
PLAIN = Message(SAGA_ID, "checkout", "capture", 1, False, 7, 0, OTHER)
DONE = PendingCommit(
    "StepCompleted",
    1,
    7,
    3,
    "019aa5cd4f200000001",
    {"started_at": "2026-11-21T08:44:42.123Z"},
    "1-5f-0",
    '{"paid":"caf\\u00e9 €"}',
)
ERROR = {"type": "OSError", "message": "no such file: \udcff"}
DETAILS = {"error": ERROR, "permanent": False, "rejected": False, "next_attempt_at": "2026-11-21T08:44:42.123Z"}
FAILED = PendingCommit("StepFailed", 2, 7, 3, "019aa5cd4f200000001", DETAILS)
BODIES: dict[str, tuple[str, Message]] = {
    "a step": (
        '{"saga_id":"019aa5cd-4f25-7b02-8d6c-3f21d2a4c951","saga":"checkout","step":"capture","index":1,"undo":false,'
        '"dispatch":7,"hops":0,"correlation_id":"019aa59c-fb41-7d0b-8a37-c2d15e94f603","format":1}',
        PLAIN,
    ),
    "an undo, often copied": (
        '{"saga_id":"019aa5cd-4f25-7b02-8d6c-3f21d2a4c951","saga":"create-zip","step":"caf\\u00e9","index":2,'
        '"undo":true,"dispatch":9,"hops":12,"correlation_id":"019aa5cd-4f25-7b02-8d6c-3f21d2a4c951","format":1}',
        Message(SAGA_ID, "create-zip", "café", 2, True, 9, 12, SAGA_ID),
    ),
    "a success": (
        '{"saga_id":"019aa5cd-4f25-7b02-8d6c-3f21d2a4c951","saga":"checkout","step":"capture","index":1,"undo":false,'
        '"dispatch":7,"hops":0,"correlation_id":"019aa59c-fb41-7d0b-8a37-c2d15e94f603","format":1,"commit":{"action":'
        '"StepCompleted","attempt":1,"token":7,"seq":3,"owner":"019aa5cd4f200000001","details":{"started_at":'
        '"2026-11-21T08:44:42.123Z"},"trace_id":"1-5f-0","payload":"{\\"paid\\":\\"caf\\\\u00e9 \\u20ac\\"}"}}',
        replace(PLAIN, pending_commit=DONE),
    ),
    "a failure with half a character": (
        '{"saga_id":"019aa5cd-4f25-7b02-8d6c-3f21d2a4c951","saga":"checkout","step":"capture","index":1,"undo":false,'
        '"dispatch":7,"hops":0,"correlation_id":"019aa59c-fb41-7d0b-8a37-c2d15e94f603","format":1,"commit":{"action":'
        '"StepFailed","attempt":2,"token":7,"seq":3,"owner":"019aa5cd4f200000001","details":{"error":{"type":"OSError","message":'
        '"no such file: \\udcff"},"permanent":false,"rejected":false,"next_attempt_at":"2026-11-21T08:44:42.123Z"},'
        '"trace_id":"","payload":null}}',
        replace(PLAIN, pending_commit=FAILED),
    ),
}
"""Bodies, and what they say."""


def read(**changed: Any) -> Message:
    """What is read from a good body after some of its fields were changed."""
    return parse_record({"body": json.dumps(json.loads(PLAIN.body) | changed)})


def refused(body: Any) -> list[str]:
    """The paths of what is wrong with a body."""
    with pytest.raises(InvalidRequest) as caught:
        parse_record({"body": body})
    return [problem.path for problem in caught.value.problems]


@pytest.mark.parametrize(("body", "message"), BODIES.values(), ids=BODIES)
def test_bodies_are_written_and_read(body: str, message: Message) -> None:
    assert json.loads(message.body) == json.loads(body)
    assert parse_record({"body": message.body}) == message
    assert parse_record({"body": body}) == message


def test_a_saga_without_a_correlation_id_is_its_own() -> None:
    body = {name: value for name, value in json.loads(PLAIN.body).items() if name not in ("hops", "correlation_id")}
    assert parse_record({"body": json.dumps(body)}) == replace(PLAIN, correlation_id=SAGA_ID)
    assert read(correlation_id="").correlation_id == SAGA_ID


def test_what_is_not_known_is_passed_over() -> None:
    more: dict[str, Any] = {"message_id": 5, "receipt": [], "later": {"deep": [float("inf"), "\ud800", 10**400]}}
    assert read(**more) == PLAIN


def test_carried_inputs_are_arrays() -> None:
    inputs = (CarriedInput(1, "h-_", "s", '{"a":"€"}'), CarriedInput(2, "H" * 64), CarriedInput(10**15, "h", "", "7"))
    message = replace(PLAIN, inputs=inputs)
    written = json.loads(message.body)
    assert written["inputs"] == [
        [1, "h-_", "s", '{"a":"€"}', []],
        [2, "H" * 64, "", None, []],
        [10**15, "h", "", "7", []],
    ]
    assert parse_record({"body": message.body}) == message
    assert "inputs" not in json.loads(PLAIN.body)
    assert read(inputs=[[1, "h"], [2, "h", "s"], [3, "h", "s", None, [], "later"]]).inputs == (
        CarriedInput(1, "h"),
        CarriedInput(2, "h", "s"),
        CarriedInput(3, "h", "s"),
    )


@pytest.mark.parametrize(
    ("inputs", "path"),
    [
        (None, ""),
        ({}, ""),
        ("x", ""),
        ([[2, "h"], [1, "h"]], ""),
        ([[2, "h"], [2, "h"]], ""),
        ([[n + 1, "h"] for n in range(201)], ""),
        ([[1]], "[0]"),
        ([{"seq": 1, "hash": "h"}], "[0]"),
        ([[1, "h"], [0, "h"]], "[1][0]"),
        ([[10**15 + 1, "h"]], "[0][0]"),
        ([["1", "h"]], "[0][0]"),
        ([[1, ""]], "[0][1]"),
        ([[1, "h="]], "[0][1]"),
        ([[1, "h\n"]], "[0][1]"),
        ([[1, "h" * 65]], "[0][1]"),
        ([[1, "\ud800"]], "[0][1]"),
        ([[1, "h", "s" * 65]], "[0][2]"),
        ([[1, "h", None]], "[0][2]"),
        ([[1, "h", "s", 7]], "[0][3]"),
        ([[1, "h", "s", "{"]], "[0][3]"),
        ([[1, "h", "s", ""]], "[0][3]"),
        ([[1, "h", "s", "[" * 5_000]], "[0][3]"),
    ],
    ids=ascii,
)
def test_carried_inputs_that_are_none(inputs: Any, path: str) -> None:
    assert refused(json.dumps(json.loads(PLAIN.body) | {"inputs": inputs})) == [f"$.inputs{path}"]


def test_a_message_says_its_format() -> None:
    assert json.loads(PLAIN.body)["format"] == 1


@pytest.mark.parametrize("more", [{}, {"saga_id": 5, "commit": 7}, {"step": "\ud800"}, {"saga": "\x00"}])
@pytest.mark.parametrize("found", [FORMAT + 1, FORMAT + 0.5, 10**50])
def test_what_a_newer_version_wrote_is_not_looked_at(found: Any, more: dict[str, Any]) -> None:
    with pytest.raises(NewerFormat):
        read(format=found, **more)
    with pytest.raises(NewerFormat):
        parse_record({"body": json.dumps({"format": found})})


@pytest.mark.parametrize("found", [0, -1, True, "2", None, [], float("nan")])
def test_a_format_that_is_none(found: Any) -> None:
    assert refused(json.dumps(json.loads(PLAIN.body) | {"format": found})) == ["$.format"]


def test_all_that_is_wrong_is_named() -> None:
    assert refused("{}") == ["$.saga_id", "$.saga", "$.step", "$.index", "$.undo", "$.dispatch"]
    wrong = {"saga_id": "42", "saga": "x" * 300, "index": -1, "dispatch": 0, "hops": True, "correlation_id": None}
    assert refused(json.dumps(json.loads(PLAIN.body) | wrong)) == [f"$.{name}" for name in wrong]
    broken = {"saga": "a\x00b", "step": "\ud800", "correlation_id": "\u200b"}
    assert refused(json.dumps(json.loads(PLAIN.body) | broken)) == [f"$.{name}" for name in broken]


@pytest.mark.parametrize("name", ["index", "dispatch", "hops"])
@pytest.mark.parametrize("number", [10**15 + 1, 10**50, -(10**50), 1.0, 1e300, float("nan"), True, "1", None])
def test_a_number_that_is_none_of_ours(name: str, number: Any) -> None:
    assert refused(json.dumps(json.loads(PLAIN.body) | {name: number})) == [f"$.{name}"]


def test_no_value_is_quoted() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(saga_id="secret", saga=["secret"], commit={"action": "secret"})
    assert "secret" not in str(caught.value) + str(caught.value.problems)


@pytest.mark.parametrize(
    "body", [None, 5, [], {}, "", "x", "[" * 100_000, '{"a":' * 5_000, "1" * 10_000, "\ud800", "7"]
)
def test_what_is_no_object_at_all(body: Any) -> None:
    assert refused(body) == ["$"]


def test_a_record_without_a_body() -> None:
    with pytest.raises(InvalidRequest):
        parse_record({})


def test_of_two_fields_with_one_name_the_last_counts() -> None:
    assert parse_record({"body": PLAIN.body.replace('"index":1', '"index":0,"index":1')}) == PLAIN
    assert parse_record({"body": PLAIN.body.replace('"index":1', '"index":"0","index":1')}) == PLAIN
    assert refused(PLAIN.body.replace('"index":1', '"index":1,"index":"1"')) == ["$.index"]


def test_a_report_is_told_by_the_place_in_it() -> None:
    commit: dict[str, Any] = json.loads(replace(PLAIN, pending_commit=DONE).body)["commit"]
    body: dict[str, Any] = json.loads(PLAIN.body)
    assert refused(json.dumps(body | {"commit": commit | {"token": 0}})) == ["$.commit.token"]
    unfit = {"action": "StepFailed", "payload": "{}", "details": {"error": {"type": "E", "message": None}}}
    assert refused(json.dumps(body | {"commit": commit | unfit})) == ["$.commit.payload", "$.commit.details"]
    assert refused(json.dumps(body | {"commit": None})) == ["$.commit"]


TRACE = Trace(
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "vendor=1", "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
)


def test_a_trace_comes_back_as_it_was_sent() -> None:
    traced = replace(PLAIN, trace=TRACE)
    assert parse_record({"body": traced.body}).trace == TRACE
    assert replace(traced, trace=None).body == PLAIN.body


def test_a_trace_may_say_anything_within_reason() -> None:
    """What is no trace context is nobody's parent; a message does not fail by it."""
    odd = replace(PLAIN, trace=Trace("nonsense", "", "\u00e9"))
    assert parse_record({"body": odd.body}).trace == odd.trace


@pytest.mark.parametrize(
    ("trace", "path"),
    [("text", "$.trace"), ({"saga": 1}, "$.trace.saga"), ({}, "$.trace"), ({"saga": "x" * 513}, "$.trace.saga")],
)
def test_a_trace_of_another_shape_is_none_of_ours(trace: Any, path: str) -> None:
    body = json.loads(PLAIN.body) | {"trace": trace}
    assert refused(json.dumps(body)) == [path]


def test_characters_that_sqs_does_not_take_are_escaped() -> None:
    text = "a\ufffeb\uffffc\x00d\ud7ff\ue000\U0010ffff"
    carried = (CarriedInput(1, "aa", "bb", json.dumps(text, ensure_ascii=False)),)
    body = replace(PLAIN, inputs=carried, correlation_id="\uffff").body
    assert not outside_xml(body)
    assert json.loads(body)["correlation_id"] == "\uffff"
    assert read(inputs=json.loads(body)["inputs"]).inputs == carried


def test_the_characters_that_sqs_refuses() -> None:
    """All but ``#x9 | #xA | #xD | #x20-#xD7FF | #xE000-#xFFFD | #x10000-#x10FFFF``, as the API's reference says."""
    taken = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
    wrong = [code for code in range(0x11000) if outside_xml(f"a{chr(code)}") == bool(taken.match(chr(code)))]
    assert wrong == []
