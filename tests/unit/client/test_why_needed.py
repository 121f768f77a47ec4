"""Which dead letters are pruned: only those that nobody needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from sagas.client import AuditEntry, SagaClient, SagaView
from sagas.client.operate.dead_letters import DeadLetter, DeadLetterQueue, why_needed
from sagas.errors import NotFound, Unavailable
from tests.unit.client.stub import BEGAN, a_saga

ENDED = ["COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED"]
UNDER_WAY = ["PENDING", "RUNNING", "WAITING", "COMPENSATING"]


@dataclass
class Sagas(SagaClient):
    """Sagas by id: their states, the later ones from the second look on, and the numbers of their dead messages."""

    states: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    deaths: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])

    def show(self, type: str, saga_id: str) -> SagaView:
        found = self.states.get(saga_id)
        if found is None:
            raise NotFound("there is no such saga")
        return cast("SagaView", found.pop(0) if len(found) > 1 else found[0])

    def audit(self, type: str, saga_id: str) -> Iterator[AuditEntry]:
        for details in self.deaths.get(saga_id, ()):
            yield cast("AuditEntry", {"action": "StepFailed", "details": {"dispatch": 99, "hops": 0}})
            yield cast("AuditEntry", {"action": "StepDeadLettered", "details": details})


def _letter(dispatch: int = 3, hops: int = 0, saga_id: str = "one") -> DeadLetter:
    return DeadLetter("zip", saga_id, "upload", f"m-{saga_id}-{dispatch}", 5, BEGAN, (dispatch, hops))


def _dead(dispatch: int, hops: int = 0) -> dict[str, Any]:
    return {"dispatch": dispatch, "hops": hops, "message_id": "any"}


def _why(sagas: Sagas, letter: DeadLetter | None = None) -> str:
    return why_needed(sagas, letter or _letter())


@pytest.mark.parametrize("status", ENDED)
def test_nobody_needs_a_message_of_a_saga_that_is_over(status: str) -> None:
    assert _why(Sagas({"one": [a_saga(status)]})) == ""


@pytest.mark.parametrize("status", UNDER_WAY)
def test_nor_one_that_died_of_a_saga_that_went_on(status: str) -> None:
    assert _why(Sagas({"one": [a_saga(status)]}, {"one": [_dead(3)]})) == ""


@pytest.mark.parametrize("status", UNDER_WAY)
@pytest.mark.parametrize("deaths", [[], [_dead(2)], [_dead(2, hops=7)]])
def test_one_that_throttling_brought_there_may_be_needed(status: str, deaths: list[dict[str, Any]]) -> None:
    assert _why(Sagas({"one": [a_saga(status)]}, {"one": deaths})) == f"the saga is {status}, and may need it"


@pytest.mark.parametrize(("dispatch", "hops"), [(3, 0), (3, 1), (4, 0)])
def test_the_one_that_waits_stays(dispatch: int, hops: int) -> None:
    sagas = Sagas({"one": [a_saga("DEAD_LETTERED")]}, {"one": [_dead(1), _dead(3)]})
    assert _why(sagas, _letter(dispatch, hops)) == "the saga waits for an operator"


def test_an_earlier_one_of_a_saga_that_died_again_goes() -> None:
    sagas = Sagas({"one": [a_saga("DEAD_LETTERED")]}, {"one": [_dead(3), _dead(5, hops=2)]})
    assert (_why(sagas), _why(sagas, _letter(5, 1))) == ("", "")
    assert _why(sagas, _letter(5, 2)) == "the saga waits for an operator"


def test_one_whose_code_is_gone_stays() -> None:
    gone = {"error": {"type": "CodeGone", "message": ""}}
    assert (
        _why(Sagas({"one": [a_saga("DEAD_LETTERED")]}, {"one": [_dead(2), gone]})) == "the saga waits for an operator"
    )


def test_one_of_a_saga_that_an_operator_settled_goes() -> None:
    settled = a_saga("DEAD_LETTERED", resolution={"by": "ann", "at": BEGAN, "reason": "done by hand", "action": ""})
    assert _why(Sagas({"one": [settled]}, {"one": [_dead(3)]})) == ""


def test_a_saga_that_dies_while_it_is_looked_at_keeps_its_message() -> None:
    """Under way at the first look; what died since is not in the trail that was read."""
    sagas = Sagas({"one": [a_saga("RUNNING"), a_saga("DEAD_LETTERED")]}, {"one": [_dead(2)]})
    assert _why(sagas) == "the saga waits for an operator"


def test_what_belongs_to_no_saga_stays() -> None:
    assert _why(Sagas()) == "its saga does not exist"
    for stranger in (DeadLetter("", "", "", "m", 1, BEGAN), DeadLetter("zip", "one", "upload", "m", 1, BEGAN)):
        assert _why(Sagas({"one": [a_saga("COMPLETED")]}), stranger) == "it is not a message of a saga"


class Queue:
    """A dead-letter queue with a message of each kind."""

    def __init__(self, sqs: Any) -> None:
        self._sqs = sqs
        self.url: str = self._sqs.create_queue(QueueName="dead")["QueueUrl"]
        self.queue = DeadLetterQueue(self._sqs, self.url)

    def send(self, saga_id: str, dispatch: int) -> None:
        body = f'{{"saga":"zip","saga_id":"{saga_id}","step":"upload","dispatch":{dispatch},"hops":0}}'
        self._sqs.send_message(QueueUrl=self.url, MessageBody=body)

    def visible(self) -> set[str]:
        """Return whose messages others can see now."""
        answer = self._sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10, VisibilityTimeout=0)
        return {message["Body"].split('"')[7] for message in answer.get("Messages", [])}


@pytest.fixture
def queue(sqs: Any) -> Queue:
    made = Queue(sqs)
    for saga_id in ("over", "waits", "settled"):
        made.send(saga_id, 3)
    return made


def _why_of(letter: DeadLetter) -> str:
    return "it waits" if letter.saga_id == "waits" else ""


def test_what_is_dropped_is_gone_and_the_rest_visible_at_once(queue: Queue) -> None:
    done = queue.queue.prune(_why_of, None, dry_run=False)
    assert {letter.saga_id for letter in done.stale} == {"over", "settled"}
    assert [(kept.letter.saga_id, kept.why, kept.letter.number) for kept in done.kept] == [
        ("waits", "it waits", (3, 0))
    ]
    assert queue.visible() == {"waits"}


def test_a_dry_run_deletes_nothing(queue: Queue) -> None:
    done = queue.queue.prune(_why_of, None, dry_run=True)
    assert (done.dry_run, {letter.saga_id for letter in done.stale}) == (True, {"over", "settled"})
    assert queue.visible() == {"over", "waits", "settled"}


def test_of_one_saga_only_its_own(queue: Queue) -> None:
    done = queue.queue.prune(_why_of, "over", dry_run=False)
    assert ([letter.saga_id for letter in done.stale], done.kept) == (["over"], ())
    assert queue.visible() == {"waits", "settled"}


def test_where_the_sagas_cannot_be_read_the_rest_stays_visible(queue: Queue) -> None:
    def unreadable(letter: DeadLetter) -> str:
        raise Unavailable("out of reach")

    with pytest.raises(Unavailable):
        queue.queue.prune(unreadable, None, dry_run=False)
    assert queue.visible() == {"over", "waits", "settled"}
