"""Values that a type hides stand in no text that its code writes: neither stored, nor in an answer or a log line."""

# pyright: reportUnknownParameterType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# The classes of this module take the types that a test gives them.

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, make_dataclass
from datetime import timedelta
from functools import partial
from itertools import cycle, islice
from typing import Any, cast

import pytest
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from sagas import Context, NotYet, Saga, Secret, children, step, wait_for
from sagas.authoring.codec import encode
from sagas.core.ids import child_id
from sagas.engine.attempt import attempt
from sagas.engine.attempt.heartbeat import ProgressReport
from sagas.engine.attempt.redacted_lines import RedactedLines
from sagas.spellings import HIDDEN, Secrets
from sagas.testing import run
from tests.engine.acting import helpers, until
from tests.engine.outages import Begin, carried
from tests.support.bench import Bench, Make
from tests.support.dynamodb import aws
from tests.support.sagas import ONCE
from tests.support.spelled import PEM, SHAPES, SPELLINGS, shown

ASKED = timedelta(days=1)


def _raise_cause(text: str) -> None:
    try:
        raise KeyError(text)
    except KeyError as error:
        raise RuntimeError("refused") from error


def _raise_context(text: str) -> None:
    try:
        raise ValueError(text)
    finally:
        raise RuntimeError("refused")


def _raise_note(text: str) -> None:
    error = RuntimeError("refused")
    error.add_note(text)
    raise error


def _raise_group(text: str) -> None:
    raise ExceptionGroup("several", [ValueError(text), ExceptionGroup("inner", [KeyError(text), OSError(5, text)])])


def _raise(text: str) -> None:
    raise RuntimeError(text)


def _not_yet(text: str) -> None:
    raise NotYet(1, text)


def _log(text: str, logger: logging.Logger) -> None:
    logger.info(text)
    logger.info("%s and %r", text, [text])
    logger.warning("paid", extra={"to": {"value": [text]}, text[:40]: 1})
    try:
        raise KeyError(text)
    except KeyError:
        logger.exception("refused")


PLACES: dict[str, Callable[[str], None]] = {
    "error": _raise,
    "cause": _raise_cause,
    "context": _raise_context,
    "note": _raise_note,
    "group": _raise_group,
    "not yet": _not_yet,
}


def quoting(type_: Any, spell: Callable[[Any], str], place: Callable[[str], None]) -> type[Any]:
    """A saga whose step quotes what it must not, after its undo, its log lines and its own wait did."""
    request_type = make_dataclass("Request", [("value", type_), ("open", str)], frozen=True)
    request_type.__module__ = __name__

    class Quoting(Saga[request_type], name="quoting"):  # pyright: ignore[reportInvalidTypeForm]
        @step(within=timedelta(seconds=3))
        def first(self, request: request_type) -> str:  # pyright: ignore[reportInvalidTypeForm]
            return "done"

        @first.compensate(retry=ONCE)
        def undo_first(self, request: request_type) -> None:  # pyright: ignore[reportInvalidTypeForm]
            place(spell(request.value))

        @step(retry=ONCE, within=timedelta(seconds=3))
        def second(self, request: request_type, ctx: Context) -> str:  # pyright: ignore[reportInvalidTypeForm]
            _log(spell(request.value), ctx.logger)
            place(spell(request.value))
            return "done"

    return Quoting


def everything(b: Bench, saga_id: str, name: str = "quoting") -> Iterator[str]:
    """All that is stored of a saga but its values, and all that the API shows of it."""
    for entry in b.engine.journal.history(saga_id):
        yield json.dumps(entry.details, ensure_ascii=False)
    yield repr(b.state(saga_id))
    reader = b.engine.reader
    yield json.dumps(reader.audit(name, saga_id, 100, 0), ensure_ascii=False)
    yield from (json.dumps(reader.show(name, saga_id, payloads=each), ensure_ascii=False) for each in (True, False))
    yield json.dumps([reader.list([name], None, 10, None), reader.attention(None, 10, None)], ensure_ascii=False)


def texts_in(document: str) -> Iterator[str]:
    """The texts in JSON, and the JSON."""
    yield document

    def walk(node: Any) -> Iterator[str]:
        if isinstance(node, str):
            yield node
        if isinstance(node, dict):
            node = [*cast("dict[str, Any]", node).values()]
        for item in cast("list[Any]", node) if isinstance(node, list) else ():
            yield from walk(item)

    try:
        yield from walk(json.loads(document))
    except ValueError:
        return


@pytest.fixture
def check(credentials: None, caplog: pytest.LogCaptureFixture) -> Callable[[str, str, str], None]:
    """Run a saga that quotes a secret in one spelling and place. Nothing may show it."""
    caplog.set_level(logging.INFO)

    def checked(shape: str, spelling: str, place: str) -> None:
        (type_, value), spell = SHAPES[shape], SPELLINGS[spelling]
        caplog.clear()
        with aws():
            b = Bench(quoting(type_, spell, PLACES[place]))
            saga_id = b.start("quoting", {"value": encode(value, type_), "open": "seen"})
            b.run()
            assert b.status(saga_id) == "COMPENSATION_FAILED"
            documents = [*everything(b, saga_id)]
        lines = [f"{record.getMessage()} {record.exc_text or ''} {vars(record)}" for record in caplog.records]
        assert any("paid" in line for line in lines)
        for text in (text for document in (*documents, *lines) for text in texts_in(document)):
            assert not shown(value, text), (shape, spelling, place, text)
        assert HIDDEN in "".join(documents) or spelling == "the last line"

    return checked


def _pairs(start: int) -> list[tuple[str, str]]:
    """Each shape with a spelling, other ones for each start."""
    spellings = cycle(SPELLINGS)
    return [*zip(SHAPES, islice(spellings, start, None), strict=False)]


@pytest.mark.parametrize("place", PLACES)
def test_a_value_is_shown_nowhere(check: Callable[[str, str, str], None], place: str) -> None:
    number = [*PLACES].index(place)
    for shape, spelling in _pairs(7 * number)[number :: 2 * len(PLACES)]:
        check(shape, spelling, place)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_every_shape_is_shown_nowhere(check: Callable[[str, str, str], None], place: str) -> None:
    """The unmarked test above has some of these, and ``test_spellings`` all shapes and spellings."""
    for shape, spelling in _pairs(5 * [*PLACES].index(place)):
        check(shape, spelling, place)


IBAN, NAME, TOKEN = "DE00 1234 5678", "Ada Lovelace", "tok-of-ann-4711"


@dataclass(frozen=True)
class Open:
    iban: str
    name: str = ""
    scan: str = ""


@dataclass(frozen=True)
class HidesIban:
    iban: Secret[str]
    name: str = ""
    scan: str = ""


@dataclass(frozen=True)
class HidesBoth:
    iban: Secret[str]
    name: Secret[str] = ""
    scan: str = ""


@dataclass(frozen=True)
class Defaulted:
    iban: Secret[str]
    key: Secret[str] = TOKEN


def payout(type_: Any, version: str = "1", on_start: Callable[[Any, Context], None] = lambda request, ctx: None) -> Any:
    """A release of a saga whose only step fails with all that it knows."""

    class Payout(Saga[type_], name="payout", version=version):  # pyright: ignore[reportInvalidTypeForm]
        @step(retry=ONCE)
        def pay(self, request: type_, ctx: Context) -> str:  # pyright: ignore[reportInvalidTypeForm]
            on_start(request, ctx)
            raise RuntimeError(f"no bank takes {request.iban} of {request.name}")

    return Payout


REQUEST = {"iban": IBAN, "name": NAME}
NOT_SHOWN = "hidden: release 3 hides values of this saga"


def _errors(b: Bench, saga_id: str) -> dict[str, str]:
    """What each answer says of the error of a saga."""
    reader = b.engine.reader
    [listed] = reader.list(["payout"], None, 10, None)["sagas"]
    trail, _ = reader.audit("payout", saga_id, 100, 0)
    [entry] = [entry for entry in trail if "error" in entry["details"]]
    views = {"whole": b.show(saga_id), "list": listed, "answer": reader.show("payout", saga_id, payloads=False)}
    errors = {name: view["error"]["message"] for name, view in views.items() if view["error"]}
    errors |= {"audit": entry["details"]["error"]["message"], "trace": entry["details"]["stack_trace"]}
    return errors


@pytest.mark.parametrize(
    ("first", "then", "whole", "listed"),
    [
        (Open, Open, f"{IBAN} of {NAME}", f"{IBAN} of {NAME}"),
        (Open, HidesIban, f"*** of {NAME}", NOT_SHOWN),
        (HidesIban, HidesIban, f"*** of {NAME}", f"*** of {NAME}"),
        (HidesIban, HidesBoth, "*** of ***", NOT_SHOWN),
        (HidesIban, Open, f"*** of {NAME}", f"*** of {NAME}"),
        (HidesBoth, HidesIban, "*** of ***", NOT_SHOWN),
    ],
)
def test_a_text_of_a_release_that_hid_less_is_not_shown_without_its_values(
    bench: Make, first: Any, then: Any, whole: str, listed: str
) -> None:
    b = bench(payout(first, "2"))
    saga_id = b.start("payout", REQUEST)
    b.run()
    b.engine = b.deploy(payout(then, "3"))
    errors = _errors(b, saga_id)
    assert errors.pop("whole").endswith(whole)
    trace = errors.pop("trace")
    assert listed in trace
    assert all(error.endswith(listed) for error in errors.values()), errors
    assert set(errors) == {"list", "answer", "audit"}
    assert listed == NOT_SHOWN or trace.startswith("Traceback")


def test_texts_are_marked_with_the_release_and_what_it_hides(bench: Make) -> None:
    marks = list[str]()
    for type_, version in ((Open, "1"), (HidesIban, "2"), (HidesIban, "3"), (HidesBoth, "3")):
        definition = payout(type_, version).__saga_definition__
        marks.append(definition.redaction.mark)
    assert marks[0] == ""
    assert [mark.partition("#")[0] for mark in marks[1:]] == ["2", "3", "3"]
    first, second, third = (mark.partition("#")[2] for mark in marks[1:])
    assert first == second != third
    b = bench(payout(HidesIban, "2"))
    saga_id = b.start("payout", REQUEST)
    b.run()
    assert [entry.details.get("redacted_by") for entry in b.engine.journal.history(saga_id)] == [None, marks[1], None]


def test_a_type_that_hides_nothing_marks_nothing(bench: Make) -> None:
    b = bench(quoting(str, str, _not_yet))
    saga_id = b.start("quoting", {"value": IBAN, "open": "seen"})
    b.run()
    assert "redacted_by" not in json.dumps([entry.details for entry in b.engine.journal.history(saga_id)])
    assert f'"{IBAN}"' in json.dumps(b.show(saga_id))


class Lost(Saga[HidesIban], name="payout", version="3"):
    """Its attempt is lost, or its wait times out, or its code is missing."""

    @step(retry=ONCE)
    def pay(self, request: HidesIban) -> str:
        raise AssertionError


def test_texts_of_the_library_are_shown(bench: Make) -> None:
    class Before(Saga[Open], name="payout"):
        @step(retry=ONCE)
        def gone(self, request: Open) -> str:
            raise AssertionError

    b = bench(Before)
    saga_id = b.start("payout", REQUEST)
    b.engine = b.deploy(Lost)
    b.run()
    shown = b.engine.reader.attention(None, 10, None)["sagas"][0]
    assert shown["saga_id"] == saga_id
    assert shown["error"] is not None
    assert "gone" in shown["error"]["message"]


def test_a_value_that_is_not_read_hides_its_texts(bench: Make) -> None:
    b = bench(payout(HidesIban, "2"))
    saga_id = b.start("payout", {**REQUEST, "scan": "x" * 5_500_000})
    b.run()
    b.engine = b.deploy(payout(HidesBoth, "3"))
    assert b.show(saga_id)["error"]["message"] == NOT_SHOWN
    assert b.show(saga_id)["left_out"][0]["path"] == "$.request"


@pytest.mark.parametrize("scan", ["x", "x" * 6_000_000], ids=["small", "large"])
def test_progress_is_redacted_in_each_answer(bench: Make, monkeypatch: pytest.MonkeyPatch, scan: str) -> None:
    monkeypatch.setattr(attempt, "ProgressReport", partial(ProgressReport, interval=0.05))
    seen = dict[tuple[str, bool], str]()

    def report(request: Any, ctx: Context) -> None:
        ctx.progress(0.5, f"paying to {request.iban!r} of {request.name}")
        until(lambda: b.state(ctx.saga_id).progress)
        for release, type_ in (("2", HidesIban), ("3", HidesBoth)):
            reader = b.deploy(payout(type_, release)).reader
            for payloads in (True, False):
                progress = reader.show("payout", ctx.saga_id, payloads=payloads)["progress"]
                assert progress is not None
                seen[release, payloads] = progress["message"]

    b = bench(payout(HidesIban, "2", report))
    b.start("payout", {**REQUEST, "scan": scan})
    b.run()
    assert helpers() == []
    ours = f"paying to '***' of {NAME}"
    whole = "paying to '***' of ***" if scan == "x" else NOT_SHOWN
    assert seen == {("2", True): ours, ("2", False): ours, ("3", True): whole, ("3", False): NOT_SHOWN}


def polling(type_: Any, version: str) -> Any:
    class Polls(Saga[type_], name="polls", version=version):  # pyright: ignore[reportInvalidTypeForm]
        @step
        def look(self, request: type_) -> str:  # pyright: ignore[reportInvalidTypeForm]
            raise NotYet(2, f"waits for {request.iban} of {request.name}")

    return Polls


def test_so_is_what_a_step_waits_for(bench: Make) -> None:
    b = bench(polling(HidesIban, "2"))
    saga_id = b.start("polls", REQUEST)
    b.deliver("polls", "look")
    assert b.step(saga_id)["message"] == f"waits for *** of {NAME}"
    b.engine = b.deploy(polling(HidesBoth, "3"))
    assert b.step(saga_id)["message"] == "waits for *** of ***"
    reader = b.engine.reader
    assert reader.show("polls", saga_id, payloads=False)["steps"][0]["message"] == NOT_SHOWN
    trail, _ = reader.audit("polls", saga_id, 10, 0)
    assert trail[-1]["details"]["message"] == NOT_SHOWN
    b.clock.advance(3)
    b.deliver("polls", "look")
    assert reader.show("polls", saga_id, payloads=False)["steps"][0]["message"] == "waits for *** of ***"


def test_the_error_of_a_child_is_redacted_by_its_own_type(bench: Make) -> None:
    def parent(child: Any) -> Any:
        class Parent(Saga[Open], name="parent"):
            @children(child, tolerate=1)
            def payouts(self, request: Open) -> list[Any]:
                return [child.__saga_definition__.request_type(IBAN, NAME)]

        return Parent

    first, then = payout(HidesIban, "2"), payout(HidesBoth, "3")
    b = bench(parent(first), first)
    saga_id = b.start("parent", REQUEST)
    b.run()

    def failure() -> str:
        [failed] = b.show(saga_id)["steps"][0]["children"]["failures"]
        assert failed["saga_id"] == child_id(saga_id, "payouts", 0)
        return failed["error"]["message"]

    assert failure() == f"no bank takes *** of {NAME}"
    b.engine = b.deploy(parent(then), then)
    assert failure() == NOT_SHOWN


def test_defaults_and_converted_values_are_values(bench: Make) -> None:
    def converted(old: dict[str, Any]) -> Defaulted:
        return Defaulted(old["old"].replace(" ", "-"))

    class Keyed(Saga[Defaulted], name="keyed", upcast={"request": converted}):
        @step(retry=ONCE)
        def pay(self, request: Defaulted) -> str:
            raise RuntimeError(f"{request} is refused")

    @dataclass(frozen=True)
    class Older:
        old: Secret[str]

    class Before(Saga[Older], name="keyed"):
        @step(retry=ONCE)
        def pay(self, request: Older) -> str:
            raise AssertionError

    b = bench(Before)
    older = b.start("keyed", {"old": IBAN})
    b.engine = b.deploy(Keyed)
    newer = b.start("keyed", {"iban": IBAN})
    b.run()
    for saga_id in (older, newer):
        assert b.show(saga_id)["error"]["message"] == "Defaulted(iban='***', key='***') is refused"


def test_so_is_the_answer_that_a_step_sends_to_itself(bench: Make) -> None:
    class Asks(Saga[Open], name="asks"):
        @wait_for(Secret[str], timeout=ASKED, retry=ONCE)
        def pin(self, request: Open, ctx: Context) -> None:
            ctx.signal(TOKEN)
            ctx.progress(0.1, TOKEN)
            raise RuntimeError(f"{TOKEN} is refused")

    b = bench(Asks)
    saga_id = b.start("asks", REQUEST)
    b.run()
    assert b.entry(saga_id, "StepFailed")["details"]["error"]["message"] == "*** is refused"


def test_an_outcome_that_waits_in_its_queue_keeps_its_mark(bench: Make, outage: Begin) -> None:
    b = bench(payout(Open, "1"))
    saga_id = b.start("payout", REQUEST)
    gone = outage(b)
    b.deliver("payout", "pay")
    assert carried(b, "payout", "pay").pending_commit is not None
    gone.lasting = False
    b.clock.advance(60)
    b.engine = b.deploy(payout(HidesBoth, "3"))
    b.run()
    assert _errors(b, saga_id)["list"] == NOT_SHOWN


class TestLog:
    """What code logs with ``ctx.logger``, as functions write it."""

    @pytest.fixture
    def lines(self) -> tuple[logging.Logger, io.StringIO]:
        logger, stream = logging.Logger("test"), io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(LambdaPowertoolsFormatter())
        logger.addHandler(handler)
        return logger, stream

    def test_is_redacted_and_stays_json(self, lines: tuple[logging.Logger, io.StringIO]) -> None:
        logger, stream = lines
        logger.addFilter(RedactedLines(Secrets([PEM, "4711081508"]).without))
        _log(PEM, logger)
        logger.info({"key": PEM, "number": 4711081508}, extra={"number": 4711081508, "ratio": 0.5})
        written = [json.loads(line) for line in stream.getvalue().splitlines()]
        assert not shown(PEM, stream.getvalue())
        assert written[0]["message"] == HIDDEN
        assert written[1]["message"] == f"{HIDDEN}and ['{HIDDEN}']", (
            "a line ends the value, and what indents the next one goes with it"
        )
        assert (written[2]["message"], written[2]["to"]) == ("paid", {"value": [HIDDEN]})
        assert written[3]["exception_name"] == "KeyError"
        assert f"KeyError: '{HIDDEN}'" in written[3]["exception"]
        assert written[4]["message"] == {"key": HIDDEN, "number": HIDDEN}
        assert (written[4]["number"], written[4]["ratio"]) == (HIDDEN, 0.5)

    def test_fails_no_step(self, lines: tuple[logging.Logger, io.StringIO]) -> None:
        class Broken:
            def __str__(self) -> str:
                raise ZeroDivisionError

        logger, stream = lines
        cyclic = list[Any]()
        cyclic.append(cyclic)
        logger.addFilter(RedactedLines(Secrets([IBAN]).without))
        logger.info("%d of %d", IBAN)
        logger.info("one", extra={"broken": Broken(), "iban": IBAN})
        logger.info("two", extra={"cyclic": cyclic, "iban": IBAN})
        logger.info("card %s", HidesIban(IBAN), extra={"request": HidesIban(IBAN)})
        written = [json.loads(line) for line in stream.getvalue().splitlines()]
        assert IBAN not in stream.getvalue()
        assert [line["message"].partition(" (")[0] for line in written[:3]] == ["a line that cannot be redacted"] * 3
        assert written[3]["request"] == "HidesIban(iban='***', name='', scan='')"


def test_a_run_in_process_redacts_as_functions_do() -> None:
    outcome = run(payout(HidesIban), HidesIban(IBAN, NAME))
    assert outcome.error is not None
    assert outcome.error.message == f"no bank takes *** of {NAME}"
