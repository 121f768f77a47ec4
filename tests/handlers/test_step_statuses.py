"""Every status of a step, wherever statuses are shown. A status that a place does not know fails here."""

from __future__ import annotations

import json
import re
import sys
import types
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from anyio.from_thread import start_blocking_portal
from msgspec.structs import replace
from typer.testing import CliRunner

from sagas import Saga, SagaClient, children, sleep, step, wait_for
from sagas.authoring.definition.definition import definition_of
from sagas.cli.main import app
from sagas.cli.tables import coloured
from sagas.console.drawing.timeline import WORDS, timeline
from sagas.core.events import FACTS, StepFact
from sagas.core.states import Attempts, SagaStatus, StepStatus
from sagas.core.text import iso
from sagas.engine.observe.events import STEP_EVENTS, events_of_entries
from sagas.engine.read import overviews
from sagas.handlers import api as api_handler
from sagas.lock.changes import changes_in_flight
from sagas.lock.content import FORMAT, LETTERS
from tests.handlers.conftest import Make, Site, request
from tests.support.aws import REGION, LambdaContext
from tests.support.sagas import Booked, Order
from tests.unit.client.stub import StubApi, a_saga, serving
from tests.unit.console.conftest import Browser, text_of
from tests.unit.console.service import NOW, an_entry

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "_ext"))

from states_page import page

ROOT = Path(__file__).parents[2]
CSS = (ROOT / "sagas/console/static/console.css").read_text()
EACH = [status.value for status in StepStatus]


def _a_step(name: str) -> Any:
    def code(self: Any) -> None: ...

    code.__name__ = name
    return step(code)


def _steps(namespace: dict[str, Any]) -> None:
    namespace |= {status.lower(): _a_step(status.lower()) for status in EACH}
    namespace |= {"__module__": __name__, "__doc__": "It has a step in each status."}


Every = types.new_class("Every", (Saga[dict[str, str]],), {"name": "every"}, _steps)


def several(request: Order) -> bool:
    return request.count > 1


class Parcel(Saga[Order], name="parcel"):
    """Every kind of step with a condition."""

    @step(when=several)
    def greet(self) -> None: ...

    @step
    def heavy(self, request: Order) -> bool:
        return request.count > 10

    @children(Booked, when=several)
    def parts(self, request: Order) -> list[Order]:
        return [request]

    pause = sleep(timedelta(days=1), when=several)
    scale = wait_for(str, timeout=timedelta(days=1), when=heavy)

    @step(when=several)
    def insure(self) -> str:
        return "policy"

    @insure.compensate
    def cancel(self, insure: str) -> None: ...

    @step
    def ship(self, insure: str | None, scale: str | None) -> str:
        return f"{insure} {scale}"

    @step(when=heavy)
    def lift(self, ship: str) -> str:
        return ship


@pytest.fixture(scope="module", autouse=True)
def _loop() -> Iterator[None]:
    with start_blocking_portal() as Browser.portal:
        yield
    Browser.portal = None


@pytest.fixture
def saga(site: Make) -> tuple[Site, str]:
    """A site with a saga that goes forward, and has a step in each status."""
    s = site(Every)
    saga_id = s.begin("every")
    state = s.state(saga_id)
    steps = tuple(
        replace(each, status=status, attempts=Attempts(int(status is not StepStatus.PENDING)))
        for each, status in zip(state.steps, StepStatus, strict=True)
    )
    running = EACH.index(StepStatus.RUNNING)
    state = replace(state, status=SagaStatus.RUNNING, steps=steps, cursor=running)
    s.stack.dynamodb.delete_item(TableName=s.stack.sagas_table, Key={"saga_id": {"S": saga_id}})
    assert s.engine.control.create(state, 60.0)
    return s, saga_id


@pytest.fixture
def api(site: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubApi]:
    """The API of what is deployed, by HTTP. It is also the local stack of the working directory."""
    with serving() as stub:

        def served() -> tuple[int, Any, dict[str, str]]:
            asked = stub.asked[-1]
            url = urlsplit(asked.path.removeprefix("/v1"))
            query = dict(parse_qsl(url.query))
            answer = api_handler.handler(request(asked.method, url.path, asked.body, **query), LambdaContext())
            return answer["statusCode"], json.loads(answer["body"]), {}

        monkeypatch.setattr(stub, "next", served)
        monkeypatch.chdir(tmp_path)
        (tmp_path / ".sagas").mkdir()
        where: dict[str, Any] = {"api_url": stub.url, "region": REGION, "endpoint_url": stub.url, "supervisor": "s"}
        (tmp_path / ".sagas/local.json").write_text(json.dumps({**where, "queues": {}, "dead_letter_queues": {}}))
        yield stub


def statuses_of(view: Any) -> dict[str, str]:
    return {each["name"]: each["status"] for each in view["steps"]}


EXPECTED = {status.lower(): status for status in EACH}


def test_the_api_answers_with_each_and_describes_each(saga: tuple[Site, str]) -> None:
    s, saga_id = saga
    assert statuses_of(s.call("GET", f"/sagas/every/{saga_id}").body) == EXPECTED
    schemas = s.call("GET", "/openapi.json").body["components"]["schemas"]
    assert schemas["StepStatus"]["enum"] == EACH


def test_the_client_and_the_command_line_show_each(saga: tuple[Site, str], api: StubApi) -> None:
    _, saga_id = saga
    assert statuses_of(SagaClient(api.url, region=REGION).show("every", saga_id)) == EXPECTED
    shown = CliRunner().invoke(app, ["show", "every", saga_id])
    assert re.findall(r"^([a-z_]+) +([A-Z_]+)\b", shown.stdout, re.MULTILINE) == [*EXPECTED.items()], shown.output
    as_json = CliRunner().invoke(app, ["show", "every", saga_id, "--json"])
    assert statuses_of(json.loads(as_json.stdout)) == EXPECTED
    watched = CliRunner().invoke(app, ["show", "every", saga_id, "--watch", "--timeout", "0s"])
    begun = {name: status for name, status in EXPECTED.items() if status != StepStatus.PENDING}
    assert dict(re.findall(r"step ([a-z_]+) ([A-Z_]+)", watched.stdout)) == begun
    assert all(coloured(status).style for status in EACH)


def test_the_console_draws_each(saga: tuple[Site, str], api: StubApi) -> None:
    _, saga_id = saga
    client: Any = SagaClient(api.url, region=REGION)
    page = Browser(client, stack="shop").open().get(f"/shop/{REGION}/sagas/every/{saga_id}").text
    for name, status in EXPECTED.items():
        assert f"{name} {status} " in text_of(page)
        assert f'class="box b-{status}"' in page
        assert f".s-{status}" in CSS, "the status has no colour"
        assert f".b-{status} rect" in CSS, "the box has no border of its own"


def test_the_sagas_in_flight_are_grouped_by_each(saga: tuple[Site, str], api: StubApi) -> None:
    client = SagaClient(api.url, region=REGION)
    view: Any = client.in_flight("every")
    [group] = view["groups"]
    assert group["steps"] == "".join(LETTERS[status] for status in StepStatus)
    described = " ".join((overviews.InFlightGroup.__doc__ or "").split())
    assert all(f"{letter} ({status})" in described for status, letter in LETTERS.items())
    assert changes_in_flight({"format": FORMAT, "types": {"every": view}}, [definition_of(Every)]) == []


def test_the_statistics_are_of_sagas_with_each(saga: tuple[Site, str], api: StubApi) -> None:
    s, saga_id = saga
    state = s.state(saga_id)
    ended = replace(state, saga_id=s.clock.new_id(), status=SagaStatus.COMPLETED, ended_at=s.clock.now())
    assert s.engine.control.create(ended, 60.0)
    client: Any = SagaClient(api.url, region=REGION)
    charts = Browser(client, stack="shop").open().get("/charts/every")
    assert charts.status_code == 200
    top = CliRunner().invoke(app, ["top", "--json"])
    [stats] = json.loads(top.stdout)["types"]
    assert {status: count for status, count in stats["statuses"].items() if count} == {"RUNNING": 1, "COMPLETED": 1}


def test_the_timeline_draws_each_fact_about_an_attempt() -> None:
    facts = [name for name, kind in FACTS.items() if kind.published and issubclass(kind, StepFact)]
    entries = [an_entry(seq, fact, "check", at=iso(NOW + seq)) for seq, fact in enumerate(facts)]
    drawn = timeline(a_saga(created_at=iso(NOW)), entries, NOW + 60)
    assert [bar.kind for bar in drawn.bars] == ["done", "skipped", "failed", "lost", "undo"]
    assert all(f".k-{kind}" in CSS for kind in WORDS)


def test_the_pages_that_the_code_writes_have_each() -> None:
    written = page()
    assert all(f"| `{status}` |" in written for status in EACH)
    assert all(f"`{name}`" in (ROOT / "docs/build/events.md").read_text() for name in STEP_EVENTS)


# What a skipped step shows


SKIPPED = {
    "greet": "several() is false",
    "parts": "several() is false",
    "pause": "several() is false",
    "scale": "heavy is false",
    "insure": "several() is false",
    "lift": "heavy is false",
}


def posted(site: Make, early: str = "") -> tuple[Site, str]:
    """A site with a parcel whose conditions are all false. ``early``: a signal that comes before its wait."""
    s = site(Parcel, Booked)
    saga_id = s.begin("parcel")
    assert not early or s.call("POST", f"/sagas/parcel/{saga_id}/signals/scale", early).status == 202
    s.run()
    return s, saga_id


def test_a_skipped_step_has_a_reason_and_nothing_else(site: Make) -> None:
    s, saga_id = posted(site)
    view = s.call("GET", f"/sagas/parcel/{saga_id}").body
    assert (view["status"], view["result"]) == ("COMPLETED", None)
    skipped = {each["name"]: each for each in view["steps"] if each["status"] == "SKIPPED"}
    assert {name: each["message"] for name, each in skipped.items()} == SKIPPED
    for each in skipped.values():
        values = {value for name, value in each.items() if name not in ("name", "status", "message")}
        assert values == {0, None}, each


def test_the_trail_and_the_events_name_skipped_steps(site: Make, api: StubApi) -> None:
    s, saga_id = posted(site)
    entries = s.call("GET", f"/sagas/parcel/{saga_id}/audit").body["entries"]
    assert {each["step"]: each["details"]["reason"] for each in entries if each["action"] == "StepSkipped"} == SKIPPED
    printed = CliRunner().invoke(app, ["audit", "parcel", saga_id]).stdout
    assert printed.count("reason: several() is false") == 4
    events = events_of_entries(s.state(saga_id), s.engine.journal.history(saga_id), 0.0, steps=True)
    details = [event.detail for event in events if event.name == "StepSkipped"]
    assert [detail.get("step") for detail in details] == [*SKIPPED]
    # No step is before the first one, so its own attempt asks.
    assert [detail.get("attempt") for detail in details] == [1, *[None] * 5]


def test_people_read_why_a_step_was_skipped(site: Make, api: StubApi) -> None:
    _, saga_id = posted(site)
    shown = CliRunner().invoke(app, ["show", "parcel", saga_id]).stdout
    watched = CliRunner().invoke(app, ["show", "parcel", saga_id, "--watch"]).stdout
    client: Any = SagaClient(api.url, region=REGION)
    page = Browser(client, stack="shop").open().get(f"/shop/{REGION}/sagas/parcel/{saga_id}").text
    for name, reason in SKIPPED.items():
        assert re.search(rf"{name} +SKIPPED +skipped: {re.escape(reason)}", shown)
        assert f"step {name} SKIPPED, {reason}" in watched
        assert f"{name} SKIPPED {saga_id}:{name} skipped: {reason}" in text_of(page)
    assert page.count("k-skipped") == len(SKIPPED) + 1, "and the legend"
    assert "0 children" not in page


def test_a_wait_that_is_skipped_takes_no_signal(site: Make) -> None:
    s, saga_id = posted(site, early='"ten kilos"')
    path = f"/sagas/parcel/{saga_id}"
    assert s.call("GET", path).body["steps"][4]["status"] == "SKIPPED", "an early signal counts for a wait that begins"
    assert s.call("POST", f"{path}/signals/scale", '"ten kilos"').status == 200
    assert s.call("POST", f"{path}/signals/scale", '"other"').code == "conflict"
    without = s.begin("parcel")
    s.invoke("parcel", "greet")
    s.invoke("parcel", "heavy")
    refused = s.call("POST", f"/sagas/parcel/{without}/signals/scale", '"ten kilos"')
    assert refused.body["error"]["message"] == "step scale is SKIPPED; it no longer accepts a signal"


def test_a_skipped_step_is_read_without_its_control_item_and_after_a_purge(site: Make) -> None:
    s, saga_id = posted(site)
    path = f"/sagas/parcel/{saga_id}"

    def read() -> Any:
        steps = s.call("GET", path).body["steps"]
        return {each["name"]: each["message"] for each in steps if each["status"] == "SKIPPED"}

    item: dict[str, Any] = {"TableName": s.stack.sagas_table, "Key": {"saga_id": {"S": saga_id}}}
    stored = s.stack.dynamodb.get_item(**item)["Item"]
    s.stack.dynamodb.delete_item(**item)
    assert read() == SKIPPED
    s.stack.dynamodb.put_item(TableName=s.stack.sagas_table, Item=stored)
    assert s.call("POST", f"{path}/purge", {"reason": "asked for"}).status == 200
    assert read() == dict.fromkeys(SKIPPED)
