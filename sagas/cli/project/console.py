"""``sagas console`` and ``sagas open``: the console in the browser."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from sagas.cli.output import emit, fail, say
from sagas.cli.read.reading import Last, MaybeId, MaybeName, which
from sagas.cli.target import Target, on_target

if TYPE_CHECKING:
    from sagas.console.serving import Serving

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")]
_ReadOnly = Annotated[bool, typer.Option("--read-only", help="No button, and nothing but reading is answered.")]
_NoPayloads = Annotated[bool, typer.Option("--no-payloads", help="Without requests, results and messages.")]
_NoOpen = Annotated[bool, typer.Option("--no-open", help="Print the URL, and open no browser.")]
PORT = 4480


@on_target
def console(
    target: Target,
    port: Port = PORT,
    read_only: _ReadOnly = False,
    no_payloads: _NoPayloads = False,
    no_open: _NoOpen = False,
) -> None:
    """Look at sagas in the browser, and do the right next thing, until Ctrl-C. It uses your own credentials."""
    _serve(target, port, "/", read_only=read_only, payloads=not no_payloads, show=not no_open)


@on_target
def open_saga(
    target: Target,
    name: MaybeName = None,
    saga_id: MaybeId = None,
    last: Last = False,
    port: Port = 0,
) -> None:
    """Open a saga in the browser: a console that begins with it, until Ctrl-C."""
    path = "/"
    if name is not None or last:
        client = target.client()
        name, saga_id = which(client, name, saga_id, last=last)
        client.show(name, saga_id)
        path = f"/sagas/{quote(name, safe='')}/{saga_id}"
    _serve(target, port, path, read_only=False, payloads=True, show=True)


def _serve(target: Target, port: int, path: str, *, read_only: bool, payloads: bool, show: bool) -> None:
    serving = made(target, port, read_only=read_only, payloads=payloads)
    from sagas.console.guard import HOST
    from sagas.console.serving import opened_in_browser

    url = serving.session.url(path=path)
    if target.as_json:
        emit({"url": url, "port": serving.session.port})
    else:
        say(f"Console  {url}")
        say(f"The URL is good for one browser. If it does not find the server, add '127.0.0.1 {HOST}' to /etc/hosts.")
        say("Ctrl-C ends it.")
    with suppress(KeyboardInterrupt), opened_in_browser(url, say) if show else nullcontext():
        serving.run()


def made(target: Target, port: int, *, read_only: bool = False, payloads: bool = True) -> Serving:
    """Return a console that listens."""
    try:
        from sagas.console.links import links_of
        from sagas.console.redaction import redaction_of
        from sagas.console.serving import Options, Serving
    except ImportError as error:
        fail(f'the console needs more packages ({error.name}): pip install "lambda-sagas[console]"')
    redaction, client = redaction_of(Path.cwd(), payloads=payloads), target.client()
    # What the local stack traces and logs is on this machine, and not in AWS's console.
    region, log_groups = (client.region, client.log_groups) if target.stack is not None else ("", [])
    links = links_of(Path.cwd(), region, log_groups)
    return Serving(client, Options(target.stack, port, read_only, redaction, target.ahead, links))
