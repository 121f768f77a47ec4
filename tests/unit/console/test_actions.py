"""What the pages do to one saga."""

from __future__ import annotations

from typing import Any

import pytest

from sagas.errors import Ambiguous, Conflict, Unavailable
from tests.unit.client.stub import SEQ, a_saga, a_step
from tests.unit.console.conftest import LATER, SAGA, Browser
from tests.unit.console.service import FakeService, a_letter, numbered


class TestActions:
    @pytest.mark.parametrize(
        ("do", "form", "call"),
        [
            ("retry", {"reason": "again"}, ("retry", numbered(1), "again")),
            ("compensate", {"reason": "n"}, ("compensate", numbered(1), "n")),
            ("cancel", {"reason": "no"}, ("cancel", numbered(1), "no")),
            ("recover", {}, ("recover", numbered(1))),
            ("rerun", {}, ("rerun", numbered(1))),
            (
                "resolve",
                {"reason": "n", "action": "refunded", "steps": ["a", "b"]},
                ("resolve", numbered(1), "n", "refunded", ["a", "b"]),
            ),
        ],
    )
    def test_are_done_once(self, browser: Browser, service: FakeService, do: str, form: Any, call: Any) -> None:
        answer = browser.submit(f"/sagas/create-zip/{numbered(1)}/{do}", **form)
        assert (answer.status_code, answer.headers["location"]) == (303, f"{SAGA}?did={do}")
        assert service.did() == [call]
        assert 'class="did"' in browser.get(answer.headers["location"]).text

    @pytest.mark.parametrize("do", ["retry", "compensate", "resolve"])
    def test_what_a_page_sends_is_for_the_state_that_it_shows(
        self, browser: Browser, service: FakeService, do: str
    ) -> None:
        for page in (browser.get(SAGA).text, browser.get("/").text):
            form = page.split(f'action="/sagas/create-zip/{numbered(1)}/{do}"')[1].split("</form>")[0]
            assert f'name="seq" value="{SEQ}"' in form
        path = f"/sagas/create-zip/{numbered(1)}/{do}"
        service.sagas[numbered(1)]["seq"] = SEQ + 2  # another operator was faster
        answer = browser.submit(path, reason="n")
        assert (answer.status_code, service.did()) == (409, [])
        assert f"seq {SEQ} is not the saga" in answer.text
        assert browser.submit(path, reason="n", seq="").status_code == 422

    def test_a_retry_takes_the_letter_along(self, browser: Browser, service: FakeService) -> None:
        service.letters = [a_letter(saga_id=numbered(1)), a_letter(saga_id=numbered(2))]
        browser.submit(f"/sagas/create-zip/{numbered(1)}/retry")
        assert [each.saga_id for each in service.letters] == [numbered(2)]

    def test_a_settlement_needs_a_note(self, browser: Browser, service: FakeService) -> None:
        answer = browser.submit(f"/sagas/create-zip/{numbered(1)}/resolve", reason=" ")
        assert (answer.status_code, service.did()) == (422, [])
        assert "the reason is missing" in answer.text

    def test_an_unknown_one_is_none(self, browser: Browser, service: FakeService) -> None:
        assert browser.submit(f"/sagas/create-zip/{numbered(1)}/purge").status_code == 404
        assert service.did() == []

    def test_what_is_refused_says_why(self, browser: Browser, service: FakeService) -> None:
        service.refuses["retry"] = Conflict("the saga is RUNNING")
        answer = browser.submit(f"/sagas/create-zip/{numbered(1)}/retry")
        assert answer.status_code == 409
        assert "the saga is RUNNING" in answer.text

    def test_what_may_have_happened_says_so_and_is_not_sent_again(self, browser: Browser, service: FakeService) -> None:
        service.refuses["retry"] = Ambiguous("no response; the request may or may not have taken effect", 5)
        answer = browser.submit(f"/sagas/create-zip/{numbered(1)}/retry")
        assert answer.status_code == 502
        assert "may or may not have taken effect" in answer.text
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
        service.known_types[0]["steps"] = [
            {**service.known_types[0]["steps"][0], "name": "approval", "signal": self.SCHEMA}
        ]
        return Browser(service).open()

    def test_have_a_form_made_from_the_schema(self, browser: Browser) -> None:
        page = browser.get(SAGA).text
        assert f'action="/sagas/create-zip/{numbered(1)}/signals/approval"' in page
        for name in ("by", "amount", "level", "sure", "more"):
            assert f'name="value.{name}"' in page
        assert '<option value="high">high</option>' in page

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
        assert "$.amount: is not a valid integer" in answer.text
        assert service.did() == []

    def test_that_are_refused_stay_in_the_form(self, browser: Browser, service: FakeService) -> None:
        service.refuses["signal"] = Ambiguous("no response; the request may or may not have taken effect")
        form = {"value.by": "ann", "value.amount": "12", "value.level": "high", "value.sure": "false"}
        answer = browser.submit(
            f"/sagas/create-zip/{numbered(1)}/signals/approval", **form, **{"value.more": "\n[1,\n2]"}
        )
        assert answer.status_code == 502
        assert "no response; the request may or may not have taken effect" in answer.text
        high, no = '<option selected value="high">high', 'value="false" selected'
        for typed in ('value="ann"', 'value="12"', high, no, "\n\n[1,\n2]<"):
            assert typed in answer.text

    def test_that_come_too_late_say_so(self, browser: Browser, service: FakeService) -> None:
        service.refuses["signal"] = Conflict("the wait is over")
        service.sagas = {numbered(1): a_saga("COMPLETED", saga_id=numbered(1))}
        form = {"value.by": "ann", "value.amount": "12", "value.sure": "false"}
        answer = browser.submit(f"/sagas/create-zip/{numbered(1)}/signals/approval", **form)
        assert answer.status_code == 409
        assert '<p class="error" role="alert">the wait is over</p>' in answer.text

    def test_choose_nothing_by_themselves(self, browser: Browser, service: FakeService) -> None:
        """A yes is not sent by oversight, and what has a default is left out where nothing is said."""
        nullable: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
        yes: dict[str, Any] = {"type": "boolean"}
        properties = {"sure": yes, "quick": yes, "level": {"enum": ["low"]}, "why": nullable, "who": nullable}
        schema = {"type": "object", "properties": properties, "required": ["sure", "level", "why"]}
        service.known_types[0]["steps"][0]["signal"] = schema
        path = f"/sagas/create-zip/{numbered(1)}/signals/approval"
        page = browser.get(SAGA).text
        assert page.count('required><option value=""></option>') == 2
        empty = {f"value.{name}": "" for name in properties}
        refused = browser.submit(path, **empty)
        assert refused.status_code == 422
        assert "$.sure: is missing" in refused.text
        assert "$.level: is missing" in refused.text
        assert "$.why" not in refused.text
        assert browser.submit(path, **{**empty, "value.sure": "false", "value.level": "low"}).status_code == 303
        assert service.did() == [("signal", numbered(1), "approval", {"sure": False, "level": "low", "why": None})]
        service.known_types[0]["steps"][0]["signal"] = None
        assert "is not valid JSON" in browser.submit(path, **{"value.": "[" * 100_000}).text

    @pytest.mark.parametrize(("schema", "sent", "value"), [(None, "[1]", [1]), ({"type": "string"}, "a b", "a b")])
    def test_of_any_type(self, browser: Browser, service: FakeService, schema: Any, sent: str, value: Any) -> None:
        service.known_types[0]["steps"][0]["signal"] = schema
        assert (
            browser.submit(f"/sagas/create-zip/{numbered(1)}/signals/approval", **{"value.": sent}).status_code == 303
        )
        assert service.did() == [("signal", numbered(1), "approval", value)]
