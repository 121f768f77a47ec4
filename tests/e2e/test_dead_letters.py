"""Dead letters and the sagas that wait for an operator, by the command: what it prints, and what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest

from sagas.client import SagaView
from sagas.errors import Conflict
from tests.e2e.desk import Desk
from tests.e2e.stack import PACE, Stack, poll

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PATIENCE = 100.0 * PACE
MANY = 8
FAILS_TWICE = {"mood": "fail", "executions": 2}
"""The request of a saga that is dead-lettered, and succeeds when it is retried."""


class Pool:
    """Dead-lettered sagas, made together: each takes its retries to fail.

    Args:
        desk: an operator's.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._sagas: list[SagaView] = []

    def take(self) -> SagaView:
        """Return a saga whose message is in the dead-letter queue, and which no other test has."""
        if not self._sagas:
            self._make()
        return self._sagas.pop()

    def rest(self) -> list[SagaView]:
        """Return all that are left, at least one."""
        sagas = [self.take(), *self._sagas]
        self._sagas = []
        return sagas

    def _make(self) -> None:
        client = self._desk.client
        started = [client.start("waiting", FAILS_TWICE) for _ in range(MANY)]
        self._sagas = [client.wait("waiting", saga["saga_id"], PATIENCE) for saga in started]
        assert {saga["status"] for saga in self._sagas} == {"DEAD_LETTERED"}
        ids = {saga["saga_id"] for saga in self._sagas}
        poll("their messages", lambda: ids <= in_queue(self._desk), PATIENCE)


def in_queue(desk: Desk) -> set[str]:
    """Return the ids of the sagas whose messages are in the dead-letter queue."""
    return {letter.saga_id for letter in desk.client.dead_letters("waiting")}


@pytest.fixture(scope="module")
def desk(trials: Stack) -> Desk:
    return Desk(trials, trials.saga_client())


@pytest.fixture(scope="module")
def pool(desk: Desk) -> Generator[Pool]:
    """Dead-lettered sagas; of none of them anything is left in the end."""
    pool = Pool(desk)
    yield pool
    for saga in desk.client.list(type="waiting", status="DEAD_LETTERED", limit=100)["sagas"]:
        desk.client.cancel("waiting", saga["saga_id"])
    queue = desk.stack.description["dead_letter_queues"]["waiting"]
    desk.stack.client("sqs").purge_queue(QueueUrl=queue)
    poll("an empty queue", lambda: not in_queue(desk))


@pytest.fixture
def dead(pool: Pool) -> SagaView:
    """A saga whose last step used up its attempts."""
    return pool.take()


class TestStart:
    def test_one_that_waits_for_a_person_exits_with_3_and_says_what_to_do(self, desk: Desk, pool: Pool) -> None:
        path = desk.stack.project / "dead.json"
        path.write_text(json.dumps(FAILS_TWICE))
        ended = desk.sagas("start", "waiting", "--file", str(path), "--watch")
        assert ended.returncode == 3, ended.stderr
        assert "step act, attempt 2 failed: RuntimeError: as was asked for" in ended.stdout
        assert "`sagas retry waiting" in ended.stdout


class TestDeadLetters:
    def test_one_is_listed(self, desk: Desk, dead: SagaView) -> None:
        letters = desk.json("dlq", "list", "waiting")["dead_letters"]
        (letter,) = (letter for letter in letters if letter["saga_id"] == dead["saga_id"])
        assert (letter["saga"], letter["step"]) == ("waiting", "act")
        assert letter["receives"] > 2

    def test_all_of_a_type_are_redriven_at_once(self, desk: Desk, pool: Pool) -> None:
        sagas = pool.rest()
        assert desk.json("dlq", "redrive", "waiting")["task"]
        for saga in sagas:
            ended = desk.client.wait("waiting", saga["saga_id"], PATIENCE, after=saga["updated_at"])
            assert (ended["status"], ended["steps"][-1]["attempts"]) == ("COMPLETED", 3)
        assert not in_queue(desk) & {saga["saga_id"] for saga in sagas}

    def test_one_that_nobody_needs_any_more_is_dropped(self, desk: Desk, dead: SagaView) -> None:
        prune = ("dlq", "delete", "waiting", "--stale")
        kept = {kept["letter"]["saga_id"]: kept["why"] for kept in desk.json(*prune)["kept"]}
        assert kept[dead["saga_id"]] == "the saga waits for an operator"
        desk.client.retry("waiting", dead["saga_id"])  # the call of the API alone
        desk.client.wait("waiting", dead["saga_id"], PATIENCE, after=dead["updated_at"])
        told = desk.sagas(*prune, "--dry-run")
        assert f"waiting {dead['saga_id']}, step act: would be deleted." in told.stdout.splitlines()
        assert dead["saga_id"] in [letter["saga_id"] for letter in desk.json(*prune)["stale"]]
        assert dead["saga_id"] not in in_queue(desk)


class TestOperating:
    def test_retry_goes_on_at_the_failed_step(self, desk: Desk, dead: SagaView) -> None:
        ended = desk.sagas("retry", "waiting", dead["saga_id"], "--reason", "it is back", "--watch")
        assert ended.returncode == 0, ended.stdout
        steps = desk.client.show("waiting", dead["saga_id"])["steps"]
        assert [step["attempts"] for step in steps] == [1, 3]
        (redriven,) = (e for e in desk.client.audit("waiting", dead["saga_id"]) if e["action"] == "SagaRetried")
        assert redriven["details"]["reason"] == "it is back"
        assert dead["saga_id"] not in in_queue(desk)

    def test_compensate_gives_up_and_undoes(self, desk: Desk, dead: SagaView) -> None:
        desk.json("compensate", "waiting", dead["saga_id"], "--reason", "not wanted any more")
        saga = desk.client.wait("waiting", dead["saga_id"], PATIENCE)
        assert saga["status"] == "COMPENSATED"
        assert {step["name"]: step["status"] for step in saga["steps"]}["begin"] == "COMPENSATED"

    def test_resolve_takes_it_off_the_attention_list(self, desk: Desk, dead: SagaView) -> None:
        assert self.attention(desk)[dead["saga_id"]].startswith("step act used up its attempts")
        resolved = desk.json("resolve", "waiting", dead["saga_id"], "--reason", "told them", "--action", "by mail")
        assert (resolved["resolution"]["reason"], resolved["resolution"]["action"]) == ("told them", "by mail")
        assert dead["saga_id"] not in self.attention(desk)

    def attention(self, desk: Desk) -> dict[str, str]:
        return {
            saga["saga_id"]: saga["attention"]["reason"]
            for saga in desk.json("attention", "--sagas", "--limit", "100")["sagas"]
        }

    def test_cancel_undoes_what_waits(self, desk: Desk, dead: SagaView) -> None:
        assert desk.sagas("cancel", "waiting", dead["saga_id"]).returncode == 0
        ended = desk.client.wait("waiting", dead["saga_id"], PATIENCE, after=dead["updated_at"])
        assert ended["status"] == "CANCELLED"

    def test_what_the_state_does_not_allow_is_told(self, desk: Desk) -> None:
        saga = desk.client.start("compensating", {})
        desk.client.wait("compensating", saga["saga_id"], PATIENCE)
        ended = desk.sagas("cancel", "compensating", saga["saga_id"])
        assert (ended.returncode, ended.stderr) == (1, "sagas: the saga is COMPLETED\n")
        with pytest.raises(Conflict, match="the saga is COMPLETED"):
            desk.client.retry("compensating", saga["saga_id"])
