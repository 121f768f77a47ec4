"""Where messages go, as a function reads it from its environment."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagas.errors import NotFound
from sagas.messaging.message import Message
from sagas.messaging.queues import Queues
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


@pytest.mark.parametrize(
    ("saga", "step", "source", "elsewhere"),
    [
        ("trip", "book", "trip-book", None),
        ("trip", "book", "trip-pay", "trip-book"),
        ("trip", "nap", "trip-pay", None),  # it has no queue of its own: its lane's is the right one
        ("trip", "nap", "trip-book", "trip-pay"),
        ("shared", "first", "shared-all", None),
        ("shared", "second", "shared-all", None),
        ("shared", "second", "trip-pay", "shared-all"),
        ("trip", "gone", "trip-pay", None),
        ("of another service", "book", "trip-pay", None),
    ],
)
def test_a_record_is_elsewhere_in_any_queue_but_its_steps(
    saga: str, step: str, source: str, elsewhere: str | None
) -> None:
    names: dict[str, dict[str, str]] = {
        "trip": {"book": "trip-book", "pay": "trip-pay"},
        "shared": dict.fromkeys(("first", "second"), "shared-all"),
    }
    queues = Queues(Routes("https://sqs/1", names, lanes={"trip": {"nap": "pay"}}))
    message = Message("id", saga, step, 0, False, 1)
    record = {"eventSourceARN": f"arn:aws:sqs:eu-central-1:1:{source}"}
    assert queues.queue_elsewhere(record, message) == (elsewhere and f"https://sqs/1/{elsewhere}")


@pytest.mark.parametrize("record", [{}, {"eventSourceARN": 5}])
def test_a_record_that_does_not_say_where_it_was_is_at_home(record: dict[str, object]) -> None:
    queues = Queues(Routes("https://sqs/1", {"trip": {"book": "trip-book"}}))
    assert queues.queue_elsewhere(record, Message("id", "trip", "book", 0, False, 1)) is None
