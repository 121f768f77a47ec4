"""The ``sagas`` command."""

from __future__ import annotations

import typer

from sagas.cli import breakers, check, dead_letters, init, layout, local, logs, operating, reading, supervising

app = typer.Typer(
    name="sagas",
    help="Sagas on AWS serverless.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
reading.add_to(app)
operating.add_to(app)
supervising.add_to(app)
app.command()(init.init)
app.command()(check.check)
app.command()(layout.layout)
app.command()(logs.logs)
app.add_typer(breakers.app, name="breakers")
app.add_typer(dead_letters.app, name="dlq")
app.add_typer(local.app, name="local")


@app.callback()
def _root() -> None:  # pyright: ignore[reportUnusedFunction] - registered by the decorator
    """Sagas on AWS serverless."""


def main() -> None:
    """Run the command and exit: 0 for success, 1 for a failure told in one line, 2 for wrong usage.

    Commands that watch a saga also exit with 3 when it did not end COMPLETED, and 4 when it was still under way.
    """
    app()
