"""The ``sagas`` command. It imports the module of a command only when that command runs."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator, Mapping
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from sagas.cli.output import say

MODULES = (
    "read.reading",
    "operate.operating",
    "operate.jobs",
    "operate.supervising",
    "read.statistics",
    "project.console",
    "project.init",
    "project.check",
    "doctor.command",
    "read.logs",
    "operate.breakers",
    "operate.dead_letters",
    "operate.events",
    "project.local",
)
"""The modules with commands; each has ``add_to(app)``. Help lists the commands in this order."""


def commands_in(module: str) -> dict[str, Any]:
    """Return the commands of a module by name."""
    app = typer.Typer(rich_markup_mode=None)
    import_module(f"sagas.cli.{module}").add_to(app)
    return dict(typer.main.get_group(app).commands)


class _Commands(Mapping[str, Any]):
    """All commands. ``commands.json``, which is generated from the modules, has the module and the help of each."""

    def __init__(self) -> None:
        self.summaries: dict[str, Any] = json.loads(Path(__file__).with_name("commands.json").read_text("utf-8"))

    def __getitem__(self, name: str) -> Any:
        return commands_in(self.summaries[name]["module"])[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.summaries)

    def __len__(self) -> int:
        return len(self.summaries)


class _Group(TyperGroup):
    """Answers help and completion from the summaries, and imports the command that runs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._all: Any = _Commands()
        self.commands = self._all

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self._all)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        summary = self._all.summaries.get(cmd_name)
        return summary and TyperCommand(cmd_name, short_help=summary["help"], hidden=summary["hidden"])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        command = self._all[name]
        if ctx.resilient_parsing:
            for part in (command, *getattr(command, "commands", {}).values()):
                _keep_words(part.get_params(ctx))
        return name, command, rest

    def get_params(self, ctx: Any) -> list[Any]:
        own: list[Any] = super().get_params(ctx)
        return _keep_words([copy(parameter) for parameter in own]) if ctx.resilient_parsing else own


def _keep_words(parameters: list[Any]) -> list[Any]:
    """Keep all arguments as text. Completion needs no other type, and typer loads pydantic to convert."""

    def unchanged(_ctx: Any, value: Any) -> Any:
        return value

    for parameter in parameters:
        parameter.process_value = unchanged
    return parameters


app = typer.Typer(
    name="sagas",
    cls=_Group,
    help="Sagas on AWS serverless.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        say(f"lambda-sagas {version('lambda-sagas')}")
        raise typer.Exit


@app.callback()
def _root(  # pyright: ignore[reportUnusedFunction] - registered by the decorator
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else; for all commands")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit")
    ] = False,
) -> None:
    """Sagas on AWS serverless."""
    context.obj = {"json": as_json}


def main() -> None:
    """Run the command and exit: 0 for success, 1 for an error, and 2 for wrong usage, or if the service was not found
    or refused the caller. An error is printed in one line. Commands that watch a saga exit with 3 if the saga did not
    end COMPLETED, and with 4 if it is still in flight."""
    try:
        app()
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes the rest when it exits
        sys.exit(f"sagas: cannot write the output: {error.strerror}")
