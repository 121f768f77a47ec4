"""Sagas that wait, deployed: callbacks without credentials, skipped time, and a crowd of them."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import urllib3

from sagas.handlers.http.inputs import FORM
from tests.e2e.api import Api
from tests.e2e.stack import Stack, poll
from tests.e2e.test_hostile_api import schemathesis_on

pytestmark = [pytest.mark.timeout(900), pytest.mark.embedded("its clock is moved"), pytest.mark.slow]

_FULL = os.environ.get("SAGAS_PROOF") == "full"
_CROWD = 1_000 if _FULL else 40
DAY = 86_400.0


@pytest.fixture
def api(trials: Stack) -> Api:
    return Api(trials)


def _post(url: str, body: Any, **headers: str) -> tuple[int, Any]:
    """Call as those do who have nothing but the URL."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = urllib3.PoolManager().request("POST", url, body=data, headers=headers, timeout=30.0)
    return answer.status, answer.json()


def _asked(trials: Stack, api: Api) -> tuple[dict[str, Any], str]:
    """A saga that waits, and the URL that it gave away."""
    saga = api.wait(api.start("asked", {}), "WAITING")
    items = trials.client("dynamodb").scan(TableName=trials.description["outputs"]["UrlsTable"], ConsistentRead=True)
    [url] = [item["url"]["S"] for item in items["Items"] if item["saga_id"]["S"] == saga["saga_id"]]
    return saga, url


def test_a_form_is_an_answer(trials: Stack, api: Api) -> None:
    saga, url = _asked(trials, api)
    form = {"Content-Type": FORM}
    assert _post(url, b"by=ada&yes=true", **form)[0] == 422
    assert _post(url, b"by=Ada+L%C3%B6w", **form)[0] == 202
    assert api.wait(saga, "COMPLETED")["result"] == "Ada Löw"


def test_who_has_the_url_answers_without_credentials(trials: Stack, api: Api) -> None:
    saga, url = _asked(trials, api)
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


def test_a_form_is_an_answer_too(trials: Stack, api: Api) -> None:
    saga, url = _asked(trials, api)
    form = urllib3.PoolManager().request("POST", url, fields={"by": "ada & bob"}, encode_multipart=False, timeout=30.0)
    assert form.status == 202
    assert api.wait(saga)["result"] == "ada & bob"


def test_a_type_that_only_waits_is_listed_and_runs(trials: Stack, api: Api) -> None:
    description = trials.description
    assert not any("reminder" in description[part] for part in ("queues", "functions", "dead_letter_queues"))
    assert "Saga     reminder: reply -> rest" in (trials.project / "out.txt").read_text()
    saga = api.wait(api.start("reminder", {}), "WAITING")
    status, _, _ = api.send("POST", f"{api.url}/sagas/reminder/{saga['saga_id']}/signals/reply", b'{"by": "ada"}')
    assert status == 202
    assert api.wait(saga)["result"] == {"by": "ada"}


def _shape(status: int, body: Any) -> str:
    """The code of an answer, which is no error of ours."""
    assert status < 500, body
    if status < 300:
        return "taken"
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "details"}
    return body["error"]["code"]


_ADA, _BOB = b'{"by": "ada"}', b'{"by": "bob"}'
_HOSTILE: list[tuple[bytes, int, str]] = [
    (b"{", 400, "malformed_body"),
    (b"\xff\xfe", 400, "malformed_body"),
    (b"[" * 200_000, 400, "malformed_body"),
    (b'{"by": "a", "by": "b"}', 400, "malformed_body"),
    (b'{"by": NaN}', 400, "malformed_body"),
    (b"null", 422, "invalid_request"),
    (b"[]", 422, "invalid_request"),
    (b'"ada"', 422, "invalid_request"),
    (b'{"by": 5}', 422, "invalid_request"),
    (b'{"by": "\\ud800"}', 422, "invalid_request"),
    (b'{"by": "ada", "more": 1}', 422, "invalid_request"),
    (b'{"by": "' + b"x" * 300_000 + b'"}', 413, "too_large"),
]


@pytest.mark.parametrize("public", [True, False], ids=["by its URL", "by the API"])
def test_whatever_is_sent_is_answered_and_one_signal_is_taken(trials: Stack, api: Api, public: bool) -> None:
    """Malformed, oversized, early or now, doubled with the same and with another value, late, to another saga."""
    saga, url = _asked(trials, api)
    where = url if public else f"{api.url}/sagas/asked/{saga['saga_id']}/signals/reply"

    def post(body: bytes, place: str = where) -> tuple[int, str]:
        status, answer, _ = api.send("POST", place, body)
        return status, _shape(status, answer)

    # A callback URL may be called without a body, which is null.
    assert post(b"") == ((422, "invalid_request") if public else (400, "malformed_body"))
    for body, status, code in _HOSTILE:
        assert post(body) == (status, code), body[:40]
    before = api.actions(saga)
    assert before[-1] == "WaitStarted"
    nobody = str(uuid.uuid4())
    for place in (
        f"asked/{nobody}/signals/reply",
        f"crowd/{saga['saga_id']}/signals/reply",
        f"asked/{saga['saga_id']}/signals/end",
    ):
        assert post(_ADA, f"{api.url}/sagas/{place}") == (404, "not_found")
    for token in ("x", url.rpartition("/")[2][:-2], url.rpartition("/")[2] + "x", "%00", "a" * 4_000, "%2e%2e"):
        assert post(_ADA, f"{api.url}/callbacks/{token}") == (404, "not_found"), token
    assert api.actions(saga) == before
    with ThreadPoolExecutor(8) as callers:
        codes = Counter(status for status, _ in callers.map(post, [_ADA, _BOB] * 8))
    assert codes[202] == 1, codes
    assert set(codes) == {202, 200, 409}
    done = api.wait(saga)
    assert done["status"] == "COMPLETED"
    winner = _ADA if done["result"] == "ada" else _BOB
    assert [post(body) for body in (winner, _BOB if winner == _ADA else _ADA)] == [(200, "taken"), (409, "conflict")]
    assert api.actions(saga).count("SignalReceived") == 1


@pytest.mark.parametrize("public", [True, False], ids=["by its URL", "by the API"])
def test_what_comes_too_late_is_refused(trials: Stack, api: Api, public: bool) -> None:
    saga, url = _asked(trials, api)
    assert api.call("DELETE", f"/sagas/asked/{saga['saga_id']}")[0] in (200, 202)
    api.wait(saga)
    where = url if public else f"{api.url}/sagas/asked/{saga['saga_id']}/signals/reply"
    status, answer, _ = api.send("POST", where, _ADA)
    assert (status, _shape(status, answer)) == (409, "conflict")


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/callbacks/{token}", "/sagas/asked/{saga_id}/signals/reply"])
@pytest.mark.parametrize("known", [True, False], ids=["that leads somewhere", "made up"])
def test_every_answer_to_a_signal_is_one_that_is_described(
    trials: Stack, api: Api, tmp_path: Path, path: str, known: bool
) -> None:
    given: dict[str, str] = {}
    options = ["--phases", "coverage,fuzzing", "--max-examples", "200" if _FULL else "10", "--include-path", path]
    if known:
        saga, url = _asked(trials, api)
        given = {"HOSTILE_TOKEN": url.rpartition("/")[2], "HOSTILE_SAGA": saga["saga_id"]}
        # What is made up of a path is replaced: the calls fit then, although they were not meant to.
        options += ["--exclude-checks", "negative_data_rejection"]
    run = schemathesis_on(api, tmp_path, f"{api.url}/openapi.json", *options, **given)
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    assert "Selected: 1/" in run.stdout


def test_three_days_take_seconds(trials: Stack, api: Api) -> None:
    """Each wait ends at its own time, and not all at the end of what is skipped."""
    saga = api.wait(api.start("patient", {}), "WAITING")
    began = time.monotonic()
    ticked = trials.sagas("local", "tick", "--advance", "3d")
    assert ticked.returncode == 0, ticked.stderr
    assert "3 d ahead" in ticked.stdout
    now = api.show(saga)
    assert now["steps"][2]["waiting_for"] == "time", now
    ticked = trials.sagas("local", "tick", "--advance", "11m")
    assert ticked.returncode == 0, ticked.stderr
    assert api.wait(saga)["result"] == "nobody"
    assert time.monotonic() - began < 60
    at = {entry["action"] + str(entry["step"]): _moment(entry) for entry in api.audit(saga)}
    ends = [at["WaitTimedOutnobody"], at["WaitEndedlong"], at["WaitEndedshort"]]
    begins = [at["WaitStartednobody"], at["WaitStartedlong"], at["WaitStartedshort"]]
    for end, begin, length in zip(ends, begins, (DAY, 2 * DAY, 600), strict=True):
        assert length <= end - begin < length + 120
    # The log goes by the same clock, so that what it says of sagas of that time is found by theirs.
    later = api.wait(api.start("patient", {}), "WAITING")
    poll("its lines", lambda: "WaitStarted" in trials.sagas("logs", later["saga_id"]).stdout)
    assert api.call("DELETE", f"/sagas/patient/{later['saga_id']}")[0] in (200, 202)


def _moment(entry: dict[str, Any]) -> float:
    return datetime.fromisoformat(entry["at"]).timestamp()


@pytest.mark.parametrize("length", ["3", "d", "-1d", "1.5h", "3w", "1 d", "3D", "9999999d", ""])
def test_what_is_no_length_is_refused(trials: Stack, length: str) -> None:
    ticked = trials.sagas("local", "tick", "--advance", length)
    assert ticked.returncode == 2
    assert "Invalid value for '--advance'" in ticked.stderr
    assert "Traceback" not in ticked.stderr


def test_time_is_skipped_where_the_emulator_is_ours_only(trials: Stack, tmp_path: Path) -> None:
    elsewhere = trials.description | {"pid": None}
    (tmp_path / ".sagas").mkdir()
    (tmp_path / ".sagas" / "local.json").write_text(json.dumps(elsewhere))
    ticked = Stack(tmp_path).sagas("local", "tick", "--advance", "1d")
    assert ticked.returncode == 1
    assert "starts itself; this stack is at http://127.0.0.1" in ticked.stderr
    (tmp_path / ".sagas" / "local.json").unlink()
    assert "no local stack is running for this project" in Stack(tmp_path).sagas("local", "tick").stderr


@pytest.mark.slow
def test_a_crowd_that_waits_is_signalled_once_each(trials: Stack, api: Api) -> None:
    """Doubled at once, and again with another value: each is taken once, and each saga ends with the first."""

    def begin(_number: int) -> dict[str, Any]:
        return Api(trials).start("crowd", {})

    def signal(saga: dict[str, Any]) -> list[int]:
        own, path = Api(trials), f"/sagas/crowd/{saga['saga_id']}/signals/reply"
        return [own.call("POST", path, {"by": by})[0] for by in ("ada", "ada", "bob")]

    def waits(saga: dict[str, Any]) -> dict[str, Any]:
        return Api(trials).wait(saga, "WAITING", deadline=300)

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
            if api.show({"type": "crowd", "saga_id": saga_id})["status"] == "COMPLETED":
                left.discard(saga_id)
        return not left

    poll("all of the crowd to be over", over, deadline=600 if _FULL else 90)
    for saga in sagas:
        assert api.actions(saga).count("SignalReceived") == 1
        assert api.show(saga)["result"] == "ada"


def test_a_short_sleep_ends_within_two_seconds_of_its_time(api: Api) -> None:
    """Ten where other tests run beside it: it is the machine then that is late."""
    sagas = [api.start("nap", {}) for _ in range(50 if _FULL else 5)]
    late = list[float]()
    for saga in sagas:
        assert api.wait(saga)["result"] == "awake"
        at = {entry["action"]: _moment(entry) for entry in api.audit(saga)}
        late.append(at["WaitEnded"] - at["WaitStarted"] - 5)
    assert min(late) >= -0.01, late
    assert max(late) <= (2 if _FULL else 10), late
    print(f"{len(late)} sleeps, the last {max(late):.2f} s late")
