"""``sagas dlq``."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from sagas.client import DeadLetter
from sagas.client.operate.dead_letters import Pruned
from tests.unit.cli.conftest import Run
from tests.unit.client.stub import BEGAN, SAGA_ID


class TestDeadLetters:
    """What a queue of the stub holds; SQS's own answers are tested with the client."""

    LETTER = DeadLetter(
        "",
        "",
        "",
        "m-12",
        15,
        BEGAN,
        None,
        "no \x1b[31mJSON",
        {"who": "x"},
        "arn:aws:sqs:r:1:q",
        "the message's body is not JSON",
    )

    @pytest.fixture(autouse=True)
    def queue(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def letters(*_: object) -> list[DeadLetter]:
            return [self.LETTER]

        monkeypatch.setattr("sagas.client.SagaClient.dead_letters", letters)

    def test_are_listed_with_the_reason(self, run: Run) -> None:
        assert "the message's body is not JSON" in run("dlq", "list", "create-zip").stdout
        (one,) = json.loads(run("dlq", "list", "create-zip", "--json").stdout)["dead_letters"]
        assert (one["reason"], "body" in one) == ("the message's body is not JSON", False)

    def test_half_a_character_in_one_stops_no_command(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        letter = replace(self.LETTER, saga="create-zip", saga_id="\ud800", number=(1, 0), reason="")

        def letters(*_: object) -> list[DeadLetter]:
            return [letter]

        monkeypatch.setattr("sagas.client.SagaClient.dead_letters", letters)
        (one,) = json.loads(run("dlq", "list", "create-zip", "--json").stdout)["dead_letters"]
        assert one["saga_id"] == "\ud800"
        assert "m-12" in run("dlq", "list", "create-zip").stdout
        assert "message m-12" in run("dlq", "show", "create-zip").stdout
        assert "stays: its saga does not exist" in run("dlq", "delete", "create-zip", "m-12", "--yes").output

    def test_are_listed_in_80_columns(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "80")):  # as on a terminal
            monkeypatch.setenv(name, value)
        message = "5298ae8f-7c74-4674-8880-f5d740e53341"
        letter = replace(self.LETTER, saga="a-long-name-of-a-type", saga_id=SAGA_ID, step="ship", message_id=message)

        def letters(*_: object) -> list[DeadLetter]:
            return [letter, self.LETTER]

        monkeypatch.setattr("sagas.client.SagaClient.dead_letters", letters)
        told = run("dlq", "list", "create-zip").stdout
        lines = [re.sub("\x1b\\[[0-9;]*m", "", line).rstrip() for line in told.splitlines()]
        assert all(len(line) <= 80 for line in lines)
        assert lines[0].split()[:3] == ["message", "id", "step"]
        assert lines[1].split()[:3] == [message[:8], SAGA_ID[:8], "ship"]
        assert lines[2].split()[:3] == ["m-12", "?", "?"]
        wide = re.sub("\x1b\\[[0-9;]*m", "", run("dlq", "list", "create-zip", "--wide").stdout)
        assert f"{message}  {SAGA_ID}  a-long-name-of-a-type" in wide

    def test_are_shown_whole(self, run: Run) -> None:
        told = run("dlq", "show", "create-zip", "m-1").stdout
        assert told.splitlines()[0] == "message m-12: not a message of a saga"
        for part in (
            "received 15 times",
            "from arn:aws:sqs:r:1:q",
            "unreadable because the message's body",
            "who: x",
            "no  [31mJSON",
        ):
            assert part in told
        assert (
            json.loads(run("dlq", "show", "create-zip", "--json").stdout)["dead_letters"][0]["body"] == self.LETTER.body
        )
        assert run("dlq", "show", "create-zip", "z").exit_code == 1

    def test_are_deleted_once_one_says_so(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = list[tuple[Any, ...]]()

        def delete(_client: object, *which: Any) -> DeadLetter:
            asked.append(which)
            return self.LETTER

        monkeypatch.setattr("sagas.client.SagaClient.delete_letter", delete)
        assert run("dlq", "delete", "create-zip", "m-12", text="n\n").exit_code == 1
        assert asked == []
        assert run("dlq", "delete", "create-zip", "m-12", text="y\n").exit_code == 0
        assert run("dlq", "delete", "create-zip", "m-12", "--yes").stdout == "Deleted message m-12.\n"
        assert asked == [("create-zip", "m-12")] * 2
        assert run("dlq", "delete", "create-zip", "z", "--yes").exit_code == 1

    def test_are_moved_back_by_sqs(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = list[str]()

        def redrive(_client: object, name: str) -> str:
            asked.append(name)
            return "handle"

        monkeypatch.setattr("sagas.client.SagaClient.redrive", redrive)
        assert (
            run("dlq", "redrive", "create-zip").stdout == "SQS moves the messages of create-zip back to their queues.\n"
        )
        assert json.loads(run("dlq", "redrive", "create-zip", "--json").stdout) == {"task": "handle"}
        assert asked == ["create-zip"] * 2
        assert run("dlq", "redrive", "create-zip", SAGA_ID).exit_code == 2

    def test_stale_ones_are_deleted(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = list[tuple[Any, ...]]()
        stale = replace(self.LETTER, saga="create-zip", saga_id=SAGA_ID, step="ship", reason="")

        def prune(_client: object, name: str, *, dry_run: bool, on_progress: object) -> Pruned:
            asked.append((name, dry_run))
            return Pruned(dry_run, (stale,), ())

        monkeypatch.setattr("sagas.client.SagaClient.prune", prune)
        delete = "dlq", "delete", "create-zip"
        assert run(*delete, "--stale").stdout.splitlines() == [
            f"create-zip {SAGA_ID}, step ship: deleted.", "1 message deleted, 0 stay.",
        ]  # fmt: skip
        assert "1 message would be deleted" in run(*delete, "--stale", "--dry-run").stdout
        assert asked == [("create-zip", False), ("create-zip", True)]
        for wrong in ([], ["m-12", "--stale"], ["--stale", "--force"], ["m-12", "--dry-run"]):
            assert run(*delete, *wrong).exit_code == 2
