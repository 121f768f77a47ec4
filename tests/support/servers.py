"""Servers on 127.0.0.1 that do not answer as they should."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Literal

Kind = Literal["silent", "resets", "closes", "cuts", "refuses", "never accepts"]
CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: application/json\r\n\r\n{"
"""The beginning of an answer."""
TLS = b"\x16"
"""The first byte of a handshake."""


@contextmanager
def bad_server(kind: Kind) -> Generator[int]:
    """Yield the port of a server.

    Args:
        kind: ``silent`` accepts, reads and never answers; ``resets`` resets the connection once it has the request,
            ``closes`` closes it, ``cuts`` closes it within its answer. ``refuses`` does not listen, and ``never
            accepts`` has a full backlog.
    """
    if kind == "refuses":
        with socket.socket() as bound:  # holds the port, and does not listen
            bound.bind(("127.0.0.1", 0))
            yield bound.getsockname()[1]
        return
    if kind == "never accepts":
        with _full() as port:
            yield port
        return
    listening = socket.create_server(("127.0.0.1", 0))
    clients: list[socket.socket] = []
    thread = threading.Thread(target=_serve, args=(listening, kind, clients), daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for client in clients:
            client.close()
        thread.join(5)


def _serve(listening: socket.socket, kind: Kind, clients: list[socket.socket]) -> None:
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            clients.append(client)
            if kind == "silent":
                continue
            client.settimeout(5)
            received = client.recv(65_536)
            while b"\r\n\r\n" not in received and received[:1] != TLS and (part := client.recv(65_536)):
                received += part
            if kind == "resets":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif kind == "cuts":
                client.sendall(CUT)
            client.close()


@contextmanager
def _full() -> Generator[int]:
    """Yield a port whose backlog is full, so the kernel drops what asks for a connection."""
    listening = socket.socket()
    waiting: list[socket.socket] = []
    try:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(listening.getsockname())
            waiting.append(client)
        yield listening.getsockname()[1]
    finally:
        for client in waiting:
            client.close()
        listening.close()
