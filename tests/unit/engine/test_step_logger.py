"""What a step logs reaches the log, whatever its fields are called."""

from __future__ import annotations

import asyncio
import io
import json
import logging

import pytest
from aws_lambda_powertools import Logger

from sagas import Context, Saga, step
from sagas.authoring.context import StepLogger
from sagas.testing import FakeContext, run

RESERVED = sorted({*vars(logging.makeLogRecord({})), "message", "asctime"})


class Telling(Saga[str], name="telling"):
    """Logs a line with every name that ``logging`` keeps for itself."""

    @step
    def pay(self, ctx: Context) -> None:
        ctx.logger.info("paid %s", "twice", extra={"amount": 5, **dict.fromkeys(RESERVED, "mine")})


@pytest.mark.parametrize("name", RESERVED)
def test_a_reserved_name_gets_an_underscore(name: str, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("tests.step-logger")
    logger.setLevel(logging.INFO)
    StepLogger(logger).info("paid", extra={name: "mine", "amount": 5})
    (record,) = caplog.records
    fields = vars(record)
    assert (record.getMessage(), record.name, fields[f"{name}_"], fields["amount"]) == (
        "paid",
        "tests.step-logger",
        "mine",
        5,
    )
    assert record.funcName == "test_a_reserved_name_gets_an_underscore"


def test_it_logs_at_the_level_of_the_function(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("tests.step-logger-level")
    logger.setLevel(logging.WARNING)
    own = StepLogger(logger)
    own.info("not this")
    own.exception("this", exc_info=ValueError("x"))
    assert [record.message for record in caplog.records] == ["this"]
    assert isinstance(own, logging.Logger)


def test_a_functions_lines_have_the_fields() -> None:
    stream = io.StringIO()
    powertools = Logger(service="tests-step-logger", stream=stream)
    powertools.append_keys(step="pay")
    StepLogger(logging.getLogger("tests-step-logger")).info("paid", extra={"name": "ann", "amount": 5})
    line = json.loads(stream.getvalue())
    assert (line["message"], line["name_"], line["amount"], line["step"]) == ("paid", "ann", 5, "pay")


def test_a_step_does_not_fail_for_it_in_a_test_either(caplog: pytest.LogCaptureFixture) -> None:
    assert run(Telling, "x").status == "COMPLETED"
    assert "paid twice" in [record.message for record in caplog.records]
    FakeContext().logger.warning("here", extra={"message": "mine"})


class Awaiting(Saga[str], name="awaiting"):
    """A coroutine."""

    @step
    async def pay(self) -> str:
        return "paid"


def test_a_coroutine_in_an_event_loop_is_refused() -> None:
    async def within(saga: type[Saga[str]]) -> str:
        return run(saga, "x").status

    with pytest.raises(RuntimeError, match=r"the coroutine 'pay' cannot run: call run\(\) from a plain function"):
        asyncio.run(within(Awaiting))
    assert asyncio.run(within(Telling)) == "COMPLETED"
    assert run(Awaiting, "x").status == "COMPLETED"


class Leaving(Saga[str], name="leaving"):
    """A step that raises what closes generators."""

    @step
    def pay(self) -> str:
        raise GeneratorExit


class LeavingLater(Saga[str], name="leaving-later"):
    """A coroutine that does so."""

    @step
    async def pay(self) -> str:
        raise GeneratorExit


@pytest.mark.parametrize("saga", [Leaving, LeavingLater])
def test_a_generator_exit_is_a_failed_attempt(saga: type[Saga[str]]) -> None:
    outcome = run(saga, "x")
    assert outcome.error is not None
    assert (outcome.status, outcome.error.type) == ("COMPENSATED", "StepExited")
