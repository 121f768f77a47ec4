"""The page of a type's charts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagas.console.drawing.bars import COUNT, NAMES, WIDTH, bars
from sagas.console.links import Links
from sagas.core.text import iso
from tests.unit.client.stub import a_saga, a_step
from tests.unit.console.conftest import opened, text_of
from tests.unit.console.service import NOW, FakeService, dead, numbered


class Telling(FakeService):
    """Lists by time, and counts."""

    def list(
        self, type: str | None = None, status: str | None = None, *, since: str | None = None, **given: Any
    ) -> Any:
        page = super().list(type, status, since=since, **given)
        when = "created_at" if status is None else "updated_at"
        return {**page, "sagas": [one for one in page["sagas"] if since is None or one[when] >= since]}

    def stats(self, name: str | None = None) -> Any:
        self.asked.append(("stats", name))
        told = {"type": name, "in_flight": 17, "attention": 3, "started_per_minute": 1.5, "ended_per_minute": 1.2}
        told |= {"statuses": {"COMPLETED": 1_000, "RUNNING": 17, "FAILED": 0}, "at_least": ["COMPLETED"]}
        queue = {"type": name, "steps": ["check", "upload"], "messages": None}
        return {"types": [{**told, "oldest_in_flight": iso(NOW - 600)}], "queues": [queue]}


@pytest.fixture
def service() -> Telling:
    steps = [[a_step("check", took=0.1 * number), a_step("upload", took=2.0)] for number in range(1, 21)]
    began = iso(NOW - 120)
    done = [
        a_saga(saga_id=numbered(number), created_at=began, updated_at=iso(NOW - 60 * number), steps=steps[number])
        for number in range(20)
    ]
    old = {"created_at": iso(NOW - 90_000), "updated_at": iso(NOW - 80_000)}
    return Telling([*done, a_saga("FAILED", saga_id=numbered(99), **old)])


def test_an_outage_is_seen_although_what_has_stopped_has_not_ended(service: Telling) -> None:
    for number in range(300, 620):
        service.sagas[numbered(number)] = dead(number)
    assert "320 need an operator now" in text_of(opened(service, "/charts/create-zip"))
    service.at_least = True
    assert "need an operator now" in text_of(opened(service, "/charts/create-zip"))
    service.sagas.clear()
    assert "need an operator" not in text_of(opened(service, "/charts/create-zip"))


def test_starts_ends_durations_and_what_waits(service: Telling) -> None:
    page = opened(service, "/charts/create-zip")
    told = text_of(page)
    assert "started 20 20" in told
    assert "completed 20 " in told
    assert "failed" not in told
    assert "check 1.0 s 1.9 s 20" in told
    assert "upload 2.0 s 2.0 s 20" in told
    assert "17 3 1.5 1.2 10 min ago" in told
    assert "check, upload unknown" in told
    assert page.count('class="bar c-started"') == 1
    assert page.count('class="bar c-COMPLETED"') == 16  # of 75 s each
    assert "CloudWatch" not in told


def test_the_list_of_a_type_counts_by_status(service: Telling) -> None:
    page = opened(service, "/sagas?type=create-zip&status=running")
    assert "running 17 completed 1,000+ in flight, and ended in 24 hours" in text_of(page)
    assert 'href="/sagas?type=create-zip&amp;status=RUNNING" aria-current="true"' in page
    assert ("stats", "create-zip") in service.asked
    assert "in flight, and ended" not in opened(FakeService(), "/sagas?type=create-zip")


def test_of_a_week_and_where_more_is_to_be_seen(service: Telling) -> None:
    page = opened(service, "/charts/create-zip?span=7d", links=Links("eu-central-1", []))
    assert "failed 1 1" in text_of(page)
    assert "#dashboards:" in page
    assert 'aria-current="true">7d' in page
    assert 'aria-current="true">1h' in opened(service, "/charts/create-zip?span=9y")


def test_many_are_cut_off() -> None:
    service = Telling(a_saga(saga_id=numbered(number), created_at=iso(NOW - 5)) for number in range(1_001))
    told = text_of(opened(service, "/charts/create-zip"))
    assert "started 1000 or more" in told
    assert "latest 1,000 of a kind" in told


@given(
    st.dictionaries(
        st.sampled_from(["started", "COMPLETED", "FAILED"]), st.lists(st.floats(0, 2e9), max_size=50), min_size=1
    ),
    st.floats(0, 1e9),
    st.floats(60, 1e6),
)
def test_bars_are_in_their_frame_and_count_what_happened(
    happened: dict[str, list[float]], begin: float, length: float
) -> None:
    drawing = bars(happened, begin, begin + length)
    for lane in drawing.lanes:
        inside = [at for at in happened[lane.name] if begin <= at < begin + length]
        assert lane.total == len(inside)
        assert len(lane.bars) <= COUNT
        for bar in lane.bars:
            assert bar.x >= NAMES
            assert bar.x + bar.width <= WIDTH
            assert lane.y <= bar.y
            assert bar.y + bar.height <= drawing.height
