"""The first page: what needs a person."""

from __future__ import annotations

import re
import threading
import time
from functools import partial
from itertools import count
from typing import Any

import pytest

from sagas.console import app
from sagas.console.source import Source
from tests.unit.client.stub import BEGAN, a_saga, a_step, attention
from tests.unit.console.conftest import LATER, Browser, opened, text_of
from tests.unit.console.service import ERROR, FakeService, a_letter, a_pause, a_type, dead, numbered


class TestAttention:
    """Every incident is noticed here, with one right next action."""

    def test_is_empty_when_all_is_well(self) -> None:
        assert "Nothing needs you" in opened(FakeService(), "/")

    def test_groups_what_has_the_same_problem(self) -> None:
        other = dead(3, error={"type": "Denied", "message": "no"})
        told = text_of(opened(FakeService([dead(1), dead(2), other]), "/"))
        assert "exhausted 3" in told
        assert "create-zip · step announce used up its attempts 2" in told
        assert "NotFound: no topic" in told
        assert "Denied: no" in told
        assert "Retry: 2" in told

    def test_many_sagas_with_many_messages_and_one_cause_are_one_group(self) -> None:
        sagas = [dead(number, error={"type": "Down", "message": f"503 for c-{number}"}) for number in range(300)]
        page = opened(FakeService(sagas), "/")
        assert page.count('<section class="group') == 1
        assert "Retry: 300" in text_of(page)

    def test_a_reason_that_only_a_newer_service_knows_is_shown(self, service: FakeService) -> None:
        service.sagas[numbered(1)]["attention"] = attention("struck_by_lightning")
        assert "create-zip · the saga needs an operator" in text_of(opened(service, "/"))

    def test_sagas_that_wait_for_a_release_are_a_group_without_a_look(self) -> None:
        why = attention("does_not_fit", step="ship", reason="the code of step ship of release 1 is not deployed here")
        why |= {"error_type": "release 1", "until": "2026-11-21T11:23:00.000Z"}
        failed = {"step": "pack", "type": "Broken", "message": "that one is undone"}
        sagas = [a_saga("RUNNING", saga_id=numbered(number), attention=why, error=failed) for number in (1, 2)]
        page = opened(FakeService(sagas), "/")
        told = text_of(page)
        assert "does not fit 2" in told
        assert "create-zip · step ship does not fit the release 2" in told
        assert "the code of step ship of release 1 is not deployed here" in told
        assert "until 2026-11-21 11:23 UTC" in told
        assert "Broken" not in told
        assert "Recover now" not in told
        assert 'value="cancel"' in page

    def test_a_failed_undo_is_the_worst(self) -> None:
        step = a_step("upload", "COMPENSATION_FAILED", undo_attempts=4, error=ERROR)
        undo = a_saga(
            "COMPENSATION_FAILED",
            saga_id=numbered(2),
            steps=[step],
            attention=attention("undo_failed", {"step": "upload", **ERROR}),
        )
        page = opened(FakeService([dead(1), undo]), "/")
        assert page.index("The undo of upload failed".lower()[4:]) < page.index("used up its attempts")
        assert "Retry the undo" in page

    def test_a_worker_that_died_is_noticed(self) -> None:
        lease = {"claimed_at": BEGAN, "expires_at": "2026-11-21T09:48:52.000Z", "heartbeat_at": None}
        told = text_of(opened(FakeService([a_saga("RUNNING", saga_id=numbered(1), lease=lease)]), "/"))
        assert "create-zip · its worker is gone" in told
        assert "Recover now" in told
        alive = {**lease, "expires_at": LATER}
        assert "Nothing needs you" in opened(FakeService([a_saga("RUNNING", lease=alive)]), "/")

    def test_a_message_of_no_saga_is_noticed(self, service: FakeService) -> None:
        service.letters = [a_letter(), a_letter(message_id="m-2")]
        page = opened(service, "/")
        assert "create-zip · 1 leftover dead letter" in text_of(page)
        assert 'href="/letters/create-zip"' in page
        assert ("dead_letters", "create-zip") not in service.asked  # looking disturbs

    def test_rejected_commands_are_noticed_and_can_be_read(self) -> None:
        service = FakeService()
        service.rejected = 2
        page = opened(service, "/")
        assert "2 rejected commands or events" in text_of(page)
        assert 'href="/letters/commands"' in page
        assert "Dead letters of commands 2" in text_of(opened(service, "/letters/commands"))

    def test_pauses_and_an_open_breaker_are_noticed(self) -> None:
        service = FakeService()
        stopped = a_pause(starts_only=True, reason="incident 42")
        service.known_types = [a_type(active=False, pauses=[stopped]), a_type("loan", paused=True, pauses=[a_pause()])]
        service.known_breakers = [
            {
                "type": "loan", "step": "score", "state": "open", "failures": 5, "open_until": LATER, "waiting": 57,
                "more_waiting": False, "last_error": None,
            }
        ]  # fmt: skip
        told = text_of(opened(service, "/"))
        for part in (
            "starts of create-zip · paused",
            "incident 42",
            "loan · the breaker of score is open",
            "5 failures in a row",
            "loan · paused",
        ):
            assert part in told

    def test_what_waits_for_a_signal_is_there(self) -> None:
        step = a_step("approval", "WAITING", waiting_for="signal", waits_until=LATER)
        told = text_of(opened(FakeService([a_saga("WAITING", saga_id=numbered(1), steps=[step])]), "/"))
        assert "create-zip · approval waits for a signal" in told

    def test_reads_one_saga_of_each_group(self) -> None:
        denied = [dead(number, error={"type": "Denied", "message": "no"}) for number in range(60, 70)]
        service = FakeService([*map(dead, range(60)), *denied])
        browser = Browser(service).open()
        for _ in range(2):
            browser.get("/")
            assert sum(call[0] == "show" for call in service.asked) == 2

    def test_what_a_refresh_is_to_know_again_has_a_name_of_its_own(self) -> None:
        other = dead(3, error={"type": "Denied", "message": "no"})
        service = FakeService([dead(1), dead(2), other])
        for path in ("/", "/sagas"):
            page = opened(service, path)
            ids = re.findall(r' id="([^"]*)"', page)
            assert len(ids) == len({*ids})
            rows = [one for one in ids if one.endswith(numbered(2))]
            assert len(rows) == 1
            service.sagas = {numbered(4): dead(4), **service.sagas}
            assert f'data-row id="{rows[0]}"' in opened(service, path)

    def test_a_worker_that_died_is_noticed_however_many_sagas_came_since(self) -> None:
        lease = {"claimed_at": BEGAN, "expires_at": "2026-11-21T09:48:52.000Z", "heartbeat_at": None}
        newer = [a_saga(saga_id=numbered(number)) for number in range(2, 300)]
        for status in ("RUNNING", "COMPENSATING"):
            service = FakeService([*newer, a_saga(status, saga_id=numbered(1), lease=lease)])
            assert "create-zip · its worker is gone" in text_of(opened(service, "/"))

    def test_a_message_of_no_saga_is_noticed_beside_a_saga_without_one(self, service: FakeService) -> None:
        for why in ("code_missing", "wait_timed_out"):
            service.sagas[numbered(1)]["attention"] = attention(why)
            service.letters = [a_letter()]
            assert "create-zip · 1 leftover dead letter" in text_of(opened(service, "/"))

    def test_a_sweep_that_stopped_and_orphans_are_noticed(self) -> None:
        class Sweeping(FakeService):
            def sweeps(self) -> list[Any]:
                counts = dict.fromkeys(("listed", "orphans", "deleted", "archived", "errors"), 4)
                known = {"prefix": "zips/", "round": 2, "began_at": BEGAN, "finished_at": BEGAN, "under_way": False}
                known |= {"counts": counts, "stopped": ""}
                return [
                    {**known, "type": "create-zip", "action": "report"},
                    {**known, "type": "loan", "action": "delete"},
                    {**known, "type": "trip", "action": "delete", "stopped": "most objects are orphans"},
                ]

        browser, end = Browser(Sweeping()).open(), time.monotonic() + 10
        while "Nothing needs you" in (told := text_of(browser.get("/").text)):
            assert time.monotonic() < end, "the sweeps are not told of"
            time.sleep(0.01)
        assert "create-zip · 4 orphaned objects under zips/" in told
        assert "trip · its sweep stopped" in told
        assert "most objects are orphans" in told
        assert "loan" not in told
        assert "round 2 began 9 s ago and ended 9 s ago : 4 listed, 4 orphans" in text_of(
            browser.get("/sweeps/create-zip").text
        )

    def test_messages_of_sagas_that_were_not_looked_at_are_not_called_nobodys(self) -> None:
        service = FakeService([dead(number) for number in range(250)])
        service.letters = [a_letter(message_id=f"m-{number}") for number in range(250)]

        assert "leftover" not in text_of(opened(service, "/"))
        service.at_least = True
        told = text_of(opened(service, "/"))
        assert "leftover" not in told
        assert "These are 250; there are more" in told
        service.at_least = False
        service.letters.append(a_letter(message_id="m-250"))
        assert "1 leftover dead letter" in text_of(opened(service, "/"))

    def test_a_dead_letter_of_a_saga_that_has_failed_since_the_overview_is_not_nobodys(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The supervisor counts once a minute, and SQS at once."""
        service, seconds = FakeService([dead(1)]), count(step=5)
        monkeypatch.setattr(app, "Source", partial(Source, clock=lambda: float(next(seconds))))
        browser = Browser(service, stack="shop").open()
        service.letters = [a_letter()]
        assert "Retry" in text_of(browser.get("/").text)
        before = service.overview()
        service.overview = lambda now=False: before  # type: ignore[method-assign]
        service.sagas[numbered(2)] = dead(2)
        service.letters.append(a_letter(message_id="m-2"))
        told = text_of(browser.get("/").text)
        assert "Retry: 2" in told
        assert "leftover" not in told

    def test_asks_for_all_that_it_tells_at_the_same_time(self, service: FakeService) -> None:
        """A service that is far away is waited for once, not once for each thing that may be the matter."""
        together = threading.Barrier(2)
        service.sagas[numbered(2)] = a_saga("WAITING", saga_id=numbered(2))

        def meet(answer: Any) -> Any:
            together.wait(30)
            return answer

        service.incidents = lambda name=None: meet({"incidents": [], "at_least": False})  # type: ignore[method-assign]
        listed, met = service.list, list[str | None]()

        def list_(name: str | None = None, status: str | None = None, **paging: Any) -> Any:
            met.append(status)
            return meet(listed(name, status, **paging))

        service.list = list_  # type: ignore[method-assign]
        assert "Nothing needs you" in opened(service, "/")
        assert met == ["WAITING"]
