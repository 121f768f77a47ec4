"""The operator's commands on the running stack: what they print, what they exit with, and what becomes of the sagas."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from functions.create_zip import CreateZip, CreateZipRequest
from sagas import SagaClient
from sagas.client import SagaView
from sagas.errors import Conflict, NotFound
from tests.e2e.stack import PACE, REPOSITORY, Stack, poll, run_sagas

pytestmark = pytest.mark.e2e

KEY = "sources/command-line/hello.txt"
PATIENCE = 100.0 * PACE


@dataclass(frozen=True)
class Desk:
    """An operator's place: the command, run in the stack's directory, and the client."""

    stack: Stack
    client: SagaClient

    def sagas(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``sagas`` to its end."""
        return self.stack.sagas(*arguments)

    def json(self, *arguments: str) -> Any:
        """Run ``sagas ... --json``, which must succeed, and return what it prints."""
        ended = self.sagas(*arguments, "--json")
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def request(self, key: str = KEY) -> CreateZipRequest:
        """A request for an archive of one object."""
        return CreateZipRequest(self.stack.description["outputs"]["ZipsBucket"], [key])

    def file(self, name: str, key: str = KEY) -> str:
        """Write such a request to a file and return its path."""
        path = self.stack.project / name
        path.write_text(json.dumps({"bucket": self.request().bucket, "keys": [key]}))
        return str(path)

    def status(self, saga: SagaView) -> str:
        """Return a saga's status now."""
        return self.client.show(saga["name"], saga["saga_id"])["status"]

    def waits_in_queue(self, saga: SagaView) -> bool:
        """Whether the saga's message has got into the dead-letter queue."""
        return any(letter.saga_id == saga["saga_id"] for letter in self.client.dead_letters("create-zip"))


@pytest.fixture
def desk(local_stack: Stack) -> Desk:
    bucket = local_stack.description["outputs"]["ZipsBucket"]
    local_stack.client("s3").put_object(Bucket=bucket, Key=KEY, Body=b"hello")
    return Desk(local_stack, local_stack.saga_client())


class Topic:
    """The topic that create-zip announces archives on."""

    def __init__(self, stack: Stack) -> None:
        self._sns = stack.client("sns")
        self._arn: str = stack.description["outputs"]["AnnounceTopicArn"]

    def delete(self) -> None:
        self._sns.delete_topic(TopicArn=self._arn)

    def restore(self) -> None:
        self._sns.create_topic(Name=self._arn.rpartition(":")[2])


@pytest.fixture
def topic(desk: Desk) -> Generator[Topic]:
    """The topic, gone for the moment. Before and after, an announcement succeeds: that closes the circuit breaker."""
    announce(desk)
    topic = Topic(desk.stack)
    topic.delete()
    yield topic
    topic.restore()
    announce(desk)


def announce(desk: Desk) -> None:
    started = desk.client.start(CreateZip, desk.request())
    assert desk.client.wait("create-zip", started["saga_id"], PATIENCE)["status"] == "COMPLETED"


@pytest.fixture
def dead(desk: Desk, topic: Topic) -> SagaView:
    """A saga whose last step used up its attempts, as the topic is gone."""
    started = desk.client.start(CreateZip, desk.request())
    saga = desk.client.wait("create-zip", started["saga_id"], PATIENCE)
    assert saga["status"] == "DEAD_LETTERED"
    return saga


class TestStart:
    def test_a_saga_that_completes_is_watched_to_exit_code_0(self, desk: Desk) -> None:
        ended = desk.sagas("start", "create-zip", "--file", desk.file("good.json"), "--watch")
        assert ended.returncode == 0, ended.stderr
        assert "step announce COMPLETED" in ended.stdout
        assert "saga COMPLETED" in ended.stdout

    def test_one_that_is_undone_exits_with_3_and_says_why(self, desk: Desk) -> None:
        ended = desk.sagas("start", "create-zip", "--file", desk.file("bad.json", "sources/none"), "--watch")
        assert ended.returncode == 3, ended.stderr
        assert "saga COMPENSATED" in ended.stdout
        assert "step check, attempt 1 failed: Rejected: there is no object 'sources/none'" in ended.stdout

    def test_one_that_waits_for_a_person_exits_with_3_and_says_what_to_do(self, desk: Desk, topic: Topic) -> None:
        ended = desk.sagas("start", "create-zip", "--file", desk.file("dead.json"), "--watch")
        assert ended.returncode == 3, ended.stderr
        assert "step announce, attempt 4 failed: NotFound" in ended.stdout
        assert "`sagas retry create-zip" in ended.stdout

    def test_the_same_key_starts_one_saga(self, desk: Desk) -> None:
        first, second = (
            desk.json("start", "create-zip", "--file", desk.file("keyed.json"), "--key", "command-line-1") for _ in "12"
        )
        assert first["saga_id"] == second["saga_id"]

    def test_a_request_that_does_not_fit_names_the_paths(self, desk: Desk) -> None:
        ended = desk.sagas("start", "checkout", "--file", desk.file("unfit.json"))
        assert (ended.returncode, ended.stdout) == (1, "")
        (line,) = ended.stderr.splitlines()
        assert "$.order_id: required field is missing" in line
        assert "$.keys: unknown field" in line

    def test_a_type_that_is_disabled_is_not_started(self, desk: Desk) -> None:
        event = str(REPOSITORY / "events" / "checkout.json")
        assert desk.json("disable", "checkout", "--reason", "stocktaking")["active"] is False
        refused = desk.sagas("start", "checkout", "--file", event)
        assert desk.json("enable", "checkout")["active"] is True
        assert refused.returncode == 1
        assert "starting checkout is disabled: stocktaking; try again in" in refused.stderr


class TestDeadLetters:
    def test_one_is_listed_and_redriven_to_completion(self, desk: Desk, topic: Topic, dead: SagaView) -> None:
        poll("dead letter", lambda: desk.waits_in_queue(dead), PATIENCE)
        letters = desk.json("dlq", "list", "create-zip")["dead_letters"]
        (letter,) = (letter for letter in letters if letter["saga_id"] == dead["saga_id"])
        assert (letter["saga"], letter["step"]) == ("create-zip", "announce")
        assert letter["receives"] > 4
        topic.restore()
        done = desk.json("dlq", "redrive", "create-zip", "--saga-id", dead["saga_id"], "--note", "topic is back")
        assert [moved["saga_id"] for moved in done["moved"]] == [dead["saga_id"]]
        saga = desk.client.wait("create-zip", dead["saga_id"], PATIENCE, after=dead["updated_at"])
        assert (saga["status"], saga["steps"][-1]["attempts"]) == ("COMPLETED", 5)
        (redriven,) = (e for e in desk.client.audit("create-zip", dead["saga_id"]) if e["action"] == "Redriven")
        assert redriven["details"]["note"] == "topic is back"
        assert redriven["actor"].startswith("arn:")
        assert not desk.waits_in_queue(dead)

    def test_all_of_a_type_are_redriven_at_once(self, desk: Desk, topic: Topic, dead: SagaView) -> None:
        poll("dead letter", lambda: desk.waits_in_queue(dead), PATIENCE)
        topic.restore()
        done = desk.json("dlq", "redrive", "create-zip")
        # In an account SQS moves them itself, and says nothing of each.
        assert done["task"] or dead["saga_id"] in [letter["saga_id"] for letter in done["moved"]]
        saga = desk.client.wait("create-zip", dead["saga_id"], PATIENCE, after=dead["updated_at"])
        assert saga["status"] == "COMPLETED"

    def test_one_that_nobody_needs_any_more_is_dropped(self, desk: Desk, topic: Topic, dead: SagaView) -> None:
        prune = ("dlq", "prune", "create-zip", "--saga-id", dead["saga_id"])
        poll("dead letter", lambda: desk.waits_in_queue(dead), PATIENCE)
        assert [kept["why"] for kept in desk.json(*prune)["kept"]] == ["the saga waits for you"]
        topic.restore()
        assert desk.sagas("retry", "create-zip", dead["saga_id"], "--watch").returncode == 0
        told = desk.sagas(*prune, "--dry-run")
        assert told.stdout.splitlines() == [
            f"create-zip {dead['saga_id']}, step announce: would be dropped.", "1 would be dropped, 0 stay.",
        ]  # fmt: skip
        assert [letter["saga_id"] for letter in desk.json(*prune)["dropped"]] == [dead["saga_id"]]
        assert not desk.waits_in_queue(dead)

    def test_one_that_is_not_there_is_an_error(self, desk: Desk) -> None:
        ended = desk.sagas("dlq", "redrive", "checkout", "--saga-id", "01a1fd82-30a8-780f-adb2-367c651cfde6")
        assert ended.returncode == 1
        assert "the dead-letter queue of checkout holds no message" in ended.stderr


class TestOperating:
    def test_retry_goes_on_at_the_failed_step(self, desk: Desk, topic: Topic, dead: SagaView) -> None:
        topic.restore()
        ended = desk.sagas("retry", "create-zip", dead["saga_id"], "--note", "topic is back", "--watch")
        assert ended.returncode == 0, ended.stdout
        steps = desk.client.show("create-zip", dead["saga_id"])["steps"]
        assert [step["attempts"] for step in steps] == [1, 1, 5]
        (redriven,) = (e for e in desk.client.audit("create-zip", dead["saga_id"]) if e["action"] == "Redriven")
        assert redriven["details"]["note"] == "topic is back"

    def test_compensate_gives_up_and_undoes(self, desk: Desk, dead: SagaView) -> None:
        desk.json("compensate", "create-zip", dead["saga_id"], "--note", "not wanted any more")
        saga = desk.client.wait("create-zip", dead["saga_id"], PATIENCE)
        assert saga["status"] == "COMPENSATED"
        assert {step["name"]: step["status"] for step in saga["steps"]}["upload"] == "COMPENSATED"

    def test_resolve_takes_it_off_the_attention_list(self, desk: Desk, dead: SagaView) -> None:
        assert self.attention(desk)[dead["saga_id"]].startswith("step announce used up its attempts")
        resolved = desk.json("resolve", "create-zip", dead["saga_id"], "--note", "told them", "--action", "by mail")
        assert (resolved["resolution"]["note"], resolved["resolution"]["action"]) == ("told them", "by mail")
        assert dead["saga_id"] not in self.attention(desk)

    def attention(self, desk: Desk) -> dict[str, str]:
        return {saga["saga_id"]: saga["why"] for saga in desk.json("attention", "--limit", "100")["sagas"]}

    def test_cancel_undoes_what_waits(self, desk: Desk, dead: SagaView) -> None:
        assert desk.sagas("cancel", "create-zip", dead["saga_id"]).returncode == 0
        poll("cancelled", lambda: desk.status(dead) == "CANCELLED", PATIENCE)

    def test_what_the_state_does_not_allow_is_told(self, desk: Desk) -> None:
        saga = desk.client.start(CreateZip, desk.request())
        desk.client.wait("create-zip", saga["saga_id"], PATIENCE)
        ended = desk.sagas("cancel", "create-zip", saga["saga_id"])
        assert (ended.returncode, ended.stderr) == (1, "sagas: the saga is COMPLETED\n")
        with pytest.raises(Conflict, match="the saga is COMPLETED"):
            desk.client.retry("create-zip", saga["saga_id"])


class TestReading:
    def test_show_list_and_audit_tell_of_one_saga(self, desk: Desk) -> None:
        saga_id: str = desk.client.start(CreateZip, desk.request())["saga_id"]
        desk.client.wait("create-zip", saga_id, PATIENCE)
        assert desk.json("show", "create-zip", saga_id)["status"] == "COMPLETED"
        assert saga_id in [saga["saga_id"] for saga in desk.json("list", "--name", "create-zip")["sagas"]]
        entries = desk.json("audit", "create-zip", saga_id)["entries"]
        assert [entry["action"] for entry in entries] == ["SagaStarted", *["StepCompleted"] * 3]
        assert f"create-zip {saga_id} COMPLETED" in desk.sagas("show", "create-zip", saga_id).stdout

    def test_one_is_found_by_its_id_alone_or_how_that_begins(self, desk: Desk) -> None:
        saga = desk.client.start(CreateZip, desk.request())
        desk.client.wait("create-zip", saga["saga_id"], timeout=PATIENCE)
        for told in ([saga["saga_id"]], [saga["saga_id"][:30]], ["create-zip", saga["saga_id"][:30]]):
            assert desk.json("show", *told)["saga_id"] == saga["saga_id"]
        assert desk.client.look_up(saga["saga_id"])["name"] == "create-zip"

    def test_top_counts(self, desk: Desk) -> None:
        saga = desk.client.start(CreateZip, desk.request())
        desk.client.wait("create-zip", saga["saga_id"], timeout=PATIENCE)
        top = desk.sagas("top")
        assert top.returncode == 0, top.stderr
        assert "create-zip" in top.stdout

    def test_definitions(self, desk: Desk) -> None:
        assert {saga["name"] for saga in desk.json("definitions")["definitions"]} == {
            "create-zip",
            "checkout",
            "approval",
            "basket",
            "parcel",
        }

    def test_what_is_not_there_is_not_found(self, desk: Desk) -> None:
        with pytest.raises(NotFound):
            desk.client.show("create-zip", "01a1fd82-30a8-780f-adb2-367c651cfde6")
        assert desk.sagas("show", "no-such-saga", "1").returncode == 1

    def test_elsewhere_no_stack_is_running(self, desk: Desk, tmp_path: Path) -> None:
        ended = run_sagas(tmp_path, "list")
        assert (ended.returncode, ended.stderr) == (
            1, "sagas: no local stack is running here; `sagas local up` starts one\n",
        )  # fmt: skip


@pytest.fixture
def named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The options that name the stack, on an emulator as in an account, where they are always given."""
    endpoint = desk.stack.description["endpoint_url"]
    if endpoint is None:
        return []
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    return ["--stack", "Sagas", "--region", desk.stack.description["region"]]


class TestSupervising:
    """As on the local stack, so on one that is named."""

    def test_recovers_now(self, desk: Desk, named: list[str]) -> None:
        for where in ([], named):
            report = desk.json("recover", "--stale-after", "3600", *where)
            assert (report["failed"], report["left"]) == (0, 0)

    def test_sweeps_now(self, desk: Desk, named: list[str]) -> None:
        for where in ([], named):
            report = desk.json("sweep", "create-zip", "--dry-run", *where)
            assert (report["saga"], report["prefix"], report["finished"]) == ("create-zip", "create-zip/", True)
            refused = desk.sagas("sweep", "checkout", *where)
            assert (refused.returncode, refused.stdout) == (1, "")
            # The emulator does not say which error it was, as Lambda does, but only its text.
            assert refused.stderr.endswith("saga 'checkout' declares no orphans to sweep\n")


def test_a_stack_that_is_named_is_found_with_api_and_queues(desk: Desk, named: list[str]) -> None:
    names = {saga["name"] for saga in desk.json("definitions", *named)["definitions"]}
    assert names == {"create-zip", "checkout", "approval", "basket", "parcel"}
    assert desk.json("dlq", "list", "checkout", *named) == {"dead_letters": []}


@pytest.mark.emulated("in an account `sagas local` has no stack")
def test_a_tick_recovers_the_local_stack(desk: Desk) -> None:
    ended = desk.sagas("local", "tick", "--stale-after", "3600")
    assert (ended.returncode, ended.stdout.splitlines()[0].split()[-1]) == (0, "failed")
