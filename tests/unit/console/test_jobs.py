"""What the pages do to many sagas."""

from __future__ import annotations

import html
import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sagas.client.operate.batch import Batch
from sagas.client.operate.jobs import JobFolder
from sagas.client.operate.selection import Selection
from sagas.console.jobs import Jobs
from sagas.errors import Ambiguous, Conflict, Unavailable
from tests.unit.client.stub import BEGAN, SEQ, a_saga, a_step, attention
from tests.unit.console.conftest import LATER, Browser, text_of, wait_over
from tests.unit.console.service import ERROR, HOSTILE, FakeService, a_letter, dead, numbered, row_of

OF_TYPE = json.dumps({"type": "create-zip", "needing": True})


def undo_failed(number: int) -> dict[str, Any]:
    step = a_step("upload", "COMPENSATION_FAILED", undo_attempts=4, error=ERROR)
    why = attention("undo_failed", {"step": "upload", **ERROR})
    return a_saga("COMPENSATION_FAILED", saga_id=numbered(number), steps=[step], attention=why)


def forms_of(page: str) -> dict[str, dict[str, str]]:
    """Return the hidden fields of each group of the first page, by the label of its button."""
    forms = dict[str, dict[str, str]]()
    for section in re.findall(r"<section.*?</section>", page, re.DOTALL):
        label = re.search(r"<summary[^>]*>(.*?) …", section)
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', section)
        forms[html.unescape(label[1]) if label else ""] = {name: html.unescape(value) for name, value in hidden}
    return forms


class Running(FakeService):
    """A service in which a saga that is retried leaves the list."""

    def retry(self, name: str, saga_id: str, reason: str = "", *, seq: int) -> Any:
        super().retry(name, saga_id, reason, seq=seq)
        self.sagas[saga_id] |= {"attention": None, "status": "RUNNING", "seq": seq + 1, "error": None}


class TestJobs:
    def begin(self, browser: Browser, **form: Any) -> str:
        answer = browser.submit("/jobs", **{"do": "retry", "reason": "fixed", **form})
        assert answer.status_code == 303, answer.text
        return wait_over(browser, answer.headers["location"])

    def test_do_it_to_all_or_to_the_chosen_or_to_one_first(self) -> None:
        service = FakeService([dead(number) for number in range(4)])
        browser = Browser(service).open()
        told = self.begin(browser, selection=OF_TYPE, number="4")
        assert "chosen 4 done 4 already 0 refused 0 failed 0 not tried 0" in told
        notes = {reason for _, _, reason in service.did()}
        assert re.fullmatch(r"bulk [0-9a-f]{8}: fixed", notes.pop())
        assert not notes  # one job has one name
        assert {saga_id for _, saga_id, _ in service.did()} == {numbered(number) for number in range(4)}
        self.begin(browser, selection=OF_TYPE, one=[row_of(1), row_of(2)], first="1")
        ((_, saga_id, reason),) = service.did()[4:]
        assert (saga_id, reason != service.did()[0][2]) == (numbered(1), True)

    def test_add_up_and_stop_when_all_fails(self) -> None:
        service = FakeService([dead(number) for number in range(10)])
        browser = Browser(service).open()
        service.refuses["retry"] = Conflict("the saga is RUNNING")
        assert "done 0 already 0 refused 10 failed 0" in self.begin(browser, selection=OF_TYPE, number="10")
        service.refuses["retry"] = Unavailable("the service is away", 0)
        told = self.begin(browser, selection=OF_TYPE, number="10")
        assert "refused 0 failed 5 not tried 5" in told
        assert "Stopped: 5 failures in a row; the last: the service is away." in told
        assert "Go on with the 10 that failed or are left" in told

    def test_need_a_reason_and_a_known_action_and_something_to_do(self, browser: Browser, service: FakeService) -> None:
        one = row_of(1)
        assert browser.submit("/jobs", do="retry", reason="", one=one).status_code == 422
        assert browser.submit("/jobs", do="purge", reason="n", one=one).status_code == 404
        assert browser.submit("/jobs", do="retry", reason="n").status_code == 422
        assert browser.submit("/jobs", do="retry", reason="n", selection="{}", number="1").status_code == 422
        assert browser.submit("/jobs", do="retry", reason="n", selection='{"x": 1}', number="1").status_code == 422
        assert browser.submit("/jobs", do="retry", reason="n" * 3_001, one=one).status_code == 422
        many = {"do": "retry", "reason": "n", "selection": OF_TYPE}
        assert browser.submit("/jobs", **many).status_code == 422
        assert "type 101 to continue" in browser.submit("/jobs", **many, number="101").text
        assert service.did() == []
        assert browser.submit("/jobs", **many, number="101", count="101").status_code == 303
        assert browser.get("/jobs/99").status_code == 404
        assert browser.submit("/jobs/99/stop").status_code == 404

    def test_say_that_nothing_matches_before_they_ask_for_a_reason(
        self, browser: Browser, service: FakeService
    ) -> None:
        gone = json.dumps({"type": "create-zip", "step": "upload", "code": "undo_failed", "error": "NotFound"})
        answer = browser.submit("/jobs", do="retry", reason="", selection=gone, number="1")
        assert answer.status_code == 422
        assert "no saga matches" in answer.text
        assert "reason is missing" not in answer.text
        assert service.did() == []

    def test_takes_the_letters_of_its_sagas_along(self) -> None:
        service = FakeService([dead(number) for number in range(4)])
        service.letters = [a_letter(saga_id=numbered(number)) for number in range(5)]
        assert "done 4 already 0" in self.begin(Browser(service).open(), selection=OF_TYPE, number="4")
        assert [each.saga_id for each in service.letters] == [numbered(4)]

    def test_one_first_goes_on_with_the_others_by_one_more_click(self) -> None:
        service = Running([dead(number) for number in range(3)])
        browser = Browser(service).open()
        begun = browser.submit("/jobs", do="retry", reason="back", selection=OF_TYPE, first="1").headers["location"]
        told = wait_over(browser, begun)
        assert "chosen 3 done 1" in told
        assert "The first is done. See what became of it" in told
        assert "done RUNNING" in told
        assert "Go on with the 2 that failed or are left" in told
        assert browser.submit(f"{begun}/resume").status_code == 303
        assert "chosen 3 done 3" in wait_over(browser, begun)
        assert len(service.did()) == 3
        assert len({reason for _, _, reason in service.did()}) == 1


class TestIncidents:
    """What a group of the first page has is acted on as a whole: its button, the job and the audit trails agree."""

    def test_320_failed_payments_and_then_one_failed_undo(self) -> None:
        service = Running([*(dead(number) for number in range(320)), undo_failed(999)])
        browser = Browser(service).open()
        forms = forms_of(browser.get("/").text)
        assert forms["Retry: 320"]["number"] == "320"
        undo = f"/sagas/create-zip/{numbered(999)}/retry"
        assert undo in browser.get("/").text  # one saga has its button at once
        many = {**forms["Retry: 320"], "do": "retry", "reason": "the provider is back"}
        assert browser.submit("/jobs", **many).status_code == 422  # without the number
        newcomer = dead(500)
        newcomer["attention"]["since"] = LATER
        service.sagas[numbered(500)] = newcomer
        begun = browser.submit("/jobs", **many, count="320").headers["location"]
        assert "chosen 320 done 320 already 0" in wait_over(browser, begun)
        assert {call[1] for call in service.did()} == {numbered(number) for number in range(320)}
        assert len(service.did()) == 320
        assert browser.submit(undo).status_code == 303
        assert service.did()[320:] == [("retry", numbered(999), "")]

    def test_ids_on_the_page_are_for_ticks_alone(self) -> None:
        service = FakeService([dead(number) for number in range(60)])
        page = Browser(service).open().get("/").text
        (form,) = forms_of(page).values()
        assert not re.search("[0-9a-f]{8}-", json.dumps(form))

    def test_of_over_a_thousand_are_counted_before_one_asks(self) -> None:
        service = Running(dead(number) for number in range(1_203))
        service.sagas[numbered(5_000)] = undo_failed(5_000)
        browser = Browser(service).open()
        page = browser.get("/").text
        assert "Retry: all (over 1,000)" in text_of(page)
        (form,) = (form for label, form in forms_of(page).items() if "all" in label)
        many = {**form, "do": "retry", "reason": "n"}
        assert "count all of them first" in browser.submit("/jobs", **many).text
        (link,) = re.findall(r'href="(/sagas/all[^"]*)"', page)
        counted = browser.get(html.unescape(link)).text
        assert "1,203 sagas match" in text_of(counted)
        assert "All: 1,203" in text_of(counted)
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', counted))
        form = {name: html.unescape(value) for name, value in hidden.items()} | {"do": "retry", "reason": "n"}
        begun = browser.submit("/jobs", **form, count="1203").headers["location"]
        assert "chosen 1,203 done 1,203" in wait_over(browser, begun)
        assert len(service.did()) == 1_203

    def test_workers_that_are_gone(self) -> None:
        lease = {"claimed_at": BEGAN, "expires_at": "2026-11-21T09:48:52.000Z", "heartbeat_at": None}
        alive = {**lease, "expires_at": LATER}
        sagas = [a_saga("RUNNING", saga_id=numbered(number), lease=lease) for number in range(2)]
        service = FakeService([*sagas, a_saga("RUNNING", saga_id=numbered(7), lease=alive)])
        browser = Browser(service).open()
        form = forms_of(browser.get("/").text)["Recover now: 2"]
        begun = browser.submit("/jobs", **form, do="recover", reason="n").headers["location"]
        assert "chosen 2 done 2" in wait_over(browser, begun)
        assert sorted(service.did()) == [("recover", numbered(0)), ("recover", numbered(1))]

    def test_two_jobs_act_once_on_each(self) -> None:
        service = Running([dead(number) for number in range(8)])
        browser = Browser(service).open()
        (form,) = forms_of(browser.get("/").text).values()
        stale = service.attention("create-zip", limit=100)["sagas"]
        rows = [f"create-zip/{each['saga_id']}/{each['seq']}" for each in stale]
        first = browser.submit("/jobs", **form, do="retry", reason="n").headers["location"]
        assert "done 8" in wait_over(browser, first)
        second = browser.submit("/jobs", one=rows, do="retry", reason="n").headers["location"]
        assert "chosen 8 done 0 already 8" in wait_over(browser, second)
        assert len(service.did()) == 8

    def test_errors_of_hostile_names_are_shown_and_acted_on(self) -> None:
        service = Running([dead(number, error={"type": HOSTILE, "message": HOSTILE}) for number in range(2)])
        browser = Browser(service).open()
        page = browser.get("/").text
        assert "<img" not in page
        (form,) = forms_of(page).values()
        begun = browser.submit("/jobs", **form, do="retry", reason=HOSTILE).headers["location"]
        assert "done 2" in wait_over(browser, begun)
        for path in (begun, "/jobs"):
            told = browser.get(path).text
            assert "<img" not in told
            assert "document.title" in told


class TestAllThatMatch:
    """What a filter has is acted on as a whole, however many pages of the list it takes."""

    def form_of(self, browser: Browser, **given: str) -> dict[str, str]:
        page = browser.get("/sagas/all", params=given).text
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page)
        return {name: html.unescape(value) for name, value in hidden}

    def test_are_counted_and_then_done(self) -> None:
        service = FakeService([*(dead(number) for number in range(120)), a_saga(saga_id=numbered(999))])
        browser = Browser(service).open()
        assert 'href="/sagas/all' not in browser.get("/sagas").text
        listed = html.unescape(browser.get("/sagas", params={"status": "DEAD_LETTERED", "text": "topic"}).text)
        (link,) = re.findall(r'href="(/sagas/all[^"]*)"', listed)
        told = text_of(browser.get(link).text)
        assert "120 sagas match" in told
        assert "Type their number, 120" in told
        form = self.form_of(browser, status="DEAD_LETTERED", text="topic") | {"do": "retry", "reason": "fixed"}
        refused = browser.submit("/jobs", **form)
        assert refused.status_code == 422
        assert "count: type 120" in refused.text
        assert browser.submit("/jobs", **form, count="120", rate="1000").status_code == 422
        assert service.did() == []
        begun = browser.submit("/jobs", **form, count="120")
        assert begun.status_code == 303
        done = wait_over(browser, begun.headers["location"])
        assert "chosen 120 done 120 already 0 refused 0 failed 0 not tried 0" in done
        assert len({call[1] for call in service.did()}) == 120

    def test_one_first_and_a_text(self) -> None:
        other = dead(3, error={"type": "Denied", "message": "no"})
        service = FakeService([dead(1), dead(2), other])
        browser = Browser(service).open()
        form = self.form_of(browser, text="denied") | {"do": "retry", "reason": "fixed", "rate": "20"}
        wait_over(browser, browser.submit("/jobs", **form, first="1").headers["location"])
        assert [call[1] for call in service.did()] == [numbered(3)]
        assert "No saga does" in text_of(browser.get("/sagas/all", params={"text": "nothing like it"}).text)

    def test_all_of_all_times_are_refused(self, browser: Browser, service: FakeService) -> None:
        assert browser.get("/sagas/all").status_code == 422
        assert browser.submit("/jobs", selection='{"as_of": "2026"}', do="cancel", reason="n").status_code == 422
        assert service.did() == []

    def test_what_has_changed_since_the_page_was_read_is_left_alone(self) -> None:
        service = FakeService([dead(number) for number in range(3)])
        browser = Browser(service).open()
        page = browser.get("/sagas").text
        rows = re.findall(r'name="one" value="([^"]+)"', page)
        assert rows == [row_of(number) for number in range(3)]
        service.sagas[numbered(1)]["seq"] = SEQ + 2  # another operator was faster
        begun = browser.submit("/jobs", do="compensate", reason="n", one=rows).headers["location"]
        assert "chosen 3 done 2 already 1" in wait_over(browser, begun)
        assert {call[1] for call in service.did()} == {numbered(0), numbered(2)}
        for bad in ("create-zip", f"create-zip/{numbered(1)}", f"create-zip/{numbered(1)}/x"):
            assert browser.submit("/jobs", do="retry", reason="n", one=bad).status_code == 422

    def test_what_is_gone_on_with_keeps_its_name_and_states(self, service: FakeService) -> None:
        """So a call that took effect, but whose answer was lost, is not taken for another one."""
        service.refuses["retry"] = Ambiguous("no response")
        browser = Browser(service).open()
        begun = browser.submit("/jobs", do="retry", reason="n", one=row_of(1)).headers["location"]
        assert "failed 1" in wait_over(browser, begun)
        service.refuses.clear()
        assert browser.submit(f"{begun}/resume").headers["location"] == begun
        assert "done 1" in wait_over(browser, begun)
        first, second = service.did()
        assert first == second


class TestItsFile:
    """A job survives its console."""

    def folder(self, tmp_path: Path) -> JobFolder:
        return JobFolder(tmp_path / "jobs")

    def test_another_console_goes_on_with_what_is_left(self, tmp_path: Path) -> None:
        service, folder = Running([dead(number) for number in range(8)]), self.folder(tmp_path)
        service.refuses["retry"] = Unavailable("away", 0)
        browser = Browser(service, folder=folder).open()
        (form,) = forms_of(browser.get("/").text).values()
        begun = browser.submit("/jobs", **form, do="retry", reason="the provider is back").headers["location"]
        assert "failed 5 not tried 3" in wait_over(browser, begun)
        service.refuses.clear()
        service.asked.clear()
        other = Browser(service, folder=folder).open()
        assert "stopped: 5 failures in a row" in text_of(other.get("/jobs").text)
        told = text_of(other.get(begun).text)
        assert "“the provider is back” · create-zip announce exhausted NotFound" in told
        assert other.submit(f"{begun}/resume").status_code == 303
        assert "chosen 8 done 8" in wait_over(other, begun)
        name = begun.rpartition("/")[2]
        assert {call[2] for call in service.did()} == {f"bulk {name}: the provider is back"}
        assert "ended" in text_of(other.get("/jobs").text)

    def test_a_selection_by_ticks_is_not_kept(self, tmp_path: Path, service: FakeService) -> None:
        folder = self.folder(tmp_path)
        service.refuses["retry"] = Unavailable("away", 0)
        browser = Browser(service, folder=folder).open()
        begun = browser.submit("/jobs", do="retry", reason="n", one=row_of(1)).headers["location"]
        assert "failed 1" in wait_over(browser, begun)
        (path,) = (tmp_path / "jobs").iterdir()
        assert numbered(1) not in path.read_text()
        other = Browser(service, folder=folder).open()
        assert "Which sagas it was for is not kept (picked)" in text_of(other.get(begun).text)
        assert other.submit(f"{begun}/resume").status_code == 422

    def test_a_job_of_another_service_is_not_run_here(self, tmp_path: Path, service: FakeService) -> None:
        folder = self.folder(tmp_path)
        Batch(service, "retry", Selection(type="x"), job="j1", service="other in x", folder=folder).run()
        browser = Browser(service, folder=folder).open()
        assert "No jobs yet" in browser.get("/jobs").text
        assert browser.submit("/jobs/j1/resume").status_code == 422
        assert service.did() == []

    def test_read_only_consoles_list_jobs_and_run_none(self, tmp_path: Path, service: FakeService) -> None:
        folder = self.folder(tmp_path)
        first = Browser(service, folder=folder).open()
        begun = first.submit("/jobs", do="retry", reason="n", selection=OF_TYPE, number="1").headers["location"]
        wait_over(first, begun)
        browser = Browser(service, folder=folder, read_only=True).open()
        assert "Retry: 1 saga" in text_of(browser.get(begun).text)
        assert "resume" not in browser.get(begun).text
        assert browser.submit(f"{begun}/resume").status_code in (404, 405)

    def test_a_file_that_cannot_be_written_is_said(self, tmp_path: Path, service: FakeService) -> None:
        (tmp_path / "jobs").write_text("in the way")
        browser = Browser(service, folder=self.folder(tmp_path)).open()
        begun = browser.submit("/jobs", do="retry", reason="n", selection=OF_TYPE, number="1").headers["location"]
        assert "cannot be written (File exists)" in wait_over(browser, begun)
        assert service.did() == []


def ended(jobs: Jobs, name: str) -> None:
    end = time.monotonic() + 10
    while name in jobs.running():
        assert time.monotonic() < end, "the job goes on"
        time.sleep(0.001)


def test_a_job_can_be_stopped_and_goes_on(tmp_path: Path) -> None:
    class Slow(Running):
        stop: Any = None

        def retry(self, name: str, saga_id: str, reason: str = "", *, seq: int) -> Any:
            super().retry(name, saga_id, reason, seq=seq)
            self.stop()

    service = Slow([dead(number) for number in range(50)])
    jobs = Jobs(service, 1.0, "here", JobFolder(tmp_path))
    batch = jobs.begin("retry", "n", selection=Selection(type="create-zip", needing=True))
    service.stop = batch.stop
    for _ in range(2):
        jobs.run(batch)
        ended(jobs, batch.job)
        assert batch.report.stopped == "you stopped it"
    assert 0 < len(service.did()) < 50
    assert len(service.did()) == len({call[1] for call in service.did()}) == batch.report.count("done")


@pytest.mark.parametrize(("reads", "page"), [("get", "/jobs/{}"), ("all", "/jobs")])
def test_a_page_does_not_mix_what_a_job_had_done_with_what_it_is_now(
    monkeypatch: pytest.MonkeyPatch, reads: str, page: str
) -> None:
    called, go_on = threading.Event(), threading.Event()

    class Slow(Running):
        def retry(self, name: str, saga_id: str, reason: str = "", *, seq: int) -> Any:
            called.set()
            assert go_on.wait(10)
            super().retry(name, saga_id, reason, seq=seq)

    read = getattr(Jobs, reads)

    def read_and_end(jobs: Jobs, *name: str) -> Any:
        answer = read(jobs, *name)
        go_on.set()
        for job in jobs.running():
            ended(jobs, job)
        return answer

    browser = Browser(Slow([dead(number) for number in range(3)])).open()
    begun = browser.submit("/jobs", do="retry", reason="n", selection=OF_TYPE, number="3").headers["location"]
    assert called.wait(10)
    monkeypatch.setattr(Jobs, reads, read_and_end)
    told = browser.get(page.format(begun.rpartition("/")[2])).text
    assert "running" in told
    assert 'data-over="yes"' not in told
    assert "unfinished" not in told
    assert "done 3" in wait_over(browser, begun)
    assert "ended" in text_of(browser.get("/jobs").text)


def test_a_job_that_runs_is_not_begun_once_more(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Running):
        def retry(self, name: str, saga_id: str, reason: str = "", *, seq: int) -> Any:
            begun.set()
            assert go_on.wait(10)
            super().retry(name, saga_id, reason, seq=seq)

    service = Slow([dead(number) for number in range(3)])
    jobs = Jobs(service, 1000.0, "here", JobFolder(tmp_path))
    batch = jobs.begin("retry", "n", selection=Selection(type="create-zip", needing=True))
    jobs.run(batch)
    assert begun.wait(10)
    jobs.run(batch)
    go_on.set()
    ended(jobs, batch.job)
    assert sorted(call[1] for call in service.did()) == [numbered(number) for number in range(3)]
    assert len([call for call in service.asked if call[0] == "attention"]) == 1


@pytest.mark.parametrize("problem", [KeyError("types"), ValueError("no")])
def test_a_job_adds_up_whatever_happens(tmp_path: Path, problem: Exception) -> None:
    class Odd(FakeService):
        def retry(self, name: str, saga_id: str, reason: str = "", *, seq: int) -> Any:
            if saga_id == numbered(2):
                raise problem

    jobs = Jobs(Odd([dead(number) for number in range(4)]), 1000.0, "here", JobFolder(tmp_path))
    batch = jobs.begin("retry", "n", selection=Selection(type="create-zip", needing=True))
    jobs.run(batch)
    ended(jobs, batch.job)
    assert batch.report.counts == {"chosen": 4, "done": 3, "already": 0, "refused": 0, "failed": 1}
    assert batch.report.unfinished == [numbered(2)]


def test_a_job_can_be_looked_at_while_it_goes_on(tmp_path: Path) -> None:
    service = FakeService([dead(number) for number in range(1_500)])
    jobs = Jobs(service, 1000.0, "here", JobFolder(tmp_path))
    batch = jobs.begin("retry", "n", selection=Selection(type="create-zip", needing=True))
    batch.rate = 1e9
    jobs.run(batch)
    seen = list[int]()
    while batch.job in jobs.running():
        record, _ = jobs.get(batch.job)
        seen.append(record.counts["done"])
        assert len(batch.report.unfinished) <= 1_500
    assert seen == sorted(seen)
    assert batch.report.count("done") == 1_500


def test_the_oldest_jobs_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.console.jobs._REMEMBERED", 2)
    jobs = Jobs(FakeService([dead()]), 1000.0, "here", JobFolder(tmp_path))
    names = [f"j{number}" for number in range(5)]
    for name in names:
        jobs.run(jobs.begin("retry", "n", selection=Selection(type="create-zip", needing=True), job=name))
        ended(jobs, name)
    assert [jobs.get(name)[1] is None for name in names][:2] == [True, True]
