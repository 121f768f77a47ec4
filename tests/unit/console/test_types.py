"""The pages of saga types, breakers and sweeps."""

from __future__ import annotations

import re

from sagas.errors import InvalidRequest, Problem, Unavailable
from tests.unit.console.conftest import LATER, SAGA, Browser, text_of
from tests.unit.console.service import FakeService, a_pause, in_flight, numbered


class TestTypes:
    def test_are_paused_with_a_reason_and_resumed(self, browser: Browser, service: FakeService) -> None:
        path = "/types/create-zip"
        assert browser.submit(f"{path}/pause", reason="").status_code == 422
        assert browser.submit(f"{path}/pause", reason="42").status_code == 303
        browser.submit(f"{path}/pause", reason="42", starts_only="yes")
        browser.submit(f"{path}/pause", reason="42", starts="yes", undos="yes", step="")
        browser.submit(f"{path}/pause", reason="42", step="upload")
        assert browser.submit(f"{path}/resume").status_code == 303
        browser.submit(f"{path}/resume", step="upload")
        assert service.did() == [
            ("pause", "create-zip", "42"),
            ("pause", "create-zip", "42", "starts_only"),
            ("pause", "create-zip", "42", "starts", "undos"),
            ("pause", "create-zip", "42", "step"),
            ("resume", "create-zip"),
            ("resume", "create-zip", "upload"),
        ]

    def test_show_what_is_paused_of_them(self, browser: Browser, service: FakeService) -> None:
        pauses = [a_pause(reason="the bank is shut", starts=True, undos=True), a_pause(step="upload")]
        pauses.append(a_pause(saga_id=SAGA, starts_only=False))
        service.known_types[0] |= {"paused": True, "pauses": pauses}
        page = browser.get("/types/create-zip").text
        told = text_of(page)
        for part in (
            "It is paused by ann 9 s ago : the bank is shut. New sagas are accepted, and wait. Undos wait, too.",
            "upload is paused by ann 9 s ago .",
        ):
            assert part in told
        assert page.count('action="/types/create-zip/resume"') == 3
        assert '<input type="hidden" name="step" value="upload">' in page
        assert "create-zip · paused since 9 s ago the bank is shut" in text_of(browser.get("/").text)

    def test_one_whose_starts_are_paused_says_why_it_starts_none(self, browser: Browser, service: FakeService) -> None:
        service.refuses["start"] = Unavailable("starts of create-zip are paused: incident 42", 294)
        answer = browser.submit("/types/create-zip/start", **{"value.bucket": "b"})
        assert answer.status_code == 503
        assert "Start one starts of create-zip are paused: incident 42; try again in 294 s" in text_of(answer.text)

    def test_what_was_typed_stays_where_the_form_is_refused(self, browser: Browser, service: FakeService) -> None:
        problems = [Problem("$.bucket", "is too short"), Problem("$.keys[3]", "is no key")]
        service.refuses["start"] = InvalidRequest("the request does not fit", problems)
        answer = browser.submit("/types/create-zip/start", **{"value.bucket": 'b"<i>', "key": "k1"})
        assert answer.status_code == 422
        assert '<details id="start" open>' in answer.text
        assert 'value="b&#34;&lt;i&gt;" aria-invalid="true" aria-describedby="wrong-value.bucket">' in answer.text
        assert 'name="key" autocomplete="off" value="k1"' in answer.text
        told = text_of(answer.text)
        assert "the request does not fit $.keys[3]: is no key" in told
        assert "$.bucket: is too short" in told

    def test_a_saga_is_started_from_a_form(self, browser: Browser, service: FakeService) -> None:
        assert 'name="value.bucket"' in browser.get("/types/create-zip").text
        answer = browser.submit("/types/create-zip/start", **{"value.bucket": "b", "key": "k1"})
        assert (answer.status_code, answer.headers["location"]) == (303, SAGA)
        assert service.did() == [("start", "create-zip", {"bucket": "b"}, "k1")]

    def test_sagas_in_flight_are_grouped_by_their_release_when_asked_for(
        self, browser: Browser, service: FakeService
    ) -> None:
        service.known_in_flight = in_flight()
        page = browser.get("/types/create-zip").text
        assert "version 1" not in text_of(page)
        assert ("in_flight", "create-zip") not in service.asked
        asked = browser.get(page.split('class="button" href="')[1].split('"')[0]).text
        assert 'data-still="slow"' in asked
        told = text_of(asked)
        first, second = told.index("version 1 (21 Nov)"), told.index("version 2 (21 Nov)")
        old, current = told[first:second], told[second:]
        for part in (
            "40 PENDING check",
            "2 WAITING approve",
            numbered(7),
            "does not fit the undo of step 'upload' is not in the deployed code",
            "does not fit step 'approve' is a step now, and was a wait for a signal when the saga started",
            "does not fit step 'announce' is not in the deployed code",
        ):
            assert part in old
        assert old.count("does not fit") == 3
        assert "3 DEAD_LETTERED approve" in current
        assert "does not fit" not in current

    def test_none_in_flight_and_none_of_the_deployed_release(self, browser: Browser, service: FakeService) -> None:
        service.known_in_flight = in_flight() | {"groups": []}
        assert "None." in text_of(browser.get("/types/create-zip?in_flight=").text)
        service.known_in_flight = in_flight() | {"deployed": None}
        other = Browser(service).open()
        assert "does not fit step 'check' is not in" in text_of(other.get("/types/create-zip?in_flight=").text)

    def test_a_breaker_is_closed(self, browser: Browser, service: FakeService) -> None:
        assert browser.submit("/breakers/create-zip/upload/close").status_code == 303
        assert service.did() == [("close_breaker", "create-zip", "upload")]

    def test_starts_are_refused_where_a_breaker_is_open(self, browser: Browser, service: FakeService) -> None:
        error = {"type": "Down", "message": "<b>no</b>\u202e", "at": LATER, "saga_id": numbered(1), "seq": 7}
        a_breaker = {
            "type": "create-zip", "step": "upload", "failures": 5, "open_until": LATER, "more_waiting": False,
            "last_error": error,
        }  # fmt: skip
        service.known_breakers = [{**a_breaker, "state": "open", "waiting": 57}]
        page = browser.get("/breakers").text
        assert "Refuse new …" in page
        assert "Down: &lt;b&gt;no&lt;/b&gt;" in page
        assert "\u202e" not in page
        assert f"/sagas/create-zip/{numbered(1)}" in page
        assert 'action="/types/create-zip/pause"' in page
        browser.submit("/types/create-zip/pause", reason="the bank is shut", starts_only="yes")
        assert service.did() == [("pause", "create-zip", "the bank is shut", "starts_only")]
        service.known_types[0]["active"] = False
        assert "starts none" in text_of(Browser(service).open().get("/breakers").text)
        service.known_breakers[0]["state"] = "closed"
        assert "Refuse new" not in Browser(service).open().get("/breakers").text

    def test_a_sweep_is_dry_unless_said_otherwise_and_adds_up(self, browser: Browser, service: FakeService) -> None:
        told = text_of(browser.submit("/sweeps/create-zip").text)
        assert "4 objects under zips/ in b" in told
        assert "zips/x" in told
        counts = [
            int(number) for number in re.findall(r"(?:orphans|unreferenced|kept|young|unknown|foreign) (\d+)", told)
        ]
        assert sum(counts) == 4
        browser.submit("/sweeps/create-zip", really="yes", force="yes")
        assert service.did() == [("sweep", "create-zip", True, False), ("sweep", "create-zip", False, True)]
