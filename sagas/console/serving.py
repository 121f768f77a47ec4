"""The console's server."""

from __future__ import annotations

import logging
import os
import socket
import webbrowser
from collections.abc import Callable, Generator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn

from sagas import threads
from sagas.console.app import console
from sagas.console.guard import Session
from sagas.errors import InvalidRequest

_ENDS_WITHIN = 3


class Serving:
    """A console. It listens at once, and serves in :meth:`run` or :meth:`in_background`. Port 0 takes a free port. A
    port that cannot be used is an InvalidRequest. For the ``options``, see :func:`sagas.console.app.console`."""

    def __init__(self, client: Any, *, port: int, **options: Any) -> None:
        # No other machine can reach the loopback address.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
        except OSError as error:
            self._socket.close()
            reason = os.strerror(error.errno or 0).lower()
            raise InvalidRequest(f"cannot use port {port} ({reason}); choose another with --port") from error
        self._socket.listen(64)
        self.session = Session(self._socket.getsockname()[1])
        # Write no access log, because the first URL contains the token.
        config = uvicorn.Config(
            console(client, self.session, **options),
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
        self._server.run(sockets=[self._socket])

    @contextmanager
    def in_background(self) -> Generator[None]:
        """Serve in a thread. The calling program still handles signals."""
        thread = threads.start("sagas-console", self.run, logging.getLogger(__name__))
        try:
            yield
        finally:
            self._server.should_exit = True
            thread.join(_ENDS_WITHIN * 2)


@contextmanager
def opened_in_browser(url: str, announce: Callable[[str], None]) -> Generator[None]:
    """Open a URL in the browser of this machine, if it has one. The browser gets the name of a file that redirects to
    the URL. Other users of this machine can read the browser's arguments, but not the file, which is deleted at the
    end."""
    with TemporaryDirectory(prefix="sagas-console-") as private:
        page = Path(private, "open.html")
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(url)}">\n', "utf-8")
        if not webbrowser.open(page.as_uri()):
            announce("No browser found: open the URL yourself.")
        yield
