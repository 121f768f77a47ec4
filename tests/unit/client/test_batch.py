"""One operation on many sagas: what is chosen, what is done, and that it adds up however it goes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from sagas.client import SagaClient
from sagas.client.answers import ambiguous
from sagas.client.operate.batch import Batch, usual
from sagas.client.operate.jobs import JobFolder
from sagas.client.operate.outcomes import CallOutcome
from sagas.client.operate.pacing import STOP_AFTER
from sagas.client.operate.selection import Chosen, Selection
from sagas.errors import Ambiguous, Conflict, NotFound, SagaError, StateChanged, Unavailable
from sagas.operations import Operation
from tests.unit.client.stub import BEGAN, SEQ, a_saga, attention

LATER = "2026-11-21T09:49:20.000Z"


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
        self.asked.append(("attention", type, step, code, error))
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
    return [one["saga_id"] for one in usual(action, Selection(type="trip", **filters)).sagas(service)]


Make = Callable[..., Batch]


def picked(*ids: str, seq: int = SEQ) -> list[Chosen]:
    return [Chosen("trip", one, seq) for one in ids]


@pytest.fixture
def job(tmp_path: Path) -> Make:
    """Makes a job that goes on one call at a time, for the sagas with these ids or, without any, for a selection."""

    def make(service: Service, *ids: str, action: str = "retry", reason: str = "fixed", **more: Any) -> Batch:
        clock, folder = Clock(), JobFolder(tmp_path / "jobs")
        given: dict[str, Any] = {"folder": folder, "job": "j1", "rate": 1.0, "service": "shop in x"} | more
        selection = given.pop("selection", Selection(type="trip", needing=True))
        made: dict[str, Any] = {"picked": picked(*ids), "clock": clock.now, "sleep": clock.sleep} | given
        batch = Batch(service, action, selection, reason, **made)
        batch.choose()
        return batch

    return make


@pytest.mark.parametrize("action", ["retry", "compensate", "resolve"])
def test_each_call_names_the_state_in_which_its_saga_was_chosen(job: Make, action: str) -> None:
    service = Service(saga("a", "DEAD_LETTERED") | {"seq": 3}, saga("b", "DEAD_LETTERED") | {"seq": 8})
    job(service, action=action).run()
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
        assert chosen(service, "resolve", statuses=("COMPENSATED",)) == ["e"]
        assert chosen(service, "cancel") == ["f", "d", "a"]
        assert chosen(service, "rerun") == ["b", "e"]
        assert chosen(service, "rerun", statuses=("RUNNING",)) == ["d"]

    @pytest.mark.parametrize("code", ["no_right", "inputs_unreachable", "does_not_fit"])
    def test_none_that_continues_by_itself(self, code: str) -> None:
        service = Service(saga("a", "RUNNING") | {"attention": attention(code)}, saga("b", "PENDING"))
        assert chosen(service, "retry") == ["b"]
        assert chosen(service, "resolve") == ["b"]
        assert chosen(service, "resolve", statuses=("RUNNING",)) == []
        assert chosen(service, "cancel") == ["b", "a"]
        assert chosen(service, "cancel", step="pay", code=code) == ["a", "b"]

    def test_what_is_to_be_settled_since_a_time(self) -> None:
        ended = {"created_at": "2026-11-20T00:00:00.000Z", "ended_at": "2026-11-22T00:00:00.000Z"}
        service = Service(saga("a", "FAILED") | ended, saga("b", "DEAD_LETTERED") | ended)
        assert chosen(service, "resolve", since="2026-11-22T00:00:00") == ["a"]
        assert chosen(service, "resolve", since="2026-11-19T00:00:00+00:00") == ["a", "b"]
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
        assert chosen(service, "retry", find={"customer": "c"}, since="2026-11-20") == ["a"]
        assert service.asked[0] == ("trip", None, "2026-11-20", {"customer": "c"})

    @pytest.mark.parametrize("error", ["Timeout", ""])
    def test_an_incident_is_asked_for_by_what_is_wrong(self, error: str) -> None:
        service = Service(saga("a", "DEAD_LETTERED", "Other"), saga("b", "COMPENSATION_FAILED"))
        found = chosen(service, "compensate", step="pay", code="exhausted", error=error)
        assert found == ["a", "b"]  # the API compares the type of the error
        assert service.asked[0] == ("attention", "trip", "pay", "exhausted", error)
        chosen(service, "retry", step="pay", error="Other")
        assert service.asked[-1] == ("attention", "trip", "pay", None, None)

    def test_what_came_later_is_not_in_it(self) -> None:
        newcomer = saga("b", "DEAD_LETTERED")
        newcomer["attention"]["since"] = LATER
        ended = saga("c", "FAILED", listed=False) | {"ended_at": LATER}
        service = Service(saga("a", "DEAD_LETTERED"), newcomer, ended, saga("d", "RUNNING", listed=False))
        assert chosen(service, "retry", as_of=BEGAN) == ["a"]
        assert chosen(service, "rerun", as_of=BEGAN) == []
        assert chosen(service, "rerun", as_of=LATER) == ["c"]
        assert chosen(service, "cancel", as_of=BEGAN) == ["d", "a"]

    def test_what_is_being_cancelled_is_left_alone(self, job: Make) -> None:
        service = Service(saga("a", "RUNNING") | {"cancel_requested_at": BEGAN}, saga("b", "RUNNING"))
        assert [*job(service, action="cancel").report.chosen] == ["b"]

    def test_a_text_is_looked_for_in_error_id_and_type(self) -> None:
        service = Service(saga("a", "DEAD_LETTERED", "Timeout", "for o-17"), saga("b", "FAILED"))
        assert [one["saga_id"] for one in Selection(text="O-17").sagas(service)] == ["a"]
        assert not Selection()
        assert Selection(text="x")


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

    def test_it_stops_at_five_failures_in_a_row_and_says_why(self, job: Make) -> None:
        service, ids = Service(), [f"s{n}" for n in range(20)]
        service.refuses = {one: [Ambiguous("no answer")] for one in ids[3 : 3 + STOP_AFTER]}
        one = job(service, *ids)
        report = one.run()
        assert (report.stopped, report.cause) == ("5 failures in a row", "no answer")
        assert report.counts == {"chosen": 20, "done": 3, "already": 0, "refused": 0, "failed": 5}
        assert report.remaining == ids[8:]
        report = one.run()
        assert (report.count("done"), report.remaining, report.stopped, report.cause) == (20, [], "", "")
        assert len(service.calls) == 8 + 17  # what was done is left alone

    def test_one_first(self, job: Make) -> None:
        service = Service()
        one = job(service, "a", "b", "c")
        assert one.run(most=1).remaining == ["b", "c"]
        assert one.run().remaining == []
        assert len(service.calls) == 3

    def test_two_jobs_over_the_same_sagas_act_once_on_each(self, job: Make) -> None:
        service = Service(*(saga(one, "DEAD_LETTERED") for one in "abc"))
        first, second = job(service), job(service, job="j2")
        first.run(most=2)
        service.refuses = {one: [StateChanged("the saga has changed", {})] for one in "ab"}
        assert second.run().counts == {"chosen": 3, "done": 1, "already": 2, "refused": 0, "failed": 0}
        assert [call[2] for call in service.calls if call not in service.calls[2:4]] == ["a", "b", "c"]

    @pytest.mark.parametrize("action", ["cancel", "compensate"])
    def test_force(self, job: Make, action: str) -> None:
        service = Service()
        job(service, "a", "b", action=action, options={"force": True}).run()
        assert service.calls == [(action, "trip", one, "bulk j1: fixed", "force") for one in "ab"]

    def test_what_was_done_by_hand(self, job: Make) -> None:
        service = Service()
        job(service, "a", "b", action="resolve", options={"action": "paid back", "steps": ["pay"]}).run()
        assert service.calls == [("resolve", "trip", one, "bulk j1: fixed", "paid back", "pay") for one in "ab"]

    def test_outcomes_are_told(self, job: Make) -> None:
        told = list[CallOutcome]()
        job(Service(), "a", "b").run(told.append)
        assert [one.saga_id for one in told] == ["a", "b"]

    def test_letters_of_each_type_are_taken(self, job: Make) -> None:
        service = Service(saga("a", "DEAD_LETTERED"), saga("b", "DEAD_LETTERED") | {"type": "loan"})
        job(service, selection=Selection(needing=True)).run()
        assert service.taken == [("retry", {"a"}), ("retry", {"b"})]

    @pytest.mark.parametrize(
        ("given", "field"),
        [
            ({"rate": 0}, "rate"),
            ({"reason": "x" * 3_001}, "reason"),
            ({"action": "purge"}, "action"),
            ({"job": "../../etc/passwd"}, "job"),
            ({"options": {"force": True}}, "force"),
            ({"options": {"action": "paid back"}}, "action"),
            ({"options": {"steps": ["pay"]}}, "steps"),
        ],
    )
    def test_bad_jobs_name_what_is_wrong(self, job: Make, given: dict[str, Any], field: str) -> None:
        with pytest.raises(ValueError, match=f"^{field}: "):
            job(Service(), "a", **given)

    def test_a_reason_that_is_missing_is_noticed_before_a_call(self, job: Make) -> None:
        service = Service()
        with pytest.raises(ValueError, match=r"^reason: resolve requires a reason"):
            job(service, "a", action="resolve", reason=" ").run()
        assert service.calls == []


class TestItsFile:
    """What it takes to run a job again, and nothing of the sagas that it was for."""

    def texts(self, tmp_path: Path) -> str:
        return " ".join(path.read_text() for path in (tmp_path / "jobs").iterdir())

    def test_is_its_user_s_and_has_neither_ids_nor_keys(self, job: Make, tmp_path: Path) -> None:
        (tmp_path / "jobs").mkdir(mode=0o755)
        sagas = [saga("01a1fd82-30a8", "DEAD_LETTERED", "Timeout", "for order o-17")]
        narrow = Selection(type="trip", needing=True, find={"order": "o-17"}, parent="")
        job(Service(*sagas), selection=narrow, reason="the provider is back").run()
        (path,) = (tmp_path / "jobs").iterdir()
        assert path.name == "j1.json"
        assert [stat.S_IMODE(each.stat().st_mode) for each in (path.parent, path)] == [0o700, 0o600]
        for secret in ("01a1fd82-30a8", "o-17"):
            assert secret not in path.read_text()
        record = JobFolder(tmp_path / "jobs").read("j1")
        assert record.selection == Selection(type="trip", needing=True, as_of=BEGAN)
        assert (record.reason, record.action, record.left_out) == ("the provider is back", "retry", ("find",))
        assert (record.ended, record.unfinished, record.counts["done"]) == (True, False, 1)

    def test_a_job_that_was_killed_acts_on_what_is_left_and_on_nothing_twice(self, job: Make, tmp_path: Path) -> None:
        service, ids = Service(), [f"s{number}" for number in range(6)]
        service.sagas = tuple(saga(one, "DEAD_LETTERED") for one in ids)

        class Killed(BaseException):
            pass

        def kill(outcome: CallOutcome) -> None:
            if outcome.saga_id == "s2":
                raise Killed

        with pytest.raises(Killed):
            job(service).run(kill)
        acted = [call[2] for call in service.calls]
        assert "s5" not in acted
        again = JobFolder(tmp_path / "jobs").read("j1")
        assert (again.ended, again.unfinished, again.counts["chosen"]) == (False, True, 6)
        # What was acted on runs, failed again by now, or is new.
        failed_again, new = saga(acted[0], "DEAD_LETTERED"), saga("new", "DEAD_LETTERED")
        for one in (failed_again, new):
            one["attention"]["since"] = LATER
        running = [saga(one, "RUNNING", listed=False) for one in acted[1:]]
        service.sagas = (failed_again, new, *running, *(saga(one, "DEAD_LETTERED") for one in ids if one not in acted))
        report = job(service, job=again.job, selection=again.selection, reason=again.reason).run()
        assert sorted(call[2] for call in service.calls) == ids
        assert (report.stopped, report.counts["done"]) == ("", 6 - len(acted))
        assert {call[3] for call in service.calls} == {"bulk j1: fixed"}

    def test_a_rerun_that_is_repeated_has_the_keys_of_the_first(self, job: Make) -> None:
        service = Service(saga("a", "FAILED"), saga("b", "COMPENSATED"))
        for _ in range(2):
            job(service, action="rerun", selection=usual("rerun", Selection(type="trip"))).run()
        assert [call[3] for call in service.calls] == ["bulk j1 a", "bulk j1 b"] * 2
        assert job(service, action="rerun", job="j2").run().count("done") == 2
        assert service.calls[-1][3] == "bulk j2 b"

    def test_says_how_far_the_job_is_while_it_goes_on(self, job: Make, tmp_path: Path) -> None:
        counts = list[int]()
        folder = JobFolder(tmp_path / "jobs")
        job(Service(), *"abcd").run(lambda _: counts.append(folder.read("j1").counts["done"]))
        assert counts == sorted(counts)
        assert counts[0] < 4
        assert folder.read("j1").counts["done"] == 4

    def test_that_cannot_be_written_stops_the_job_before_its_first_call(self, job: Make, tmp_path: Path) -> None:
        (tmp_path / "jobs").write_text("in the way")
        service = Service()
        with pytest.raises(SagaError, match=r"the job's file .*j1\.json cannot be written \(File exists\)"):
            job(service, "a").run()
        assert service.calls == []

    def test_a_disk_that_is_full_later_does_not(self, job: Make, tmp_path: Path) -> None:
        def fill(_outcome: CallOutcome) -> None:
            (tmp_path / "jobs").rename(tmp_path / "gone")
            (tmp_path / "jobs").write_text("")

        report = job(Service(), "a").run(fill)
        assert report.count("done") == 1
        assert "cannot be written" in report.notes[0]

    @pytest.mark.parametrize("text", ["", "{}", "no JSON", "[]", '{"job": 1}'])
    def test_of_something_else_is_refused(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "j1.json").write_text(text)
        folder = JobFolder(tmp_path)
        with pytest.raises(SagaError, match=r"j1\.json is not the file of a job; delete it"):
            folder.read("j1")
        records, problems = folder.all()
        assert (records, len(problems)) == ([], 1)

    def test_of_a_newer_version_is_refused(self, job: Make, tmp_path: Path) -> None:
        job(Service(), "a").run()
        path = tmp_path / "jobs" / "j1.json"
        text = path.read_text()
        for newer in (text.replace('"selection":{', '"selection":{"region":"north",'), '{"region":"north",' + text[1:]):
            path.write_text(newer)
            with pytest.raises(SagaError, match="not the file of a job"):
                JobFolder(tmp_path / "jobs").read("j1")

    @pytest.mark.parametrize("name", ["../j1", "", "none", "a/b", "x" * 41])
    def test_of_a_job_that_is_not_there(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "j1.json").write_text("{}")
        folder = JobFolder(tmp_path / "jobs")
        with pytest.raises(NotFound, match="`sagas jobs` lists the jobs"):
            folder.read(name)
        assert not folder.has(name)

    def test_old_ones_go(self, job: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sagas.client.operate.jobs._KEPT", 3)
        for number in range(5):
            job(Service(), "a", job=f"j{number}").run()
            path = tmp_path / "jobs" / f"j{number}.json"
            os.utime(path, (number, number))
        records, _ = JobFolder(tmp_path / "jobs").all()
        assert len(records) == 3
        assert "j4" in {record.job for record in records}
