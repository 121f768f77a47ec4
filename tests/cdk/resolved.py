"""A template as it is deployed: names and ARNs in place of CloudFormation's functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

Template = dict[str, Any]
_PSEUDO = {
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::Region": "eu-central-1",
    "AWS::StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/Test/0f1e2d3c-aaaa-bbbb-cccc-000000000000",
    "AWS::StackName": "Test",
    "AWS::URLSuffix": "amazonaws.com",
}
_NAMES = ("QueueName", "TableName", "BucketName", "Name")
_ARNS = {
    "AWS::DynamoDB::Table": "arn:aws:dynamodb:eu-central-1:123456789012:table/{}",
    "AWS::Events::EventBus": "arn:aws:events:eu-central-1:123456789012:event-bus/{}",
    "AWS::KMS::Key": "arn:aws:kms:eu-central-1:123456789012:key/{}",
    "AWS::S3::Bucket": "arn:aws:s3:::{}",
    "AWS::SecretsManager::Secret": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:{}-abcdef",
    "AWS::SQS::Queue": "arn:aws:sqs:eu-central-1:123456789012:{}",
}


class Deployed:
    """The resources of a template.

    Args:
        template: of one stack, without parameters that matter.
    """

    def __init__(self, template: Template) -> None:
        self.template = template
        self.resources: dict[str, Template] = template["Resources"]

    def named(self, kind: str, part: str) -> list[str]:
        """Return the ARNs of the resources of a type whose logical ids have this part."""
        return [self.arn(id) for id, one in self.resources.items() if one["Type"] == kind and part in id]

    def marked(self, **mark: str) -> list[str]:
        """Return the ARNs of the resources that are marked as this part of the service."""
        marks = ((id, one.get("Metadata", {}).get("sagas", {})) for id, one in self.resources.items())
        return [self.arn(id) for id, found in marks if mark.items() <= found.items()]

    def name(self, id: str) -> str:
        """Return the name of a resource; what CloudFormation would make up is the logical id."""
        properties = self.resources[id].get("Properties", {})
        return next((str(self.value(properties[name])) for name in _NAMES if name in properties), id)

    def arn(self, id: str) -> str:
        """Return the ARN of a resource."""
        return _ARNS.get(self.resources[id]["Type"], "arn:aws:other:eu-central-1:123456789012:{}").format(self.name(id))

    def value(self, of: Any) -> Any:
        """Return what a value of the template is once it is deployed."""
        if isinstance(of, list):
            return [self.value(one) for one in of]  # pyright: ignore[reportUnknownVariableType] - JSON
        if not isinstance(of, dict):
            return of
        if len(of) == 1:  # pyright: ignore[reportUnknownArgumentType] - JSON
            ((function, argument),) = of.items()  # pyright: ignore[reportUnknownVariableType] - JSON
            known: dict[str, Callable[[Any], Any]] = {
                "Ref": self._ref,
                "Fn::GetAtt": self._attribute,
                "Fn::Join": lambda it: str(it[0]).join(self.value(it[1])),
                "Fn::Select": lambda it: self.value(it[1])[int(it[0])],
                "Fn::Split": lambda it: self.value(it[1]).split(it[0]),
                "Fn::Sub": self._substituted,
            }
            if function in known:
                return known[function](argument)
        return {name: self.value(one) for name, one in of.items()}  # pyright: ignore[reportUnknownVariableType] - JSON

    def _ref(self, id: str) -> str:
        if id in _PSEUDO:
            return _PSEUDO[id]
        if id not in self.resources:
            return id
        match self.resources[id]["Type"]:
            case "AWS::SQS::Queue":
                return f"https://sqs.eu-central-1.amazonaws.com/123456789012/{self.name(id)}"
            case "AWS::SecretsManager::Secret":
                return self.arn(id)
            case _:
                return self.name(id)

    def _attribute(self, of: list[str]) -> str:
        id, attribute = of
        if attribute == "StreamArn":
            return f"{self.arn(id)}/stream/2026-11-24T00:00:00.000"
        return self.arn(id) if attribute == "Arn" else f"{id}.{attribute}"

    def _substituted(self, of: Any) -> str:
        text, given = cast("tuple[str, Template]", of if isinstance(of, list) else (of, {}))
        values = _PSEUDO | {name: self.value(one) for name, one in given.items()}
        return re.sub(r"\$\{([^}]+)\}", lambda name: str(values.get(name[1], name[1])), text)
