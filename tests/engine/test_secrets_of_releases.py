"""What one release hides stays hidden, whatever later ones declare."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from sagas import Saga, Secret, children, step, wait_for
from sagas.core.ids import child_id
from tests.support.bench import Bench, Make
from tests.support.sagas import ONCE

IBAN, TOKEN, PIN = "DE00 1234", "s3cr3t-token", "pin-4711"


@dataclass(frozen=True)
class Person:
    name: str
    iban: Secret[str]


@dataclass(frozen=True)
class Anybody:
    name: str
    iban: str


@dataclass(frozen=True)
class Answer:
    pin: Secret[str]
    yes: bool = True


@dataclass(frozen=True)
class OpenAnswer:
    pin: str
    yes: bool = True


class First(Saga[Person], name="payout"):
    """The first release hides a part of its request, a result and a part of a signal."""

    @step
    def make(self, request: Person) -> Secret[str]:
        return TOKEN

    answer = wait_for(Answer, timeout=timedelta(days=1))

    @step(retry=ONCE)
    def pay(self, request: Person, make: str, answer: Answer) -> str:
        return "paid"


class Second(Saga[Anybody], name="payout"):
    """The second hides nothing, and its code puts all that it knows into an error."""

    @step
    def make(self, request: Anybody) -> str:
        return TOKEN

    answer = wait_for(OpenAnswer, timeout=timedelta(days=1))

    @step(retry=ONCE)
    def pay(self, request: Anybody, make: str, answer: OpenAnswer) -> str:
        raise RuntimeError(f"{request.name} {request.iban} {make} {answer.pin}")


@dataclass(frozen=True)
class Holder:
    name: str
    account: Secret[str] = ""


class Renamed(Saga[Holder], name="payout"):
    """The field of the request has another name, and other steps are gone."""

    @step
    def pay(self, request: Holder) -> str:
        return "paid"


class Fewer(Saga[Anybody], name="payout"):
    """What had secrets is gone, so that nothing of the type is hidden."""

    @step
    def pay(self, request: Anybody) -> str:
        return "paid"


class Family(Saga[Anybody], name="family"):
    """Its own types hide nothing."""

    @children(First)
    def payouts(self, request: Anybody) -> list[Person]:
        return [Person("Ada", IBAN), Person("Bob", IBAN)]

    @step
    def close(self, payouts: list[str]) -> str:
        return f"{len(payouts)} payouts"


class Keeping(Saga[Anybody], name="keeping", result="keep"):
    """A child whose result has a secret."""

    @step
    def keep(self, request: Anybody) -> Answer:
        return Answer(PIN)

    @step
    def tell(self, request: Anybody) -> None: ...


class OpenKeeping(Saga[Anybody], name="keeping", result="keep"):
    """The same, without one."""

    @step
    def keep(self, request: Anybody) -> OpenAnswer:
        return OpenAnswer(PIN)

    tell = Keeping.tell


class Other(Saga[Anybody], name="other"):
    """A child of another type, without secrets."""

    @step
    def keep(self, request: Anybody) -> OpenAnswer:
        return OpenAnswer("open")


def keeper(*types: Any) -> Any:
    """A parent of children of these types."""

    class Keeper(Saga[Anybody], name="keeper"):
        @children(*types)
        def kept(self, request: Anybody) -> Any:
            return [request, request] if len(types) == 1 else (request,) * len(types)

        @step
        def close(self, request: Anybody) -> None: ...

    return Keeper


@pytest.fixture(params=[True, False], ids=["carried", "read"])
def begun(request: pytest.FixtureRequest, bench: Make) -> tuple[Bench, str]:
    """A saga of the first release that has its request, a result and a signal, and whether messages carry these."""
    b = bench(First, carry=request.param)
    saga_id = b.start("payout", {"name": "Ada", "iban": IBAN})
    b.deliver("payout", "make")
    b.engine.signals.send("payout", saga_id, "answer", {"pin": PIN, "yes": True}, "ann")
    return b, saga_id


def known(b: Bench, saga_id: str, name: str = "payout") -> str:
    """Everything that the API shows of a saga, as text."""
    trail, _ = b.engine.reader.audit(name, saga_id, 100, 0)
    return json.dumps([b.show(saga_id), trail, b.engine.reader.list([name], None, 10, None)])


def test_a_later_release_neither_shows_nor_journals_them(begun: tuple[Bench, str]) -> None:
    b, saga_id = begun
    b.engine = b.deploy(Second)
    b.run()
    shown = b.show(saga_id)
    assert shown["request"] == {"name": "Ada", "iban": "***"}
    assert [each["result"] for each in shown["steps"]] == ["***", {"pin": "***", "yes": True}, None]
    assert shown["redacted"] == ["$.request", "$.steps[0].result", "$.steps[1].result"]
    assert shown["error"]["message"] == "Ada *** *** ***"
    assert not [secret for secret in (IBAN, TOKEN, PIN) if secret in known(b, saga_id)]


@pytest.mark.parametrize("later", [Renamed, Fewer])
def test_what_a_later_release_renames_or_removes_stays_hidden(begun: tuple[Bench, str], later: type[Any]) -> None:
    b, saga_id = begun
    b.run()
    b.engine = b.deploy(later)
    shown = b.show(saga_id)
    assert (shown["status"], shown["request"]) == ("COMPLETED", {"name": "Ada", "iban": "***"})
    assert [each["result"] for each in shown["steps"]] == ["***", {"pin": "***", "yes": True}, "paid"]
    assert not [secret for secret in (IBAN, TOKEN, PIN) if secret in known(b, saga_id)]


def test_what_a_later_release_hides_is_hidden_in_older_sagas(bench: Make) -> None:
    b = bench(Second)
    saga_id = b.start("payout", {"name": "Ada", "iban": IBAN})
    b.deliver("payout", "make")
    assert b.show(saga_id)["steps"][0]["result"] == TOKEN
    b.engine = b.deploy(First)
    shown = b.show(saga_id)
    assert (shown["request"]["iban"], shown["steps"][0]["result"]) == ("***", "***")


def test_the_paths_are_in_the_entry_that_has_the_value(begun: tuple[Bench, str]) -> None:
    b, saga_id = begun
    b.engine = b.deploy(Second)
    b.run()
    hidden = [entry.hidden for entry in b.engine.journal.history(saga_id)]
    assert [paths for paths in hidden if paths] == [(("iban",),), ((),), (("pin",),)]


def test_results_of_children_keep_their_paths_in_the_join(bench: Make) -> None:
    b = bench(keeper(Keeping), Keeping)
    saga_id = b.start("keeper", {"name": "Ada", "iban": IBAN})
    b.deliver("keeper", "kept")
    b.end_waits()
    b.deliver("keeping", "keep")
    b.engine = b.deploy(keeper(OpenKeeping), OpenKeeping)
    b.run()
    shown = b.show(saga_id)
    assert shown["steps"][0]["result"] == [{"pin": "***", "yes": True}] * 2
    assert PIN not in known(b, saga_id, "keeper")
    assert b.state(child_id(saga_id, "kept", 1)).status.value == "COMPLETED"


def test_so_they_do_by_their_places_where_their_types_differ(bench: Make) -> None:
    b = bench(keeper(Keeping, Other), Keeping, Other)
    saga_id = b.start("keeper", {"name": "Ada", "iban": IBAN})
    b.deliver("keeper", "kept")
    b.end_waits()
    b.deliver("keeping", "keep")
    b.engine = b.deploy(keeper(OpenKeeping, Other), OpenKeeping, Other)
    b.run()
    assert b.show(saga_id)["steps"][0]["result"] == [{"pin": "***", "yes": True}, {"pin": "open", "yes": True}]


def test_a_purged_saga_names_what_was_hidden(begun: tuple[Bench, str]) -> None:
    b, saga_id = begun
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    b.engine = b.deploy(Second)
    b.clock.advance(3_600)
    b.engine.purger.purge("payout", saga_id, "asked", "ann")
    shown = b.engine.reader.show("payout", saga_id)
    assert "redacted" in shown
    assert (shown["request"], shown["redacted"]) == (None, ["$.request", "$.steps[0].result", "$.steps[1].result"])


def test_types_without_secrets_store_nothing_of_it(bench: Make) -> None:
    b = bench(Second)
    saga_id = b.start("payout", {"name": "Ada", "iban": IBAN})
    b.engine.signals.send("payout", saga_id, "answer", {"pin": PIN, "yes": True}, "ann")
    b.run()
    assert not [entry for entry in b.engine.journal.history(saga_id) if "hidden" in entry.details]
    assert "redacted" not in b.show(saga_id)
