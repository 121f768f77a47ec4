"""What the API answers to requests that do not fit: one shape, the right code, and nothing is started."""

from __future__ import annotations

import base64
import gzip
import json
import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from sagas import Saga, step
from sagas.handlers import api as api_handler
from sagas.handlers.http.inputs import cursor_for
from tests.handlers.conftest import Make, Site, begun, request
from tests.support.aws import LambdaContext
from tests.support.databases import free_port
from tests.support.sagas import FAIL, LOG, Stubborn, Trip

NOBODY = str(uuid.UUID(int=7))


@dataclass(frozen=True)
class Anything:
    data: Any


class Free(Saga[Anything], name="free"):
    """Takes any JSON."""

    @step
    def keep(self, request: Anything) -> None:
        """Nothing."""


def _refused(site: Site, status: int, code: str, event: dict[str, Any]) -> list[str]:
    """Send, check the answer and that nothing changed; return the failing paths of a 422."""
    before, waiting = site.tables(), site.waiting()
    answer = site.send(event)
    assert (answer.status, answer.code) == (status, code)
    assert answer.headers["content-type"] == "application/json"
    assert "Traceback" not in json.dumps(answer.body)
    assert site.tables() == before
    assert site.waiting() == waiting
    assert LOG == []
    return answer.paths if status == 422 else []


NOT_JSON = ["", "{", "nonsense", '{"item": NaN}', '{"item": "x"} more', "[" * 100_000, "\ufeff{"]
TWICE = ['{"item": "x", "item": "y"}', '{"item": "x", "count": {"a": 1, "a": 1}}']


@pytest.mark.parametrize("body", [*NOT_JSON, *TWICE])
def test_a_body_that_is_not_json(site: Make, body: str) -> None:
    _refused(site(Trip), 400, "malformed_body", request("POST", "/sagas/trip", body))


@pytest.mark.parametrize("data", [b"\xff\xfe\xfd", b"not base64!"])
def test_a_body_of_bytes_that_are_not_json(site: Make, data: bytes) -> None:
    event = request("POST", "/sagas/trip", base64.b64encode(data).decode()) | {"isBase64Encoded": True}
    _refused(site(Trip), 400, "malformed_body", event)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{", "the body is not JSON: Expecting property name"),
        ('{"item": "x", "item": "y"}', "the body cannot be read: an object has the key 'item' twice"),
        ('{"item": "x", "count": NaN}', "the body cannot be read: NaN is not a JSON value"),
        ('{"item": "x", "count": %s}' % ("1" * 5_000), "the body cannot be read: a number has more than 4,300 digits"),
        ("[" * 5_000 + "]" * 5_000, "the body cannot be read: nested too deeply"),
    ],
)
def test_a_body_that_cannot_be_read_says_why(site: Make, body: str, reason: str) -> None:
    answer = site(Trip).send(request("POST", "/sagas/trip", body))
    assert (answer.status, answer.code) == (400, "malformed_body")
    assert answer.body["error"]["message"].startswith(reason)


def test_a_compressed_body_says_so(site: Make) -> None:
    event = request("POST", "/sagas/trip", base64.b64encode(gzip.compress(b'{"item": "x"}')).decode())
    event["isBase64Encoded"] = True
    s = site(Trip)
    assert s.send(event).body["error"]["message"] == "the body cannot be read: it is not UTF-8"
    event["headers"]["content-encoding"] = "gzip"
    answer = s.send(event)
    assert (answer.status, answer.code) == (400, "malformed_body")
    assert answer.body["error"]["message"] == "the body cannot be read: it is compressed (gzip); send it as it is"


def test_a_body_in_base64_is_read(site: Make) -> None:
    body = base64.b64encode('{"item": "zürich"}'.encode()).decode()
    answer = site(Trip).send(request("POST", "/sagas/trip", body) | {"isBase64Encoded": True})
    assert (answer.status, answer.body["request"]) == (202, {"item": "zürich"})


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ("null", ["$"]),
        ("[]", ["$"]),
        ('"train"', ["$"]),
        ("{}", ["$.item"]),
        ('{"item": 1}', ["$.item"]),
        ('{"item": null}', ["$.item"]),
        ('{"item": "x", "count": "2"}', ["$.count"]),
        ('{"item": "x", "count": 1.5}', ["$.count"]),
        ('{"item": "x", "count": true}', ["$.count"]),
        ('{"item": "x", "colour": "red"}', ["$.colour"]),
        ('{"item": 1, "count": [], "colour": 1}', ["$.colour", "$.count", "$.item"]),
        ('{"item": "\\ud800"}', ["$.item"]),
        ('{"item": "x", "count": 1e400}', ["$.count"]),
    ],
)
def test_a_request_that_does_not_fit(site: Make, body: str, paths: list[str]) -> None:
    assert sorted(_refused(site(Trip), 422, "invalid_request", request("POST", "/sagas/trip", body))) == paths


def test_a_body_that_is_too_large(site: Make) -> None:
    body = json.dumps({"item": "x" * 300_000})
    s = site(Trip)
    _refused(s, 413, "too_large", request("POST", "/sagas/trip", body))
    encoded = request("POST", "/sagas/trip", base64.b64encode(body.encode()).decode()) | {"isBase64Encoded": True}
    _refused(s, 413, "too_large", encoded)


def test_a_body_that_is_just_not_too_large(site: Make) -> None:
    body = json.dumps({"item": "x" * (256 * 1024 - 12)})
    assert len(body) == 256 * 1024
    assert site(Trip).call("POST", "/sagas/trip", body).status == 202


@pytest.mark.parametrize("key", ["", "x" * 257, "a\nb", "a\x00b", "é", " a", "a ", "\u00a0"])
def test_an_idempotency_key_that_is_not_usable(site: Make, key: str) -> None:
    event = request("POST", "/sagas/trip", {"item": "x"}, key=key)
    assert _refused(site(Trip), 422, "invalid_request", event) == ["header.Idempotency-Key"]


@pytest.mark.parametrize("given", ["", "x" * 129, "a\nb", "é", " a", "a "])
def test_a_correlation_id_that_is_not_usable(site: Make, given: str) -> None:
    event = request("POST", "/sagas/trip", {"item": "x"})
    event["headers"]["X-Correlation-Id"] = given
    assert _refused(site(Trip), 422, "invalid_request", event) == ["header.X-Correlation-Id"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/sagas/unknown"),
        ("GET", f"/sagas/unknown/{NOBODY}"),
        ("GET", f"/sagas/trip/{NOBODY}"),
        ("GET", f"/sagas/trip/{NOBODY}/audit"),
        ("GET", f"/sagas/trip/{NOBODY}/verification"),
        ("DELETE", f"/sagas/trip/{NOBODY}"),
        ("POST", f"/sagas/trip/{NOBODY}/retry"),
        ("POST", f"/sagas/trip/{NOBODY}/compensate"),
        ("POST", f"/sagas/trip/{NOBODY}/resolve"),
        ("POST", f"/sagas/trip/{NOBODY}/purge"),
        ("PUT", f"/sagas/trip/{NOBODY}/recovery-attempts"),
        ("GET", "/sagas/trip/42"),
        ("GET", "/sagas/trip/definition"),
        ("GET", "/sagas/trip/42/audit"),
        ("DELETE", "/sagas/trip/not-a-uuid"),
        ("GET", f"/sagas/trip/{{{NOBODY}}}"),
        ("GET", f"/sagas/trip/{NOBODY.replace('-', '')}"),
        ("GET", "/types/unknown"),
        ("POST", "/breakers/unknown/book/close"),
        ("POST", "/breakers/trip/unknown/close"),
        ("POST", "/breakers/trip/book/close"),
        ("GET", "/breakers/trip/book"),
        ("GET", "/nothing"),
        ("GET", "/"),
        ("PATCH", "/sagas/trip"),
        ("POST", "/sagas"),
        ("GET", f"/sagas/trip/{NOBODY}/audit/more"),
    ],
)
def test_what_is_not_there(site: Make, method: str, path: str) -> None:
    body: Any = {"reason": "x"} if path.endswith(("retry", "compensate", "resolve", "purge")) else None
    body = {"attempts": 0} if path.endswith("attempts") else body
    _refused(site(Trip), 404, "not_found", request(method, path, body))


def test_an_unknown_saga_type_in_queries(site: Make) -> None:
    s = site(Trip)
    _refused(s, 404, "not_found", request("GET", "/sagas", type="unknown"))
    _refused(s, 404, "not_found", request("GET", "/sagas", type=""))
    _refused(s, 404, "not_found", request("GET", "/attention", type=""))
    _refused(s, 404, "not_found", request("PUT", "/types/unknown", {"active": False}))


def _cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize("path", ["/sagas", "/attention", f"/sagas/trip/{NOBODY}/audit"])
@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "ten"}, "limit"),
        ({"limit": "1.0"}, "limit"),
        ({"limit": "٣"}, "limit"),
        ({"limit": ""}, "limit"),
        ({"limit": "010"}, "limit"),
        ({"cursor": ""}, "cursor"),
        ({"cursor": _cursor(json.dumps({"sort": "9" * 2_000, "saga_id": "x"}))}, "cursor"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"cursor": "é"}, "cursor"),
        ({"cursor": _cursor('{"sort":"","saga_id":""}')}, "cursor"),
        ({"cursor": _cursor('{"sort":"\\ud800","saga_id":"x"}')}, "cursor"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_query_parameters_that_do_not_fit(site: Make, path: str, query: dict[str, str], name: str) -> None:
    assert _refused(site(Trip), 422, "invalid_request", request("GET", path, **query)) == [f"query.{name}"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/types", None),
        ("GET", "/types/trip", None),
        ("PUT", "/types/trip", {"active": False}),
        ("GET", "/breakers", None),
        ("POST", "/breakers/trip/book/close", None),
        ("GET", "/stats", None),
        ("GET", "/openapi.json", None),
        ("POST", "/sagas/trip", {"to": "Oslo"}),
        ("GET", f"/sagas/{NOBODY}", None),
        ("GET", f"/sagas/trip/{NOBODY}", None),
        ("DELETE", f"/sagas/trip/{NOBODY}", None),
        ("GET", f"/sagas/trip/{NOBODY}/verification", None),
        ("POST", f"/sagas/trip/{NOBODY}/signals/book", 1),
        ("POST", f"/sagas/trip/{NOBODY}/retry", {"reason": "x"}),
        ("POST", f"/sagas/trip/{NOBODY}/compensate", {"reason": "x"}),
        ("POST", f"/sagas/trip/{NOBODY}/resolve", {"reason": "x"}),
        ("POST", f"/sagas/trip/{NOBODY}/purge", {"reason": "x"}),
        ("PUT", f"/sagas/trip/{NOBODY}/recovery-attempts", {"attempts": 0}),
    ],
)
def test_a_query_parameter_that_nobody_takes(site: Make, method: str, path: str, body: Any) -> None:
    """A key of a start, say, that belongs into a header."""
    asked = request(method, path, body, idempotency_key="k")
    assert _refused(site(Trip), 422, "invalid_request", asked) == ["query.idempotency_key"]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/attention", "unknown; expected one of type, step, code, error, limit, cursor, group"),
        ("/stats", "unknown; expected one of type, since"),
        ("/types", "unknown; this call takes no query parameters"),
    ],
)
def test_an_unknown_query_parameter_is_answered_with_those_there_are(site: Make, path: str, told: str) -> None:
    answer = site(Trip).call("GET", path, name="trip")
    assert answer.status == 422
    assert answer.body["error"]["details"] == [{"path": "query.name", "message": told}]


@pytest.mark.parametrize("path", ["/sagas", "/attention", f"/sagas/trip/{NOBODY}/audit"])
def test_a_query_parameter_that_is_given_twice(site: Make, path: str) -> None:
    """API Gateway hands over the last one, and all of them beside it."""
    asked = request("GET", path, limit="2")
    asked["multiValueQueryStringParameters"]["limit"] = ["1", "2"]
    assert _refused(site(Trip), 422, "invalid_request", asked) == ["query.limit"]


def test_a_call_that_is_signed_in_its_url(site: Make) -> None:
    signature = {"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Signature": "0" * 64}
    s = site(Trip)
    for path, query in (("/sagas", {}), ("/sagas", {"parent": NOBODY}), ("/attention", {}), ("/types", {})):
        assert s.send(request("GET", path, **query, **signature)).status == 200


@pytest.mark.parametrize("seq", ["²", "-1", "1.5", "", "9" * 5000, "x"])
def test_a_cursor_that_was_made_up(site: Make, seq: str) -> None:
    path, text = f"/sagas/trip/{NOBODY}/audit", _cursor(json.dumps({"sort": "seq", "saga_id": seq}))
    cursor = cursor_for(text, "audit", "trip", NOBODY) or ""
    assert _refused(site(Trip), 422, "invalid_request", request("GET", path, cursor=cursor)) == ["query.cursor"]


def test_a_cursor_from_another_list(site: Make) -> None:
    """Each is ordered by something else: who went on by it would miss some sagas, and not know."""
    FAIL["second"] = ValueError("no")
    s = site(Trip, Stubborn)
    saga_id, other, *_ = [s.begin(name) for name in ("trip", "trip", "stubborn", "stubborn")]
    s.run()
    lists: list[tuple[str, dict[str, str]]] = [
        ("/sagas", {}),
        ("/sagas", {"type": "trip"}),
        ("/sagas", {"status": "COMPLETED"}),
        ("/sagas", {"type": "trip", "status": "COMPLETED"}),
        ("/attention", {}),
        ("/attention", {"type": "stubborn"}),
        (f"/sagas/trip/{saga_id}/audit", {}),
        (f"/sagas/trip/{other}/audit", {}),
    ]
    cursors = [s.send(request("GET", path, limit="1", **query)).body["cursor"] for path, query in lists]
    assert all(cursors)
    for place, (path, query) in enumerate(lists):
        for origin, cursor in enumerate(cursors):
            answer = s.send(request("GET", path, cursor=cursor, **query))
            assert answer.status == (200 if origin == place else 422), (path, query, lists[origin])
            assert origin == place or answer.paths == ["query.cursor"]


def test_a_status_that_there_is_not(site: Make) -> None:
    event = request("GET", "/sagas", status="running")
    assert _refused(site(Trip), 422, "invalid_request", event) == ["query.status"]


@pytest.mark.parametrize(
    ("verb", "body", "paths"),
    [
        ("retry", {"reason": 1}, ["$.reason"]),
        ("retry", {"notes": "x"}, ["$.notes"]),
        ("retry", [], ["$"]),
        ("compensate", {"reason": None}, ["$.reason"]),
        ("resolve", {}, ["$.reason"]),
        ("resolve", {"reason": ""}, ["$.reason"]),
        ("resolve", {"reason": " \t"}, ["$.reason"]),
        ("resolve", {"reason": "\ud800"}, ["$.reason"]),
        ("resolve", {"reason": "x", "action": "x" * 4_001}, ["$.action"]),
        ("retry", {"reason": "\ud800"}, ["$.reason"]),
        ("retry", {"reason": "x" * 4_001}, ["$.reason"]),
        ("retry", {"\ud800": 1}, ['$["\\ud800"]']),
        ("resolve", {"reason": "x", "steps": "book"}, ["$.steps"]),
        ("resolve", {"reason": "x", "steps": ["book", "fly"]}, ["$.steps[1]"]),
        ("resolve", {"reason": "x", "steps": [1]}, ["$.steps[0]"]),
        ("resolve", {"reason": 1, "action": 2, "more": 3}, ["$.action", "$.more", "$.reason"]),
        ("purge", {"reason": "x", "seq": 3}, ["$.seq"]),
    ],
)
def test_operations_with_bodies_that_do_not_fit(site: Make, verb: str, body: Any, paths: list[str]) -> None:
    s, saga_id = begun(site)
    event = request("POST", f"/sagas/trip/{saga_id}/{verb}", body)
    assert sorted(_refused(s, 422, "invalid_request", event)) == paths


@pytest.mark.parametrize("verb", ["retry", "compensate", "resolve"])
def test_a_seq_that_is_the_number_of_no_entry(site: Make, verb: str) -> None:
    s, saga_id = begun(site)
    path = f"/sagas/trip/{saga_id}/{verb}"
    numbers: tuple[Any, ...] = (-1, 0, 10**9, 10**40, True, 1.5, "3", "", [3])
    for seq in numbers:
        body = {"reason": "x", "seq": seq}
        assert _refused(s, 422, "invalid_request", request("POST", path, body)) == ["$.seq"]
        assert not s.takes("POST", path, body)
    for seq in (1, 10**9 - 1, None):
        body = {"reason": "x", "seq": seq}
        assert s.takes("POST", path, body)
        assert s.call("POST", path, body).status == 409  # the saga runs, and has no entry with the largest number


@pytest.mark.parametrize("attempts", [None, -1, 1001, 1.5, "1", True])
def test_recovery_attempts_that_do_not_fit(site: Make, attempts: Any) -> None:
    s = site(Trip)
    path = f"/sagas/trip/{s.begin('trip')}/recovery-attempts"
    body = {} if attempts is None else {"attempts": attempts}
    assert not s.takes("PUT", path, body)
    assert _refused(s, 422, "invalid_request", request("PUT", path, body)) == ["$.attempts"]


@pytest.mark.parametrize("verb", ["retry", "compensate", "resolve", "purge"])
def test_operations_with_bodies_that_are_not_json(site: Make, verb: str) -> None:
    s, saga_id = begun(site)
    _refused(s, 400, "malformed_body", request("POST", f"/sagas/trip/{saga_id}/{verb}", "{"))
    large = json.dumps({"reason": "x" * 300_000})
    _refused(s, 413, "too_large", request("POST", f"/sagas/trip/{saga_id}/{verb}", large))


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, ["$.active"]),
        ({"active": "no"}, ["$.active"]),
        ({"active": 0, "why": ""}, ["$.active", "$.why"]),
        ({"active": True, "reason": "\ud800"}, ["$.reason"]),
    ],
)
def test_definitions_with_bodies_that_do_not_fit(site: Make, body: Any, paths: list[str]) -> None:
    assert sorted(_refused(site(Trip), 422, "invalid_request", request("PUT", "/types/trip", body))) == paths


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/sagas/trip"), ("GET", "/sagas"), ("DELETE", f"/sagas/trip/{NOBODY}")],
)
def test_a_store_out_of_reach(
    site: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], method: str, path: str
) -> None:
    s = site(Trip, POWERTOOLS_SERVICE_NAME=f"unreachable-{method}")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    api_handler.reset()
    answer = s.call(method, path, {"item": "secret-train"} if method == "POST" else None)
    assert (answer.status, answer.code) == (503, "unavailable")
    assert int(answer.headers["retry-after"]) >= 1
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert s.tables() == ([], [])
    assert "secret-train" not in capsys.readouterr().out


def test_a_defect_shows_nothing_of_itself(
    site: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither to the caller nor, where it quotes the request, in the log."""
    s = site(Trip, POWERTOOLS_SERVICE_NAME="defect")

    def broken(*_: Any, **__: Any) -> Any:
        raise KeyError("secret-train")

    monkeypatch.setattr("sagas.engine.start.starter.decode", broken)
    answer = s.call("POST", "/sagas/trip", {"item": "secret-train"})
    assert (answer.status, answer.code) == (500, "internal")
    assert "secret-train" not in json.dumps(answer.body)
    log = capsys.readouterr().out
    assert "secret-train" not in log
    assert "KeyError" in log
    assert s.tables() == ([], [])


def test_the_log_of_a_refused_request_quotes_nothing(site: Make, capsys: pytest.CaptureFixture[str]) -> None:
    s = site(Trip, POWERTOOLS_SERVICE_NAME="refused")
    s.call("POST", "/sagas/trip", {"item": 1, "secret-field": "secret-value"})
    s.call("POST", "/sagas/trip", '{"secret-field": ')
    s.call("POST", "/sagas/trip", {"item": "secret-value"})
    log = capsys.readouterr().out
    assert "secret" not in log
    assert "InvalidRequest" in log


def test_a_query_parameter_that_utf_8_cannot_carry(site: Make) -> None:
    event = request("GET", "/sagas", **{"\ud800": "x"})
    assert _refused(site(Trip), 422, "invalid_request", event) == ['query["\\ud800"]']


def test_an_answer_about_many_deep_problems_is_not_larger_than_lambda_allows(site: Make) -> None:
    """Its limit is 6 MB; a path of a hundred long keys above a thousand bad items would make 75 of them."""
    s, inner = site(Free), json.dumps(["\ud800"] * 20_000)
    body = ('{"' + "\U0001f4a9" * 64 + '":') * 97 + inner + "}" * 97
    answer = s.call("POST", "/sagas/free", '{"data":' + body + "}")
    assert (answer.status, answer.code) == (422, "invalid_request")
    assert len(answer.body["error"]["details"]) == 1_000
    assert len(json.dumps(answer.body)) < 4_000_000


@pytest.mark.parametrize("event", [None, [], "x", {}, {"httpMethod": "GET"}, {"httpMethod": 1, "resource": "/sagas"}])
def test_an_event_that_is_no_call(site: Make, event: Any) -> None:
    s = site(Trip)
    answer = s.send(event)
    assert (answer.status, answer.code) == (404, "not_found")


def test_the_handler_answers_and_never_raises(site: Make) -> None:
    site(Trip)
    event = request("GET", "/sagas")
    event["headers"] = event["multiValueHeaders"] = None
    event["requestContext"] = {}
    assert api_handler.handler(event, LambdaContext())["statusCode"] == 200
