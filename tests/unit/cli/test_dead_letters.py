"""``sagas dlq``."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from sagas.client import DeadLetter, Redrive
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
        assert "stays, its saga does not exist" in run("dlq", "delete", "create-zip", "m-12", "--yes").output

    def test_are_listed_with_whole_ids_in_80_columns(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert lines[0].startswith(f"{SAGA_ID} 2026-")
        assert lines[1:3] == [f"  message {message}, received 15 times", "  the message's body is not JSON"]
        assert lines[3].startswith("? 2026-")

    def test_are_shown_whole(self, run: Run) -> None:
        told = run("dlq", "show", "create-zip", "m-1").stdout
        assert told.splitlines()[0] == "message m-12: no message of a saga"
        for part in (
            "received 15 times",
            "from arn:aws:sqs:r:1:q",
            "not readable: the message's body",
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
        assert run("dlq", "delete", "create-zip", "m-12", "--yes").stdout == "Message m-12 is deleted.\n"
        assert asked == [("create-zip", "m-12")] * 2
        assert run("dlq", "delete", "create-zip", "z", "--yes").exit_code == 1

    @pytest.mark.parametrize("one", [(), ("--saga-id", "s-1")])
    def test_are_moved_back_with_a_note(self, run: Run, monkeypatch: pytest.MonkeyPatch, one: tuple[str, ...]) -> None:
        asked = list[tuple[Any, ...]]()

        def redrive(_client: object, name: str, saga_id: str | None, _tell: object, *, reason: str = "") -> Redrive:
            asked.append((name, saga_id, reason))
            return Redrive(moved=(self.LETTER,))

        monkeypatch.setattr("sagas.client.SagaClient.redrive", redrive)
        assert run("dlq", "redrive", "create-zip", *one, "--reason", "it is up").exit_code == 0
        assert asked == [("create-zip", one[1] if one else None, "it is up")]
