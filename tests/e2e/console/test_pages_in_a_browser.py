"""The console in a real browser, over a service in memory."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from sagas.console.serving import Serving, opened_in_browser
from sagas.errors import SagaError, Unavailable
from tests.e2e.console.accessible import barriers
from tests.e2e.console.conftest import Open, Tab
from tests.e2e.console.scene import STALLED, UNDO_FAILED, WAITING
from tests.support.pictured import MADE_OF, made_of
from tests.unit.client.stub import SEQ, a_step, attention
from tests.unit.console.service import HOSTILE, FakeService, a_letter, a_pause, a_type, an_entry, dead, numbered

pytestmark = pytest.mark.slow

SAGA = f"/sagas/checkout/{UNDO_FAILED}"
PAGES = (
    *("/", "/sagas", SAGA, f"/sagas/loan/{WAITING}"),
    *("/letters/create-zip", "/types/loan", "/types/checkout?in_flight=", "/breakers", "/sweeps/checkout"),
    *("/charts/checkout", "/sagas/all?status=DEAD_LETTERED", "/jobs"),
)


def quiet(tab: Tab) -> None:
    """Nothing was complained about, no policy violated, and nothing fetched from elsewhere."""
    assert tab.complaints == []
    assert [url for url in tab.fetched if not url.startswith(tab.origin)] == []


def test_the_printed_url_opens_the_attention_page_within_a_second(console: Open, service: FakeService) -> None:
    tab = console(service)

    def opens() -> float:
        began = time.monotonic()
        tab.page.reload()
        assert tab.page.get_by_role("heading", name="the undo of capture failed").is_visible()
        return time.monotonic() - began

    # A second, on a machine that does nothing else; the best of three, as what else it does is not the page's.
    assert any(opens() < 3 for _ in range(3))
    assert tab.page.url == f"{tab.origin}/"  # the token has left it
    tab.refreshed()
    quiet(tab)


def test_the_page_that_a_browser_is_started_with_opens_it(
    console: Open, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = console(service)
    serving = Serving(service, port=0)
    monkeypatch.setattr("webbrowser.open", tab.page.goto)
    with serving.in_background(), opened_in_browser(serving.session.url("/sagas"), print):
        tab.page.wait_for_url(f"{serving.session.origin}/sagas")
        assert tab.page.get_by_role("heading", name="Sagas").is_visible()
    assert tab.complaints == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible(console: Open, service: FakeService, scheme: str) -> None:
    tab = console(service, color_scheme=scheme)
    for path in PAGES:
        assert barriers(tab.go(path), scheme) == [], path
    quiet(tab)


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 800, 1600])
def test_pages_fit_the_screen(console: Open, service: FakeService, width: int) -> None:
    tab = console(service, viewport={"width": width, "height": 700})
    wide = {path: tab.go(path).evaluate("document.documentElement.scrollWidth") for path in PAGES}
    assert {path: one for path, one in wide.items() if one > width} == {}


def test_what_the_reader_did_outlasts_a_refresh_and_news_come(console: Open, service: FakeService) -> None:
    tab = console(service)
    page = tab.page
    tab.refreshed()
    page.get_by_text("24 sagas", exact=True).click()
    box = page.get_by_label(f"Select {UNDO_FAILED}")
    box.check()
    tab.press("Escape")
    service.known_types[0] |= {"active": False, "pauses": [a_pause(starts_only=True, reason="incident 42")]}
    tab.shows(page.get_by_role("heading", name="starts of checkout · paused"))
    assert box.is_checked()
    assert page.get_by_label(f"Select {numbered(0xC8)}").is_visible()
    quiet(tab)


@pytest.mark.parametrize("path", ["/", "/sagas"])
def test_a_tick_stays_with_its_saga_when_others_come(console: Open, service: FakeService, path: str) -> None:
    tab = console(service)
    page = tab.go(path)
    ticked = page.get_by_label(f"Select {UNDO_FAILED}")
    tab.press("j", "x")
    assert ticked.is_checked()
    new = dict(service.sagas[UNDO_FAILED], saga_id=numbered(0x63), updated_at="2026-11-21T00:00:00.000Z")
    service.sagas = {numbered(0x63): new, **service.sagas}  # it comes before all others
    tab.shows(page.get_by_role("link", name=numbered(0x63)))
    assert ticked.is_checked()
    assert not page.get_by_label(f"Select {numbered(0x63)}").is_checked()
    assert page.locator("input[name=one]:checked").evaluate_all("all => all.map(one => one.value)") == [
        f"checkout/{UNDO_FAILED}/{SEQ}"
    ]
    tab.press("Enter")  # where one is has moved as well
    page.wait_for_url(f"**{UNDO_FAILED}")
    quiet(tab)


def test_one_is_retried_by_mouse(console: Open, service: FakeService) -> None:
    tab = console(service)
    page = tab.page
    page.get_by_role("link", name=UNDO_FAILED).click()
    page.get_by_role("button", name="Retry the undo").click()
    page.get_by_text("The saga is being retried.").wait_for()
    assert service.did() == [("retry", UNDO_FAILED, "")]
    quiet(tab)


def test_the_runbook_by_keyboard_alone(console: Open, service: FakeService) -> None:
    tab = console(service)
    page = tab.page
    tab.refreshed()
    tab.press("?")
    page.get_by_role("heading", name="Keys").wait_for()
    tab.press("Escape")
    page.get_by_role("heading", name="Keys").wait_for(state="hidden")
    tab.press("j", "Enter")  # the first saga of the worst group
    page.wait_for_url(f"**{UNDO_FAILED}")
    tab.press(".")  # goes to the next action, and does not do it
    assert service.did() == []
    tab.press("Enter")
    page.get_by_text("The saga is being retried.").wait_for()
    tab.press("g", "d")
    page.wait_for_url("**/letters")
    tab.press("j", "Enter")
    page.wait_for_url("**/letters/*")
    tab.press(".", "Enter")
    page.get_by_text("the message's body is not JSON").first.wait_for()
    tab.press("/")
    page.keyboard.type(STALLED)
    tab.press("Enter")
    page.wait_for_url(f"**{STALLED}")
    tab.press(".", "Enter")
    page.get_by_text("The supervisor checked the saga.").wait_for()
    assert service.did() == [("retry", UNDO_FAILED, ""), ("dead_letters", "checkout"), ("recover", STALLED)]
    quiet(tab)


def test_a_signal_is_sent_with_the_form_of_its_schema(console: Open, service: FakeService) -> None:
    tab = console(service)
    page = tab.page
    page.get_by_role("link", name="Review").click()
    page.get_by_label("by", exact=True).fill("ann")
    page.get_by_role("button", name="Send").click()
    page.get_by_text("The signal was accepted.").wait_for()
    assert service.did() == [("signal", WAITING, "approval", {"by": "ann"})]


def test_one_first_and_then_the_rest_with_stop(
    console: Open, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, retry = threading.Event(), service.retry

    def held_up(name: str, saga_id: str, reason: str = "", *, seq: int) -> None:
        """A service that is slow after the first few: *Stop* comes in the middle, however late it comes."""
        if len(service.did()) > 3:
            assert go_on.wait(60)
        retry(name, saga_id, reason, seq=seq)

    monkeypatch.setattr(service, "retry", held_up)
    tab = console(service)
    page = tab.page
    page.get_by_text("Retry: 24").click()
    page.get_by_role("radio", name="Retry.").check()
    reason = page.locator("details[open] textarea[name=reason]")
    reason.fill("the topic is back")
    page.get_by_role("button", name="One first").click()
    tab.shows(page.get_by_text("The first is done."))
    assert len(service.did()) == 1
    page.get_by_role("button", name="Go on with the 23").click()
    page.get_by_role("button", name="Stop").click()
    tab.shows(page.get_by_text("Stopped: you stopped it."))
    go_on.set()
    tab.shows(page.locator("[data-over=yes]"))
    counts = [int(one) for one in page.locator(".chips b").all_inner_texts()]
    assert counts[0] == 24 == sum(counts[1:])
    assert 0 < counts[1] < 24
    page.get_by_role("button", name=f"Go on with the {counts[4] + counts[5]}").click()
    tab.shows(page.get_by_text("The job has ended."))
    assert len(service.did()) == 24
    quiet(tab)


def test_without_javascript_pages_read_and_actions_work(console: Open, service: FakeService) -> None:
    tab = console(service, java_script_enabled=False)
    page = tab.page
    page.get_by_role("link", name=UNDO_FAILED).click()
    page.locator("summary", has_text="Mark as settled").click()
    page.get_by_label("capture", exact=True).check()
    page.get_by_label("Why the saga is settled, for the audit trail (needed)").fill("refunded at the bank")
    page.locator("details[open]").get_by_role("button", name="Mark as settled").click()
    assert "The saga is marked as settled." in page.inner_text("main")
    assert service.did() == [("resolve", UNDO_FAILED, "refunded at the bank", "", ["capture"])]


def test_while_the_api_is_away_the_page_stays_and_then_recovers(console: Open, service: FakeService) -> None:
    tab = console(service)
    page = tab.page
    tab.refreshed()
    service.away = Unavailable("the API is out of reach", 5)
    tab.shows(page.get_by_text("API out of reach since"))
    assert page.get_by_role("heading", name="the undo of capture failed").is_visible()
    service.away = None
    tab.refreshed()
    page.locator("#fresh:not(.away)").wait_for()
    assert service.did() == []


def test_what_could_not_be_read_is_tried_again_within_ten_seconds(console: Open, service: FakeService) -> None:
    service.refuses["overview"] = Unavailable("away", 5)
    tab = console(service)
    tab.page.clock.install()
    page = tab.go("/")
    page.clock.pause_at(time.time() + 3_600)  # from here on, time moves only by what follows
    unread = page.get_by_text("Overdue sagas, breakers and pauses could not be read since")
    assert unread.is_visible()
    assert page.get_by_role("heading", name="the undo of capture failed").is_visible()
    for _ in range(8):  # the page does not change, and asks less and less often
        before = tab.rev
        page.clock.run_for(10_000)
        tab.until("that it asks", lambda before=before: tab.rev != before)
    service.refuses.clear()
    page.clock.run_for(10_000)
    tab.until("an answer", lambda: not unread.is_visible())
    quiet(tab)


def test_what_is_refused_is_told_and_not_taken_for_no_news(console: Open, service: FakeService) -> None:
    tab = console(service)
    page = tab.page
    tab.refreshed()
    service.away = SagaError("the API refused the call (403): the security token is expired")
    tab.shows(page.get_by_text("No news (the API refused the call (403): the security token is expired) since"))
    assert page.get_by_role("heading", name="the undo of capture failed").is_visible()
    service.away = None
    tab.refreshed()
    page.locator("#fresh:not(.away)").wait_for()


def test_hostile_texts_run_nowhere(console: Open) -> None:
    error = {"type": HOSTILE, "message": HOSTILE}
    steps = [a_step("upload", result=HOSTILE), a_step("announce", "FAILED", error=error)]
    service = FakeService(
        [dead(1, request={HOSTILE: HOSTILE}, attention=attention(HOSTILE), correlation_id=HOSTILE, steps=steps)]
    )
    details = {"error": error, "reason": HOSTILE, "stack_trace": HOSTILE}
    service.entries.append(an_entry(2, "StepFailed", "announce", actor=HOSTILE, trace_id=HOSTILE, details=details))
    service.known_types = [a_type(description=HOSTILE, reason=HOSTILE, active=False)]
    service.letters = [a_letter(body=HOSTILE, attributes={HOSTILE: HOSTILE}, source=HOSTILE, reason=HOSTILE)]
    tab = console(service)
    for path in ("/", "/sagas", f"/sagas/create-zip/{numbered(1)}", "/types/create-zip", f"/sagas?text={HOSTILE}"):
        page = tab.go(path)
        tab.refreshed()
        assert page.locator("main img, main script, main iframe").count() == 0
        assert "got" not in page.title()
    tab.go("/letters/create-zip").get_by_role("button", name="Look").click()
    tab.page.get_by_text("<img src=x").first.wait_for()
    assert tab.page.locator("main img, main script").count() == 0
    assert "got" not in tab.page.title()
    quiet(tab)


def test_an_injected_script_does_not_run(console: Open, service: FakeService) -> None:
    tab = console(service)
    tab.page.evaluate("""() => {
        const one = document.createElement("script");
        one.textContent = "document.title = 'got'";
        document.body.append(one);
    }""")
    assert tab.page.title() != "got"
    assert "Content Security Policy" in tab.complaints[0]


@pytest.mark.slow
def test_a_thousand_refreshes_of_ten_thousand_sagas_stay_quick(console: Open, service: FakeService) -> None:
    service.sagas |= {numbered(0x10000 + number): dead(0x10000 + number) for number in range(10_000)}
    tab = console(service)
    page = tab.go("/sagas")
    measured = """async () => {
        const times = [];
        for (let number = 0; number < 100; number++) {
            const began = performance.now();
            await (await fetch("/sagas")).text();
            times.push(performance.now() - began);
        }
        return times.sort((a, b) => a - b)[94];
    }"""
    assert any(page.evaluate(measured) < 400 for _ in range(3))  # the best of three, as above


def test_sagas_in_flight_are_shown_by_release_when_asked_for(console: Open, service: FakeService) -> None:
    tab = console(service)
    page = tab.go("/types/checkout")
    assert ("in_flight", "checkout") not in service.asked
    page.get_by_text("Show sagas in flight by release").click()
    rows = page.get_by_role("table", name="Sagas in flight by release").get_by_role("row")
    assert "version 1" in rows.nth(1).inner_text()
    assert rows.filter(has_text="does not fit").count() == 3
    tab.press("r")
    page.get_by_role("link", name=numbered(7)).wait_for()
    quiet(tab)


@pytest.mark.slow
def test_pictures(console: Open, service: FakeService, pictures: Path) -> None:
    for scheme in ("light", "dark"):
        tab = console(service, color_scheme=scheme, viewport={"width": 1200, "height": 800})
        for name, path in (("attention", "/"), ("saga", SAGA), ("list", "/sagas?status=COMPENSATION_FAILED")):
            page = tab.go(path)
            tab.refreshed()
            page.screenshot(path=pictures / f"{name}-{scheme}.png")
        quiet(tab)
    (pictures / MADE_OF).write_text(f"{made_of()}\n")
    assert len(list(pictures.glob("*.png"))) >= 6
