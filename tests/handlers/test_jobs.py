"""Jobs of the command line and of the console over the API itself: who is acted on, and how often."""

from __future__ import annotations

import html
import json
import re
import shlex
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from typer.testing import CliRunner

from sagas import Exhausted, Retry, Saga, step
from sagas.cli.main import app
from sagas.client import SagaClient
from sagas.client.operate.batch import Batch, usual
from sagas.client.operate.jobs import JobFolder
from sagas.client.operate.outcomes import CallOutcome
from sagas.client.operate.selection import Selection
from sagas.errors import Unavailable
from tests.handlers.conftest import Make, Site, request
from tests.support.sagas import Order
from tests.unit.console.conftest import Browser, wait_over

ONCE = Retry.constant(max_retries=0, delay=0, on_exhausted=Exhausted.DEAD_LETTER)
DOWN = set[str]()


class ProviderDown(Exception):
    """The provider does not answer."""


class Payment(Saga[Order], name="payment"):
    @step(retry=ONCE)
    def charge(self, request: Order) -> str:
        if "charge" in DOWN:
            raise ProviderDown(request.item)
        return request.item


class Transfer(Saga[Order], name="transfer"):
    @step
    def debit(self, request: Order) -> str:
        return request.item

    @debit.compensate(retry=Retry.constant(max_retries=0, delay=0))
    def undo_debit(self) -> None:
        if "undo" in DOWN:
            raise ProviderDown

    @step(retry=Retry.constant(max_retries=0, delay=0))
    def credit(self) -> None:
        raise ValueError("no such account")


class _Answer:
    def __init__(self, answer: Any) -> None:
        self.status_code = answer.status
        self.headers = answer.headers
        self.content = json.dumps(answer.body).encode()


def client_of(site: Site) -> SagaClient:
    """Return a client that calls the API's handler, one call at a time."""
    client = SagaClient("https://x.execute-api.eu-central-1.amazonaws.com/prod")
    one_at_a_time = threading.Lock()

    def send(method: str, url: str, data: bytes, headers: Mapping[str, str]) -> Any:
        path, query = urlsplit(url).path.removeprefix("/prod"), parse_qsl(urlsplit(url).query, keep_blank_values=True)
        with one_at_a_time:
            key = headers.get("Idempotency-Key")
            return _Answer(site.send(request(method, path, data.decode() or None, key=key, **dict(query))))

    vars(transport_of(client))["_send"] = send
    return client


def transport_of(client: SagaClient) -> Any:
    return vars(client)["_transport"]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    DOWN.clear()


def outage(make: Make, payments: int, undos: int) -> tuple[Site, list[str], list[str]]:
    """Payments that failed, and then undos that failed."""
    site = make(Payment, Transfer)
    DOWN.update(("charge", "undo"))
    paid = [site.begin("payment") for _ in range(payments)]
    site.run(200 + 20 * payments)
    site.clock.advance(60)
    moved = [site.begin("transfer") for _ in range(undos)]
    site.run()
    assert {site.status(one) for one in paid} == {"DEAD_LETTERED"}
    assert [site.status(one) for one in moved] == ["COMPENSATION_FAILED"] * undos
    site.clock.advance(60)
    DOWN.clear()
    return site, paid, moved


def acted(site: Site, name: str, saga_ids: list[str]) -> list[str]:
    """Return the names of the jobs in the audit trails of sagas, each as often as it acted."""
    trails = [site.call("GET", f"/sagas/{name}/{saga_id}/audit").body["entries"] for saga_id in saga_ids]
    reasons = [str(entry["details"].get("reason", "")) for trail in trails for entry in trail]
    return [reason.split()[1].rstrip(":") for reason in reasons if reason.startswith("bulk ")]


def by_command(client: SagaClient, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Run each command that ``sagas attention`` prints. Return the numbers of sagas by the jobs' names."""
    monkeypatch.setattr(SagaClient, "local", lambda: client)
    printed = CliRunner().invoke(app, ["attention"]).stdout
    jobs = dict[str, int]()
    for line in printed.splitlines():
        if line.startswith("sagas "):
            result = CliRunner().invoke(app, [*shlex.split(line)[1:], "--yes", "--json", "--rate", "1000"])
            assert result.exit_code == 0, result.output
            report = json.loads(result.stdout)
            jobs[report["job"]] = report["done"]
    return jobs


def by_console(client: SagaClient, _monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Press the button of each group of the first page, likewise."""
    browser = Browser(client).open()  # type: ignore[arg-type]
    jobs = dict[str, int]()
    for section in re.findall(r"<section.*?</section>", browser.get("/").text, re.DOTALL):
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', section.split("<table", 1)[0])
        form = {name: html.unescape(value) for name, value in hidden}
        form |= {"do": "retry", "reason": "back", "count": form.get("number", "")}
        if "selection" in form:
            begun = browser.submit("/jobs", **form).headers["location"]
            told = wait_over(browser, begun, 120)
            jobs[begun.rpartition("/")[2]] = int(re.findall(r"done ([\d,]+)", told)[0].replace(",", ""))
        else:  # one saga has its button at once
            ((path, seq),) = set(re.findall(r'action="(/sagas/[^"]*/retry)".*?name="seq" value="(\d+)"', section))
            assert browser.submit(path, seq=seq, reason="bulk one: back").status_code == 303
            jobs["one"] = 1
    return jobs


@pytest.mark.parametrize("act", [by_command, by_console])
@pytest.mark.parametrize("payments", [5, pytest.param(110, marks=pytest.mark.slow)])
def test_many_failed_payments_and_then_one_failed_undo(
    site: Make, monkeypatch: pytest.MonkeyPatch, payments: int, act: Callable[..., dict[str, int]]
) -> None:
    s, paid, moved = outage(site, payments, 1)
    jobs = act(client_of(s), monkeypatch)
    assert sorted(jobs.values()) == [1, payments]
    assert [jobs[job] for job in {*acted(s, "payment", paid)}] == [payments]
    assert len(acted(s, "payment", paid)) == payments
    assert [jobs[job] for job in acted(s, "transfer", moved)] == [1]
    s.run(200 + 20 * payments)
    assert {s.status(one) for one in paid} == {"COMPLETED"}
    assert {s.status(one) for one in moved} == {"COMPENSATED"}


def job(client: SagaClient, action: str = "retry", **more: Any) -> Batch:
    chosen: dict[str, Any] = {"selection": usual(action, Selection(type="payment")), "reason": "back"} | more
    return Batch(client, action, rate=1.0, sleep=lambda _: None, folder=JobFolder(), **chosen)


def test_a_killed_job_goes_on_and_acts_on_nothing_twice(site: Make) -> None:
    s, paid, _ = outage(site, 6, 0)
    client = client_of(s)

    class Killed(BaseException):
        pass

    def kill(outcome: CallOutcome) -> None:
        raise Killed

    first = job(client)
    first.choose()
    with pytest.raises(Killed):
        first.run(kill)
    before = acted(s, "payment", paid)
    assert 0 < len(before) < 6
    DOWN.add("charge")  # those that were retried fail again, and so does a newcomer
    newcomer = s.begin("payment")
    s.run()
    DOWN.clear()
    s.clock.advance(60)
    assert len(client.attention("payment")["sagas"]) == 7
    record = JobFolder().read(first.job)
    assert not record.ended
    again = job(client, selection=record.selection, reason=record.reason, job=record.job)
    again.choose()
    assert again.run().counts["done"] == 6 - len(before)
    assert acted(s, "payment", paid) == [first.job] * 6
    assert acted(s, "payment", [newcomer]) == []


def test_two_jobs_over_one_incident_act_once_on_each(site: Make) -> None:
    s, paid, _ = outage(site, 6, 0)
    client = client_of(s)
    first, second = job(client), job(client)
    for one in (first, second):
        one.choose()
    first.run(most=2)
    assert second.run().counts == {"chosen": 6, "done": 4, "already": 2, "refused": 0, "failed": 0}
    assert first.run().counts == {"chosen": 6, "done": 2, "already": 4, "refused": 0, "failed": 0}
    assert len(acted(s, "payment", paid)) == 6


def test_a_rerun_that_is_repeated_starts_none_twice(site: Make) -> None:
    s, paid, _ = outage(site, 3, 0)
    client = client_of(s)
    for one in paid:
        assert s.call("POST", f"/sagas/payment/{one}/compensate", {"reason": "n"}).status == 202
    s.run()
    started = list[set[str]]()
    for _ in range(2):
        again = job(client, "rerun", job="night")
        again.choose()
        started.append({outcome.new for outcome in again.run().outcomes.values()})
    assert started[0] == started[1]
    assert len(s.call("GET", "/sagas", limit="100").body["sagas"]) == 6


def test_what_was_settled_by_hand_is_not_retried(site: Make) -> None:
    s, paid, _ = outage(site, 2, 0)
    client = client_of(s)
    client.resolve("payment", paid[0], "paid at the counter")
    one = job(client)
    one.choose()
    assert one.run().counts["done"] == 1
    assert s.status(paid[0]) == "DEAD_LETTERED"


def test_a_service_out_of_reach_stops_a_job_after_five(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    s, paid, _ = outage(site, 9, 0)
    client = client_of(s)
    one = job(client)
    one.choose()
    calls = list[str]()

    def away(method: str, url: str, data: bytes, headers: Mapping[str, str]) -> Any:
        calls.append(url)
        raise Unavailable("the API is out of reach", 0)

    with monkeypatch.context() as unplugged:
        unplugged.setattr(transport_of(client), "_send", away)
        report = one.run()
    assert (report.stopped, report.cause) == ("5 failures in a row", "the API is out of reach")
    assert len({*calls}) == 5
    one.choose()
    assert one.run().counts["done"] == 9
    assert len(acted(s, "payment", paid)) == 9
