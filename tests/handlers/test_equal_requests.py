"""Requests and signals that are equal in another spelling: one function decides, for the API, commands and events."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pydantic
import pytest

from sagas import Saga, step, wait_for
from sagas.engine.start.starter import KeyReused
from sagas.handlers import commands
from tests.handlers.conftest import Make, Site
from tests.handlers.test_commands import letters, send, work_off


@dataclass(frozen=True)
class Line:
    sku: str
    count: int = 1


@dataclass(frozen=True)
class Booking:
    amount: Decimal = Decimal(0)
    at: datetime | None = None
    hold: timedelta = timedelta(minutes=1)
    weight: float = 0.0
    tags: frozenset[str] = frozenset()
    lines: tuple[Line, ...] = ()
    note: str = ""
    by_sku: dict[str, Line] = field(default_factory=dict[str, Line])


class Book(Saga[Booking], name="book"):
    confirmed = wait_for(Booking, timeout=timedelta(days=1))

    @step
    def keep(self, confirmed: Booking) -> str:
        return confirmed.note


class Paid(pydantic.BaseModel):
    amount: Decimal
    at: datetime | None = None


class Pay(Saga[Paid], name="pay"):
    confirmed = wait_for(Paid, timeout=timedelta(days=1))

    @step
    def keep(self, confirmed: Paid) -> str:
        return "kept"


EQUAL: dict[str, tuple[str, Any, Any]] = {
    "a default": ("book", {}, {"note": "", "hold": "PT1M", "at": None}),
    "a default inside": ("book", {"lines": [{"sku": "a"}]}, {"lines": [{"sku": "a", "count": 1}]}),
    "a time in UTC": ("book", {"at": "2026-11-27T10:00:00Z"}, {"at": "2026-11-27T10:00:00+00:00"}),
    "a time in another offset": ("book", {"at": "2026-11-27T10:00:00Z"}, {"at": "2026-11-27t12:00:00.000+02:00"}),
    "a duration": ("book", {"hold": "PT60S"}, {"hold": "PT1M"}),
    "a decimal number": ("book", {"amount": "1.1"}, {"amount": "1.10"}),
    "a whole number": ("book", {"weight": 2}, {"weight": 2.0}),
    "a set in another order": ("book", {"tags": ["a", "b"]}, {"tags": ["b", "a", "a"]}),
    "one in a dict": ("book", {"by_sku": {"a": {"sku": "a"}}}, {"by_sku": {"a": {"sku": "a", "count": 1.0}}}),
    "a pydantic model": (
        "pay",
        {"amount": "1.1", "at": "2026-11-27T10:00:00Z"},
        {"amount": "1.10", "at": "2026-11-27T11:00:00+01:00"},
    ),
}
OTHER: dict[str, tuple[str, Any, Any]] = {
    "another default": ("book", {}, {"note": "x"}),
    "a local time": ("book", {"at": "2026-11-27T10:00:00Z"}, {"at": "2026-11-27T10:00:00"}),
    "another amount": ("book", {"amount": "1.1"}, {"amount": "1.100001"}),
    "another order": ("book", {"lines": [{"sku": "a"}, {"sku": "b"}]}, {"lines": [{"sku": "b"}, {"sku": "a"}]}),
    "one more": ("book", {"lines": [{"sku": "a"}]}, {"lines": [{"sku": "a"}, {"sku": "a"}]}),
    "upper case": ("book", {"note": "a"}, {"note": "A"}),
    "another model": ("pay", {"amount": "1.1"}, {"amount": "1.2"}),
}


def by_api(s: Site, name: str, request: Any) -> bool:
    """Start under a key by a call; whether it was accepted."""
    return s.call("POST", f"/sagas/{name}", request, key="k").status in (200, 202)


def by_command(s: Site, name: str, request: Any) -> bool:
    send(s, {"command": "start", "type": name, "request": request, "key": "k"})
    assert work_off(s) == [True]
    return not letters(s)


def by_event(s: Site, name: str, request: Any) -> bool:
    event = {"id": "k", "detail": {"order": json.dumps(request)}}
    paths = {field_: f"$.detail.order.{field_}" for field_ in request}
    send(s, {"command": "start_on", "type": name, "event": event, "request": paths, "key": "$.id"})
    assert work_off(s) == [True]
    return not letters(s)


def by_signal(s: Site, name: str, request: Any) -> bool:
    saga_id = s.call("POST", f"/sagas/{name}", {"amount": "1"}, key="one").body["saga_id"]
    return s.call("POST", f"/sagas/{name}/{saga_id}/signals/confirmed", request).status in (200, 202)


WAYS: list[Callable[[Site, str, Any], bool]] = [by_api, by_command, by_event, by_signal]


@pytest.fixture
def service(site: Make) -> Site:
    commands.reset()
    return site(Book, Pay)


@pytest.mark.parametrize("case", EQUAL)
def test_an_equal_request_is_the_same_however_it_comes(service: Site, case: str) -> None:
    name, first, again = EQUAL[case]
    for way in (by_api, by_command, by_event):
        assert way(service, name, first), way
        assert way(service, name, again), way
    assert len(service.call("GET", "/sagas", type=name).body["sagas"]) == 1
    for value in (first, again, first):
        assert by_signal(service, name, value)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", OTHER)
def test_another_request_is_refused_however_it_comes(service: Site, case: str, way: Any) -> None:
    name, first, other = OTHER[case]
    assert way(service, name, first)
    assert not way(service, name, other)


@dataclass(frozen=True)
class Longer:
    """A later release has another field, and takes the amount as a number of cents."""

    cents: int
    channel: str = "web"


class LaterBook(Saga[Longer], name="book", upcast={"request": lambda old: Longer(int(Decimal(old["amount"]) * 100))}):
    confirmed = wait_for(Booking, timeout=timedelta(days=1))

    @step
    def keep(self, confirmed: Booking) -> str:
        return confirmed.note


@dataclass(frozen=True)
class Wider(Booking):
    channel: str = "web"


class WiderBook(Saga[Wider], name="book"):
    confirmed = wait_for(Booking, timeout=timedelta(days=1))

    @step
    def keep(self, confirmed: Booking) -> str:
        return confirmed.note


def test_a_release_adds_a_field_or_reads_by_its_upcast(service: Site) -> None:
    first = service.start("book", {"amount": "1.1"}, key="k")
    wider, later = service.deploy(WiderBook).starter, service.deploy(LaterBook).starter
    for starter, same, other in (
        (wider, {"amount": "1.10", "channel": "web"}, {"amount": "1.10", "channel": "shop"}),
        (later, {"cents": 110}, {"cents": 111}),
        (later, {"cents": 110, "channel": "web"}, {"cents": 110, "channel": "shop"}),
    ):
        started = starter.start("book", same, key="k")
        assert (started.state.saga_id, started.created) == (first, False)
        with pytest.raises(KeyReused):
            starter.start("book", other, key="k")
    # The request of the first call is repeated by a caller that does not know of the release.
    assert later.start("book", {"amount": "1.1"}, key="k").state.saga_id == first
    with pytest.raises(KeyReused):
        later.start("book", {"amount": "1.10"}, key="k")


def test_of_a_purged_saga_only_the_hash_remains(service: Site) -> None:
    path = f"/sagas/pay/{service.start('pay', {'amount': '1.1'}, key='k')}"
    assert service.call("DELETE", path).status == 200
    assert service.call("POST", f"{path}/purge", {"reason": "asked for"}).status == 200
    assert by_api(service, "pay", {"amount": "1.1"})
    assert not by_api(service, "pay", {"amount": "1.10"})


def test_a_large_request_is_compared_too(site: Make) -> None:
    s = site(Book, SAGAS_PAYLOAD_LIMIT="1000")
    note = "n" * 2_000
    assert by_api(s, "book", {"note": note})
    assert by_api(s, "book", {"note": note, "amount": "0.00"})
    assert not by_api(s, "book", {"note": note + "n"})
