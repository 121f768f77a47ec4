"""Which objects are orphans, without AWS."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagas.authoring.context import object_key
from sagas.core.states import SagaStatus
from sagas.engine.read.reports import SweepView
from sagas.engine.sweep.orphans import Judge, Kind, SweepReport, kind_of, saga_id_of, too_many
from sagas.errors import InvalidRequest
from sagas.store.index.summaries import SagaSummaries, SagaSummary
from sagas.store.journal.objects import Listed

PREFIX = "zips/"
ID = "0199c2a1-7c1e-7000-8000-0123456789ab"
OTHER = "0199c2a1-7c1e-8000-8000-0123456789ff"
IN_FLIGHT = (
    SagaStatus.PENDING,
    SagaStatus.RUNNING,
    SagaStatus.WAITING,
    SagaStatus.COMPENSATING,
    SagaStatus.DEAD_LETTERED,
)
UNDONE = (SagaStatus.COMPENSATED, SagaStatus.CANCELLED, SagaStatus.COMPENSATION_FAILED)


class Book(SagaSummaries):
    """A dict instead of a table, which notes the ids it was asked for."""

    def __init__(self, summaries: dict[str, SagaSummary]) -> None:
        self.summaries = summaries
        self.asked: list[str] = []

    def of(self, saga_ids: Iterable[str]) -> dict[str, SagaSummary]:
        self.asked += saga_ids
        return {saga_id: self.summaries[saga_id] for saga_id in self.asked if saga_id in self.summaries}


@given(filename=st.text(min_size=1, max_size=300), saga_id=st.uuids())
def test_every_key_of_s3_key_tells_its_saga(filename: str, saga_id: object) -> None:
    try:
        key = object_key(PREFIX, str(saga_id), filename)
    except (InvalidRequest, UnicodeEncodeError):
        return
    assert saga_id_of(key, PREFIX) == str(saga_id)


@pytest.mark.parametrize(
    "key",
    [
        PREFIX,
        f"{PREFIX}{ID}",
        f"{PREFIX}{ID}/",
        f"{PREFIX}{ID}/a/b",
        f"{PREFIX}{ID}/..",
        f"{PREFIX}{ID}/a\nb",
        f"{PREFIX}{ID.upper()}/a",
        f"{PREFIX}{ID[:-1]}/a",
        f"{PREFIX}{{{ID}}}/a",
        f"{PREFIX}{ID}\n/a",
        f"{PREFIX}/{ID}/a",
        f"{PREFIX}deep/{ID}/a",
        f"{PREFIX}readme.txt",
        f"elsewhere/{ID}/a",
        f"{ID}/a",
    ],
)
def test_other_keys_tell_none(key: str) -> None:
    assert saga_id_of(key, PREFIX) is None


@pytest.mark.parametrize("attention", [False, True])
@pytest.mark.parametrize("status", IN_FLIGHT)
def test_a_saga_in_flight_keeps_its_objects(status: SagaStatus, attention: bool) -> None:
    assert kind_of("zip", SagaSummary("zip", status, attention)) is Kind.KEPT


@pytest.mark.parametrize("status", UNDONE)
def test_an_undone_saga_leaves_orphans(status: SagaStatus) -> None:
    assert kind_of("zip", SagaSummary("zip", status, attention=False)) is Kind.ORPHAN


@pytest.mark.parametrize("status", SagaStatus)
def test_nothing_goes_while_a_person_must_look(status: SagaStatus) -> None:
    assert kind_of("zip", SagaSummary("zip", status, attention=True)) is Kind.KEPT


@pytest.mark.parametrize("status", [SagaStatus.COMPLETED, SagaStatus.FAILED])
def test_what_was_not_undone_is_owned(status: SagaStatus) -> None:
    assert kind_of("zip", SagaSummary("zip", status, attention=False)) is Kind.KEPT


def test_every_status_is_decided_on() -> None:
    assert {*IN_FLIGHT, *UNDONE, SagaStatus.COMPLETED, SagaStatus.FAILED} == set(SagaStatus)


@pytest.mark.parametrize("status", SagaStatus)
def test_another_types_saga_is_foreign(status: SagaStatus) -> None:
    assert kind_of("zip", SagaSummary("unzip", status, attention=False)) is Kind.FOREIGN


def test_no_such_saga_is_unknown() -> None:
    assert kind_of("zip", None) is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("orphans", "listed", "stops"),
    [(19, 19, False), (20, 20, True), (10, 20, False), (11, 20, True), (500, 1000, False), (501, 1000, True)],
)
def test_most_of_a_page_is_too_many(orphans: int, listed: int, stops: bool) -> None:
    assert too_many(orphans, listed) is stops


def test_only_what_is_old_enough_is_looked_into() -> None:
    summaries = Book({ID: SagaSummary("zip", SagaStatus.CANCELLED, attention=False)})
    objects = [
        Listed(f"{PREFIX}{ID}/new", 1, "", 100.0),
        Listed(f"{PREFIX}{ID}/old", 1, "", 99.9),
        Listed(f"{PREFIX}{OTHER}/new", 1, "", 101.0),
        Listed(f"{PREFIX}new.txt", 1, "", 101.0),
    ]
    verdicts = Judge("zip", PREFIX, summaries).judge(objects, 100.0)
    assert [one.kind for one in verdicts] == [Kind.YOUNG, Kind.ORPHAN, Kind.YOUNG, Kind.FOREIGN]
    assert [one.listed for one in verdicts] == objects
    assert summaries.asked == [ID]


def test_nobody_is_asked_about_young_objects() -> None:
    summaries = Book({})
    objects = [Listed(f"{PREFIX}{ID}/new", 1, "", 200.0)]
    assert [one.kind for one in Judge("zip", PREFIX, summaries).judge(objects, 100.0)] == [Kind.YOUNG]
    assert summaries.asked == []


def test_a_report_shows_at_most_a_hundred_keys() -> None:
    report = SweepReport("zip", PREFIX)
    for kind in Kind:
        for number in range(1_000):
            report.count(kind, str(number))
    report.fail({str(number): "AccessDenied" for number in range(1_000)})
    assert sum(map(len, report.sample.values())) == 100
    assert (report.orphans, report.unknown, report.foreign, report.errors) == (1_000,) * 4
    assert report.sample["errors"][0] == "0: AccessDenied"


def test_a_report_is_answered_as_the_client_types_it() -> None:
    assert get_type_hints(SweepView) == get_type_hints(SweepReport)
