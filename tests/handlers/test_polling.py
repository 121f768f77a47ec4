"""Answers that are asked for again and again, and what a saga waits for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sagas import CircuitBreaker, Retry, Saga, step, wait_for
from tests.handlers.conftest import Answer, Make, Site, begun, request
from tests.support.sagas import FAIL, Order, Trip, act

DURING: list[Callable[[], Any]] = []


class Slow(Saga[Order], name="slow"):
    answer = wait_for(str, timeout=timedelta(days=1))

    @step(retry=Retry.constant(max_retries=3, delay=30.0), circuit_breaker=CircuitBreaker(failure_threshold=2))
    def work(self, request: Order, ctx: Any) -> str:
        for one in DURING:
            one()
        act("work", ctx)
        return request.item


def ask(site: Site, path: str, tag: str | None = None, **query: str) -> Answer:
    event = request("GET", path, **query)
    event["headers"] |= {"if-none-match": tag} if tag else {}
    return site.send(event)


def test_a_saga_that_has_not_changed_is_not_answered_again(site: Make) -> None:
    s, saga_id = begun(site)
    one = f"/sagas/trip/{saga_id}"
    tags = [ask(s, one).headers["etag"]]
    for change in (lambda: s.invoke("trip", "book"), lambda: s.call("DELETE", one), s.run):
        for path in (one, f"/sagas/{saga_id}"):
            same = ask(s, path, f'"other", W/{tags[-1]}')
            assert (same.status, same.body, same.headers["etag"]) == (304, None, tags[-1])
        change()
        changed = ask(s, one, tags[-1])
        assert changed.status == 200
        tags.append(changed.headers["etag"])
    assert len(set(tags)) == len(tags)
    assert ask(s, "/sagas/trip/00000000-0000-7000-8000-000000000000", tags[-1]).status == 404


def test_a_progress_a_pause_and_a_heartbeat_are_changes(site: Make) -> None:
    s, saga_id = begun(site)
    one = f"/sagas/trip/{saga_id}"
    tag = ask(s, one).headers["etag"]
    s.call("PUT", "/types/trip", {"paused": True})
    s.clock.advance(6)
    changed = ask(s, one, tag)
    assert (changed.status, changed.body["waiting"]) == (200, {"kind": "paused", "until": None})


def test_lists_are_compared_as_they_are(site: Make) -> None:
    s = site(Trip)
    s.begin("trip")
    for path, query in (("/sagas", {"type": "trip"}), ("/attention", {})):
        tag = ask(s, path, **query).headers["etag"]
        assert ask(s, path, tag, **query).status == 304
    tag = ask(s, "/sagas", type="trip").headers["etag"]
    s.begin("trip")
    assert ask(s, "/sagas", tag, type="trip").status == 200


def test_what_a_saga_waits_for(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    s = site(Slow)
    saga_id = s.begin("slow")

    def waiting() -> Any:
        return ask(s, f"/sagas/slow/{saga_id}").body["waiting"]

    def kind() -> str:
        return waiting()["kind"]

    assert waiting() == {"kind": "queue", "until": None}
    s.run()
    assert (kind(), waiting()["until"][:10]) == ("signal", s.show(saga_id)["steps"][0]["waits_until"][:10])
    s.call("POST", f"/sagas/slow/{saga_id}/signals/answer", '"yes"')
    seen = list[Any]()
    DURING.append(lambda: seen.append(waiting()))
    FAIL["work"] = RuntimeError("no")
    s.invoke("slow", "work")
    DURING.clear()
    assert [one["kind"] for one in seen] == ["lease"]
    saga = s.show(saga_id)
    assert waiting() == {"kind": "backoff", "until": saga["steps"][1]["next_attempt_at"]}
    s.clock.advance(31)
    s.invoke("slow", "work")
    assert kind() == "breaker"
    assert waiting()["until"] == ask(s, f"/sagas/slow/{saga_id}").body["breaker"]["open_until"]
    FAIL.clear()
    for _ in range(4):
        s.clock.advance(61)
        s.run()
    assert (s.status(saga_id), waiting()) == ("COMPLETED", None)
