"""The console's server."""

from __future__ import annotations

import os
import socket
import threading
import webbrowser
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn

from sagas.console.app import console
from sagas.console.guard import Session
from sagas.console.links import Links
from sagas.console.redaction import ConsoleRedaction
from sagas.errors import InvalidRequest

PORT = 4480
_ENDS_WITHIN = 3


@dataclass(frozen=True, slots=True)
class Options:
    """Options of ``sagas console``.

    Args:
        stack: the service's stack; ``None`` for the local stack.
        port: the port on 127.0.0.1; 0 takes a free port.
        read_only: whether actions are off.
        redaction: the rules for hidden values.
        ahead: seconds by which the service's clock is ahead of this machine's.
        links: links to traces and logs.
    """

    stack: str | None = None
    port: int = PORT
    read_only: bool = False
    redaction: ConsoleRedaction = field(default_factory=ConsoleRedaction)
    ahead: Callable[[], float] = float
    links: Links = field(default_factory=Links)


class Serving:
    """A console. It listens at once, and serves in :meth:`run` or :meth:`in_background`.

    Args:
        client: the client of the service.
        options: the options of the command.

    Raises:
        InvalidRequest: the port cannot be used.
    """

    def __init__(self, client: Any, options: Options) -> None:
        # No other machine can reach the loopback address.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", options.port))
        except OSError as error:
            self._socket.close()
            reason = os.strerror(error.errno or 0).lower()
            raise InvalidRequest(f"cannot use port {options.port} ({reason}); choose another with --port") from error
        self._socket.listen(64)
        self.session = Session(self._socket.getsockname()[1])
        app = console(
            client,
            self.session,
            stack=options.stack,
            redaction=options.redaction,
            read_only=options.read_only,
            ahead=options.ahead,
            links=options.links,
        )
        # Write no access log, because the first URL contains the token.
        config = uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=_ENDS_WITHIN,
        )
        self._server = uvicorn.Server(config)

    @property
    def url(self) -> str:
        """The URL that opens the console. It works once."""
        return self.session.url()

    def run(self) -> None:
        """Serve until Ctrl-C."""
        self._server.run(sockets=[self._socket])

    @contextmanager
    def in_background(self) -> Generator[None]:
        """Serve in a thread. The calling program still handles signals."""
        thread = threading.Thread(target=self.run, name="sagas-console", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._server.should_exit = True
            thread.join(_ENDS_WITHIN * 2)


@contextmanager
def opened_in_browser(url: str, announce: Callable[[str], None]) -> Generator[None]:
    """Open a URL in the browser of this machine, if it has one.

    The browser gets the name of a file that redirects to the URL. Other users of this machine can read the browser's
    arguments, but not the file, which is deleted at the end.
    """
    with TemporaryDirectory(prefix="sagas-console-") as private:
        page = Path(private, "open.html")
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(url)}">\n', "utf-8")
        if not webbrowser.open(page.as_uri()):
            announce("No browser found: open the URL yourself.")
        yield
