"""Sentences and spans as people read them."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import pytest

from sagas.cli.output import escaped, plain
from sagas.client import SagaView
from sagas.client.read.advice import advice, why
from sagas.core.events import AttentionCode
from sagas.core.states import SagaStatus
from sagas.core.text import between, epoch, moment, span
from tests.unit.client.stub import BEGAN, SAGA_ID, a_saga, a_step, attention

NOW = epoch("2026-11-21T09:49:00.000Z")
ERROR = {"type": "Timeout", "message": "slow"}


def told(status: str, **fields: Any) -> list[str]:
    return advice(cast("SagaView", a_saga(status, **fields)), NOW)


@pytest.mark.parametrize("code", AttentionCode)
@pytest.mark.parametrize("status", SagaStatus)
def test_past_its_pivot_no_command_is_advised_that_the_api_refuses(status: str, code: str) -> None:
    saga = {"attention": attention(code), "past_pivot": "capture", "steps": [a_step("ship", "FAILED")]}
    text = " ".join(told(status, **saga))
    assert not re.search(r"`sagas (cancel|compensate)(?![^`]* --force --reason)", text)


def test_a_first_step_that_does_not_begin_may_not_load() -> None:
    assert told("PENDING", created_at="2026-11-21T09:48:50.000Z") == ["Its first step has not started yet."]
    (text,) = told("PENDING", created_at="2026-11-21T09:47:50.000Z")
    assert "`sagas doctor`" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.00 s"),
        (0.123, "0.12 s"),
        (12.34, "12.3 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (12000, "3 h 20 min"),
        (86400 * 2 + 3600 * 4, "2 d 4 h"),
    ],
)
def test_spans(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_times() -> None:
    assert moment(BEGAN) == "2026-11-21 09:48:50 UTC"
    assert between(BEGAN, "2026-11-21T09:48:51.716Z") == "1.5 s"
    assert between(None, BEGAN) == between(BEGAN, None) == ""


def test_plain_text_does_nothing_to_a_terminal() -> None:
    assert plain("a\x1b[31m\r\n b\x07") == "a [31m b"


@pytest.mark.parametrize(
    "control", ["\x07", "\x7f", "\x9b31m", "\x9d0;title", "\u202e", "\u2028", "\ud800", "\U000e0001"]
)
def test_json_does_nothing_to_a_terminal(control: str) -> None:
    data = {f"a{control}": [f"caf\xe9 {control}"]}
    text = escaped(json.dumps(data, indent=2, ensure_ascii=False))
    assert all(character.isprintable() or character == "\n" for character in text)
    assert json.loads(text) == data
    assert "caf\xe9" in text


def test_a_step_that_is_retried_says_when() -> None:
    step = a_step("upload", "RETRYING", attempts=2, error=ERROR, next_attempt_at="2026-11-21T09:49:03.000Z")
    assert told("RUNNING", steps=[step]) == [
        f"create-zip {SAGA_ID}, step upload, attempt 2 failed: Timeout: slow",
        "Attempt 3 of step upload is due in 3.0 s (2026-11-21 09:49:03 UTC).",
    ]


def test_a_skipped_step_says_why() -> None:
    assert why(cast("Any", a_step("insure", "SKIPPED", message="large() is false"))) == "skipped: large() is false"
    assert why(cast("Any", a_step("insure", "SKIPPED", message=None))) == "", "a purge deletes it"


def test_an_undo_that_is_retried_says_when() -> None:
    step = a_step("upload", "COMPENSATING", undo_attempts=1, error=ERROR, next_attempt_at=BEGAN)
    cause = {"step": "announce", "type": "NotFound", "message": ""}
    assert told("COMPENSATING", steps=[step, a_step("announce", "FAILED")], error=cause) == [
        f"create-zip {SAGA_ID}, step announce, attempt 1 failed: NotFound",
        f"The undo of create-zip {SAGA_ID}, step upload, attempt 1 failed: Timeout: slow",
        "Attempt 2 of the undo of step upload is due now (2026-11-21 09:48:50 UTC).",
        "Its completed steps are being undone.",
    ]


def test_an_undo_without_code_was_not_called() -> None:
    error = {"type": "CodeGone", "message": "the undo of step 'upload' is not in the deployed code"}
    step = a_step("upload", "COMPENSATION_FAILED", undo_attempts=0, error=error)
    first, _ = told("COMPENSATION_FAILED", steps=[step])
    assert first == f"The undo of create-zip {SAGA_ID}, step upload was not called: CodeGone: {error['message']}"


def test_a_failed_undo_says_what_can_be_done() -> None:
    step = a_step("upload", "COMPENSATION_FAILED", undo_attempts=4, error=ERROR)
    first, last = told("COMPENSATION_FAILED", steps=[step])
    assert first == f"The undo of create-zip {SAGA_ID}, step upload, attempt 4 failed: Timeout: slow"
    assert f"`sagas retry create-zip {SAGA_ID} --seq 9`" in last
    assert "--undone" in last


def test_after_a_retry_the_undo_is_blamed_and_not_its_step() -> None:
    step = a_step("upload", "COMPLETED", undo_attempts=4, error=ERROR)
    assert told("COMPENSATING", steps=[step])[0].startswith(f"The undo of create-zip {SAGA_ID}, step upload, attempt 4")


def test_an_undone_step_has_no_error_of_its_undo() -> None:
    step = a_step("upload", "COMPENSATED", undo_attempts=1, error=ERROR)
    assert told("COMPENSATED", steps=[step], error={"step": "upload", **ERROR}) == [
        f"create-zip {SAGA_ID}, step upload, attempt 1 failed: Timeout: slow",
        "All completed steps were undone.",
    ]


def test_a_step_in_doubt_is_told() -> None:
    (line,) = told("FAILED", in_doubt=["upload"])[:1]
    command = f"`sagas resolve create-zip {SAGA_ID} --seq 9 --reason ...`"
    assert line == f"In doubt: upload may or may not have taken effect. Check, then {command}."


def test_a_settled_saga_says_who_and_why_and_needs_nothing() -> None:
    resolution = {"by": "ann", "at": BEGAN, "reason": "refunded", "action": "by hand"}
    assert told("FAILED", resolution=resolution) == ["Settled by ann on 2026-11-21 09:48:50 UTC: refunded (by hand)"]


def test_a_purged_saga_says_when_and_why_and_nothing_else() -> None:
    purged = {"purged_at": BEGAN, "purge_reason": "asked for"}
    deleted = "request, results and errors are deleted."
    assert told("FAILED", in_doubt=["upload"], **purged) == [
        f"The saga was purged on 2026-11-21 09:48:50 UTC (asked for): {deleted}"
    ]
    assert told("COMPLETED", purged_at=BEGAN, purge_reason="") == [
        f"The saga was purged on 2026-11-21 09:48:50 UTC: {deleted}"
    ]


def test_a_purged_saga_names_the_objects_that_are_left() -> None:
    objects = [{"bucket": "zips", "key": "zips/1/a.zip"}, {"bucket": "zips", "key": "b \x1b[31m.zip"}]
    lines = told("COMPLETED", purged_at=BEGAN, purge_reason="", objects=objects, more_objects=7)
    assert lines[1:] == [
        "s3://zips/zips/1/a.zip is left to the sweep.",
        "s3://zips/b [31m.zip is left to the sweep.",
        "7 more objects are left to the sweep.",
    ]
    assert len(told("COMPLETED", purged_at=BEGAN, purge_reason="", objects=[], more_objects=0)) == 1


def test_a_completed_saga_needs_no_words() -> None:
    assert told("COMPLETED") == []
