"""What the emulator's port answers, request by request as it is sent."""

from __future__ import annotations

import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from sagas.local.emulator.clients import Clients
from sagas.local.files import Files
from sagas.local.process import REGION, Emulator
from tests.e2e.stack import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.embedded("it is about the emulator that we start"), pytest.mark.slow]

MINE = "http://localhost:5173"
CREATE = "GET /?Action=CreateQueue&QueueName=evil&Version=2012-11-05"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Generator[int]:
    """The port of an emulator, which the pages of one origin may call."""
    port = free_port()
    emulator = Emulator(Files(Path(tmp_path_factory.mktemp("emulator"))), port, origins=[MINE])
    try:
        emulator.wait_until_healthy()
        yield port
    finally:
        emulator.stop()


def send(port: int, *requests: str) -> list[tuple[int, str]]:
    """Send requests as they stand, one after the other by one connection; return the statuses and answers."""
    answers: list[tuple[int, str]] = []
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection, connection.makefile("rb") as stream:
        for request in requests:
            connection.sendall(request.replace("\n", "\r\n").encode() + b"\r\n\r\n")
            status = int(stream.readline().split()[1])
            lines = list(iter(stream.readline, b"\r\n"))
            length = next((int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0)
            answers.append((status, b"".join([*lines, stream.read(length)]).decode()))
    return answers


def test_each_request_of_a_connection_is_judged(port: int) -> None:
    good = f"{CREATE.replace('evil', 'good')} HTTP/1.1\nHost: localhost:{port}"
    bad = f"{CREATE} HTTP/1.1\nHost: localhost:{port}"
    answers = send(
        port,
        good,
        f"{bad}\nOrigin: http://evil.example",
        f"{bad}\nSec-Fetch-Site: cross-site",
        f"{CREATE} HTTP/1.1\nHost: evil.example:{port}",
        good,
    )
    assert [status for status, _ in answers] == [200, 403, 403, 421, 200]
    sqs = Clients(f"http://127.0.0.1:{port}", REGION).client("sqs")
    assert [url.rpartition("/")[2] for url in sqs.list_queues()["QueueUrls"]] == ["good"]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (f"{CREATE} HTTP/1.0", 421),
        (f"{CREATE} HTTP/1.1", 400),
        (f"{CREATE} HTTP/1.1\nHost: localhost\nHost: localhost", 400),
        (f"{CREATE} HTTP/1.0\nHost: localhost\nHost: evil.example", 400),
        (f"{CREATE.replace('/?', 'http://evil.example/?')} HTTP/1.1\nHost: localhost", 421),
        (f"{CREATE.replace('/?', 'http://localhost/?')} HTTP/1.1\nHost: localhost", 421),
        ("OPTIONS * HTTP/1.1\nHost: localhost", 421),
        ("OPTIONS / HTTP/1.1\nHost: localhost\nOrigin: http://evil.example\nAccess-Control-Request-Method: POST", 403),
    ],
)
def test_odd_requests(port: int, request_: str, status: int) -> None:
    ((got, text),) = send(port, request_)
    assert got == status
    assert "access-control" not in text.lower()


def test_an_origin_that_is_allowed_is_answered_as_aws_answers_it(port: int) -> None:
    asks = "Access-Control-Request-Method: POST"
    ((status, text),) = send(port, f"OPTIONS / HTTP/1.1\nHost: localhost\nOrigin: {MINE}\n{asks}")
    assert status == 200
    assert "access-control-allow-origin: *" in text.lower()
    ((status, text),) = send(port, "GET /_ministack/health HTTP/1.1\nHost: localhost")
    assert status == 200
    assert "access-control" not in text.lower()


def test_a_socket_is_refused(port: int) -> None:
    socket_ = "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13"
    socket_ += "\nSec-WebSocket-Key: MDEyMzQ1Njc4OTAxMjM0NQ=="
    ((status, text),) = send(port, f"GET / HTTP/1.1\nHost: localhost\n{socket_}\nOrigin: http://evil.example")
    assert status == 403
    assert "Origin is" in text
