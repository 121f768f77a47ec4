"""``sagas console`` and ``sagas open``: the console in the browser."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from sagas.cli.one_saga import Last, id_argument, which
from sagas.cli.output import emit, need, say
from sagas.cli.target import Target, on_target

if TYPE_CHECKING:
    from sagas.console.serving import Serving

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 picks a free one")]
_ReadOnly = Annotated[bool, typer.Option("--read-only", help="Show no buttons and refuse all changes")]
_NoPayloads = Annotated[bool, typer.Option("--no-payloads", help="Hide requests, results and messages")]
_NoOpen = Annotated[bool, typer.Option("--no-open", help="Print the URL and open no browser")]
PORT = 4480


@on_target
def console(
    target: Target,
    port: Port = PORT,
    read_only: _ReadOnly = False,
    no_payloads: _NoPayloads = False,
    no_open: _NoOpen = False,
) -> None:
    """Serve the console in the browser until Ctrl-C. It uses your own credentials."""
    _serve(target, port, "/", read_only=read_only, payloads=not no_payloads, show=not no_open)


@on_target
def open_saga(
    target: Target,
    names: Annotated[list[str] | None, id_argument("[[TYPE] ID]")] = None,
    last: Last = False,
    port: Port = 0,
) -> None:
    """Open the console at a saga, or at its home page, until Ctrl-C."""
    path = "/"
    if names or last:
        client = target.client()
        saga = which(client, names or (), last=last)
        saga.show(client)
        path = f"/sagas/{quote(saga.type, safe='')}/{saga.saga_id}"
    _serve(target, port, path, read_only=False, payloads=True, show=True)


def _serve(target: Target, port: int, path: str, *, read_only: bool, payloads: bool, show: bool) -> None:
    serving = listening(target, port, read_only=read_only, payloads=payloads)
    from sagas.console.guard import HOST
    from sagas.console.serving import opened_in_browser

    url = serving.session.url(path=path)
    if target.as_json:
        emit({"url": url, "port": serving.session.port})
    else:
        say(f"Console  {url}")
        say(f"The URL works in one browser. If it cannot find the server, add '127.0.0.1 {HOST}' to /etc/hosts.")
        say("Stop it with Ctrl-C.")
    with suppress(KeyboardInterrupt), opened_in_browser(url, say) if show else nullcontext():
        serving.run()


def listening(target: Target, port: int, *, read_only: bool = False, payloads: bool = True) -> Serving:
    """Return a console whose port is already open."""
    need("the console", "console", "jinja2", "starlette", "uvicorn")
    from sagas.console.links import links_of
    from sagas.console.redaction import redaction_of
    from sagas.console.serving import Serving

    redaction = redaction_of(Path.cwd(), payloads=payloads)
    client = target.client()
    # AWS's console does not have the traces and logs of the local stack.
    region, log_groups = (client.region, client.log_groups) if target.stack is not None else ("", [])
    links = links_of(Path.cwd(), region, log_groups)
    looks = {"redaction": redaction, "read_only": read_only, "links": links}
    return Serving(client, port=port, stack=target.stack, ahead=target.ahead, **looks)


def add_to(app: typer.Typer) -> None:
    app.command()(console)
    app.command("open")(open_saga)
