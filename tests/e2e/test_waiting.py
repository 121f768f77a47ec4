"""Sagas that wait, deployed: callbacks without credentials, skipped time, and a crowd of them."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import urllib3

from tests.e2e.api import Api
from tests.e2e.stack import Running, launch, poll

pytestmark = [pytest.mark.timeout(900), pytest.mark.embedded("its clock is moved")]

_FULL = os.environ.get("SAGAS_PROOF") == "full"
_CROWD = 1_000 if _FULL else 40
DAY = 86_400.0


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """Their stack."""
    from tests.e2e.conftest import project_in

    running = launch(project_in(tmp_path_factory.mktemp("waiting")), "python -m tests.e2e.waiting.app")
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def api(waiting: Running) -> Api:
    """Its API."""
    return Api(waiting)


def _post(url: str, body: Any) -> tuple[int, Any]:
    """Call as those do who have nothing but the URL."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = urllib3.PoolManager().request("POST", url, body=data, timeout=30.0)
    return answer.status, answer.json()


def _asked(waiting: Running, api: Api) -> tuple[dict[str, Any], str]:
    """A saga that waits, and the URL that it gave away."""
    saga = api.wait(api.start("asked", {}), "WAITING")
    items = waiting.client("dynamodb").scan(TableName=_urls(waiting), ConsistentRead=True)["Items"]
    [url] = [item["url"]["S"] for item in items if item["saga_id"]["S"] == saga["saga_id"]]
    return saga, url


def _urls(waiting: Running) -> str:
    names = waiting.client("dynamodb").list_tables()["TableNames"]
    return next(name for name in names if "Urls" in name)


def test_who_has_the_url_answers_without_credentials(waiting: Running, api: Api) -> None:
    saga, url = _asked(waiting, api)
    assert url.startswith(f"{api.url}/callbacks/")
    assert _post(url, {"by": 5})[0] == 422
    assert _post(url[:-1] + ("A" if url[-1] != "A" else "B"), {"by": "ada"})[0] == 404
    status, body = _post(url, {"by": "ada"})
    assert (status, body["saga_id"], body["step"]) == (202, saga["saga_id"], "reply")
    assert api.wait(saga)["result"] == "ada"
    assert _post(url, {"by": "ada"})[0] == 200
    assert _post(url, {"by": "bob"})[0] == 409
    [sent] = [entry for entry in api.audit(saga) if entry["action"] == "SignalReceived"]
    assert sent["actor"] == "callback"


def test_three_days_take_seconds(waiting: Running, api: Api) -> None:
    """Each wait ends at its own time, and not all at the end of what is skipped."""
    saga = api.wait(api.start("patient", {}), "WAITING")
    began = time.monotonic()
    ticked = waiting.sagas("local", "tick", "--advance", "3d")
    assert ticked.returncode == 0, ticked.stderr
    assert "3 d ahead" in ticked.stdout
    now = api.show(saga)
    assert now["steps"][2]["waiting_for"] == "time", now
    ticked = waiting.sagas("local", "tick", "--advance", "11m")
    assert ticked.returncode == 0, ticked.stderr
    assert api.wait(saga)["result"] == "nobody"
    assert time.monotonic() - began < 60
    at = {entry["action"] + str(entry["step"]): _moment(entry) for entry in api.audit(saga)}
    ends = [at["WaitTimedOutnobody"], at["WaitEndedlong"], at["WaitEndedshort"]]
    begins = [at["WaitStartednobody"], at["WaitStartedlong"], at["WaitStartedshort"]]
    for end, begin, length in zip(ends, begins, (DAY, 2 * DAY, 600), strict=True):
        assert length <= end - begin < length + 120


def _moment(entry: dict[str, Any]) -> float:
    return datetime.fromisoformat(entry["at"]).timestamp()


@pytest.mark.parametrize("length", ["3", "d", "0d", "-1d", "1.5h", "3w", "1 d", "3D", "9999999d", ""])
def test_what_is_no_length_is_refused(waiting: Running, length: str) -> None:
    ticked = waiting.sagas("local", "tick", "--advance", length)
    assert ticked.returncode == 1
    assert "--advance: must be a whole number of days, hours, minutes or seconds" in ticked.stderr
    assert "Traceback" not in ticked.stderr


def test_time_is_skipped_where_the_emulator_is_ours_only(waiting: Running, tmp_path: Path) -> None:
    elsewhere = waiting.description | {"pid": None}
    (tmp_path / ".sagas").mkdir()
    (tmp_path / ".sagas" / "local.json").write_text(json.dumps(elsewhere))
    ticked = Running(tmp_path, waiting.process).sagas("local", "tick", "--advance", "1d")
    assert ticked.returncode == 1
    assert "and nowhere else: this stack is at http://127.0.0.1" in ticked.stderr
    (tmp_path / ".sagas" / "local.json").unlink()
    assert "no local stack is running here" in Running(tmp_path, waiting.process).sagas("local", "tick").stderr


def test_a_crowd_that_waits_is_signalled_once_each(waiting: Running, api: Api) -> None:
    """Doubled at once, and again with another value: each is taken once, and each saga ends with the first."""

    def begin(_number: int) -> dict[str, Any]:
        return Api(waiting).start("crowd", {})

    def signal(saga: dict[str, Any]) -> list[int]:
        own, path = Api(waiting), f"/sagas/crowd/{saga['saga_id']}/signals/reply"
        return [own.call("POST", path, {"by": by})[0] for by in ("ada", "ada", "bob")]

    def waits(saga: dict[str, Any]) -> dict[str, Any]:
        return Api(waiting).wait(saga, "WAITING", deadline=300)

    with ThreadPoolExecutor(8) as callers:
        sagas = list(callers.map(waits, list(callers.map(begin, range(_CROWD)))))
        assert Counter(code for codes in callers.map(signal, sagas) for code in codes) == {
            202: _CROWD,
            200: _CROWD,
            409: _CROWD,
        }
    left = {saga["saga_id"] for saga in sagas}

    def over() -> bool:
        for saga_id in list(left):
            if api.show({"name": "crowd", "saga_id": saga_id})["status"] == "COMPLETED":
                left.discard(saga_id)
        return not left

    poll("all of the crowd to be over", over, deadline=600 if _FULL else 90)
    for saga in sagas:
        assert api.actions(saga).count("SignalReceived") == 1
        assert api.show(saga)["result"] == "ada"
