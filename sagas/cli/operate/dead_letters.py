"""``sagas dlq``: the messages of steps that used up their attempts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sagas.cli.listing import Wide
from sagas.cli.one_saga import Type
from sagas.cli.output import count_of, emit, fail, plain, plain_line, pretty, say
from sagas.cli.tables import show_dead_letters
from sagas.cli.target import Target, on_target
from sagas.core.text import moment

if TYPE_CHECKING:
    from sagas.client import SagaClient
    from sagas.client.operate.dead_letters import DeadLetter

_REPORT_EVERY = 1_000
_LISTED = ("saga", "saga_id", "step", "message_id", "receives", "sent_at", "number", "reason")
_PAGE = 10
"""A walk reports its progress each time it has read this many messages."""

_app = typer.Typer(help="The dead-letter queue of a saga type.", no_args_is_help=True)
_Limit = Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of messages to read")]


@on_target
def list_dead_letters(target: Target, name: Type, limit: _Limit = 100, wide: Wide = False) -> None:
    """List dead-lettered messages. They stay in the queue."""
    letters = target.client().dead_letters(name, limit)
    if target.as_json:
        emit({"dead_letters": [{field: getattr(letter, field) for field in _LISTED} for letter in letters]})
    elif letters:
        show_dead_letters(letters, wide=wide)
    else:
        say(f"The dead-letter queue of {name} is empty.")


@on_target
def show(
    target: Target,
    name: Type,
    message_id: Annotated[
        str | None, typer.Argument(metavar="[MESSAGE]", help="Only this message, by its id or the start of it")
    ] = None,
    limit: _Limit = 100,
) -> None:
    """Show dead-lettered messages: body without payloads, attributes, source queue, and why a message is unreadable."""
    letters = _matching(target.client(), name, message_id or "", limit)
    if message_id and not letters:
        fail(f"the dead-letter queue of {name} holds no message {message_id}")
    if target.as_json:
        emit({"dead_letters": [asdict(letter) for letter in letters]})
        return
    for letter in letters:
        say(plain(f"message {letter.message_id}: {_owner(letter)}"))
        say(plain(f"  sent {moment(letter.sent_at)}, received {count_of(letter.receives, 'time')}"))
        if letter.source:
            say(plain(f"  from {letter.source}"))
        if letter.reason:
            say(plain(f"  unreadable because {letter.reason}"))
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
    name: Type,
    message_id: Annotated[
        str | None, typer.Argument(metavar="MESSAGE", help="Id of the message, or the start of it", show_default=False)
    ] = None,
    stale: Annotated[
        bool, typer.Option("--stale", help="All messages that their sagas no longer need, instead of MESSAGE")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --stale: show them and delete nothing")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    force: Annotated[bool, typer.Option("--force", help="Delete MESSAGE even if a saga may need it")] = False,
) -> None:
    """Delete dead-lettered messages that no saga needs: one that no function could read, or all stale messages."""
    if stale == (message_id is not None):
        raise typer.BadParameter("expected one of the two", param_hint="MESSAGE/--stale")
    if (force and stale) or (dry_run and not stale):
        raise typer.BadParameter(f"cannot be used {'with' if stale else 'without'} --stale", param_hint="--force")
    if message_id is None:
        _delete_stale(target, name, dry_run=dry_run)
        return
    from sagas.client.operate.dead_letters import why_needed

    client = target.client()
    letters = _matching(client, name, message_id, 1000)
    if len(letters) != 1:
        number = count_of(len(letters), "message id") if letters else "no message id"
        fail(f"{number} in the dead-letter queue of {name} start with {message_id}")
    letter = letters[0]
    why = why_needed(client, letter) if not letter.reason and not force else ""
    if why:
        fail(f"message {letter.message_id} stays: {why}; --force deletes it")
    question = f"Delete {_what(letter)}? Its body starts with {plain(letter.body[:80])!r}"
    if not yes and not typer.confirm(question, err=True):
        raise typer.Exit(1)
    deleted = client.delete_letter(name, letter.message_id)
    if target.as_json:
        emit(asdict(deleted))
    else:
        say(f"Deleted message {deleted.message_id}.")


def _delete_stale(target: Target, name: str, *, dry_run: bool) -> None:
    pruned = target.client().prune(name, dry_run=dry_run, on_progress=_report)
    if target.as_json:
        emit(asdict(pruned))
        return
    verb = "would be deleted" if dry_run else "deleted"
    for letter in pruned.stale:
        say(plain(f"{_what(letter)}: {verb}."))
    for kept in pruned.kept:
        say(plain(f"{_what(kept.letter)}: stays, {kept.why}."))
    say(f"{count_of(len(pruned.stale), 'message')} {verb}, {len(pruned.kept)} stay.")


@on_target
def redrive(target: Target, name: Type) -> None:
    """Have SQS move all dead-lettered messages back to their queues, so their sagas continue at the failed step."""
    task = target.client().redrive(name)
    if target.as_json:
        emit({"task": task})
    else:
        say(f"SQS moves the messages of {name} back to their queues.")


def _report(count: int) -> None:
    """Report progress through a long queue on standard error. Standard output gets only the result."""
    if count % _REPORT_EVERY < _PAGE <= count:
        typer.echo(f"{count:,} messages read", err=True)


def _matching(client: SagaClient, name: str, start: str, limit: int) -> list[DeadLetter]:
    return [letter for letter in client.dead_letters(name, limit) if letter.message_id.startswith(start)]


def _owner(letter: DeadLetter) -> str:
    if letter.reason or not letter.saga_id:
        return "not a message of a saga"
    return f"{letter.saga} {letter.saga_id}, step {letter.step}"


def _what(letter: DeadLetter) -> str:
    return _owner(letter) if letter.saga_id and not letter.reason else f"message {letter.message_id}"


_app.command("list")(list_dead_letters)
_app.command("show")(show)
_app.command("delete")(delete)
_app.command("redrive")(redrive)


def add_to(app: typer.Typer) -> None:
    app.add_typer(_app, name="dlq")
