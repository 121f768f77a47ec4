"""A page that was left open: what is sent from it acts on what it shows, or on nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.handlers.conftest import ANN, Make, Site, request
from tests.support.sagas import FAIL, Stubborn

CALLS = ("retry", "compensate", "resolve")
BOB = "arn:aws:iam::123456789012:user/bob"


def stuck(make: Make) -> tuple[Site, str]:
    FAIL["second"] = RuntimeError("no")
    site = make(Stubborn)
    saga_id = site.begin("stubborn")
    site.run()
    return site, f"/sagas/stubborn/{saga_id}"


def test_every_view_has_the_number_of_the_last_entry(site: Make) -> None:
    s, path = stuck(site)
    seq = len(s.call("GET", f"{path}/audit").body["entries"])
    lists = [s.call("GET", "/sagas", **query).body["sagas"] for query in ({}, {"status": "DEAD_LETTERED"})]
    lists.append(s.call("GET", "/attention").body["sagas"])
    shown = [s.call("GET", path).body, *(saga for sagas in lists for saga in sagas)]
    assert [saga["seq"] for saga in shown] == [seq] * 4
    assert s.call("POST", "/sagas/stubborn", {"item": "bus"}).body["seq"] == 1
    settled = s.call("POST", f"{path}/resolve", {"reason": "seen", "seq": seq})
    assert (settled.status, settled.body["seq"]) == (200, seq + 1)


@pytest.mark.parametrize("verb", CALLS)
def test_what_was_decided_on_an_old_page_changes_nothing(site: Make, verb: str) -> None:
    s, path = stuck(site)
    page = s.call("GET", path).body
    assert s.call("POST", f"{path}/retry", {"reason": "bob was here"}).status == 202
    s.run()
    before, now = s.tables(), s.call("GET", path).body
    answer = s.call("POST", f"{path}/{verb}", {"reason": "seen", "seq": page["seq"]})
    assert (answer.status, answer.code) == (409, "state_changed")
    assert f"seq {page['seq']} is not its last audit entry, which is {now['seq']}" in answer.body["error"]["message"]
    saga = answer.body["saga"]
    assert {part: saga[part] for part in ("seq", "status", "error", "attention", "links")} == {
        part: now[part] for part in ("seq", "status", "error", "attention", "links")
    }
    # Values are for callers with the right to read them.
    assert (saga["request"], {step["result"] for step in saga["steps"]}) == (None, {None})
    assert now["request"] is not None
    assert s.tables() == before


@pytest.mark.parametrize("verb", CALLS)
def test_a_call_whose_answer_was_lost_can_be_repeated(site: Make, verb: str) -> None:
    s, path = stuck(site)
    body = {"reason": "seen", "seq": s.call("GET", path).body["seq"]}
    first = s.call("POST", f"{path}/{verb}", body)
    FAIL.clear()
    s.run()
    before = s.tables()
    again = s.call("POST", f"{path}/{verb}", body)
    assert (again.status, s.tables()) == (first.status, before)
    assert again.body["seq"] >= first.body["seq"]
    bob = request("POST", f"{path}/{verb}", body)
    assert bob["requestContext"]["identity"]["userArn"] == ANN
    bob["requestContext"]["identity"]["userArn"] = BOB
    assert s.send(bob).code == "state_changed"


@pytest.mark.parametrize("seq", [None, 5.0])
def test_a_state_can_be_left_unnamed_and_a_number_be_spelled_as_json_may(site: Make, seq: Any) -> None:
    s, path = stuck(site)
    assert s.call("GET", path).body["seq"] == 5
    assert s.call("POST", f"{path}/retry", {"reason": "again", "seq": seq}).status == 202
