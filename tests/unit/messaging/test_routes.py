"""Where messages go, as a function reads it from its environment."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagas.errors import NotFound
from sagas.messaging.routes import Routes, derived_name

BASE = "https://sqs.eu-west-1.amazonaws.com/123456789012"
TOKEN = "0a1b2c-89abcdef"
STEPS = {"trip": ["flight", "hotel"]}


def test_a_queue_a_step() -> None:
    names = {"flight": "Stack-flight-X", "hotel": "Stack-hotel-Y"}
    routes = Routes.parse(json.dumps({"base": BASE, "queues": {"trip": names}}))
    assert routes.queue("trip", "hotel") == f"{BASE}/Stack-hotel-Y"


def test_a_queue_that_all_steps_share_is_named_once() -> None:
    routes = Routes.parse(json.dumps({"base": BASE, "queues": {"trip": "Stack-steps-X"}}), STEPS)
    assert [routes.queue("trip", step) for step in STEPS["trip"]] == [f"{BASE}/Stack-steps-X"] * 2


def test_derived_names() -> None:
    routes = Routes.parse(json.dumps({"base": BASE, "token": TOKEN}), STEPS)
    assert routes.queue("trip", "hotel") == f"{BASE}/trip-hotel-{TOKEN}"
    shared = Routes.parse(json.dumps({"base": BASE, "token": TOKEN, "shared": "steps"}), STEPS)
    assert shared.queue("trip", "hotel") == f"{BASE}/trip-steps-{TOKEN}"


@pytest.mark.parametrize("form", [{"queues": {"trip": {"flight": "X"}}}, {"queues": {"trip": "X"}}, {"token": TOKEN}])
@pytest.mark.parametrize(("saga", "step"), [("trip", "car"), ("checkout", "flight")])
def test_what_is_not_deployed_has_no_queue(form: dict[str, object], saga: str, step: str) -> None:
    routes = Routes.parse(json.dumps({"base": BASE, **form}), STEPS)
    with pytest.raises(NotFound, match=f"no queue for step '{step}' of saga '{saga}'"):
        routes.queue(saga, step)


sagas = st.from_regex(r"[a-z][a-z0-9-]{0,39}", fullmatch=True)
steps = st.text(min_size=1, max_size=90).filter(str.isidentifier)


@given(st.lists(st.tuples(sagas, steps), min_size=2, max_size=2, unique=True))
def test_derived_names_fit_and_differ(pairs: list[tuple[str, str]]) -> None:
    one, other = (derived_name(saga, step, TOKEN) for saga, step in pairs)
    assert one != other
    assert re.fullmatch("[A-Za-z0-9_-]{1,80}", one)
