"""What the pages do to many sagas."""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Iterable
from typing import Any

from sagas.console.jobs import Item, Job, Jobs
from sagas.errors import Ambiguous, Conflict, Unavailable
from tests.unit.client.stub import SEQ, a_saga
from tests.unit.console.conftest import Browser, text_of, wait_over
from tests.unit.console.service import FakeService, a_letter, dead, numbered, row_of


class TestJobs:
    def begin(self, browser: Browser, **form: Any) -> str:
        answer = browser.submit("/jobs", **{"do": "retry", "reason": "fixed", **form})
        assert answer.status_code == 303, answer.text
        where = answer.headers["location"]
        job = int(where.rpartition("/")[2])
        desk = browser.get(where)
        for _ in range(500):
            desk = browser.get(where)
            if 'data-over="yes"' in desk.text:
                break
        assert job
        return text_of(desk.text)

    def test_do_it_to_all_or_to_the_chosen_or_to_one_first(self, browser: Browser, service: FakeService) -> None:
        every = [row_of(number) for number in range(4)]
        told = self.begin(browser, all=every)
        assert "chosen 4 done 4 refused 0 failed 0 not tried 0" in told
        notes = {reason for _, _, reason in service.did()}
        assert re.fullmatch(r"bulk [0-9a-f]{8}: fixed", notes.pop())
        assert not notes  # one job has one name
        assert {saga_id for _, saga_id, _ in service.did()} == {numbered(number) for number in range(4)}
        self.begin(browser, all=every, one=every[1:3], first="1")
        ((_, saga_id, reason),) = service.did()[4:]
        assert (saga_id, reason != service.did()[0][2]) == (numbered(1), True)

    def test_add_up_and_stop_when_all_fails(self, browser: Browser, service: FakeService) -> None:
        service.refuses["retry"] = Conflict("the saga is RUNNING")
        every = [row_of(number) for number in range(10)]
        assert "done 0 refused 10 failed 0 not tried 0" in self.begin(browser, all=every)
        service.refuses["retry"] = Unavailable("away", 0)
        told = self.begin(browser, all=every)
        assert "done 0 refused 0 failed 5 not tried 5" in told
        assert "Go on with the 10 that failed or are left" in told

    def test_need_a_note_and_a_known_action_and_something_to_do(self, browser: Browser, service: FakeService) -> None:
        one = row_of(1)
        assert browser.submit("/jobs", do="retry", reason="", one=one).status_code == 422
        assert browser.submit("/jobs", do="purge", reason="n", one=one).status_code == 404
        assert browser.submit("/jobs", do="retry", reason="n").status_code == 422
        many = [row_of(number) for number in range(101)]
        assert browser.submit("/jobs", do="retry", reason="n", all=many).status_code == 422
        assert service.did() == []
        assert browser.submit("/jobs", do="retry", reason="n", all=many, count="101").status_code == 303
        assert browser.get("/jobs/99").status_code == 404

    def test_takes_the_letters_of_its_sagas_along(self) -> None:
        service = FakeService([dead(number) for number in range(4)])
        service.letters = [a_letter(saga_id=numbered(number)) for number in range(5)]
        every, browser = [row_of(number) for number in range(4)], Browser(service).open()
        begun = browser.submit("/jobs", do="retry", reason="fixed", all=every)
        assert "chosen 4 done 4 refused 0" in wait_over(browser, begun.headers["location"])
        assert [each.saga_id for each in service.letters] == [numbered(4)]


class TestAllThatMatch:
    """What a filter has is acted on as a whole, however many pages of the list it takes."""

    def test_are_counted_and_then_done(self) -> None:
        service = FakeService([*(dead(number) for number in range(120)), a_saga(saga_id=numbered(999))])
        browser = Browser(service).open()
        assert 'href="/sagas/all' not in browser.get("/sagas").text
        listed = html.unescape(browser.get("/sagas", params={"status": "DEAD_LETTERED", "text": "topic"}).text)
        (link,) = re.findall(r'href="(/sagas/all[^"]*)"', listed)
        told = text_of(browser.get(link).text)
        assert "120 sagas match" in told
        assert "Type their number, 120" in told
        form = {"matching": "1", "status": "DEAD_LETTERED", "text": "topic", "do": "retry", "reason": "fixed"}
        refused = browser.submit("/jobs", **form)
        assert refused.status_code == 422
        assert "count: type 120" in refused.text
        assert browser.submit("/jobs", **form, rate="1000").status_code == 422
        assert service.did() == []
        begun = browser.submit("/jobs", **form, count="120")
        assert begun.status_code == 303
        done = wait_over(browser, begun.headers["location"])
        assert "chosen 120 done 120 refused 0 failed 0 not tried 0" in done
        assert len({call[1] for call in service.did()}) == 120

    def test_one_first_and_a_text(self) -> None:
        other = dead(3, error={"type": "Denied", "message": "no"})
        service = FakeService([dead(1), dead(2), other])
        browser = Browser(service).open()
        form = {"matching": "1", "text": "denied", "do": "retry", "reason": "fixed", "rate": "20"}
        wait_over(browser, browser.submit("/jobs", **form, first="1").headers["location"])
        assert [call[1] for call in service.did()] == [numbered(3)]
        assert "No saga does" in text_of(browser.get("/sagas/all", params={"text": "nothing like it"}).text)

    def test_all_of_all_times_are_refused(self, browser: Browser, service: FakeService) -> None:
        assert browser.get("/sagas/all").status_code == 422
        assert browser.submit("/jobs", matching="1", do="cancel", reason="n").status_code == 422
        assert service.did() == []

    def test_what_has_changed_since_the_page_was_read_is_refused(self) -> None:
        service = FakeService([dead(number) for number in range(3)])
        browser = Browser(service).open()
        page = browser.get("/sagas").text
        rows = re.findall(r'name="one" value="([^"]+)"', page)
        assert rows == [row_of(number) for number in range(3)]
        service.sagas[numbered(1)]["seq"] = SEQ + 2  # another operator was faster
        begun = browser.submit("/jobs", do="compensate", reason="n", one=rows).headers["location"]
        assert "chosen 3 done 2 refused 1" in wait_over(browser, begun)
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
        again = browser.submit("/jobs", again=begun.rpartition("/")[2], do="retry", reason="n").headers["location"]
        assert "done 1" in wait_over(browser, again)
        first, second = service.did()
        assert first == second

    def test_what_failed_is_gone_on_with(self, service: FakeService) -> None:
        service.refuses["retry"] = Unavailable("away", 0)
        service.sagas = {numbered(number): dead(number) for number in range(8)}
        browser = Browser(service).open()
        begun = browser.submit("/jobs", matching="1", type="create-zip", do="retry", reason="n").headers["location"]
        assert "failed 5 not tried 3" in wait_over(browser, begun)
        service.refuses.clear()
        again = browser.submit("/jobs", again=begun.rpartition("/")[2], do="retry", reason="n").headers["location"]
        assert "chosen 8 done 8" in wait_over(browser, again)


def _no_letters(_do: str, _items: Iterable[Item]) -> str:
    return ""


def test_a_job_ends_and_adds_up_whatever_happens() -> None:
    def act(_do: str, item: Item, _note: str) -> str:
        if item.saga_id == "2":
            raise KeyError("types")
        return item.saga_id

    job = Jobs(act, 1000.0, _no_letters).start("retry", "n", [Item("x", str(number), SEQ) for number in range(4)])
    assert job.wait(10)
    assert (job.report.count("done"), job.report.count("failed"), job.report.remaining) == (3, 1, [])
    assert job.unfinished == [Item("x", "2", SEQ)]


def test_a_job_can_be_looked_at_while_it_goes_on() -> None:
    job = Job(1, "retry", "n", {str(number): Item("x", str(number), SEQ) for number in range(2_000)}, 1e9)

    def act(_do: str, item: Item, _note: str) -> str:
        return item.saga_id

    thread = threading.Thread(target=job.run, args=(act, _no_letters))
    thread.start()
    while not job.ended:
        assert job.report.count("done") <= 2_000
        assert len(job.listed) <= 200
        assert len(job.unfinished) <= 2_000
        assert job.report.count("failed") == 0
    thread.join()
