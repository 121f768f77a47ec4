"""Deployments on DynamoDB in memory with SQS and S3 of moto, and on the emulator: single-threaded, under a clock that
only the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast
from uuid import uuid4

import pytest
from botocore.client import BaseClient

from sagas.errors import Unavailable
from tests.engine.acting import ACT, helpers
from tests.engine.metering import Wire
from tests.engine.outages import Outage
from tests.engine.purges import deploy
from tests.engine.sweeping import BUCKET, DAY, ENVIRONMENT, Own, Slow, SweepDesk, Zip
from tests.support.aws import REGION, HandmadeStack
from tests.support.bench import Bench, deploy_functions
from tests.support.databases import emulator, lead_nowhere
from tests.support.dynamodb import aws
from tests.support.sagas import FAIL, LOG


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials and a region that lead nowhere."""
    lead_nowhere(monkeypatch)


@pytest.fixture
def clean() -> Iterator[None]:
    """What sagas did, and how they are to fail, is forgotten before and after."""
    LOG.clear()
    FAIL.clear()
    yield
    LOG.clear()
    FAIL.clear()


@pytest.fixture
def acting() -> Iterator[None]:
    """Nothing is left to do for steps, before and after, and no thread of the library's runs on."""
    ACT.clear()
    yield
    ACT.clear()
    assert helpers() == []


@pytest.fixture
def bench(credentials: None, clean: None) -> Iterator[Callable[..., Bench]]:
    """Make a bench for some saga classes, which hands messages to the worker."""
    with aws():
        yield Bench


@pytest.fixture
def keeping(bench: Callable[..., Bench]) -> Callable[..., Bench]:
    """Make a bench whose sagas are kept for a day, unless it is told otherwise, and their keys for 30 more."""

    def make(*classes: type[Any], retention: float = DAY) -> Bench:
        made = bench(*classes)
        deploy(made, *classes, retention=retention)
        return made

    return make


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch, credentials: None) -> Iterator[Callable[..., Bench]]:
    """Make a bench for some saga classes, which invokes the step function; keywords go into its environment."""

    def make(*classes: type[Any], **environment: str) -> Bench:
        return deploy_functions(monkeypatch, HandmadeStack(*classes), Bench, **environment)

    with aws():
        yield make


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch, credentials: None) -> Callable[..., Bench]:
    """The same on the emulator, which counts receives as SQS does."""
    url = emulator().endpoint_url
    assert url is not None

    def make(*classes: type[Any], **environment: str) -> Bench:
        stack = HandmadeStack(*classes, prefix=f"t{uuid4().hex[:8]}", endpoint_url=url)
        return deploy_functions(monkeypatch, stack, Bench, AWS_ENDPOINT_URL=url, **environment)

    return make


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations that DynamoDB is asked for, as they are: of circuit breakers after ``breaker``."""
    seen: list[str] = []
    send = cast("Any", BaseClient)._make_api_call

    def listening(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
        if self.meta.service_model.service_name == "dynamodb":
            key: dict[str, Any] = parameters.get("Key") or parameters.get("Item") or {}
            ours = str(key.get("saga_id", {}).get("S", "")).startswith("breaker#")
            seen.append(f"breaker {operation}" if ours else operation)
        return send(self, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", listening)
    return seen


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """Listen at botocore, through which PynamoDB and boto3 both go."""
    seen = Wire()
    send = cast("Any", BaseClient)._make_api_call

    def listening(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
        if parameters.get("Key") == {"saga_id": {"S": "pauses"}} and operation == "GetItem":
            seen.of_pauses.append(parameters)
        else:
            seen.requests.append((operation, parameters))
        return send(self, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", listening)
    return seen


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outage]:
    """Have a bench's store fail once user code has run, so many times from now on."""

    def make(bench: Bench, runs: int = 1, *, error: Unavailable | None = None, after: bool = False) -> Outage:
        found = Outage(monkeypatch, bench, error or Unavailable("DynamoDB is out of reach"), after)
        found.of(bench.engine.control, "get", "claim", "claim_step", "claim_undo", "commit", "finish")
        found.of(bench.engine.journal, "put", "entries")
        found.begins_after(runs)
        return found

    return make


@pytest.fixture
def desk(deployed: Callable[..., Bench]) -> Callable[..., SweepDesk]:
    """Make a desk for some saga classes; :class:`Zip` by default."""
    Own.seen.clear()
    Slow.seen.clear()
    Slow.loops.clear()
    Own.error = None

    def make(*classes: type[Any]) -> SweepDesk:
        made = SweepDesk(deployed(*(classes or (Zip,)), **ENVIRONMENT))
        made.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        made.clock.advance(3 * DAY)  # what is stored now is old
        return made

    return make
