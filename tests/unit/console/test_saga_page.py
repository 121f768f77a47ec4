"""The page of a saga."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import cast

import pytest

from sagas.console.desk import CONSEQUENCES, LABELS
from sagas.console.links import Links
from sagas.errors import Unavailable
from sagas.operations import COMPENSATE, RETRY, VERBS, Resolution, Verb
from tests.unit.client.stub import BEGAN, a_saga, a_step
from tests.unit.console.conftest import LATER, SAGA, STATUSES, Browser, opened, text_of
from tests.unit.console.service import ERROR, FakeService, an_entry, numbered, row_of


class TestSaga:
    @pytest.mark.parametrize("status", STATUSES)
    def test_of_every_status_can_be_shown(self, status: str) -> None:
        told = text_of(opened(FakeService([a_saga(status, saga_id=numbered(1))]), SAGA))
        assert f"create-zip {numbered(1)}" in told
        assert status in told

    def test_says_what_is_the_matter_and_what_to_do(self, service: FakeService) -> None:
        page = opened(service, SAGA)
        told = text_of(page)
        assert "Step announce used up its attempts" in told
        assert "attempt 4 failed: NotFound: no topic" in told
        assert f"sagas retry create-zip {numbered(1)}" in told
        assert f'action="/sagas/create-zip/{numbered(1)}/retry"' in page
        assert f"{numbered(1)}:upload" in told

    def test_has_a_button_for_a_new_verb_on_one_saga(
        self, service: FakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        verb = Verb("Look at a saga now.", "Nudge", "The supervisor looks at it now.", "It was looked at.")
        monkeypatch.setitem(VERBS, "nudge", replace(RETRY, name="nudge", verb=verb, bulk_statuses=()))
        monkeypatch.setitem(VERBS, "hide", replace(RETRY, name="hide", verb=Verb("Hide a saga."), bulk_statuses=()))
        monkeypatch.setitem(cast("dict[str, str]", LABELS), "nudge", verb.label)
        monkeypatch.setitem(cast("dict[str, str]", CONSEQUENCES), "nudge", verb.effect)
        page = opened(service, SAGA)
        assert f'action="/sagas/create-zip/{numbered(1)}/nudge"' in page
        assert f'action="/sagas/create-zip/{numbered(1)}/hide"' not in page

    def test_asks_for_the_options_of_a_verb(self, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
        def form() -> str:
            return opened(service, SAGA).split(f'{numbered(1)}/compensate"')[1].split("</form>")[0]

        assert re.findall(r'name="(\w+)"', form()) == ["csrf", "seq", "reason", "force"]
        assert "required" not in form()
        monkeypatch.setitem(VERBS, "compensate", replace(COMPENSATE, body=Resolution))
        assert re.findall(r'name="(\w+)"', form()) == ["csrf", "seq", "reason", "action"]
        assert '<textarea name="reason" rows="2" required>' in form()

    def test_the_audit_says_once_what_the_command_line_says(self, service: FakeService) -> None:
        service.entries.append(an_entry(2, "SagaResolved", details={"reason": "paid twice", "action": "refunded"}))
        assert text_of(opened(service, SAGA)).count("reason: paid twice, action: refunded") == 1

    def test_of_a_killed_worker_blames_the_attempt_that_was_lost(self, service: FakeService) -> None:
        lost = {"type": "Lost", "message": "its worker died"}
        lease = {"claimed_at": LATER, "expires_at": LATER, "heartbeat_at": BEGAN}
        step = a_step("upload", "RUNNING", attempts=2, error=lost)
        service.sagas = {numbered(1): a_saga("RUNNING", saga_id=numbered(1), steps=[step], lease=lease)}
        details = {"started_at": BEGAN, "error": lost}
        service.entries.append(an_entry(2, "StepLost", "upload", at="2026-11-21T09:48:55.000Z", details=details))
        page = opened(service, SAGA)
        assert "attempt 1 failed: Lost" in text_of(page)
        assert "attempt 2 failed" not in text_of(page)
        assert "last heartbeat 9 s ago" in text_of(page)
        assert 'class="bar k-lost"' in page

    def test_shows_request_results_and_trace(self, service: FakeService) -> None:
        service.sagas[numbered(1)] |= {
            "request": {"bucket": "sources"},
            "steps": [a_step("upload", result={"etag": "e-1"})],
        }
        trace = an_entry(2, "StepFailed", "upload", details={"stack_trace": "Traceback: here"}, trace_id="1-abc")
        service.entries.append(trace)
        told = text_of(opened(service, SAGA))
        for part in ('"bucket": "sources"', '"etag": "e-1"', "Traceback: here", "trace id 1-abc"):
            assert part in told

    def test_shows_the_traces_of_all_attempts_and_where_more_is_to_be_seen(self, service: FakeService) -> None:
        ids = ("1-5f84c7a1-012345678901234567890123", "0af7651916cd43dd8448eb211c80319c")
        for number, trace_id in enumerate(ids):
            details = {"stack_trace": f"Traceback {number}"}
            service.entries.append(an_entry(2 + number, "StepFailed", "upload", details=details, trace_id=trace_id))
        told = text_of(opened(service, SAGA))
        assert told.index("Traceback 1") < told.index("Traceback 0")
        assert "X-Ray" not in told
        assert "Logs of this saga" not in told
        page = html.unescape(opened(service, SAGA, links=Links("eu-central-1", ["/aws/lambda/pay"])))
        base = "https://eu-central-1.console.aws.amazon.com/cloudwatch/home?region=eu-central-1#"
        assert f'href="{base}xray:traces/{ids[0]}"' in page
        assert f'href="{base}xray:traces/1-0af76519-16cd43dd8448eb211c80319c"' in page
        assert f'href="{base}logsV2:logs-insights?queryDetail=~(end~' in page
        assert "~source~(~'*2faws*2flambda*2fpay))" in page

    def test_the_audit_is_in_pages_and_may_be_only_of_failures(self, service: FakeService) -> None:
        service.entries = [an_entry(number, "StepCompleted", "upload") for number in range(1, 451)]
        service.entries.append(an_entry(451, "StepFailed", "upload", details={"error": ERROR}))
        browser = Browser(service).open()
        first = browser.get(SAGA).text
        assert "from=200" in first
        assert "<td>451</td>" in first
        assert "<td>251</td>" not in first
        assert "<td>251</td>" in browser.get(SAGA, params={"from": "200"}).text
        failed = browser.get(SAGA, params={"audit": "failed", "from": "x"}).text
        assert failed.count("StepFailed") == 1
        assert "StepCompleted" not in failed

    def test_of_another_service_says_how_to_open_that(self, service: FakeService) -> None:
        answer = Browser(service).open().get(f"/Shop/us-east-1/sagas/create-zip/{numbered(1)}")
        assert answer.status_code == 404
        assert "sagas console --stack Shop --region us-east-1" in answer.text
        assert not [call for call in service.asked if call[0] == "show"]

    @pytest.mark.parametrize("name", ["Shop;reboot", "$(reboot)", "--profile=x", "a b", "`x`"])
    def test_no_link_has_anything_to_paste_into_a_shell_but_names(self, service: FakeService, name: str) -> None:
        for path in (f"/{name}/us-east-1", f"/Shop/{name}"):
            answer = Browser(service).open().get(f"{path}/sagas/create-zip/{numbered(1)}")
            assert answer.status_code == 404
            assert "sagas console" not in answer.text

    @pytest.mark.parametrize(
        ("kind", "until", "told"),
        [
            ("signal", LATER, "It waits for a signal, until 2026-11-21 09:49:20 UTC at most."),
            ("children", None, "It waits for the sagas that it started."),
            ("paused", None, "It waits before its next step, which is paused."),
        ],
    )
    def test_tells_what_it_waits_for_and_until_when(self, kind: str, until: str | None, told: str) -> None:
        saga = a_saga("WAITING", saga_id=numbered(1), waiting={"kind": kind, "until": until})
        assert told in text_of(opened(FakeService([saga]), SAGA))

    @pytest.mark.parametrize(
        ("status", "message"),
        [
            ("RUNNING", "the code of step upload is not deployed here"),
            ("COMPENSATING", "the undo of step upload is not deployed here"),
        ],
    )
    def test_that_waits_for_a_release_says_so_once_and_marks_the_step(self, status: str, message: str) -> None:
        waiting = {"kind": "release", "until": LATER, "step": "upload", "message": message}
        steps = [a_step("upload", "RETRYING"), a_step("announce", "PENDING")]
        saga = a_saga(status, saga_id=numbered(1), version="2", steps=steps, waiting=waiting)
        page = text_of(opened(FakeService([saga]), SAGA))
        assert "Started as version 2 (21 Nov)" in page
        assert page.count(f"{message[0].upper()}{message[1:]}.") == 1
        assert "If a deployment is under way, the saga continues without you." in page
        assert "Recover now" not in page, "it finds no other code"
        assert "It waits for a release, until 2026-11-21 09:49:20 UTC at most." in page
        assert "upload retrying, does not fit" in page
        assert page.count("does not fit") == 2, "in the drawing and in the table"

    def test_of_a_type_that_is_not_deployed_waits_for_a_release(self) -> None:
        saga = a_saga("RUNNING", saga_id=numbered(1), waiting={"kind": "release", "until": None})
        page = text_of(opened(FakeService([saga]), SAGA))
        assert page.count("The code of type create-zip is not deployed here.") == 1
        assert "Recover now" not in page, "the API would refuse it"
        assert "does not fit" not in page

    def test_that_is_not_there(self, service: FakeService) -> None:
        answer = Browser(service).open().get("/local/eu-central-1/sagas/create-zip/none")
        assert answer.status_code == 404
        assert "no saga with id none (type create-zip)" in answer.text

    def test_short_links_lead_to_whole_ones(self, browser: Browser) -> None:
        answer = browser.get(f"/sagas/create-zip/{numbered(1)}?audit=failed")
        assert answer.headers["location"] == f"{SAGA}?audit=failed"

    def test_what_has_not_changed_is_not_sent_again(self, browser: Browser, service: FakeService) -> None:
        for path in ("/", SAGA, "/sagas"):
            first = browser.get(path)
            again = browser.get(path, headers={"If-None-Match": first.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
        tag = browser.get(SAGA).headers["etag"]
        browser.submit(f"/sagas/create-zip/{numbered(1)}/retry")
        service.sagas[numbered(1)]["status"] = "RUNNING"
        assert browser.get(SAGA, headers={"If-None-Match": tag}).status_code == 200

    def test_as_json(self, browser: Browser, service: FakeService) -> None:
        service.sagas[numbered(1)]["request"] = {"password": "hunter22"}
        answer = browser.get(f"{SAGA}/json")
        assert answer.json()["saga"]["request"] == {"password": "***"}
        assert "attachment" in answer.headers["content-disposition"]

    def test_asks_for_news_by_itself_where_that_is_cheap_and_asks_for_nothing_to_be_done(
        self, browser: Browser, service: FakeService
    ) -> None:
        job = browser.submit("/jobs", do="retry", reason="n", one=row_of(1)).headers["location"]
        for path in ("/", "/sagas", SAGA, "/letters/create-zip", "/sweeps/create-zip", "/jobs", job):
            assert "data-still" not in browser.get(path).text
        for path in ("/search?q=zzz", "/sagas/all?type=create-zip", "/types/none"):
            assert 'data-still="slow"' in browser.get(path).text
        for path in ("/letters/create-zip/look", "/sweeps/create-zip", "/types/create-zip/none"):
            assert 'data-still="posted"' in browser.submit(path).text
        service.away = Unavailable("the API is out of reach", 5)
        assert "data-still" not in Browser(service).open().get("/types").text
