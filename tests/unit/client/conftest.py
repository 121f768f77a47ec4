"""A stub of the API, a client of it, and SQS in process."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

import boto3
import pytest
from moto import mock_aws

from sagas import SagaClient
from tests.unit.client.stub import StubApi, serving


@pytest.fixture
def api() -> Generator[StubApi]:
    """A stub of the API."""
    with serving() as stub:
        yield stub


@pytest.fixture
def session() -> boto3.Session:
    """A session with credentials that are good for nothing."""
    return boto3.Session(aws_access_key_id="AKIATEST", aws_secret_access_key="secret", region_name="eu-central-1")


@pytest.fixture
def client(api: StubApi, session: boto3.Session) -> SagaClient:
    """A client of the stub."""
    return SagaClient(api.url, session=session)


@pytest.fixture
def sqs(session: boto3.Session, monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    """A client of SQS in process. Receives do not wait: it has one server, which knows all messages."""
    monkeypatch.setattr("sagas.client.operate.queue_walk._WAIT", 0)
    with mock_aws():
        yield cast("Any", session).client("sqs")
