"""The incidents of the runbook on the local stack: noticed on the first page, and solved in the browser alone."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import Error as PlaywrightError

from sagas.client import SagaView
from tests.e2e.stack import PACE, Stack, poll

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.embedded("it opens the console that `sagas local up` serves"),
    pytest.mark.slow,
]

PATIENCE = 60_000 * PACE
"""Milliseconds, on a machine that does other things too."""


@pytest.fixture(scope="module")
def tab(chromium: Browser, trials: Stack) -> Generator[Page]:
    """The console of the stack, opened by the URL that `sagas local up` printed."""
    printed = (trials.project / "out.txt").read_text()
    (url,) = re.findall(r"^Console  (http://\S+)$", printed, re.MULTILINE)
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)  # which has one of its own, five seconds
    page = context.new_page()
    page.goto(url)
    expect(page.get_by_role("heading", name="Attention")).to_be_visible()
    yield page
    expect.set_options(timeout=None)
    context.close()


@pytest.fixture
def page(tab: Page) -> Page:
    """The first page."""
    tab.goto(home(tab))
    return tab


def home(tab: Page) -> str:
    """The console's first URL."""
    return "/".join(tab.url.split("/")[:3]) + "/"


def started(stack: Stack, name: str, **trial: Any) -> SagaView:
    """Start a saga on trial."""
    return stack.saga_client().start(name, trial)


def at_rest(stack: Stack, saga: SagaView, status: str, after: str | None = None) -> SagaView:
    """Wait until a saga is at rest, and in this status."""
    found = stack.saga_client().wait(saga["type"], saga["saga_id"], PATIENCE / 1000, after=after)
    assert found["status"] == status
    return found


def open_saga(page: Page, saga: SagaView) -> None:
    """Go from the first page to a saga that it shows."""
    for folded in page.locator("section.group details:not(.dialog) > summary").all():
        folded.click()
    page.get_by_role("link", name=saga["saga_id"]).click()
    expect(page.locator("#saga-id")).to_have_text(saga["saga_id"])


def becomes(page: Page, status: str) -> None:
    """The page says so by itself."""
    expect(page.locator(".title .status")).to_have_text(status)


def test_a_retry_takes_the_dead_letter_along(trials: Stack, page: Page) -> None:
    saga = started(trials, "waiting", mood="fail", executions=2)
    at_rest(trials, saga, "DEAD_LETTERED")
    expect(page.get_by_role("heading", name="waiting · step act used up its attempts")).to_be_visible()
    poll("the message", lambda: trials.saga_client().count_letters("waiting"))
    open_saga(page, saga)
    expect(page.locator("main")).to_contain_text("RuntimeError: as was asked for")
    page.get_by_role("button", name="Retry").click()
    becomes(page, "COMPLETED")
    poll("an empty queue", lambda: not trials.saga_client().count_letters("waiting"))


def test_an_undo_that_failed_is_retried_by_keyboard(trials: Stack, page: Page) -> None:
    saga = started(trials, "waiting", mood="stubborn", executions=2)
    at_rest(trials, saga, "DEAD_LETTERED")
    page.goto(f"{home(page)}sagas/waiting/{saga['saga_id']}")
    page.locator("summary", has_text="Undo").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("the customer gave up")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    becomes(page, "COMPENSATION_FAILED")
    page.goto(home(page))
    expect(page.get_by_role("heading", name="waiting · the undo of begin failed")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type(saga["saga_id"][:30])
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{saga['saga_id']}")  # the page before has such a heading, too
    page.locator("html[data-ready]").wait_for(state="attached")
    expect(page.get_by_role("heading", name="The undo of begin failed", exact=True)).to_be_visible()
    page.keyboard.press(".")
    page.keyboard.press("Enter")
    becomes(page, "COMPENSATED")


def test_a_message_of_no_saga_is_read_and_deleted(trials: Stack, page: Page) -> None:
    queue = trials.description["dead_letter_queues"]["crowded"]
    trials.client("sqs").send_message(QueueUrl=queue, MessageBody="no JSON <img src=x>")
    expect(page.get_by_role("heading", name="crowded · 1 leftover dead letter")).to_be_visible()
    page.locator("section", has_text="crowded · 1 leftover").get_by_role("link", name="Read").click()
    page.get_by_role("button", name="Look").click()
    expect(page.get_by_text("the message's body is not JSON")).to_be_visible()
    expect(page.locator("details[open] pre")).to_have_text("no JSON <img src=x>")
    page.locator("summary", has_text="Delete").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text(re.compile("Message .* is deleted"))).to_be_visible()
    assert trials.saga_client().count_letters("crowded") == 0


def test_a_breaker_is_closed(trials: Stack, page: Page) -> None:
    saga = started(trials, "breaking", mood="fail", executions=99)
    expect(page.get_by_role("heading", name="breaking · the breaker of act is")).to_be_visible()
    page.goto(f"{home(page)}breakers")
    page.locator("summary", has_text="Close").click()
    page.get_by_role("button", name="Close").first.click()
    expect(page.get_by_role("heading", name="Breakers")).to_be_visible()
    at_rest(trials, saga, "COMPENSATED")
    trials.saga_client().close_breaker("breaking", "act")


def test_a_type_whose_starts_are_paused_is_resumed(trials: Stack, page: Page) -> None:
    trials.saga_client().pause("brief", "incident 42", starts_only=True)
    expect(page.get_by_role("heading", name="starts of brief · paused")).to_be_visible()
    page.locator("section", has_text="starts of brief · paused").get_by_role("link", name="Show").click()
    expect(page.locator("main")).to_contain_text("incident 42")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("h1 .status")).to_have_text("starts accepted")
    assert all(one["active"] for one in trials.saga_client().types())


def test_a_worker_that_was_killed_is_taken_over(trials: Stack, page: Page) -> None:
    saga = started(trials, "holding", mood="calm", executions=1)
    table = trials.description["outputs"]["TrialsTable"]

    def worker() -> int | None:
        key = {":id": {"S": saga["saga_id"]}}
        items = trials.client("dynamodb").query(
            TableName=table, KeyConditionExpression="saga_id = :id", ExpressionAttributeValues=key
        )["Items"]
        found = [re.match(r"act by (\d+):1", item["what"]["S"]) for item in items]
        return next((int(one[1]) for one in found if one), None)

    page.goto(f"{home(page)}sagas/holding/{saga['saga_id']}")
    os.kill(poll("the worker", worker), signal.SIGKILL)

    def recovered() -> bool:
        """Its lease expired a few seconds before its queue has the message back: whoever is first takes it over."""
        page.reload()
        button = page.get_by_role("button", name="Recover now")
        if page.locator("main", has_text="its lease expired").count() and button.count():
            with suppress(PlaywrightError):
                button.click(timeout=2_000)
            return True
        return page.locator(".timeline .k-lost").count() > 0

    poll("that its worker is gone", recovered, deadline=60)
    becomes(page, "COMPLETED")
    assert page.locator(".timeline .k-lost").count() == 1


def test_a_saga_is_cancelled(trials: Stack, page: Page) -> None:
    saga = started(trials, "holding", mood="calm", executions=9)
    page.goto(f"{home(page)}sagas/holding/{saga['saga_id']}")
    page.locator("summary", has_text="Cancel").click()
    page.get_by_role("button", name="Cancel", exact=True).click()
    becomes(page, "CANCELLED")
    expect(page.locator("main")).to_contain_text("The saga was cancelled: all completed steps were undone.")
