"""A stub of the API, and a client of it."""

from __future__ import annotations

from collections.abc import Generator

import boto3
import pytest

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
