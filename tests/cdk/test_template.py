"""The reference stack's template, point by point."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sagas import Saga, step, wait_for
from sagas.engine.registry import Registry
from sagas.handlers.http.openapi import describe
from tests.cdk.rendered import lint, operations, shown

Template = dict[str, Any]
Find = Callable[[str], list[Template]]
"""One of each partition."""


class Asked(Saga[str], name="asked"):
    """Of all kinds of calls some are about it."""

    @step
    def ask(self) -> None: ...

    @wait_for(str, timeout=timedelta(1), public=True)
    def reply(self) -> None: ...


def _nameless(path: str) -> str:
    return re.sub("{.*?}", "{}", path)


def denies_plain_http(policy: Template) -> bool:
    """Tell whether a resource policy refuses connections without TLS, to everyone."""
    return any(
        statement["Effect"] == "Deny"
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        and statement["Principal"] in ("*", {"AWS": "*"})
        for statement in policy["PolicyDocument"]["Statement"]
    )


def test_cfn_lint_would_find_something(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.template.json"
    queue = {"Type": "AWS::SQS::Queue", "Properties": {"Nonsense": 1}}
    wrong.write_text(json.dumps({"Resources": {"Queue": queue}}))
    assert "Nonsense" in " ".join(lint(wrong))


def test_cdk_nag_would_find_something(tmp_path: Path) -> None:
    from aws_cdk import aws_s3 as s3

    from infra.app import build_app

    app = build_app(str(tmp_path))
    s3.Bucket(app.node.find_child("Sagas"), "WithoutTls")  # pyright: ignore[reportArgumentType] - a Stack, at run time
    with pytest.raises(RuntimeError, match="AwsSolutions-S10"):
        app.synth()


class TestTables:
    def test_keys_and_indexes(self, template: Template) -> None:
        sagas, audit = (marked(template, part) for part in ("sagas_table", "audit_table"))
        assert sagas["KeySchema"] == [{"AttributeName": "saga_id", "KeyType": "HASH"}]
        assert audit["KeySchema"] == [
            {"AttributeName": "saga_id", "KeyType": "HASH"},
            {"AttributeName": "seq", "KeyType": "RANGE"},
        ]
        assert {"AttributeName": "seq", "AttributeType": "N"} in audit["AttributeDefinitions"]
        indexes = {index["IndexName"]: index for index in sagas["GlobalSecondaryIndexes"]}
        assert {name: [key["AttributeName"] for key in index["KeySchema"]] for name, index in indexes.items()} == {
            "open": ["open_shard", "due"],
            "by_name": ["name_shard", "created_at"],
            "ended": ["ended", "ended_at"],
            "incidents": ["incident_shard", "incident"],
        }
        incidents = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["seq"]}
        assert {name: index["Projection"] for name, index in indexes.items()} == {
            **{name: {"ProjectionType": "KEYS_ONLY"} for name in ("open", "by_name", "ended")},
            "incidents": incidents,
        }

    def test_protected(self, of_type: Find) -> None:
        for table in of_type("AWS::DynamoDB::Table"):
            assert table["BillingMode"] == "PAY_PER_REQUEST"
            assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
            assert table["@resource"]["DeletionPolicy"] == "RetainExceptOnCreate"
            assert table["@resource"]["UpdateReplacePolicy"] == "Retain"

    def test_tombstones_expire_and_nothing_else(self, template: Template) -> None:
        expires = {"AttributeName": "expires_at", "Enabled": True}
        assert marked(template, "audit_table")["TimeToLiveSpecification"] == expires
        assert "TimeToLiveSpecification" not in marked(template, "sagas_table")


class TestTransportAndEncryption:
    def test_buckets(self, of_type: Find) -> None:
        guarded = {policy["Bucket"]["Ref"] for policy in of_type("AWS::S3::BucketPolicy") if denies_plain_http(policy)}
        for bucket in of_type("AWS::S3::Bucket"):
            assert bucket["@id"] in guarded
            assert bucket["BucketEncryption"]
            assert all(bucket["PublicAccessBlockConfiguration"].values())

    def test_queues(self, of_type: Find) -> None:
        policies = [policy for policy in of_type("AWS::SQS::QueuePolicy") if denies_plain_http(policy)]
        guarded = {queue["Ref"] for policy in policies for queue in policy["Queues"]}
        for queue in of_type("AWS::SQS::Queue"):
            assert queue["@id"] in guarded
            assert queue["SqsManagedSseEnabled"] is True
            assert queue["MessageRetentionPeriod"] == 14 * 24 * 3600

    def test_topics(self, of_type: Find) -> None:
        policies = [policy for policy in of_type("AWS::SNS::TopicPolicy") if denies_plain_http(policy)]
        guarded = {topic["Ref"] for policy in policies for topic in policy["Topics"]}
        for topic in of_type("AWS::SNS::Topic"):
            assert topic["@id"] in guarded
            assert topic["KmsMasterKeyId"]


class TestFunctions:
    def test_all(self, of_type: Find) -> None:
        for function in of_type("AWS::Lambda::Function"):
            assert function["Runtime"] == "python3.13"
            assert function["Architectures"] == ["arm64"]
            assert function["TracingConfig"] == {"Mode": "Active"}
            assert len(function["Layers"]) == 1
            assert function["LoggingConfig"]["LogGroup"]

    def test_one_for_each_step_with_its_own_role(self, template: Template) -> None:
        found = dict(marked_all(template, "function"))
        assert set(found) == {
            *(("create-zip", step) for step in ("check", "upload", "announce")),
            *(("checkout", step) for step in ("reserve", "capture", "ship")),
            *(("approval", step) for step in ("enter", "decision", "late_decision", "place")),
            *(("basket", step) for step in ("capture", "parcels", "confirm")),
            *(("parcel", step) for step in ("pack", "book")),
        }
        roles = [json.dumps(function["Role"]) for function in found.values()]
        assert len(set(roles)) == len(roles)

    def test_may_call_themselves_through_queues(self, template: Template) -> None:
        assert all(function["RecursiveLoop"] == "Allow" for _, function in marked_all(template, "function"))

    def test_timeouts_leave_time_to_record_the_outcome(self, template: Template) -> None:
        found = dict(marked_all(template, "function"))
        assert found["create-zip", "upload"]["Timeout"] == 846
        assert found["checkout", "ship"]["Timeout"] == 36

    def test_environment(self, template: Template) -> None:
        variables = dict(marked_all(template, "function"))["checkout", "capture"]["Environment"]["Variables"]
        assert variables["SAGAS_CLASSES"] == '["functions.checkout:Checkout"]'
        assert variables["SAGAS_SHARDS"] == "8"
        assert variables["SAGAS_MAX_RECEIVES"] == "19"
        assert variables["POWERTOOLS_METRICS_NAMESPACE"] == "Sagas"
        assert '"AWS::StackId"' in json.dumps(variables["SAGAS_SERVICE"])
        assert {"SAGAS_TABLE", "SAGAS_AUDIT_TABLE", "SAGAS_PAYLOAD_BUCKET", "SAGAS_QUEUES", "ZIPS_BUCKET"} <= set(
            variables
        )
        assert "create-zip" not in json.dumps(variables["SAGAS_QUEUES"])

    def test_share_a_log_that_is_kept_for_a_time(self, of_type: Find) -> None:
        (group,) = of_type("AWS::Logs::LogGroup")
        assert group["RetentionInDays"] == 90
        named = [function["LoggingConfig"]["LogGroup"] for function in of_type("AWS::Lambda::Function")]
        assert all(name == {"Ref": group["@id"]} for name in named)


class TestQueues:
    def test_step_queues(self, template: Template) -> None:
        functions = dict(marked_all(template, "function"))
        for group, queue in marked_all(template, "queue"):
            assert queue["VisibilityTimeout"] == functions[group]["Timeout"] + 2
            assert 0 < queue["RedrivePolicy"]["maxReceiveCount"] <= 1000

    def test_one_dead_letter_queue_a_saga(self, template: Template) -> None:
        letters = {
            name: resource["Metadata"]["sagas"]["saga"]
            for name, resource in template["Resources"].items()
            if resource.get("Metadata", {}).get("sagas", {}).get("part") == "dead_letter_queue"
        }
        assert sorted(letters.values()) == ["approval", "basket", "checkout", "create-zip", "parcel"]
        for (saga, _), queue in marked_all(template, "queue"):
            assert letters[queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]] == saga

    def test_event_sources(self, of_type: Find) -> None:
        sources = of_type("AWS::Lambda::EventSourceMapping")
        assert len(sources) == 17
        assert sorted(source["BatchSize"] for source in sources) == [*[1] * 16, 10]  # ends of waits come ten at a time
        for source in sources:
            assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert [one["ScalingConfig"] for one in sources if "ScalingConfig" in one] == [
            {"MaximumConcurrency": most} for most in (10, 20)
        ]


class TestBulk:
    def test_a_queue_whose_dead_letters_are_its_own(self, template: Template) -> None:
        queue, letters = (marked(template, part, "bulk") for part in ("work_queue", "work_dead_letter_queue"))
        function = marked(template, "work_function", "bulk")
        assert queue["VisibilityTimeout"] == function["Timeout"] + 2
        assert queue["RedrivePolicy"]["maxReceiveCount"] == 10
        assert letters["RedriveAllowPolicy"]["redrivePermission"] == "byQueue"
        [source] = letters["RedriveAllowPolicy"]["sourceQueueArns"]
        assert json.dumps(queue["QueueName"]["Fn::Join"][1][0])[1:-1] in json.dumps(source)

    def test_a_function_that_may_send_to_its_own_queue(self, template: Template) -> None:
        function = marked(template, "work_function", "bulk")
        assert function["RecursiveLoop"] == "Allow"
        assert (function["MemorySize"], function["Handler"]) == (1024, "sagas.handlers.bulk.handler")
        assert '"work":{"bulk":"' in json.dumps(function["Environment"]["Variables"]["SAGAS_QUEUES"]).replace("\\", "")

    def test_steps_and_the_api_do_not_know_of_it(self, template: Template) -> None:
        handlers = {
            resource["Properties"]["Handler"]: resource["Properties"]["Environment"]["Variables"]
            for resource in template["Resources"].values()
            if resource["Type"] == "AWS::Lambda::Function" and "sagas.handlers" in resource["Properties"]["Handler"]
        }
        known = {
            name
            for name, variables in handlers.items()
            if '"bulk":"' in json.dumps(variables["SAGAS_QUEUES"]).replace("\\", "")
        }
        assert known == {"sagas.handlers.supervisor.handler", "sagas.handlers.bulk.handler"}


class TestSupervisor:
    def test_ticks(self, of_type: Find) -> None:
        (rule,) = of_type("AWS::Events::Rule")
        assert rule["ScheduleExpression"] == "cron(0/1 * * * ? *)"
        assert rule["Targets"][0]["InputTransformer"] == {
            "InputPathsMap": {"time": "$.time"},
            "InputTemplate": '{"task":"tick","time":<time>,"sample":100}',
        }

    def test_is_not_retried(self, of_type: Find) -> None:
        (invocation,) = of_type("AWS::Lambda::EventInvokeConfig")
        assert invocation["MaximumRetryAttempts"] == 0
        for rule in of_type("AWS::Events::Rule"):
            assert rule["Targets"][0]["RetryPolicy"]["MaximumRetryAttempts"] == 0


class TestApi:
    def test_routes(self, template: Template) -> None:
        from sagas.cdk.access.api import ROUTES

        assert set(operations(template)) == {(path, method) for path, methods in ROUTES.items() for method in methods}

    def test_has_every_call_that_is_described_and_no_other(self) -> None:
        from sagas.cdk.access.api import PUBLIC_ROUTES, ROUTES

        routes = [*ROUTES.items(), *PUBLIC_ROUTES.items()]
        described = {
            (_nameless(path.replace("/asked", "/{name}").replace("/reply", "/{step}")), method.upper())
            for path, calls in describe(list(Registry([Asked])))["paths"].items()
            for method in calls
            if method in ("get", "put", "post", "delete")
        }
        assert described == {(_nameless(f"/{path}"), method) for path, methods in routes for method in methods}

    def test_each_operation_is_signed(self, template: Template, of_type: Find) -> None:
        """cdk-nag sees no method in a document, so it cannot notice one that is open."""
        assert {json.dumps(one["security"]) for one in operations(template).values()} == {'[{"sigv4": []}]'}
        (api,) = of_type("AWS::ApiGateway::RestApi")
        scheme = api["Body"]["components"]["securitySchemes"]["sigv4"]
        assert scheme["x-amazon-apigateway-authtype"] == "awsSigv4"
        assert "security" not in api["Body"]
        assert not of_type(METHOD)

    def test_the_stage_names_the_function_that_the_document_calls(self, template: Template, of_type: Find) -> None:
        """A document that named it would depend on it, and functions depend on the API by its URL."""
        (stage,) = of_type("AWS::ApiGateway::Stage")
        (function,) = [one["@id"] for one in of_type("AWS::Lambda::Function") if one["Handler"].endswith("api.handler")]
        assert stage["Variables"] == {"function": {"Ref": function}, "alias": "live"}
        called = {shown(one["x-amazon-apigateway-integration"]["uri"]) for one in operations(template).values()}
        (uri,) = called
        assert uri.endswith(":function:${stageVariables.function}:${stageVariables.alias}/invocations")
        (api,) = of_type("AWS::ApiGateway::RestApi")
        assert "Fn::GetAtt" not in json.dumps(api["Body"])
        (permission,) = [one for one in of_type("AWS::Lambda::Permission") if "apigateway" in one["Principal"]]
        assert shown(permission["SourceArn"]).endswith(f":<{api['@id']}>/*/*/*")

    def test_stage(self, of_type: Find) -> None:
        (stage,) = of_type("AWS::ApiGateway::Stage")
        assert stage["TracingEnabled"] is True
        (settings,) = stage["MethodSettings"]
        assert settings["ThrottlingRateLimit"] > 0
        assert settings["ThrottlingBurstLimit"] > 0
        assert settings.get("DataTraceEnabled", False) is False

    def test_gateway_answers_have_our_shape(self, of_type: Find) -> None:
        (api,) = of_type("AWS::ApiGateway::RestApi")
        answers = api["Body"]["x-amazon-apigateway-gateway-responses"]
        assert {"DEFAULT_4XX", "DEFAULT_5XX", "REQUEST_TOO_LARGE", "THROTTLED"} <= set(answers)
        for answer in answers.values():
            text = answer["responseTemplates"]["application/json"]
            body = json.loads(text.replace("$context.error.messageString", '"Too large"'))
            assert body["error"].keys() == {"code", "message", "details"}


METHOD = "AWS::ApiGateway::Method"


def path_of(template: Template, resource: Template) -> str:
    """The path of an API's resource, without the leading slash."""
    if "Ref" not in resource:
        return ""
    properties = template["Resources"][resource["Ref"]]["Properties"]
    return f"{path_of(template, properties['ParentId'])}/{properties['PathPart']}".lstrip("/")


def marked(template: Template, part: str, name: str = "") -> Template:
    """The properties of the one resource that is marked as ``part``, and by that name."""
    (found,) = (
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource.get("Metadata", {}).get("sagas", {}) == {"part": part, **({"name": name} if name else {})}
    )
    return found


def marked_all(template: Template, part: str) -> Iterator[tuple[tuple[str, str], Template]]:
    """The properties of the resources marked as ``part``, by saga and step."""
    for resource in template["Resources"].values():
        names = resource.get("Metadata", {}).get("sagas", {})
        if names.get("part") == part:
            yield (names["saga"], names["step"]), resource["Properties"]


@pytest.mark.parametrize(
    "output", ["ZipsBucket", "AnnounceTopicArn", "StockTable", "LedgerTable", "ShipmentsTable", "ApiUrl"]
)
def test_outputs(template: Template, output: str) -> None:
    assert output in template["Outputs"]
