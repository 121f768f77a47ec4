"""What the API answers to whatever is sent, held to its own description by schemathesis.

In the gate the same requests each time; with ``SAGAS_PROOF=full`` many more, other ones every time.

Two things are the emulator's and not API Gateway's, and nothing here leans on them: it takes ``/sagas/`` for
``/sagas``, and lets unsigned calls in. A path or method that is not there is answered 403 by both, in the one shape of
errors.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.api import Api
from tests.e2e.conftest import project_in
from tests.e2e.stack import REPOSITORY, assembled, launched, poll
from tests.support.hostile import FULL

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1_200 if FULL else 300),
    pytest.mark.embedded("starts thousands of sagas that lead nowhere, by unsigned calls"),
]

_OWN = "positive_data_acceptance,not_a_server_error,unsupported_method,use_after_free"
"""Checks for which ``tests.e2e.hostile_checks`` has its own, which say why."""

_REMEMBERED = 5.5
"""Seconds, longer than a function remembers of saga types."""
ZIP: dict[str, Any] = {"bucket": "nobodys-bucket", "keys": ["nothing"]}


def schemathesis_on(
    api: Api, directory: Path, description: str, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run its command line in ``directory``. What hypothesis knows of Unicode it finds where our own tests keep it: it
    takes a second to find out."""
    chance = [] if FULL else ["--generation-deterministic"]
    command = [
        str(Path(sys.executable).parent / "schemathesis"),
        "run",
        description,
        "--url",
        api.url,
        *options,
        *chance,
    ]
    fixed = [
        "--exclude-checks",
        _OWN,
        "--continue-on-failure",
        "--request-timeout",
        "60",
        "--no-color",
        "--warnings",
        "off",
    ]
    environment |= {
        "PYTHONPATH": str(REPOSITORY),
        "SCHEMATHESIS_HOOKS": "tests.e2e.hostile_checks",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(REPOSITORY / ".hypothesis"),
    }
    return subprocess.run(
        [*command, *fixed],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=1_000,
        check=False,
    )


def _prove(api: Api, directory: Path, phases: str, gate: int, full: int) -> None:
    options = ("--phases", phases, "--max-examples", str(full if FULL else gate))
    with _definitions_kept(api):
        run = schemathesis_on(api, directory, f"{api.url}/openapi.json", *options)
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    # All that is described, but for the description itself: where it came from is not asked again.
    document = api.call("GET", "/openapi.json")[1]
    described = sum(len(methods.keys() - {"parameters"}) for methods in document["paths"].values())
    assert f"Selected: {described - 1}/{described - 1}\n" in run.stdout


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    """The API of a stack that nothing else uses: what is sent leaves it full of sagas which nobody expects."""
    with launched(project_in(tmp_path_factory.mktemp("hostile")), assembled("python -m infra.app")) as running:
        yield Api(running)


def _pauses(api: Api) -> dict[str, list[Any]]:
    """What is paused of each saga type."""
    status, body, _ = api.call("GET", "/types")
    assert status == 200, body
    return {one["type"]: one["pauses"] for one in body["types"]}


@contextmanager
def _definitions_kept(api: Api) -> Generator[None]:
    """Resume what is paused, and wait until no function remembers the pauses.

    The tests share their stack, and a pause of one would refuse the sagas of the next ones.
    """
    assert not any(_pauses(api).values())
    try:
        yield
    finally:
        _resume(api)


def _resume(api: Api) -> None:
    paused = {name: pauses for name, pauses in _pauses(api).items() if pauses}
    for name, pauses in paused.items():
        for pause in pauses:
            scope = {"step": pause["step"], "saga_id": pause["saga_id"]}
            status, body, _ = api.call("PUT", f"/types/{name}", {"paused": False, **scope})
            assert status == 200, body
    # One that answers now says nothing of the others, which remember for a few seconds: until then it must not change.
    since = time.monotonic()

    def taken() -> bool:
        nonlocal since
        for name in paused:
            # A type that is paused says so before it looks at the request, which starts nothing.
            if api.call("POST", f"/sagas/{name}", {})[0] == 503:
                since = time.monotonic()
        return not paused or time.monotonic() - since > _REMEMBERED

    poll("all types to take sagas", taken)


def test_what_was_disabled_takes_sagas_again(api: Api) -> None:
    with _definitions_kept(api):
        assert api.call("PUT", "/types/create-zip", {"active": False, "reason": "a test"})[0] == 200
        poll("refused starts", lambda: api.call("POST", "/sagas/create-zip", ZIP)[0] == 503)

    def start(_: int) -> int:
        return Api(api.stack).call("POST", "/sagas/create-zip", ZIP)[0]

    with ThreadPoolExecutor(8) as callers:
        assert list(callers.map(start, range(16))) == [202] * 16


def test_every_answer_is_one_that_is_described(api: Api, tmp_path: Path) -> None:
    """All operations: what fits, what does not, each bound of each field, undescribed methods and content types."""
    _prove(api, tmp_path, "coverage,fuzzing", 4, 80)


def test_chains_of_calls(api: Api, tmp_path: Path) -> None:
    """Started sagas are shown, cancelled, audited, retried, given up and settled, in any order."""
    _prove(api, tmp_path, "stateful", 12, 100)


def test_a_wrong_description_is_noticed(api: Api, tmp_path: Path) -> None:
    """The proof would say so if an answer had one field too many."""
    status, document, _ = api.call("GET", "/openapi.json")
    assert status == 200
    del document["components"]["schemas"]["Type"]["properties"]["version"]
    document["components"]["schemas"]["Type"]["required"].remove("version")
    wrong = tmp_path / "openapi.json"
    wrong.write_text(json.dumps(document))
    options = ("--phases", "coverage", "--include-path", "/types")
    run = schemathesis_on(api, tmp_path, str(wrong), *options)
    assert run.returncode == 1, run.stdout
    assert "violates schema" in run.stdout


# What no description can hold, by hand.


def _error_of(status: int, body: Any) -> str:
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "details"}
    assert (status == 422) == (body["error"]["details"] is not None)
    return body["error"]["code"]


@pytest.mark.parametrize("method", ["PATCH", "PUT", "OPTIONS", "TRACE", "PROPFIND"])
def test_a_method_that_is_not_there(api: Api, method: str) -> None:
    status, body, _ = api.call(method, "/sagas/checkout")
    assert (status, _error_of(status, body)) == (403, "forbidden")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nothing", 403),
        ("/", 403),
        ("/sagas/checkout/1/2/3/4", 403),
        ("/sagas/checkout/%2e%2e", 404),
        ("/sagas/checkout/%00", 404),
        ("/sagas/checkout/%ff%fe", 404),
        ("/sagas/checkout/%F0%9F%92%A9", 404),
        ("/sagas/checkout/" + "a" * 4_000, 404),
        ("/sagas/%27%3B--/019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17", 404),
        ("/types/%3Cscript%3E", 404),
        ("/types/%20", 404),
        ("/sagas?limit=%00", 422),
        ("/sagas?%ff=1", 422),
        ("/sagas?cursor=%F0%9F%92%A9", 422),
        ("/sagas?type=", 404),
        ("/sagas?limit=" + "9" * 4_000, 422),
    ],
)
def test_odd_paths_and_queries(api: Api, path: str, status: int) -> None:
    found, body, _ = api.call("GET", path)
    assert found == status, body
    assert _error_of(found, body)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"", 400),
        (b"\xff\xfe", 400),
        (b"{", 400),
        (b"[" * 200_000, 400),
        (b'{"bucket": "a", "bucket": "b", "keys": []}', 400),
        (b'{"bucket": NaN, "keys": []}', 400),
        (b'{"bucket": "\\ud800", "keys": []}', 422),
        (b'{"bucket": "a", "keys": [1e999]}', 422),
        (b'{"bucket": "a", "keys": [' + b"9" * 5_000 + b"]}", 400),
        (b'{"bucket": "' + b"x" * 300_000 + b'", "keys": []}', 413),
        (json.dumps(ZIP | {"keys": ["\x00"]}).encode(), 202),
        (json.dumps(ZIP).encode("utf-16"), 400),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_odd_bodies(api: Api, raw: bytes, status: int) -> None:
    found, body, _ = api.call("POST", "/sagas/create-zip", raw=raw)
    assert found == status, body
    assert found == 202 or _error_of(found, body)


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "nonsense", "image/png", ""]
)
def test_a_body_is_json_whatever_it_is_called(api: Api, content_type: str) -> None:
    """``curl -d`` calls it a form."""
    status, body, _ = api.call("POST", "/sagas/create-zip", ZIP, Content_Type=content_type)
    assert status == 202, body


@pytest.mark.parametrize(("key", "status"), [("a b", 202), ("", 422), ("x" * 257, 422), ("é", 422), ("a\x7fb", 422)])
def test_odd_idempotency_keys(api: Api, key: str, status: int) -> None:
    found, body = _started_with(api, key.encode("latin-1"))
    assert found == status, body
    assert found == 202 or _error_of(found, body) == "invalid_request"


def _started_with(api: Api, key: bytes) -> tuple[int, Any]:
    """Start a saga with a header as it is: HTTP libraries refuse to send some of these."""
    url, body = urlsplit(api.url), json.dumps(ZIP).encode()
    head = f"POST {url.path}/sagas/create-zip HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: {len(body)}\r\n"
    with socket.create_connection((url.hostname or "", url.port or 0), timeout=30) as connection:
        connection.sendall(head.encode() + b"Connection: close\r\nIdempotency-Key: " + key + b"\r\n\r\n" + body)
        with connection.makefile("rb") as answer:
            status = int(answer.readline().split()[1])
            while answer.readline().strip():
                pass
            return status, json.loads(answer.read())
