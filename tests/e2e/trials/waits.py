"""Sagas that wait: for whoever has a URL, for a time, and in a crowd."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from sagas import Context, Exhausted, Saga, sleep, step, wait_for


@dataclass(frozen=True)
class Question:
    """What is asked."""

    text: str = "Well?"


@dataclass(frozen=True)
class Reply:
    """What is answered, and by whom."""

    by: str
    yes: bool = True


class Asked(Saga[Question], name="asked"):
    """Asks by a URL, which it notes in a table."""

    def __init__(self, table: str) -> None:
        self._table = table

    @classmethod
    def create(cls) -> Self:
        """Take the table from the environment."""
        return cls(os.environ["URLS_TABLE"])

    @wait_for(Reply, timeout=timedelta(days=3), public=True)
    def reply(self, ctx: Context) -> None:
        """Note where the answer goes."""
        item = {"saga_id": {"S": ctx.saga_id}, "url": {"S": ctx.callback_url}}
        ctx.client("dynamodb").put_item(TableName=self._table, Item=item)

    @step
    def end(self, reply: Reply) -> str:
        """Say who answered."""
        return reply.by


class Patient(Saga[Question], name="patient"):
    """Waits in vain for a day, then for two days and ten minutes."""

    nobody = wait_for(Reply, timeout=timedelta(days=1), on_timeout=Exhausted.CONTINUE)
    long = sleep(timedelta(days=2))
    short = sleep(timedelta(minutes=10))

    @step
    def end(self, nobody: Reply | None) -> str:
        """Say that nobody answered."""
        return "nobody" if nobody is None else nobody.by


class Crowd(Saga[Question], name="crowd"):
    """One of very many."""

    reply = wait_for(Reply, timeout=timedelta(days=1))

    @step
    def end(self, reply: Reply) -> str:
        """Say who answered."""
        return reply.by


class Reminder(Saga[Question], name="reminder", result="reply"):
    """Only waits, and nothing of it runs."""

    reply = wait_for(Reply, timeout=timedelta(days=1))
    rest = sleep(timedelta(seconds=1))

    @classmethod
    def create(cls) -> Self:
        """Fail wherever it is called."""
        raise AssertionError("create() of a type that only waits")


class Nap(Saga[Question], name="nap"):
    """Sleeps for seconds."""

    rest = sleep(timedelta(seconds=5))

    @step
    def end(self) -> str:
        """Say that it is awake."""
        return "awake"
