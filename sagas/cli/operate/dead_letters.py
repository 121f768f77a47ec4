"""``sagas dlq``: the messages of steps that used up their attempts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sagas.cli.output import display, emit, fail, plain, plain_line, pretty, say, screen
from sagas.cli.read.reading import Name
from sagas.cli.tables import dead_letter_table
from sagas.cli.target import Target, on_target
from sagas.core.text import moment

if TYPE_CHECKING:
    from sagas.client.operate.dead_letters import DeadLetter

_TELL_EVERY = 1_000
_LISTED = ("saga", "saga_id", "step", "message_id", "receives", "sent_at", "number", "reason")
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
        emit({"dead_letters": [{name: getattr(letter, name) for name in _LISTED} for letter in letters]})
    elif letters:
        display(dead_letter_table(letters, screen().width))
    else:
        say(f"The dead-letter queue of {name} is empty.")


@on_target
def show(
    target: Target,
    name: Name,
    message_id: Annotated[
        str | None, typer.Argument(metavar="[MESSAGE]", help="Only this message, by its id or how that begins.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many to look at.")] = 100,
) -> None:
    """Show dead-lettered messages: body without requests and results, attributes, where from, and why not readable."""
    letters = [one for one in target.client().dead_letters(name, limit) if one.message_id.startswith(message_id or "")]
    if message_id and not letters:
        fail(f"the dead-letter queue of {name} holds no message {message_id}")
    if target.as_json:
        emit({"dead_letters": [asdict(letter) for letter in letters]})
        return
    for letter in letters:
        say(plain(f"message {letter.message_id}: {_what(letter)}"))
        say(plain(f"  sent {moment(letter.sent_at)}, received {letter.receives} times"))
        if letter.source:
            say(plain(f"  from {letter.source}"))
        if letter.reason:
            say(plain(f"  not readable: {letter.reason}"))
        for attribute, value in letter.attributes.items():
            say(plain(f"  {attribute}: {value}"))
        say("  body:")
        for line in pretty(letter.body).splitlines():
            say(f"    {plain_line(line)}")
    if not letters:
        say(f"The dead-letter queue of {name} is empty.")


@on_target
def delete(
    target: Target,
    name: Name,
    message_id: Annotated[str, typer.Argument(metavar="MESSAGE", help="The message's id.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also if a saga may need it.")] = False,
) -> None:
    """Delete one dead-lettered message that no saga needs: one that no function could read, say."""
    from sagas.client.operate.dead_letters import why_needed

    client = target.client()
    found = [one for one in client.dead_letters(name, 1000) if one.message_id.startswith(message_id)]
    if len(found) != 1:
        fail(f"{len(found) or 'no'} messages in the dead-letter queue of {name} begin with {message_id}")
    letter = found[0]
    why = why_needed(client, letter) if not letter.reason and not force else ""
    if why:
        fail(f"message {letter.message_id} stays, {why}; --force deletes it all the same")
    if not yes and not typer.confirm(f"Delete {_what(letter)}, which begins {plain(letter.body[:80])!r}?", err=True):
        raise typer.Exit(1)
    gone = client.delete_letter(name, letter.message_id)
    if target.as_json:
        emit(asdict(gone))
    else:
        say(f"Message {gone.message_id} is deleted.")


@on_target
def redrive(
    target: Target,
    name: Name,
    saga_id: Annotated[str | None, typer.Option(help="Only this saga's messages.")] = None,
    reason: Annotated[str, typer.Option(help="Why; kept in the audit trail. Has them moved one by one.")] = "",
) -> None:
    """Move dead-lettered messages back to their queues: their sagas go on at the failed step."""
    done = target.client().redrive(name, saga_id, _tell, reason=reason)
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


def _what(letter: DeadLetter) -> str:
    if letter.reason or not letter.saga_id:
        return "no message of a saga"
    return f"{letter.saga} {letter.saga_id}, step {letter.step}"


app.command("list")(list_dead_letters)
app.command("show")(show)
app.command("delete")(delete)
app.command("redrive")(redrive)
app.command("prune")(prune)
