"""Finding a service by the stack it is deployed in."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

import boto3
import pytest
from botocore.stub import Stubber

from sagas.client.endpoints import endpoints_from_stack
from sagas.client.transport import Transport
from sagas.errors import SagaError

API = {
    "Api": {"Type": "AWS::ApiGateway::RestApi", "Metadata": {"sagas": {"part": "api"}}},
    "Stage": {"Type": "AWS::ApiGateway::Stage", "Properties": {"RestApiId": {"Ref": "Api"}, "StageName": "v1"}},
    "Nested": {"Type": "AWS::CloudFormation::Stack"},
    "Gone": {"Type": "AWS::SQS::Queue", "Metadata": {"sagas": {"part": "queue", "saga": "pay", "step": "old"}}},
}
QUEUES = {
    "Take": {"Type": "AWS::SQS::Queue", "Metadata": {"sagas": {"part": "queue", "saga": "pay", "step": "take"}}},
    "Dead": {"Type": "AWS::SQS::Queue", "Metadata": {"sagas": {"part": "dead_letter_queue", "saga": "pay"}}},
    "Watch": {"Type": "AWS::Lambda::Function", "Metadata": {"sagas": {"part": "supervisor"}}},
    "Other": {"Type": "AWS::SQS::Queue"},
}


class StubbedSession:
    """A session whose CloudFormation answers as it is told."""

    def __init__(self, session: boto3.Session) -> None:
        self.made: Any = cast("Any", session).client("cloudformation")
        self.stubber: Any = Stubber(self.made)

    def client(self, service: str, **_options: Any) -> Any:
        return self.made

    def will_hold(self, stack: str, resources: dict[str, Any], physical_ids: dict[str, str]) -> None:
        summaries = [
            {
                "LogicalResourceId": name,
                "PhysicalResourceId": physical_ids[name],
                "ResourceType": resource["Type"],
                "ResourceStatus": "DELETE_COMPLETE" if name == "Gone" else "CREATE_COMPLETE",
                "LastUpdatedTimestamp": 0,
            }
            for name, resource in resources.items()
        ]
        asked = {"StackName": stack}
        self.stubber.add_response("list_stack_resources", {"StackResourceSummaries": summaries}, asked)
        template = {"TemplateBody": {"Resources": resources}}
        # CloudFormation answers with an object where the template is JSON; botocore's model calls it a string.
        self.stubber.add_response("get_template", template, {**asked, "TemplateStage": "Processed"})


def _accept(*_: object) -> None:
    """Take any answer."""


@pytest.fixture
def stubbed(session: boto3.Session, monkeypatch: pytest.MonkeyPatch) -> Generator[StubbedSession]:
    stub = StubbedSession(session)
    monkeypatch.setattr("botocore.stub.validate_parameters", _accept)
    with stub.stubber:
        yield stub


def test_finds_parts_also_in_nested_stacks(stubbed: StubbedSession) -> None:
    stubbed.will_hold("shop", API, {"Api": "abc", "Stage": "v1", "Nested": "arn:nested", "Gone": "https://gone"})
    inner = {"Take": "https://take", "Dead": "https://dead", "Watch": "shop-Supervisor", "Other": "https://other"}
    stubbed.will_hold("arn:nested", QUEUES, inner)
    found = endpoints_from_stack(cast("boto3.Session", stubbed), "shop")
    assert found.api_url == "https://abc.execute-api.eu-central-1.amazonaws.com/v1"
    assert found.dead_letter_queues == {"pay": "https://dead"}
    assert (found.region, found.endpoint_url, found.supervisor) == ("eu-central-1", None, "shop-Supervisor")


@pytest.mark.parametrize(
    ("endpoint", "api_url"),
    [
        ("https://cloudformation.eu-central-1.api.aws", "https://abc.execute-api.eu-central-1.amazonaws.com/v1"),
        (
            "https://vpce-1-2.cloudformation.eu-central-1.vpce.amazonaws.com/",
            "https://abc.execute-api.eu-central-1.amazonaws.com/v1",
        ),
        ("http://localhost:4566", "http://localhost:4566/_aws/execute-api/abc/v1"),
    ],
)
def test_at_an_emulator_the_api_is_there_too(
    session: boto3.Session, monkeypatch: pytest.MonkeyPatch, endpoint: str, api_url: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setattr("botocore.stub.validate_parameters", _accept)
    stub = StubbedSession(session)
    with stub.stubber:
        stub.will_hold("shop", {"Api": API["Api"], "Stage": API["Stage"]}, {"Api": "abc", "Stage": "v1"})
        assert endpoints_from_stack(cast("boto3.Session", stub), "shop").api_url == api_url


@pytest.mark.parametrize(
    ("region", "api_url"),
    [
        ("eusc-de-east-1", "https://abc.execute-api.eusc-de-east-1.amazonaws.eu/v1"),
        ("cn-north-1", "https://abc.execute-api.cn-north-1.amazonaws.com.cn/v1"),
        ("us-gov-west-1", "https://abc.execute-api.us-gov-west-1.amazonaws.com/v1"),
        ("us-iso-east-1", "https://abc.execute-api.us-iso-east-1.c2s.ic.gov/v1"),
        ("eu-nowhere-9", "https://abc.execute-api.eu-nowhere-9.amazonaws.com/v1"),
    ],
)
def test_each_partition_has_its_suffix(monkeypatch: pytest.MonkeyPatch, region: str, api_url: str) -> None:
    monkeypatch.setattr("botocore.stub.validate_parameters", _accept)
    stub = StubbedSession(boto3.Session("key", "secret", region_name=region))
    with stub.stubber:
        stub.will_hold("shop", {"Api": API["Api"], "Stage": API["Stage"]}, {"Api": "abc", "Stage": "v1"})
        found = endpoints_from_stack(cast("boto3.Session", stub), "shop")
    assert found.api_url == api_url
    assert found.endpoint_url is None
    if ".amazonaws." in api_url:
        assert Transport(api_url, None, boto3.Session("key", "secret", region_name="us-east-1")).region == region


def test_a_stack_of_something_else(stubbed: StubbedSession) -> None:
    stubbed.will_hold("other", {"Other": QUEUES["Other"]}, {"Other": "https://other"})
    with pytest.raises(SagaError, match="the stack other has no saga service"):
        endpoints_from_stack(cast("boto3.Session", stubbed), "other")


def test_no_such_stack(stubbed: StubbedSession) -> None:
    message = "Stack with id nope does not exist"
    stubbed.stubber.add_client_error("list_stack_resources", "ValidationError", message)
    with pytest.raises(SagaError, match=message):
        endpoints_from_stack(cast("boto3.Session", stubbed), "nope")
