"""The handlers on DynamoDB in memory and SQS and S3 of moto, called with API Gateway's and SQS's events."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from sagas.handlers import api as api_handler
from sagas.handlers import step as step_handler
from tests.support.aws import HandmadeStack, LambdaContext
from tests.support.bench import Bench, deploy_functions
from tests.support.databases import lead_nowhere
from tests.support.described import Description
from tests.support.dynamodb import aws
from tests.support.gateway import matched
from tests.support.sagas import FAIL, LOG, Trip

EVENTS = Path(__file__).parents[2] / "events"
STAGE = "/prod"
LAMBDAS_LIMIT = 6 * 1024 * 1024
"""Bytes that a function may answer."""
ANN = "arn:aws:iam::123456789012:user/ann"


def load(name: str) -> dict[str, Any]:
    """A sample event."""
    return json.loads((EVENTS / f"{name}.json").read_text())


class Answer:
    """What the API said."""

    def __init__(self, raw: dict[str, Any]) -> None:
        json.dumps(raw, ensure_ascii=False).encode()  # as it leaves the function: it must be UTF-8
        assert len(json.dumps(raw)) <= LAMBDAS_LIMIT
        self.status: int = raw["statusCode"]
        multi: dict[str, list[str]] = raw.get("multiValueHeaders") or {}
        single: dict[str, str] = raw.get("headers") or {}
        several = {name.lower(): values[0] for name, values in multi.items()}
        self.headers: dict[str, str] = several | {name.lower(): value for name, value in single.items()}
        self.body: Any = json.loads(raw["body"]) if raw["body"] else None

    @property
    def code(self) -> str:
        """The error's code; the answer has the shape of errors."""
        assert set(self.body) - {"saga"} == {"error"}
        assert ("saga" in self.body) == (self.body["error"]["code"] == "state_changed")
        assert set(self.body["error"]) == {"code", "message", "details"}
        return self.body["error"]["code"]

    @property
    def paths(self) -> list[str]:
        """The failing paths of a 422."""
        details = self.body["error"]["details"]
        assert all(set(problem) == {"path", "message"} for problem in details)
        return [problem["path"] for problem in details]


def request(method: str, path: str, body: Any = None, *, key: str | None = None, **query: str) -> dict[str, Any]:
    """A REST API event, from the sample of one. ``body``: text as it is, anything else as JSON."""
    event = load("api_get_saga")
    event["path"] = path
    event["resource"], event["pathParameters"] = matched(path, os.environ.get("SAGAS_MOUNT", ""))
    event["httpMethod"] = method
    event["queryStringParameters"] = query or None
    event["multiValueQueryStringParameters"] = {name: [value] for name, value in query.items()} or None
    event["body"] = body if body is None or isinstance(body, str) else json.dumps(body)
    if key is not None:
        event["headers"]["idempotency-key"] = key
    context = {"path": STAGE + path, "resourcePath": event["resource"], "httpMethod": method, "stage": "prod"}
    event["requestContext"] |= context
    event["requestContext"]["identity"]["userArn"] = ANN
    return event


_DESCRIPTIONS: dict[tuple[Any, ...], Description] = {}
"""By what is deployed: each takes as long as ten other answers."""


class Site(Bench):
    """A deployment with its API."""

    @property
    def _description(self) -> Description:
        key = (*self.stack.classes, os.environ.get("SAGAS_MOUNT"))
        if key not in _DESCRIPTIONS:
            answer = Answer(api_handler.handler(request("GET", "/openapi.json"), LambdaContext()))
            _DESCRIPTIONS[key] = Description(answer.body)
        return _DESCRIPTIONS[key]

    def send(self, event: Any) -> Answer:
        """Have the API handler answer an event; the answer must be one that the description allows."""
        answer = Answer(api_handler.handler(event, LambdaContext()))
        call = cast("dict[str, Any]", event) if isinstance(event, dict) else dict[str, Any]()
        method, path = call.get("httpMethod"), call.get("path")
        if isinstance(method, str) and isinstance(path, str):
            self._description.check(method, path, answer.status, answer.headers, answer.body)
        return answer

    def takes(self, method: str, path: str, body: Any) -> bool:
        """Whether the description says that a call may have this body."""
        return self._description.takes(method, path, body)

    def call(self, method: str, path: str, body: Any = None, *, key: str | None = None, **query: str) -> Answer:
        """Call the API."""
        return self.send(request(method, path, body, key=key, **query))

    def begin(self, name: str, body: Any = None) -> str:
        """Start a saga by the API; return its id."""
        answer = self.call("POST", f"/sagas/{name}", {"item": "train"} if body is None else body)
        assert answer.status == 202
        return answer.body["saga_id"]

    def tables(self) -> tuple[Any, Any]:
        """Everything in both tables, to see that nothing changed."""
        names = (self.stack.sagas_table, self.stack.audit_table)
        sagas, audit = (self.stack.dynamodb.scan(TableName=name)["Items"] for name in names)
        return sagas, audit

    def waiting(self) -> int:
        """How many messages there are, hidden ones included."""
        return sum(self._depth(url) for steps in self.stack.queues.values() for url in steps.values())

    def dead(self, saga: str) -> list[dict[str, Any]]:
        """The dead letters of a saga type."""
        answer = self.stack.sqs.receive_message(QueueUrl=self.stack.dead[saga], MaxNumberOfMessages=10)
        return answer.get("Messages", [])

    def _depth(self, url: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.stack.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)


Make = Callable[..., Site]


def begun(site: Make) -> tuple[Site, str]:
    """A site with a trip that has not run yet."""
    made = site(Trip)
    return made, made.begin("trip")


def ended(site: Make) -> tuple[Site, str]:
    """A site with a trip that ran as far as it can."""
    made, saga_id = begun(site)
    made.run()
    return made, saga_id


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make a site for some saga classes; keywords go into the environment."""
    lead_nowhere(monkeypatch)

    def make(*classes: type[Any], **environment: str) -> Site:
        api_handler.reset()
        return deploy_functions(monkeypatch, HandmadeStack(*classes), Site, **environment)

    LOG.clear()
    FAIL.clear()
    with aws():
        yield make
    LOG.clear()
    FAIL.clear()
    api_handler.reset()
    step_handler.reset()
