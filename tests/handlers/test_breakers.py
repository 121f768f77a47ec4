"""Circuit breakers over the API."""

from __future__ import annotations

import pytest

from tests.handlers.conftest import ANN, Make
from tests.support.sagas import Held, Trip

Capture = pytest.CaptureFixture[str]


def test_there_may_be_none(site: Make) -> None:
    answer = site(Trip).call("GET", "/breakers")
    assert (answer.status, answer.body) == (200, {"breakers": []})


def test_an_open_one_is_seen_and_closed(site: Make, caplog: pytest.LogCaptureFixture, capsys: Capture) -> None:
    s = site(Held, Trip)
    [before] = s.call("GET", "/breakers").body["breakers"]
    assert (before["type"], before["step"], before["state"], before["waiting"]) == ("held", "call", "closed", 0)
    saga = s.begin("held")
    s.invoke("held", "call")
    [opened] = s.call("GET", "/breakers").body["breakers"]
    assert (opened["state"], opened["failures"], opened["waiting"], opened["more_waiting"]) == ("open", 1, 1, False)
    shown = s.call("GET", f"/sagas/held/{saga}").body
    assert shown["breaker"] == {"step": "call", "open_until": opened["open_until"]}
    capsys.readouterr()
    answer = s.call("POST", "/breakers/held/call/close")
    assert answer.status == 200
    past = opened["last_error"] | {"message": None}
    assert answer.body == opened | {"state": "closed", "failures": 0, "open_until": None, "last_error": past}
    [told] = [one for one in caplog.records if one.message == "the circuit breaker was closed by hand"]
    assert [getattr(told, name) for name in ("actor", "saga", "step", "sent")] == [ANN, "held", "call", 1]
    assert "BreakerClosed" in capsys.readouterr().out
    assert s.call("GET", f"/sagas/held/{saga}").body["breaker"] is None
    assert s.call("POST", "/breakers/held/call/close").status == 200, "closing it twice is closing it once"
