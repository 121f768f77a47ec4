"""What a copy of a dead letter says of who moved it, and what of that is believed."""

from __future__ import annotations

from typing import Any

import pytest

from sagas.errors import InvalidRequest
from sagas.messaging.message import BY, REASON, check_reason, redrive_attributes, redriver_of

ANN = "arn:aws:iam::123456789012:user/ann"
OLD = {"saga": {"DataType": "String", "StringValue": "trip"}}


def received(by: Any, reason: Any) -> dict[str, Any]:
    given = {BY: {"stringValue": by, "dataType": "String"}, REASON: {"stringValue": reason, "dataType": "String"}}
    return {"messageAttributes": given}


def test_a_copy_says_who_moves_it_in_place_of_who_did_before() -> None:
    once = redrive_attributes(OLD, ANN, "it is up")
    assert once == OLD | {
        BY: {"DataType": "String", "StringValue": ANN},
        REASON: {"DataType": "String", "StringValue": "it is up"},
    }
    assert redrive_attributes(once, "", "") == OLD  # SQS takes no empty attribute


@pytest.mark.parametrize(
    "by",
    [
        ANN,
        "arn:aws-cn:iam::123456789012:root",
        "arn:aws:sts::123456789012:assumed-role/Operators/ann@example.com",
        "arn:aws-us-gov:sts::123456789012:federated-user/ann",
    ],
)
def test_a_principal_is_believed(by: str) -> None:
    assert redriver_of(received(by, "why\nso")) == (by, "why\nso")


@pytest.mark.parametrize(
    "by",
    [
        "worker", "supervisor", "cognito:ann", "", "arn:aws:sqs:eu-central-1:123456789012:queue", ANN + "\n",
        ANN + " or so", "arn:aws:iam::12345:user/ann", ANN + "x" * 1_000, None, 7, {"a": 1},
    ],
)  # fmt: skip
def test_nothing_else_is(by: Any) -> None:
    assert redriver_of(received(by, "why")) == ("", "why")


@pytest.mark.parametrize("reason", ["x" * 4_001, "half \ud800", "bell \x07", "", None, 7, ["why"]])
def test_a_note_that_does_not_fit_is_passed_over(reason: Any) -> None:
    assert redriver_of(received(ANN, reason)) == (ANN, "")


@pytest.mark.parametrize(
    "record",
    [{}, {"messageAttributes": None}, {"messageAttributes": []}, {"messageAttributes": {BY: ANN, REASON: None}}],
)
def test_a_record_may_say_nothing(record: dict[str, Any]) -> None:
    assert redriver_of(record) == ("", "")


@pytest.mark.parametrize("reason", ["x" * 4_001, "half \ud800", "bell \x07", "\ufffe"])
def test_a_note_that_cannot_be_sent_is_refused(reason: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_reason(reason)
    assert [problem.path for problem in caught.value.problems] == ["reason"]


def test_a_note_may_have_lines_and_any_letters() -> None:
    check_reason("it is up:\r\n\t" + "é€😀" * 1_000)
    check_reason("")
