"""Tables, queues and a bucket on whatever AWS endpoint is at hand, and a pump that plays Lambda's part for SQS."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import boto3
from moto.core.models import DEFAULT_ACCOUNT_ID as ACCOUNT_ID
from moto.sqs.models import sqs_backends

from sagas.authoring.definition.definition import definition_of
from sagas.messaging.routes import DEAD_LETTERS, Routes, derived_name

REGION = "eu-central-1"


def client(service: str, endpoint_url: str | None = None) -> Any:
    """A client of the environment's credentials, which is made once."""
    return _made("client", service, endpoint_url, tuple(map(os.environ.get, _SURROUNDINGS)))


_SURROUNDINGS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_DYNAMODB",
)


_KEYS_ONLY = {"ProjectionType": "KEYS_ONLY"}


@lru_cache(maxsize=64)
def _made(kind: str, service: str, endpoint_url: str | None, surroundings: tuple[str | None, ...]) -> Any:
    # To make one takes as long as a step of a saga.
    session: Any = boto3.Session()
    return getattr(session, kind)(service, region_name=REGION, endpoint_url=endpoint_url)


def _index(name: str, partition: str, sort: str, *projected: str) -> dict[str, Any]:
    keys = [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]
    projection = {"ProjectionType": "INCLUDE", "NonKeyAttributes": projected} if projected else _KEYS_ONLY
    return {"IndexName": name, "KeySchema": keys, "Projection": projection}


def create_tables(dynamodb: Any, prefix: str) -> tuple[str, str]:
    """Create the two tables as the CDK construct declares them; return their names."""
    strings = (
        "saga_id",
        "open_shard",
        "due",
        "name_shard",
        "created_at",
        "incident_shard",
        "incident",
        "ended",
        "ended_at",
    )
    dynamodb.create_table(
        TableName=f"{prefix}-sagas",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in strings],
        KeySchema=[{"AttributeName": "saga_id", "KeyType": "HASH"}],
        GlobalSecondaryIndexes=[
            _index("open", "open_shard", "due"),
            _index("by_name", "name_shard", "created_at"),
            _index("incidents", "incident_shard", "incident", "seq"),
            _index("ended", "ended", "ended_at"),
        ],
    )
    dynamodb.create_table(
        TableName=f"{prefix}-audit",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": "saga_id", "AttributeType": "S"},
            {"AttributeName": "seq", "AttributeType": "N"},
        ],
        KeySchema=[
            {"AttributeName": "saga_id", "KeyType": "HASH"},
            {"AttributeName": "seq", "KeyType": "RANGE"},
        ],
    )
    return f"{prefix}-sagas", f"{prefix}-audit"


def create_joins_table(dynamodb: Any, prefix: str) -> str:
    """Create the table of joins as the CDK construct declares it; return its name."""
    dynamodb.create_table(
        TableName=f"{prefix}-joins",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("join", "part")],
        KeySchema=[
            {"AttributeName": "join", "KeyType": "HASH"},
            {"AttributeName": "part", "KeyType": "RANGE"},
        ],
    )
    return f"{prefix}-joins"


@dataclass(frozen=True)
class LambdaContext:
    """What the handlers use of Lambda's context."""

    remaining: float = 60.0
    function_name: str = "test"
    memory_limit_in_mb: int = 128
    invoked_function_arn: str = "arn:aws:lambda:eu-central-1:123456789012:function:test"
    aws_request_id: str = "request"

    def get_remaining_time_in_millis(self) -> int:
        return int(self.remaining * 1000)


LATEST: list[HandmadeStack] = []
"""The stack that was made last."""


class HandmadeStack:
    """What ``SagaService`` deploys, made by hand: enough to run the handlers."""

    def __init__(self, *classes: type[Any], prefix: str = "test", endpoint_url: str | None = None) -> None:
        LATEST[:] = [self]
        self.classes = classes
        self.prefix = prefix
        self.endpoint_url = endpoint_url
        self.settle_seconds = 0
        self.dynamodb, self.sqs, self.s3 = (client(name, endpoint_url) for name in ("dynamodb", "sqs", "s3"))
        self.sagas_table, self.audit_table = create_tables(self.dynamodb, prefix)
        self.bucket = f"{prefix}-payloads"
        self.s3.create_bucket(Bucket=self.bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        families = any(definition_of(saga_class).children for saga_class in classes)
        self.joins_table = create_joins_table(self.dynamodb, prefix) if families else ""
        self.queues: dict[str, dict[str, str]] = {}
        self.dead: dict[str, str] = {}
        self.max_receives: dict[str, int] = {}
        for saga_class in classes:
            self._deploy(saga_class, prefix)
        self.work, self.now = (
            self.sqs.create_queue(QueueName=f"{prefix}-{name}")["QueueUrl"] for name in ("bulk", "now")
        )
        self.commands = self.sqs.create_queue(QueueName=f"{prefix}-commands")["QueueUrl"]
        self.command_letters = self.sqs.create_queue(QueueName=f"{prefix}-command-letters")["QueueUrl"]

    def _deploy(self, saga_class: type[Any], prefix: str) -> None:
        definition = definition_of(saga_class)
        dead = derived_name(definition.name, DEAD_LETTERS, prefix)
        self.dead[definition.name] = self.sqs.create_queue(QueueName=dead)["QueueUrl"]
        arn = self.sqs.get_queue_attributes(QueueUrl=self.dead[definition.name], AttributeNames=["QueueArn"])
        self.queues[definition.name] = {}
        for step in definition.steps if definition.has_code else ():
            executions = max(step.retry.executions, step.undo.retry.executions if step.undo else 0)
            self.max_receives[f"{definition.name}/{step.name}"] = executions + 10
            redrive = {"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": executions + 10}
            attributes = {"RedrivePolicy": json.dumps(redrive), "VisibilityTimeout": "30"}
            name = derived_name(definition.name, step.name, prefix)
            url = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
            self.queues[definition.name][step.name] = url

    @property
    def routes(self) -> Routes:
        """The queues that there are, of whatever code is deployed."""
        names = {
            saga: {step: url.rsplit("/", 1)[1] for step, url in steps.items()} for saga, steps in self.queues.items()
        }
        work = {"bulk": self.work.rsplit("/", 1)[1], "now": self.now.rsplit("/", 1)[1]}
        return Routes(self.work.rsplit("/", 1)[0], names, work)

    @property
    def environment(self) -> dict[str, str]:
        """What the functions have in their environment."""
        routes = {"base": self.routes.base, "token": self.prefix, "work": self.routes.work}
        return {
            "SAGAS_SERVICE": self.prefix,
            "SAGAS_TABLE": self.sagas_table,
            "SAGAS_AUDIT_TABLE": self.audit_table,
            "SAGAS_PAYLOAD_BUCKET": self.bucket,
            **({"SAGAS_JOINS_TABLE": self.joins_table} if self.joins_table else {}),
            "SAGAS_SHARDS": "2",
            "SAGAS_SETTLE": str(self.settle_seconds),
            "SAGAS_CLASSES": json.dumps([f"{cls.__module__}:{cls.__qualname__}" for cls in self.classes]),
            "SAGAS_QUEUES": json.dumps(routes),
            "SAGAS_COMMAND_QUEUE": self.commands,
            "SAGAS_COMMAND_DEAD_LETTERS": self.command_letters,
            "POWERTOOLS_SERVICE_NAME": "test",
            "POWERTOOLS_METRICS_NAMESPACE": "Sagas",
            "POWERTOOLS_LOG_LEVEL": "INFO",
        }

    def receive(self, saga: str, step: str, most: int = 1) -> list[dict[str, Any]]:
        """Take messages from a step's queue, as the records of an SQS event."""
        return self.receive_from(self.queues[saga][step], most)

    def receive_from(self, url: str, most: int = 1) -> list[dict[str, Any]]:
        """Take messages from a queue, as the records of an SQS event."""
        if self.endpoint_url is None and _moto_has_nothing(url):
            return []
        options: dict[str, Any] = {"MaxNumberOfMessages": most, "AttributeNames": ["All"]}
        answer = self.sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], **options)
        arn = f"arn:aws:sqs:{REGION}:123456789012:{url.rsplit('/', 1)[1]}"
        return [_record(message, arn) for message in answer.get("Messages", [])]

    def settle(self, saga: str, step: str, records: Iterable[dict[str, Any]], answer: dict[str, Any]) -> None:
        """Delete the records that were not reported failed."""
        failed = {item["itemIdentifier"] for item in answer["batchItemFailures"]}
        for record in records:
            if record["messageId"] not in failed:
                self.sqs.delete_message(QueueUrl=self.queues[saga][step], ReceiptHandle=record["receiptHandle"])

    def steps(self) -> list[tuple[str, str]]:
        """Every saga's steps."""
        return [(saga, step) for saga, steps in self.queues.items() for step in steps]

    def entries(self, saga_id: str) -> list[dict[str, Any]]:
        """The saga's audit entries, as they stand in the table."""
        resource = _made("resource", "dynamodb", self.endpoint_url, tuple(map(os.environ.get, _SURROUNDINGS)))
        key = cast("Any", boto3).dynamodb.conditions.Key("saga_id").eq(saga_id)
        return resource.Table(self.audit_table).query(KeyConditionExpression=key)["Items"]

    def control(self, saga_id: str) -> dict[str, Any]:
        """The saga's control item, as DynamoDB has it."""
        return self.dynamodb.get_item(TableName=self.sagas_table, Key={"saga_id": {"S": saga_id}})["Item"]


def _moto_has_nothing(url: str) -> bool:
    """Whether a queue is moto's and a receive would find it empty: nine of ten do, and take as long as any."""
    queue = cast("Any", sqs_backends)[ACCOUNT_ID][REGION].queues.get(url.rsplit("/", 1)[1])
    return queue is not None and not queue.messages


def _record(message: dict[str, Any], arn: str) -> dict[str, Any]:
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": {
            name: {"stringValue": value["StringValue"], "dataType": "String"}
            for name, value in message.get("MessageAttributes", {}).items()
        },
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": REGION,
    }
