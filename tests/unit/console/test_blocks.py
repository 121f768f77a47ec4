"""Each block of a page is read alone: one that cannot be read leaves the others, and is tried again."""

from __future__ import annotations

from typing import Any

import pytest

from sagas.console.blocks import Blocks
from sagas.errors import InvalidRequest, NotFound, SagaError, Unavailable
from tests.unit.client.stub import BEGAN, a_saga, a_step
from tests.unit.console.conftest import LATER, SAGA, Browser, text_of
from tests.unit.console.service import HOSTILE, FakeService, a_letter, a_pause, a_type, dead, in_flight, numbered

PAGES = {
    "/": "",
    "/sagas?type=create-zip": "",
    SAGA: "show",  # without the saga there is no page
    "/types/create-zip": "types",
    "/types/create-zip?in_flight": "types",
    "/breakers": "",
    "/charts/create-zip": "types",
    "/letters/create-zip": "types",
}
"""Each page with blocks, and the call without which there is none."""
CALLS = (
    *("list", "show", "attention", "incidents", "overview", "audit", "types", "breakers", "count_letters", "stats"),
    "in_flight",
)


class Counted(FakeService):
    def stats(self, name: str | None = None) -> Any:
        self._did("stats", name)
        rates = {"started_per_minute": 1.5, "ended_per_minute": 0.2, "oldest_in_flight": BEGAN}
        one: dict[str, Any] = {
            "type": "create-zip",
            "statuses": {"RUNNING": 6},
            "at_least": [],
            "in_flight": 6,
            "attention": 2,
        }
        return {"types": [one | rates], "queues": [], "breakers": [], "approximate": []}


def service() -> FakeService:
    lease = {"claimed_at": BEGAN, "expires_at": "2026-11-21T09:48:52.000Z", "heartbeat_at": None}
    approval = a_step("approval", "WAITING", waiting_for="signal", waits_until=LATER)
    made = Counted(
        [
            *(dead(1), dead(2)),
            a_saga("RUNNING", saga_id=numbered(3), lease=lease),
            a_saga("WAITING", saga_id=numbered(4), steps=[approval]),
        ]
    )
    made.letters = [a_letter(message_id=f"m-{number}") for number in range(5)]
    made.known_types = [a_type(paused=True, pauses=[a_pause(reason="incident 42")])]
    made.known_in_flight = in_flight()
    made.known_breakers = [
        {"type": "loan", "step": "score", "state": "open", "failures": 5, "open_until": LATER, "waiting": 57,
         "more_waiting": False, "last_error": None}
    ]  # fmt: skip
    return made


def main_of(browser: Browser) -> str:
    """The words of the first page below the menu."""
    return text_of(browser.get("/").text.split("<main", 1)[1])


NEEDING, LETTERS = "step announce used up its attempts", "leftover dead letters"
COUNTED = ("the breaker of score is open", "incident 42", "its worker is gone")
WAITS = "approval waits for a signal"
BLOCKS = {
    "overview": (COUNTED, "overdue sagas, breakers and pauses"),
    "incidents": ((NEEDING, numbered(2), LETTERS), "the sagas that need an operator"),
    "types": ((LETTERS,), "dead letters"),
    "count_letters": ((LETTERS,), "dead letters"),
    "attention": ((numbered(2),), "the sagas of create-zip"),
    "list": ((WAITS,), "sagas that wait for a signal"),
}
"""What the first page lacks without each call, and what it calls the block."""
ALL = {NEEDING, LETTERS, *COUNTED, numbered(2), WAITS}


@pytest.mark.parametrize("call", BLOCKS)
def test_the_first_page_has_all_other_blocks(call: str) -> None:
    made = service()
    browser = Browser(made).open()
    whole = main_of(browser)
    assert {words for words in ALL if words not in whole} == set()
    assert "could not be read" not in whole
    lost, name = BLOCKS[call]
    made.refuses[call] = Unavailable("Task timed out after 29.00 seconds", 5)
    browser = Browser(made).open()
    for _ in range(2):
        answer = browser.get("/")
        told = text_of(answer.text)
        assert answer.status_code == 200
        said = f"{name[0].upper()}{name[1:]} could not be read since 09:49 UTC, trying again: Task timed out"
        assert said in told
        assert {words for words in ALL if words not in told} == {*lost}
        assert "Nothing needs you" not in told
    made.refuses.clear()
    assert main_of(browser) == whole


@pytest.mark.parametrize("path", PAGES)
def test_any_call_that_fails_leaves_the_page(path: str) -> None:
    made = service()
    browser = Browser(made).open()
    assert browser.get(path).status_code == 200
    of_page = {call[0] for call in made.asked} & {*CALLS}
    assert of_page
    for call in of_page - {PAGES[path]}:
        made.refuses = {call: Unavailable("away", 5)}
        answer = Browser(made).open().get(path)
        assert answer.status_code == 200, call


def test_a_saga_is_shown_without_its_audit_trail() -> None:
    made = service()
    made.refuses["audit"] = Unavailable("away", 5)
    told = text_of(Browser(made).open().get(SAGA).text)
    assert "The audit trail could not be read since 09:49 UTC, trying again: away." in told
    assert "Step announce used up its attempts" in told


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(("error", "status"), [(Unavailable("away", 5), 503), (SagaError("refused (403)"), 502)])
def test_a_service_that_answers_nothing_is_no_page_of_empty_blocks(path: str, error: SagaError, status: int) -> None:
    made = service()
    made.away = error
    answer = Browser(made).open().get(path)
    assert answer.status_code == status
    assert str(error) in answer.text


def test_an_error_that_says_so_in_html_is_text() -> None:
    made = service()
    made.refuses["overview"] = Unavailable(HOSTILE, 5)
    page = Browser(made).open().get("/").text
    assert "document.title" in page
    assert "<img" not in page


def test_since_when_a_block_could_not_be_read_is_known_until_it_can() -> None:
    since = dict[str, float]()

    def fail() -> str:
        raise NotFound("gone")

    for now in (60.0, 3_600.0):
        blocks = Blocks(since, now)
        assert (blocks.read("a", str, "x"), blocks.read("b", fail, "otherwise")) == ("", "otherwise")
        assert blocks.unread == [("b", "00:01", "gone")]
    assert Blocks(since, 0.0).read("b", str, "x") == ""
    assert since == {}
    blocks = Blocks(since, 0.0)
    blocks.read("b", fail, "")
    with pytest.raises(SagaError, match="gone"):
        _ = blocks.unread


def test_a_request_that_is_wrong_is_not_tried_again() -> None:
    def refuse() -> str:
        raise InvalidRequest("no such search key", [])

    with pytest.raises(InvalidRequest):
        Blocks({}, 0.0).read("a", refuse, "")
