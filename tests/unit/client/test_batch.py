"""One operation on many sagas: what is chosen, what is done, and that it adds up however it goes."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from sagas.client import SagaClient
from sagas.client.answers import ambiguous
from sagas.client.operate.batch import Batch, choose
from sagas.client.operate.outcomes import CallOutcome
from sagas.client.operate.pacing import STOP_AFTER
from sagas.errors import Ambiguous, Conflict, NotFound, SagaError, Unavailable
from sagas.operations import Operation
from tests.unit.client.stub import SEQ, a_saga, attention


class Service(SagaClient):
    """Answers a job. ``refuses`` says what is raised for a saga, once for each in a list."""

    def __init__(self, *sagas: dict[str, Any]) -> None:
        self.sagas = sagas
        self.refuses: dict[str, list[SagaError]] = {}
        self.calls: list[tuple[str, ...]] = []
        self.asked: list[tuple[Any, ...]] = []
        self.taken: list[tuple[str, set[str]]] = []
        self.seqs: dict[str, int | None] = {}

    def _call(self, *call: str) -> Any:
        self.calls.append(call)
        errors = self.refuses.get(call[2], [])
        if errors:
            raise errors.pop(0)
        return {"saga_id": f"new-{call[2]}" if call[0] == "rerun" else call[2], "status": "RUNNING"}

    def cancel(self, type: str, saga_id: str, reason: str = "", *, force: bool = False) -> Any:
        return self._call("cancel", type, saga_id, reason, *["force"] * force)

    def retry(self, type: str, saga_id: str, reason: str = "", *, seq: int | None = None) -> Any:
        self.seqs[saga_id] = seq
        return self._call("retry", type, saga_id, reason)

    def compensate(
        self, type: str, saga_id: str, reason: str = "", *, force: bool = False, seq: int | None = None
    ) -> Any:
        self.seqs[saga_id] = seq
        return self._call("compensate", type, saga_id, reason, *["force"] * force)

    def resolve(
        self,
        type: str,
        saga_id: str,
        reason: str,
        action: str = "",
        steps: Sequence[str] = (),
        *,
        seq: int | None = None,
    ) -> Any:
        self.seqs[saga_id] = seq
        return self._call("resolve", type, saga_id, reason, action, *steps)

    def take_letters(self, operation: Operation, type: str, saga_ids: Collection[str]) -> str:
        self.taken.append((operation.name, {*saga_ids}))
        return ""

    def rerun(self, type: str, saga_id: str, key: str | None = None) -> Any:
        return self._call("rerun", type, saga_id, key or "")

    def list(
        self,
        type: str | None = None,
        status: str | None = None,
        *,
        parent: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
        since: Any = None,
        until: Any = None,
        idempotency_key: str | None = None,
        find: Mapping[str, object] | None = None,
    ) -> Any:
        """In pages of one."""
        self.asked.append((type, status, since, find))
        found = [one for one in self.sagas if status in (None, one["status"])]
        at = int(cursor or 0)
        return {"sagas": found[at : at + 1], "cursor": str(at + 1) if at + 1 < len(found) else None}

    def attention(
        self,
        type: str | None = None,
        *,
        step: str | None = None,
        code: str | None = None,
        error: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Any:
        """Likewise."""
        self.asked.append(("attention", type))
        found = [one for one in self.sagas if one["attention"]]
        at = int(cursor or 0)
        return {"sagas": found[at : at + 1], "cursor": str(at + 1) if at + 1 < len(found) else None}


class Clock:
    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.slept.append(seconds)


def saga(saga_id: str, status: str, error: str = "", message: str = "", *, listed: bool = True) -> dict[str, Any]:
    cause = {"step": "pay", "type": error, "message": message} if error else None
    return a_saga(status, saga_id=saga_id, error=cause, attention=attention("exhausted") if listed else None)


def chosen(service: Service, action: str, **filters: Any) -> list[str]:
    return [one["saga_id"] for one in choose(service, action, "trip", **filters)]


Make = Callable[..., Batch]


@pytest.fixture
def job(tmp_path: Path) -> Make:
    """Makes a job that goes on one call at a time."""

    def make(service: Service, *ids: str, action: str = "retry", reason: str = "fixed", **more: Any) -> Batch:
        clock = Clock()
        given: dict[str, Any] = {"path": tmp_path / "job.jsonl", "job": "j1", "rate": 1.0} | more
        seqs = given.pop("seqs", dict.fromkeys(ids, SEQ))
        return Batch(service, action, "trip", seqs, reason, clock=clock.now, sleep=clock.sleep, **given)

    return make


@pytest.mark.parametrize("action", ["retry", "compensate", "resolve"])
def test_each_call_names_the_state_in_which_its_saga_was_chosen(job: Make, tmp_path: Path, action: str) -> None:
    service = Service()
    job(service, action=action, seqs={"a": 3, "b": 8}).run(most=1)
    Batch.resumed(service, tmp_path / "job.jsonl").run()
    assert service.seqs == {"a": 3, "b": 8}


class TestChoosing:
    def test_what_the_operation_is_for(self) -> None:
        service = Service(
            saga("a", "DEAD_LETTERED"),
            saga("b", "FAILED", listed=False),
            saga("c", "COMPENSATION_FAILED"),
            saga("d", "RUNNING", listed=False),
            saga("e", "COMPENSATED"),  # with a step in doubt
            saga("f", "PENDING"),  # which nothing answers
        )
        assert chosen(service, "retry") == ["a", "c", "f"]
        assert chosen(service, "compensate") == ["a", "b"]
        assert chosen(service, "resolve") == ["a", "c", "e", "f"]  # b was resolved before
        assert chosen(service, "resolve", status="COMPENSATED") == ["e"]
        assert chosen(service, "cancel") == ["f", "d", "a"]
        assert chosen(service, "rerun") == ["b", "e"]
        assert chosen(service, "rerun", status="RUNNING") == ["d"]

    @pytest.mark.parametrize("code", ["no_right", "inputs_unreachable", "does_not_fit"])
    def test_none_that_continues_by_itself(self, code: str) -> None:
        service = Service(saga("a", "RUNNING") | {"attention": attention(code)}, saga("b", "PENDING"))
        assert chosen(service, "retry") == ["b"]
        assert chosen(service, "resolve") == ["b"]
        assert chosen(service, "resolve", status="RUNNING") == []
        assert chosen(service, "cancel") == ["b", "a"]

    def test_what_is_to_be_settled_since_a_time(self) -> None:
        ended = {"created_at": "2026-11-20T00:00:00.000Z", "ended_at": "2026-11-22T00:00:00.000Z"}
        service = Service(saga("a", "FAILED") | ended, saga("b", "DEAD_LETTERED") | ended)
        assert chosen(service, "resolve", since="2026-11-22T00:00:00") == ["a"]
        assert chosen(service, "resolve", since=datetime(2026, 11, 19, tzinfo=UTC)) == ["a", "b"]
        assert chosen(service, "resolve", until="2026-11-22T00:00:00") == ["b"]
        assert chosen(service, "resolve", since="2026-11-21", until="2026-11-23") == ["a"]
        assert chosen(service, "resolve", find={"customer": "c"}) == ["a", "b"]

    def test_by_error(self) -> None:
        service = Service(
            saga("a", "DEAD_LETTERED", "Timeout"),
            saga("b", "DEAD_LETTERED", "Refused", "no Timeout"),
            saga("c", "DEAD_LETTERED"),
        )
        assert chosen(service, "retry", error="Timeout") == ["a", "b"]
        assert chosen(service, "retry", error="Refused") == ["b"]

    def test_by_value_and_time(self) -> None:
        service = Service(saga("a", "DEAD_LETTERED"), saga("b", "COMPLETED"))
        assert chosen(service, "retry", find={"customer": "c"}, since="2026-11-22") == ["a"]
        assert service.asked[0] == ("trip", None, "2026-11-22", {"customer": "c"})


class TestRunning:
    def test_each_item_is_a_call_of_its_own(self, job: Make) -> None:
        service = Service()
        report = job(service, "a", "b").run()
        assert service.calls == [("retry", "trip", one, "bulk j1: fixed") for one in ("a", "b")]
        assert (report.count("done"), report.remaining, report.stopped) == (2, [], "")

    @pytest.mark.parametrize(
        ("action", "more"),
        [
            ("cancel", ("bulk j1: fixed",)),
            ("compensate", ("bulk j1: fixed",)),
            ("resolve", ("bulk j1: fixed", "bulk")),
            ("rerun", ("bulk j1 a",)),
        ],
    )
    def test_every_operation(self, job: Make, action: str, more: tuple[str, ...]) -> None:
        service = Service()
        report = job(service, "a", action=action).run()
        assert service.calls == [(action, "trip", "a", *more)]
        assert report.outcomes["a"].new == ("new-a" if action == "rerun" else "")

    def test_it_adds_up(self, job: Make) -> None:
        service = Service()
        service.refuses = {
            "b": [Conflict("it is over")],
            "c": [ambiguous("no answer")],
            "d": [Unavailable("away", retry_after=3)],
            "e": [Unavailable("away", retry_after=3) for _ in range(3)],
            "f": [NotFound("gone")],
        }
        one = job(service, *"abcdef")
        report = one.run()
        assert {saga_id: it.outcome for saga_id, it in report.outcomes.items()} == {
            "a": "done", "b": "refused", "c": "failed", "d": "done", "e": "failed", "f": "refused",
        }  # fmt: skip
        assert report.count("done") + report.count("refused") + report.count("failed") == len(report.chosen) == 6
        assert "may or may not have taken effect" in report.outcomes["c"].message
        assert 3 in cast("Any", one.sleep).__self__.slept

    def test_no_more_than_the_rate(self, job: Make) -> None:
        one = job(Service(), *map(str, range(10)), rate=2.0)
        one.run()
        assert cast("Any", one.clock).__self__.time == pytest.approx(4.5)

    def test_it_stops_at_five_failures_in_a_row_and_goes_on_where_it_was(self, job: Make, tmp_path: Path) -> None:
        service, ids = Service(), [f"s{n}" for n in range(20)]
        service.refuses = {one: [Ambiguous("no answer")] for one in ids[3 : 3 + STOP_AFTER]}
        report = job(service, *ids).run()
        assert report.stopped == "5 failures in a row"
        assert (report.count("done"), report.count("failed")) == (3, 5)
        assert report.remaining == ids[8:]
        again = Batch.resumed(service, tmp_path / "job.jsonl", rate=1000)
        assert (again.job, again.reason, again.seqs) == ("j1", "fixed", dict.fromkeys(ids, SEQ))
        report = again.run()
        assert (report.count("done"), report.remaining, report.stopped) == (20, [], "")
        assert len(service.calls) == 8 + 17  # what was done is left alone
        assert Batch.resumed(service, tmp_path / "job.jsonl").run().count("done") == 20
        assert len(service.calls) == 25

    def test_one_first(self, job: Make) -> None:
        service = Service()
        one = job(service, "a", "b", "c")
        assert one.run(most=1).remaining == ["b", "c"]
        assert one.run().remaining == []
        assert len(service.calls) == 3

    def test_a_line_that_was_cut_off_is_done_again(self, job: Make, tmp_path: Path) -> None:
        service, path = Service(), tmp_path / "job.jsonl"
        job(service, "a", "b").run()
        text = path.read_text()
        path.write_text(text[: len(text) - 20])
        assert set(Batch.resumed(service, path).report.outcomes) == {"a"}

    def test_what_follows_a_line_that_was_cut_off_is_not_lost(self, job: Make, tmp_path: Path) -> None:
        service, path = Service(), tmp_path / "job.jsonl"
        job(service, "a", "b", "c").run(most=2)
        path.write_text(path.read_text()[:-20])
        assert Batch.resumed(service, path).run(most=1).remaining == ["c"]
        again = Batch.resumed(service, path)
        assert set(again.report.outcomes) == {"a", "b"}
        assert again.run().remaining == []

    @pytest.mark.parametrize("action", ["cancel", "compensate"])
    def test_force(self, job: Make, tmp_path: Path, action: str) -> None:
        service = Service()
        job(service, "a", "b", action=action, options={"force": True}).run(most=1)
        Batch.resumed(service, tmp_path / "job.jsonl").run()
        assert service.calls == [(action, "trip", one, "bulk j1: fixed", "force") for one in "ab"]

    def test_what_was_done_by_hand(self, job: Make, tmp_path: Path) -> None:
        service = Service()
        job(service, "a", "b", action="resolve", options={"action": "paid back", "steps": ["pay"]}).run(most=1)
        Batch.resumed(service, tmp_path / "job.jsonl").run()
        assert service.calls == [("resolve", "trip", one, "bulk j1: fixed", "paid back", "pay") for one in "ab"]

    def test_outcomes_are_told_and_kept(self, job: Make, tmp_path: Path) -> None:
        told = list[CallOutcome]()
        job(Service(), "a", "b").run(told.append)
        lines = [json.loads(line) for line in (tmp_path / "job.jsonl").read_text().splitlines()]
        assert lines[0]["chosen"] == {"a": SEQ, "b": SEQ}
        assert [one["saga_id"] for one in lines[1:]] == [one.saga_id for one in told] == ["a", "b"]

    @pytest.mark.parametrize("text", ["", "{}", "no JSON", '{"job": 1}\n{"saga_id": "a"}\n{}'])
    def test_a_file_of_something_else_is_refused(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "other"
        path.write_text(text)
        with pytest.raises(SagaError, match="not a file of outcomes"):
            Batch.resumed(Service(), path)

    @pytest.mark.parametrize(
        ("given", "field"),
        [
            ({"rate": 0}, "rate"),
            ({"reason": "x" * 3_001}, "reason"),
            ({"action": "resolve", "reason": " "}, "reason"),
            ({"action": "purge"}, "action"),
            ({"options": {"force": True}}, "force"),
            ({"options": {"action": "paid back"}}, "action"),
            ({"options": {"steps": ["pay"]}}, "steps"),
        ],
    )
    def test_bad_jobs_name_what_is_wrong(self, job: Make, given: dict[str, Any], field: str) -> None:
        with pytest.raises(ValueError, match=f"^{field}: "):
            job(Service(), "a", **given)
