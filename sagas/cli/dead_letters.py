"""``sagas dlq``: the messages of steps that used up their attempts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from sagas.cli.output import display, emit, fail, plain, say
from sagas.cli.reading import Name
from sagas.cli.tables import dead_letter_table
from sagas.cli.target import Target, on_target
from sagas.client import DeadLetter

_TELL_EVERY = 1_000
_PAGE = 10
"""Messages after which a walk tells how far it is."""

app = typer.Typer(help="The dead-letter queue of a saga type.", no_args_is_help=True)


@on_target
def list_dead_letters(
    target: Target,
    name: Name,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many to show.")] = 100,
) -> None:
    """List dead-lettered messages. They stay where they are."""
    letters = target.client().dead_letters(name, limit)
    if target.as_json:
        emit({"dead_letters": [asdict(letter) for letter in letters]})
    elif letters:
        display(dead_letter_table(letters))
    else:
        say(f"The dead-letter queue of {name} is empty.")


@on_target
def redrive(
    target: Target,
    name: Name,
    saga_id: Annotated[str | None, typer.Option(help="Only this saga's messages.")] = None,
) -> None:
    """Move dead-lettered messages back to their queues: their sagas go on at the failed step."""
    done = target.client().redrive(name, saga_id, _tell)
    if target.as_json:
        emit(asdict(done))
    elif done.task is not None:
        say(f"SQS moves the messages of {name} back to their queues.")
    else:
        for letter in done.moved:
            say(f"{letter.saga} {letter.saga_id} goes on at step {letter.step}.")
        for letter in done.left:
            say(f"Message {letter.message_id} stays: no queue is known that it came from.")
        say(f"{len(done.moved)} moved.")
    if saga_id is not None and not done.moved:
        fail(
            f"the dead-letter queue of {name} holds no message of {saga_id}; it gets there some moments after the step"
        )


@on_target
def prune(
    target: Target,
    name: Name,
    saga_id: Annotated[str | None, typer.Option(help="Only this saga's messages.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be dropped, and drop nothing.")] = False,
) -> None:
    """Drop dead-lettered messages that nobody needs: of sagas that are over, went on without them, or are resolved."""
    done = target.client().prune(name, saga_id, dry_run=dry_run, on_progress=_tell)
    if target.as_json:
        emit(asdict(done))
        return
    for letter in done.dropped:
        say(plain(f"{_who(letter)}: {'would be ' * done.dry_run}dropped."))
    for kept in done.kept:
        say(plain(f"{_who(kept.letter)}: stays, {kept.why}."))
    say(f"{len(done.dropped)} {'would be ' * done.dry_run}dropped, {len(done.kept)} stay.")


def _tell(count: int) -> None:
    """Say now and then how far a long queue is; the result goes to standard output."""
    if count % _TELL_EVERY < _PAGE <= count:
        typer.echo(f"{count:,} messages looked at", err=True)


def _who(letter: DeadLetter) -> str:
    if not letter.saga_id:
        return f"Message {letter.message_id}"
    return f"{letter.saga} {letter.saga_id}, step {letter.step}"


app.command("list")(list_dead_letters)
app.command("redrive")(redrive)
app.command("prune")(prune)
