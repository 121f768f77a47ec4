"""What the pages show and do."""

from __future__ import annotations

import html
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from sagas.console.links import Links, links_of
from sagas.console.redaction import Redaction, redaction_of
from sagas.errors import Ambiguous, Conflict, InvalidRequest, Unavailable
from tests.unit.client.stub import BEGAN, a_saga, a_step
from tests.unit.console.conftest import Browser
from tests.unit.console.service import ERROR, HOSTILE, FakeService, a_letter, a_type, an_entry, dead, numbered

SAGA = f"/local/eu-central-1/sagas/create-zip/{numbered(1)}"
LATER = "2026-11-21T09:49:20.000Z"
STATUSES = (
    *("PENDING", "RUNNING", "WAITING", "COMPENSATING", "DEAD_LETTERED"),
    *("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED"),
)


def text_of(page: str) -> str:
    """The words of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def opened(service: FakeService, path: str, **options: Any) -> str:
    answer = Browser(service, **options).open().get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


class TestInbox:
    """Every incident is noticed here, with one right next action."""

    def test_is_empty_when_all_is_well(self) -> None:
        assert "Nothing needs you" in opened(FakeService(), "/")

    def test_groups_what_has_the_same_problem(self) -> None:
        other = dead(3, error={"step": "announce", "type": "Denied", "message": "no"})
        other["steps"] = [a_step("announce", "FAILED", attempts=1, error={"type": "Denied", "message": "no"})]
        told = text_of(opened(FakeService([dead(1), dead(2), other]), "/"))
        assert "dead-lettered 3" in told
        assert "create-zip · step announce used up its attempts 2" in told
        assert "NotFound: no topic" in told
        assert "Denied: no" in told
        assert "Redrive: 2" in told

    def test_a_failed_undo_is_the_worst(self) -> None:
        step = a_step("upload", "COMPENSATION_FAILED", undo_attempts=4, error=ERROR)
        undo = a_saga("COMPENSATION_FAILED", saga_id=numbered(2), steps=[step], why="the undo of upload failed")
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
        assert "create-zip · 1 dead message that no saga waits for" in text_of(page)
        assert 'href="/letters/create-zip"' in page
        assert ("dead_letters", "create-zip") not in service.asked  # looking disturbs

    def test_a_disabled_type_an_open_breaker_and_a_pause_are_noticed(self) -> None:
        service = FakeService()
        service.types = [a_type(active=False, reason="incident 42"), a_type("loan", paused=True)]
        service.known_breakers = [
            {
                "saga": "loan", "step": "score", "state": "open", "failures": 5, "open_until": LATER, "waiting": 57,
                "more_waiting": False,
            }
        ]  # fmt: skip
        told = text_of(opened(service, "/"))
        for part in ("create-zip · disabled", "incident 42", "loan · the breaker of score is open 57", "loan · paused"):
            assert part in told

    def test_what_waits_for_a_signal_is_there(self) -> None:
        step = a_step("approval", "WAITING", waiting_for="signal", waits_until=LATER)
        told = text_of(opened(FakeService([a_saga("WAITING", saga_id=numbered(1), steps=[step])]), "/"))
        assert "create-zip · approval waits for a signal" in told

    def test_a_service_of_an_older_version_is_shown(self, service: FakeService) -> None:
        service.refuses["breakers"] = service.refuses["count_letters"] = InvalidRequest("what is this?")
        service.refuses.clear()
        del service.types[0]["failures"], service.types[0]["disabled_until"]
        for path in ("/", "/types", "/types/create-zip", SAGA):
            opened(service, path)

    def test_tells_errors_a_few_at_a_time(self) -> None:
        service = FakeService([dead(number) for number in range(60)])
        browser = Browser(service).open()
        shows = 0
        for _ in range(3):
            browser.get("/")
            asked = sum(call[0] == "show" for call in service.asked)
            assert asked - shows <= 24
            shows = asked
        assert shows == 60
        browser.get("/")
        assert sum(call[0] == "show" for call in service.asked) == 60


class TestList:
    def test_filters(self, service: FakeService) -> None:
        browser = Browser(service).open()
        assert numbered(1) in browser.get("/sagas", params={"status": "dead_lettered", "name": "create-zip"}).text
        assert service.asked[-1][0] in ("definitions", "show", "list")
        assert ("list", "create-zip", "DEAD_LETTERED") in service.asked
        assert numbered(1) not in browser.get("/sagas", params={"text": "something else"}).text
        assert numbered(1) in browser.get("/sagas", params={"text": "NO TOPIC"}).text

    def test_goes_on(self) -> None:
        service = FakeService([a_saga(saga_id=numbered(number)) for number in range(120)])
        browser = Browser(service).open()
        first = browser.get("/sagas").text
        assert first.count("data-row") == 50
        (cursor,) = re.findall(r"cursor=(\w+)", first)
        second = browser.get("/sagas", params={"cursor": cursor}).text
        assert numbered(50) in second
        assert numbered(49) not in second

    def test_search_goes_to_the_saga(self, service: FakeService) -> None:
        browser = Browser(service).open()
        answer = browser.get("/search", params={"q": numbered(1)[:20]})
        assert (answer.status_code, answer.headers["location"]) == (303, SAGA)
        assert "None of the newest" in browser.get("/search", params={"q": "ff"}).text

    def test_an_empty_one_teaches(self) -> None:
        assert "sagas start NAME" in text_of(opened(FakeService(), "/sagas"))


class TestNewerService:
    """A service that tells more than the oldest one: what it tells is shown, and not asked for again."""

    class Newer(FakeService):
        def look_up(self, saga_id: str) -> Any:
            self.asked.append(("look_up", saga_id))
            found = [saga for one, saga in self.sagas.items() if one.startswith(saga_id)]
            if len(found) != 1:
                raise Conflict("several sagas begin so")
            return found[0]

        def list(
            self,
            name: str | None = None,
            status: str | None = None,
            *,
            since: str | None = None,
            until: str | None = None,
            idempotency_key: str | None = None,
            **paging: Any,
        ) -> Any:
            if idempotency_key is not None:
                found = [*self.sagas.values()] if idempotency_key == "order-1" else []
                return {"sagas": found, "cursor": None}
            self.asked.append(("times", since, until))
            return super().list(name, status, **paging)

    def test_faults_come_with_the_list(self) -> None:
        fault = {"step": "announce", "type": "Denied", "message": "no", "undo": False}
        service = self.Newer([dead(number, fault=fault) for number in range(30)])
        told = text_of(opened(service, "/"))
        assert "step announce used up its attempts 30" in told
        assert "Denied: no" in told
        assert not [call for call in service.asked if call[0] == "show"]

    def test_a_saga_is_looked_up_by_the_service(self) -> None:
        browser = Browser(self.Newer([dead(1)])).open()
        for wanted in (numbered(1), numbered(1)[:8], "order-1"):
            answer = browser.get("/search", params={"q": wanted})
            assert (answer.status_code, answer.headers["location"]) == (303, SAGA)
        assert browser.get("/search", params={"q": "none of these"}).status_code == 200

    def test_lists_are_of_a_time(self, service: FakeService) -> None:
        newer = self.Newer([dead(1)])
        page = opened(newer, "/sagas?since=2026-11-22T10:00Z")
        assert 'name="since" value="2026-11-22T10:00Z"' in page
        assert ("times", "2026-11-22T10:00Z", None) in newer.asked
        assert 'name="since"' not in opened(service, "/sagas?since=x")


class TestSaga:
    @pytest.mark.parametrize("status", STATUSES)
    def test_of_every_status_can_be_shown(self, status: str) -> None:
        told = text_of(opened(FakeService([a_saga(status, saga_id=numbered(1))]), SAGA))
        assert f"create-zip {numbered(1)}" in told
        assert status in told

    def test_says_what_is_the_matter_and_what_to_do(self, service: FakeService) -> None:
        page = opened(service, SAGA)
        told = text_of(page)
        assert "step announce used up its attempts" in told
        assert "attempt 4 failed: NotFound: no topic" in told
        assert f"sagas dlq redrive create-zip --saga-id {numbered(1)}" in told
        assert f'action="/sagas/create-zip/{numbered(1)}/redrive"' in page
        assert f"{numbered(1)}:upload" in told

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

    def test_that_is_not_there(self, service: FakeService) -> None:
        answer = Browser(service).open().get("/local/eu-central-1/sagas/create-zip/none")
        assert answer.status_code == 404
        assert "there is no saga create-zip/none" in answer.text

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


class TestActions:
    @pytest.mark.parametrize(
        ("do", "form", "call"),
        [
            ("retry", {"note": "again"}, ("retry", numbered(1), "again")),
            ("compensate", {"note": "n"}, ("compensate", numbered(1), "n")),
            ("cancel", {"note": "no"}, ("cancel", numbered(1), "no")),
            ("recover", {}, ("recover", numbered(1))),
            ("rerun", {}, ("rerun", numbered(1))),
            (
                "resolve",
                {"note": "n", "taken": "refunded", "step": ["a", "b"]},
                ("resolve", numbered(1), "n", "refunded", ["a", "b"]),
            ),
        ],
    )
    def test_are_done_once(self, browser: Browser, service: FakeService, do: str, form: Any, call: Any) -> None:
        answer = browser.submit(f"/sagas/create-zip/{numbered(1)}/{do}", **form)
        assert (answer.status_code, answer.headers["location"]) == (303, f"{SAGA}?did={do}")
        assert service.did() == [call]
        assert 'class="did"' in browser.get(answer.headers["location"]).text

    def test_a_redrive_without_a_message_says_what_to_do(self, browser: Browser, service: FakeService) -> None:
        answer = browser.submit(f"/sagas/create-zip/{numbered(1)}/redrive")
        assert answer.status_code == 404
        assert "retry it instead" in answer.text
        service.letters = [a_letter()]
        assert browser.submit(f"/sagas/create-zip/{numbered(1)}/redrive").status_code == 303

    def test_a_settlement_needs_a_note(self, browser: Browser, service: FakeService) -> None:
        answer = browser.submit(f"/sagas/create-zip/{numbered(1)}/resolve", note=" ")
        assert (answer.status_code, service.did()) == (422, [])
        assert "the note is missing" in answer.text

    def test_an_unknown_one_is_none(self, browser: Browser, service: FakeService) -> None:
        assert browser.submit(f"/sagas/create-zip/{numbered(1)}/purge").status_code == 404
        assert service.did() == []

    def test_what_is_refused_says_why(self, browser: Browser, service: FakeService) -> None:
        service.refuses["retry"] = Conflict("the saga is RUNNING")
        answer = browser.submit(f"/sagas/create-zip/{numbered(1)}/retry")
        assert answer.status_code == 409
        assert "the saga is RUNNING" in answer.text

    def test_what_may_have_happened_says_so_and_is_not_sent_again(self, browser: Browser, service: FakeService) -> None:
        service.refuses["retry"] = Ambiguous("no answer", 5)
        answer = browser.submit(f"/sagas/create-zip/{numbered(1)}/retry")
        assert answer.status_code == 502
        assert "It may have happened: look" in answer.text
        assert len(service.did()) == 1

    def test_a_service_out_of_reach_is_told(self, browser: Browser, service: FakeService) -> None:
        service.away = Unavailable("the API is out of reach", 5)
        for path in ("/", "/sagas", SAGA):
            answer = browser.get(path)
            assert (answer.status_code, "out of reach" in answer.text) == (503, True)
        service.away = None
        assert browser.get("/").status_code == 200


class TestSignals:
    SCHEMA: dict[str, Any] = {  # noqa: RUF012 - read only
        "$ref": "#/$defs/Approval",
        "$defs": {
            "Approval": {
                "type": "object",
                "properties": {
                    "by": {"type": "string"}, "amount": {"type": "integer"}, "level": {"enum": ["low", "high"]},
                    "sure": {"type": "boolean"}, "more": {"type": "array"},
                },
                "required": ["by", "amount", "sure"],
            }
        },
    }  # fmt: skip

    @pytest.fixture
    def browser(self, service: FakeService) -> Browser:
        step = a_step("approval", "WAITING", waiting_for="signal", waits_until=LATER)
        service.sagas = {numbered(1): a_saga("WAITING", saga_id=numbered(1), steps=[step])}
        service.types[0]["steps"] = [{**service.types[0]["steps"][0], "name": "approval", "signal": self.SCHEMA}]
        return Browser(service).open()

    def test_have_a_form_made_from_the_schema(self, browser: Browser) -> None:
        page = browser.get(SAGA).text
        assert f'action="/sagas/create-zip/{numbered(1)}/signals/approval"' in page
        for name in ("by", "amount", "level", "sure", "more"):
            assert f'name="value.{name}"' in page
        assert "<option>high</option>" in page

    def test_are_sent_as_they_were_filled_in(self, browser: Browser, service: FakeService) -> None:
        form = {
            "value.by": "ann",
            "value.amount": "12",
            "value.level": "high",
            "value.sure": "true",
            "value.more": "[1]",
        }
        answer = browser.submit(f"/sagas/create-zip/{numbered(1)}/signals/approval", **form)
        assert answer.status_code == 303, answer.text
        value = {"by": "ann", "amount": 12, "level": "high", "sure": True, "more": [1]}
        assert service.did() == [("signal", numbered(1), "approval", value)]

    def test_that_do_not_fit_name_the_field(self, browser: Browser, service: FakeService) -> None:
        answer = browser.submit(f"/sagas/create-zip/{numbered(1)}/signals/approval", **{"value.amount": "x"})
        assert answer.status_code == 422
        assert "$.amount: is no integer" in answer.text
        assert service.did() == []

    @pytest.mark.parametrize(("schema", "sent", "value"), [(None, "[1]", [1]), ({"type": "string"}, "a b", "a b")])
    def test_of_any_type(self, browser: Browser, service: FakeService, schema: Any, sent: str, value: Any) -> None:
        service.types[0]["steps"][0]["signal"] = schema
        assert (
            browser.submit(f"/sagas/create-zip/{numbered(1)}/signals/approval", **{"value.": sent}).status_code == 303
        )
        assert service.did() == [("signal", numbered(1), "approval", value)]


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
        form = {"matching": "1", "status": "DEAD_LETTERED", "text": "topic", "do": "retry", "note": "mended"}
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
        other = dead(3, error={"step": "announce", "type": "Denied", "message": "no"})
        other["steps"] = [a_step("announce", "FAILED", error={"type": "Denied", "message": "no"})]
        service = FakeService([dead(1), dead(2), other])
        browser = Browser(service).open()
        form = {"matching": "1", "text": "denied", "do": "retry", "note": "mended", "rate": "20"}
        wait_over(browser, browser.submit("/jobs", **form, first="1").headers["location"])
        assert [call[1] for call in service.did()] == [numbered(3)]
        assert "No saga does" in text_of(browser.get("/sagas/all", params={"text": "nothing like it"}).text)

    def test_all_of_all_times_are_refused(self, browser: Browser, service: FakeService) -> None:
        assert browser.get("/sagas/all").status_code == 422
        assert browser.submit("/jobs", matching="1", do="cancel", note="n").status_code == 422
        assert service.did() == []

    def test_what_failed_is_gone_on_with(self, service: FakeService) -> None:
        service.refuses["retry"] = Unavailable("away")
        service.sagas = {numbered(number): dead(number) for number in range(8)}
        browser = Browser(service).open()
        begun = browser.submit("/jobs", matching="1", name="create-zip", do="retry", note="n").headers["location"]
        assert "failed 5 not tried 3" in wait_over(browser, begun)
        service.refuses.clear()
        again = browser.submit("/jobs", again=begun.rpartition("/")[2], do="retry", note="n").headers["location"]
        assert "chosen 8 done 8" in wait_over(browser, again)


def wait_over(browser: Browser, job: str) -> str:
    """The words of a job's page once it is over."""
    end = time.monotonic() + 10
    while 'data-over="yes"' not in (page := browser.get(job).text):
        assert time.monotonic() < end, "the job goes on"
        time.sleep(0.01)
    return text_of(page)


class TestLetters:
    def test_are_looked_at_only_when_one_says_so(self, browser: Browser, service: FakeService) -> None:
        service.letters = [a_letter()]
        assert "m-1" not in browser.get("/letters/create-zip").text
        assert service.did() == []
        told = text_of(browser.submit("/letters/create-zip/look").text)
        for part in (
            "No message of a saga",
            "no JSON <b>",
            "is not JSON",
            "arn:aws:sqs:r:1:q",
            "received 15 times",
            "who: x",
        ):
            assert part in told

    def test_one_is_deleted(self, browser: Browser, service: FakeService) -> None:
        service.letters = [a_letter()]
        answer = browser.submit("/letters/create-zip/delete", message_id="m-1")
        assert "Message m-1 is deleted." in answer.text
        assert ("delete_letter", "create-zip", "m-1") in service.did()

    def test_of_an_unknown_type(self, browser: Browser) -> None:
        assert browser.get("/letters/none").status_code == 404


class TestTypes:
    def test_are_disabled_with_a_reason_and_enabled(self, browser: Browser, service: FakeService) -> None:
        assert browser.submit("/types/create-zip/disable", reason="").status_code == 422
        assert browser.submit("/types/create-zip/disable", reason="42").status_code == 303
        assert browser.submit("/types/create-zip/enable").status_code == 303
        assert service.did() == [("disable", "create-zip", "42"), ("enable", "create-zip", "")]
        assert browser.submit("/types/create-zip/pause", reason="x").status_code == 404

    def test_a_saga_is_started_from_a_form(self, browser: Browser, service: FakeService) -> None:
        assert 'name="value.bucket"' in browser.get("/types/create-zip").text
        answer = browser.submit("/types/create-zip/start", **{"value.bucket": "b", "key": "k1"})
        assert (answer.status_code, answer.headers["location"]) == (303, SAGA)
        assert service.did() == [("start", "create-zip", {"bucket": "b"}, "k1")]

    def test_a_breaker_is_closed(self, browser: Browser, service: FakeService) -> None:
        assert browser.submit("/breakers/create-zip/upload/close").status_code == 303
        assert service.did() == [("close_breaker", "create-zip", "upload")]

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


class TestJobs:
    def begin(self, browser: Browser, **form: Any) -> str:
        answer = browser.submit("/jobs", **{"do": "retry", "note": "mended", **form})
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
        every = [f"create-zip/{numbered(number)}" for number in range(4)]
        told = self.begin(browser, all=every)
        assert "chosen 4 done 4 refused 0 failed 0 not tried 0" in told
        assert service.did() == [("retry", numbered(number), "mended (bulk 1)") for number in range(4)]
        self.begin(browser, all=every, one=every[1:3], first="1")
        assert service.did()[4:] == [("retry", numbered(1), "mended (bulk 2)")]

    def test_add_up_and_stop_when_all_fails(self, browser: Browser, service: FakeService) -> None:
        service.refuses["retry"] = Conflict("the saga is RUNNING")
        every = [f"create-zip/{numbered(number)}" for number in range(10)]
        assert "done 0 refused 10 failed 0 not tried 0" in self.begin(browser, all=every)
        service.refuses["retry"] = Unavailable("away", 5)
        told = self.begin(browser, all=every)
        assert "done 0 refused 0 failed 5 not tried 5" in told
        assert "Go on with the 10 that failed or are left" in told

    def test_need_a_note_and_a_known_action_and_something_to_do(self, browser: Browser, service: FakeService) -> None:
        one = f"create-zip/{numbered(1)}"
        assert browser.submit("/jobs", do="retry", note="", one=one).status_code == 422
        assert browser.submit("/jobs", do="purge", note="n", one=one).status_code == 404
        assert browser.submit("/jobs", do="retry", note="n").status_code == 422
        many = [f"create-zip/{numbered(number)}" for number in range(101)]
        assert browser.submit("/jobs", do="retry", note="n", all=many).status_code == 422
        assert service.did() == []
        assert browser.submit("/jobs", do="retry", note="n", all=many, count="101").status_code == 303
        assert browser.get("/jobs/99").status_code == 404


class TestHostileTexts:
    """Whatever a caller, a step or a sender wrote is shown as text."""

    @pytest.fixture
    def service(self) -> FakeService:
        error = {"type": HOSTILE, "message": HOSTILE}
        saga = dead(1, request={HOSTILE: HOSTILE}, correlation_id=HOSTILE, error={"step": "announce", **error})
        progress = {"step": "upload", "fraction": 0.5, "message": HOSTILE, "at": BEGAN}
        saga |= {
            "progress": progress,
            "why": HOSTILE,
            "steps": [a_step("upload", result=HOSTILE), a_step("announce", "FAILED", error=error)],
        }
        service = FakeService([saga])
        details = {"error": error, "note": HOSTILE, "stack_trace": HOSTILE, "reason": HOSTILE}
        service.entries.append(an_entry(2, "StepFailed", "announce", actor=HOSTILE, trace_id=HOSTILE, details=details))
        service.types = [a_type(description=HOSTILE, reason=HOSTILE, active=False)]
        service.letters = [a_letter(body=HOSTILE, attributes={HOSTILE: HOSTILE}, source=HOSTILE, reason=HOSTILE)]
        return service

    @pytest.mark.parametrize(
        "path",
        [
            "/",
            "/sagas",
            "/types",
            "/types/create-zip",
            "/letters",
            SAGA,
            f"/search?q=x{HOSTILE}",
            f"/sagas?text={HOSTILE}",
            f"/?kind={HOSTILE}",
        ],
    )
    def test_run_nowhere(self, service: FakeService, path: str) -> None:
        page = opened(service, path)
        assert "<img" not in page
        assert (
            "document.title=" not in re.sub(r"&lt;.*?&gt;", "", page.replace("&#39;", "'"))
            or "<script>document" not in page
        )
        assert page.count("<script") == 2
        assert "49" not in re.findall(r"\{\{7\*7\}\}|49", text_of(page))

    def test_in_a_dead_letter(self, service: FakeService) -> None:
        page = Browser(service).open().submit("/letters/create-zip/look").text
        assert "<img" not in page
        assert page.count("<script") == 2


class TestRedaction:
    def test_secrets_by_name_are_in_no_answer(self, service: FakeService) -> None:
        secret = "4111-1111-1111-1111"
        service.sagas[numbered(1)] |= {
            "request": {"card_number": secret, "deep": [{"userPassword": {"now": "hunter22"}}], "x": 1},
            "error": {"step": "announce", "type": "Denied", "message": f"the card {secret} was denied"},
        }
        service.entries.append(an_entry(2, "StepFailed", "upload", details={"stack_trace": f"card={secret} hunter22"}))
        for path in ("/", "/sagas", SAGA, f"{SAGA}/json"):
            page = opened(service, path)
            assert secret not in page
            assert "hunter22" not in page

    def test_what_a_message_carries_is_hidden_too(self, service: FakeService) -> None:
        carried = json.dumps({"order": "o-1", "card": "4111-1111", "list": [{"password": "hunter22"}]})
        service.letters = [
            a_letter(body=json.dumps({"saga": "x", "inputs": [[1, "salt", "hash", carried]]}), reason="")
        ]
        page = Browser(service).open().submit("/letters/create-zip/look").text
        assert "o-1" in page
        assert "4111" not in page
        assert "hunter22" not in page

    def test_a_project_names_more(self, tmp_path: Path, service: FakeService) -> None:
        paths = '["$..iban_like", "$.customer.name"]'
        (tmp_path / "pyproject.toml").write_text(f"[tool.sagas.console]\nredact = {paths}\n")
        service.sagas[numbered(1)]["request"] = {
            "customer": {"name": "Ann Smith", "age": 7},
            "a": [{"iban_like": "DE99"}],
            "name": "kept",
        }
        page = opened(service, SAGA, redaction=redaction_of(tmp_path))
        assert "Ann Smith" not in page
        assert "DE99" not in page
        assert "kept" in page
        assert redaction_of(tmp_path / "none") == Redaction()

    @pytest.mark.parametrize("wrong", ['"$.a"', '["a"]', "[1]", '["$"]', '["$.a[0]"]'])
    def test_a_wrong_path_is_refused(self, tmp_path: Path, wrong: str) -> None:
        (tmp_path / "pyproject.toml").write_text(f"[tool.sagas.console]\nredact = {wrong}\n")
        if wrong == '"$.a"':
            assert redaction_of(tmp_path).places == {("a",)}
            return
        with pytest.raises(InvalidRequest, match="redact"):
            redaction_of(tmp_path)

    def test_a_project_says_where_traces_and_logs_are(self, tmp_path: Path) -> None:
        (tmp_path / "pyproject.toml").write_text(
            '[tool.sagas.console]\ntrace_url = "https://t.example/{trace_id}"\nlogs_url = "https://l.example/?q={saga_id}"\n'
        )
        links = links_of(tmp_path)
        assert links.trace("a/b c") == "https://t.example/a%2Fb%20c"
        assert links.logs("id-1", BEGAN, LATER) == "https://l.example/?q=id-1"
        assert Links().trace("1-5f84c7a1-012345678901234567890123") == Links("r").trace("nonsense") == ""
        for wrong in ('trace_url = "javascript:{trace_id}"', 'logs_url = "https://l.example"', "logs_url = 1"):
            (tmp_path / "pyproject.toml").write_text(f"[tool.sagas.console]\n{wrong}\n")
            with pytest.raises(InvalidRequest, match=r"_url: must be an http URL"):
                links_of(tmp_path)

    def test_without_payloads_there_are_none(self, service: FakeService) -> None:
        service.sagas[numbered(1)] |= {
            "request": {"order": "o-12345"},
            "steps": [a_step("upload", result={"etag": "e-1234"})],
        }
        service.letters = [a_letter(body=json.dumps({"order": "o-12345"}))]
        browser = Browser(service, redaction=Redaction(payloads=False)).open()
        for page in (
            browser.get(SAGA).text,
            browser.get(f"{SAGA}/json").text,
            browser.submit("/letters/create-zip/look").text,
        ):
            assert "o-12345" not in page
            assert "e-1234" not in page


def test_ten_thousand_sagas_are_as_quick_as_fifty(service: FakeService) -> None:
    service.sagas = {numbered(number): dead(number) for number in range(10_000)}
    browser = Browser(service).open()
    page = browser.get("/sagas")
    assert len(page.content) < 60_000
    assert page.text.count("data-row") == 50
