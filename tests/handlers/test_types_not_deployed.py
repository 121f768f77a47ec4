"""Sagas of a type that is no longer deployed: they can be read and purged, and nobody can act on them."""

from __future__ import annotations

from typing import Any

import pytest

from sagas.handlers import api as api_handler
from tests.handlers.conftest import Make, Site
from tests.support.sagas import Fatal, Trip


@pytest.fixture
def gone(site: Make, monkeypatch: pytest.MonkeyPatch) -> tuple[Site, str, str]:
    """A saga that is COMPLETED, and one in flight, of a type that the API's deployment does not have any more."""
    s = site(Trip, Fatal)
    done = s.begin("trip", {"item": "train", "count": 2})
    s.run()
    under_way = s.begin("trip", {"item": "bus"})
    registry = api_handler._engine().registry  # pyright: ignore[reportPrivateUsage]
    monkeypatch.delitem(registry._types, "trip")  # pyright: ignore[reportPrivateUsage]
    return s, done, under_way


def test_they_are_shown_from_themselves_and_their_entries(gone: tuple[Site, str, str]) -> None:
    s, done, under_way = gone
    shown = s.call("GET", f"/sagas/trip/{done}").body
    assert (shown["status"], shown["request"]) == ("COMPLETED", {"item": "train", "count": 2})
    assert shown["result"] == shown["steps"][-1]["result"]
    assert shown["waiting"] is None
    waiting = s.call("GET", f"/sagas/trip/{under_way}").body["waiting"]
    assert (waiting["kind"], waiting["until"]) == ("release", None)
    assert waiting["message"] == "the code of step book of release 1 is not deployed here"
    assert len(s.call("GET", f"/sagas/trip/{done}/audit").body["entries"]) > 3
    assert s.call("GET", f"/sagas/trip/{done}/verification").body["verified"] is True
    assert s.call("GET", f"/sagas/{done}").body["saga_id"] == done


def test_they_are_listed_by_their_type(gone: tuple[Site, str, str]) -> None:
    s, done, under_way = gone
    listed = s.call("GET", "/sagas", type="trip").body["sagas"]
    assert {saga["saga_id"] for saga in listed} == {done, under_way}
    assert s.call("GET", "/attention", type="trip").body["sagas"] == []


@pytest.mark.parametrize("path", ["/sagas", "/attention"])
def test_a_type_that_was_never_here_is_not_found(gone: tuple[Site, str, str], path: str) -> None:
    s, done, _ = gone
    assert s.call("GET", path, type="other").status == 404
    assert s.call("GET", f"/sagas/other/{done}").status == 404


@pytest.mark.parametrize(
    ("method", "verb", "body"),
    [
        ("DELETE", "", None),
        ("POST", "/retry", {}),
        ("POST", "/compensate", {}),
        ("POST", "/resolve", {"reason": "settled"}),
        ("PUT", "/recovery-attempts", {"attempts": 0}),
    ],
)
def test_nobody_can_act_on_them(gone: tuple[Site, str, str], method: str, verb: str, body: Any) -> None:
    s, _, under_way = gone
    answer = s.call(method, f"/sagas/trip/{under_way}{verb}", body)
    assert (answer.status, answer.body["error"]["message"]) == (409, "type trip is not deployed")


def test_nor_on_their_type(gone: tuple[Site, str, str]) -> None:
    s, _, _ = gone
    assert s.call("PUT", "/types/trip", {"paused": True}).status == 409
    assert s.call("POST", "/types/trip/recover", {}).status == 409


def test_none_is_started(gone: tuple[Site, str, str]) -> None:
    s, _, _ = gone
    assert s.call("POST", "/sagas/trip", {"item": "train"}, key="k").status == 404


def test_one_that_has_ended_is_purged(gone: tuple[Site, str, str]) -> None:
    s, done, _ = gone
    s.clock.advance(3_600)
    assert s.call("POST", f"/sagas/trip/{done}/purge", {"reason": "asked"}).status == 200
    shown = s.call("GET", f"/sagas/trip/{done}").body
    assert (shown["purge_reason"], shown["request"]) == ("asked", None)
