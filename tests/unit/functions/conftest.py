"""AWS in process, and the context a step runs in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import boto3
import pytest
from moto import mock_aws

REGION = "eu-central-1"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No call leaves the process, and no real credentials are at hand if one did."""
    environment = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": REGION}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        yield


@pytest.fixture
def s3(aws: None) -> Any:
    """A client, with the buckets ``sources`` and ``zips`` made."""
    client: Any = cast(Any, boto3).client("s3")
    for bucket in ("sources", "zips"):
        client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    return client


@pytest.fixture
def topic(aws: None) -> str:
    """The ARN of a topic."""
    return str(cast(Any, boto3).client("sns").create_topic(Name="archives")["TopicArn"])
