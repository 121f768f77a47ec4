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


def parsed(beside: dict[str, dict[str, str]] | None = None, /, **more: object) -> Routes:
    """The routes of a function, by its variable and by the groups in the file beside its code."""
    return Routes.parse(json.dumps({"base": BASE, "token": TOKEN, **more}), STEPS, beside)


def test_a_queue_a_step() -> None:
    assert parsed().queue("trip", "hotel") == f"{BASE}/trip-hotel-{TOKEN}"


def test_a_queue_that_all_steps_share_is_named_once() -> None:
    routes = parsed(shared="steps")
    assert [routes.queue("trip", step) for step in STEPS["trip"]] == [f"{BASE}/trip-steps-{TOKEN}"] * 2


GROUPS = {"trip": {"hotel": "hotel-to-car"}}


@pytest.mark.parametrize("routes", [parsed(groups=GROUPS), parsed(GROUPS)])
def test_steps_that_share_a_queue(routes: Routes) -> None:
    assert routes.queue("trip", "flight") == f"{BASE}/trip-flight-{TOKEN}"
    assert routes.queue("trip", "hotel") == f"{BASE}/trip-hotel-to-car-{TOKEN}"


@pytest.mark.parametrize("more", [{}, {"shared": "steps"}])
@pytest.mark.parametrize(("saga", "step"), [("trip", "car"), ("checkout", "flight")])
def test_what_is_not_deployed_has_no_queue(more: dict[str, object], saga: str, step: str) -> None:
    routes = parsed(**more)
    with pytest.raises(NotFound, match=f"no queue is deployed for step '{step}' of saga '{saga}'"):
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
