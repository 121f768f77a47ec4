"""The archive of the audit trail in the template."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from aws_cdk import App, Stack, assertions
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Match

from sagas.cdk import Archive, SagaService
from sagas.errors import DefinitionError
from tests.cdk.rendered import Template, by_id, of_type, rights
from tests.cdk.saga_classes import Trip

DAYS = timedelta(days=30)


def test_a_locked_bucket_is_made_and_the_stream_is_read(everything: Template) -> None:
    for function in of_type(everything, "AWS::Lambda::Function"):
        if "POWERTOOLS_SERVICE_NAME" in (variables := function["Environment"]["Variables"]):
            assert variables["STAGE"] == "test"
    template = assertions.Template.from_json(everything)
    rule = {"DefaultRetention": {"Days": 30, "Mode": "COMPLIANCE"}}
    template.has_resource_properties(
        "AWS::S3::Bucket",
        {
            "ObjectLockConfiguration": {"ObjectLockEnabled": "Enabled", "Rule": rule},
            "VersioningConfiguration": {"Status": "Enabled"},
        },
    )
    template.has_resource_properties("AWS::DynamoDB::Table", {"StreamSpecification": {"StreamViewType": "NEW_IMAGE"}})
    (audit,) = [id for id in by_id(everything, "AWS::DynamoDB::Table") if "Audit" in id]
    template.has_resource_properties(
        "AWS::Lambda::EventSourceMapping",
        {
            "EventSourceArn": {"Fn::GetAtt": [audit, "StreamArn"]},
            "StartingPosition": "TRIM_HORIZON",
            "BisectBatchOnFunctionError": True,
            "MaximumRecordAgeInSeconds": 23 * 3600,
            "DestinationConfig": {"OnFailure": Match.any_value()},
        },
    )
    (own,) = (own for role, own in rights(everything).items() if role.startswith("ShopArchiveCopy"))
    actions = {action for action, _ in own}
    assert {action for action in actions if action.startswith(("s3", "dynamodb"))} == {
        "s3:PutObject",
        "dynamodb:DescribeStream",
        "dynamodb:GetRecords",
        "dynamodb:GetShardIterator",
        "dynamodb:ListStreams",
    }


@pytest.mark.parametrize(("id", "table"), [("ArchiveStopped", "Audit"), ("EventsStopped", "Sagas")])
def test_a_mapping_that_stopped_is_noticed(everything: Template, id: str, table: str) -> None:
    """A disabled mapping has no age: the table changes, and the function is not called."""
    (alarm,) = (one for name, one in by_id(everything, "AWS::CloudWatch::Alarm").items() if f"Alarms{id}" in name)
    stats = {one["Id"]: one["MetricStat"]["Metric"] for one in alarm["Metrics"] if "MetricStat" in one}
    (rule,) = (one["Expression"] for one in alarm["Metrics"] if "Expression" in one)
    assert rule == "IF(FILL(writes, 0) > 0 AND FILL(calls, 0) < 1, 1, 0)"
    assert [metric["MetricName"] for _, metric in sorted(stats.items())] == [
        "Invocations",
        "ConsumedWriteCapacityUnits",
    ]
    (watched,) = (one["Value"]["Ref"] for one in stats["writes"]["Dimensions"])
    assert table in watched
    assert (alarm["Threshold"], alarm["EvaluationPeriods"], alarm["TreatMissingData"]) == (0, 3, "notBreaching")


def test_errors_of_the_archive_are_noticed(everything: Template) -> None:
    alarms = by_id(everything, "AWS::CloudWatch::Alarm")
    assert [one["MetricName"] for name, one in alarms.items() if "AlarmsArchiveErrors" in name] == ["Errors"]


def test_its_bucket_can_be_had() -> None:
    stack = Stack(App(), "Stack")
    assert SagaService(stack, "With", sagas=[Trip], archive=Archive()).archive_bucket is not None
    assert SagaService(stack, "Without", sagas=[Trip]).archive_bucket is None


def test_without_one_there_is_no_stream(plain: Template) -> None:
    tables = of_type(plain, "AWS::DynamoDB::Table")
    assert tables
    assert not [table for table in tables if "StreamSpecification" in table]


def own_table(stack: Stack, **more: Any) -> dynamodb.Table:
    string, number = dynamodb.AttributeType.STRING, dynamodb.AttributeType.NUMBER
    saga_id = dynamodb.Attribute(name="saga_id", type=string)
    return dynamodb.Table(
        stack, "Own", partition_key=saga_id, sort_key=dynamodb.Attribute(name="seq", type=number), **more
    )


@pytest.mark.parametrize(("given", "found"), [(None, "NEW_IMAGE"), ("NEW_AND_OLD_IMAGES", "NEW_AND_OLD_IMAGES")])
def test_a_table_of_ones_own_gets_a_stream(given: str | None, found: str) -> None:
    stack = Stack(App(), "Stack")
    table = own_table(stack, stream=None if given is None else dynamodb.StreamViewType[given])
    SagaService(stack, "Shop", sagas=[Trip], tables={"audit": table}, archive=Archive())
    streamed = {"StreamSpecification": {"StreamViewType": found}}
    assertions.Template.from_stack(stack).has_resource_properties("AWS::DynamoDB::Table", streamed)


def test_a_stream_of_keys_does_not_do() -> None:
    stack = Stack(App(), "Stack")
    table = own_table(stack, stream=dynamodb.StreamViewType.KEYS_ONLY)
    with pytest.raises(DefinitionError, match="archive: tables: audit: its stream must be NEW_IMAGE"):
        SagaService(stack, "Shop", sagas=[Trip], tables={"audit": table}, archive=Archive())


def test_an_imported_table_needs_a_stream() -> None:
    stack = Stack(App(), "Stack")
    table = dynamodb.Table.from_table_name(stack, "Own", "audit")
    with pytest.raises(DefinitionError, match="archive: tables: audit: it has no stream; import it with"):
        SagaService(stack, "Shop", sagas=[Trip], tables={"audit": table}, archive=Archive())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"lock": 30}, "Archive: lock must be a timedelta, not 30"),
        ({"lock": timedelta(hours=25)}, "Archive: lock must be whole days, not 1 day, 1:00:00"),
        ({"lock": timedelta(0)}, "Archive: lock (in seconds) must be 86,400 to"),
        ({"compliance": True}, "Archive: compliance requires lock"),
        ({"lock": DAYS, "bucket": True}, "Archive: lock cannot be used with bucket"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], told: str) -> None:
    if "bucket" in options:
        options["bucket"] = s3.Bucket.from_bucket_name(Stack(App(), "Stack"), "Bucket", "kept")
    with pytest.raises(DefinitionError, match=re.escape(told)):
        Archive(**options)


def test_anything_else_is_no_archive() -> None:
    with pytest.raises(DefinitionError, match=re.escape("archive must be an Archive or None, not 'kept'")):
        SagaService(Stack(App(), "Stack"), "Shop", sagas=[Trip], archive="kept")  # pyright: ignore[reportArgumentType]
