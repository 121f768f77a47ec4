"""Each call that the functions make in any test of the engine and the handlers is one that their roles allow.

``tests/support/calls.json`` has the calls. The emulator's own evaluator judges the policies, with their conditions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from sagas.authoring.definition.definition import definition_of
from tests.cdk.conftest import shared
from tests.cdk.rendered import as_list, statements
from tests.cdk.resolved import Deployed, Template
from tests.cdk.saga_classes import SWEEPING, Counted, Delivery, Loan, Shipment, Trip
from tests.cdk.templates import BUCKETS
from tests.support.calls import Call, recorded, traits_of

_iam: Any = import_module("ministack.core.iam_evaluator")
CLASSES: dict[str, list[type[Any]]] = {
    "everything": [Trip, Loan, Delivery, Shipment, Counted],
    "network_and_key": [Loan, Trip, *SWEEPING],
}
"""The saga types of the templates with all options, but for those of the reference stack."""
_OF_MAPPINGS = {
    "sqs": ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
    "dynamodb": ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"),
}
"""What Lambda does by the function's role, before it calls the function."""
_MARKED = {
    "sagas": {"part": "sagas_table"},
    "audit": {"part": "audit_table"},
    "own queue": {"part": "queue"},
    "queue of its type": {"part": "queue"},
    "queue of a type": {"part": "queue"},
    "dead letters": {"part": "dead_letter_queue"},
    "work bulk": {"part": "work_queue", "name": "bulk"},
    "work now": {"part": "work_queue", "name": "now"},
    "commands": {"part": "command_queue"},
    "command letters": {"part": "command_dead_letter_queue"},
}
"""The parts of a service by their marks in the template."""
_NAMED = {
    "joins": ("AWS::DynamoDB::Table", "Joins"),
    "payloads": ("AWS::S3::Bucket", "TablesPayloads"),
    "archive": ("AWS::S3::Bucket", "ArchiveBucket"),
    "payload key": ("AWS::KMS::Key", "Payloads"),
    "callback secret": ("AWS::SecretsManager::Secret", "Callbacks"),
    "bus": ("AWS::Events::EventBus", ""),
}
"""Those without a mark, by their types and a part of their logical ids."""
_PREFIX = "zips/"
"""Of the objects of all types in ``SWEEPING``."""
_WRITES = ("Send", "Put", "Update", "Delete", "BatchWrite", "GenerateDataKey")


class Function:
    """A function of a template, and what its role allows.

    Args:
        deployed: the template.
        id: the function's logical id.
        classes: the service's saga types.
    """

    def __init__(self, deployed: Deployed, id: str, classes: list[type[Any]]) -> None:
        resource = deployed.resources[id]
        self.id, self._deployed = id, deployed
        self.module: str = resource["Properties"]["Handler"].split(".")[-2]
        self.variables: dict[str, Any] = resource["Properties"]["Environment"]["Variables"]
        self.role: str = resource["Properties"]["Role"]["Fn::GetAtt"][0]
        self.mark: dict[str, str] = resource.get("Metadata", {}).get("sagas", {})
        names = self.mark.get("step", "").split(",")
        self.traits = traits_of(self.module, classes, self.variables, self.mark.get("saga", ""), names)
        own = [statement for role, statement in statements(deployed.template) if role == self.role]
        self._policies = [_iam.parse_policy_document(deployed.value({"Version": "2012-10-17", "Statement": own}))]

    def allows(self, action: str, resource: str, context: dict[str, str] | None = None) -> bool:
        """Whether the role's policies allow an action."""
        asked = _iam.EvalContext(
            "arn:aws:iam::123456789012:role/any", "AssumedRole", "123456789012", action, resource, "eu-central-1",
            service_context={name.lower(): value for name, value in (context or {}).items()},
        )  # fmt: skip
        return _iam.evaluate(asked, self._policies).decision == "Allow"

    def refused(self, call: Call) -> Iterator[str]:
        """What of a call the role does not allow, on the resources that it may be about."""
        context = {name: value.replace("PREFIX", _PREFIX) for name, value in call.context}
        via = {"kms:ViaService": f"{call.action.split(':')[0]}.eu-central-1.amazonaws.com"}
        for arn in self.resources(call):
            asked = [(call.action, arn, context), *((action, key, via) for action, key in self._encryption(call))]
            for action, about, told in asked:
                if not self.allows(action, about, told):
                    yield f"{self.id} may not {action} at {about} {told or ''}: {call}"

    def _encryption(self, call: Call) -> Iterator[tuple[str, str]]:
        """What is needed of the key that the service's tables, queues and buckets are encrypted by."""
        if not call.action.startswith(("dynamodb:", "sqs:", "s3:")) or call.resource.startswith(("swept", "attic")):
            return
        for key in self._deployed.named("AWS::KMS::Key", "Key9"):
            yield "kms:Decrypt", key
            if call.action.split(":")[1].startswith(_WRITES):
                yield "kms:GenerateDataKey", key

    def resources(self, call: Call) -> list[str]:
        """Return the ARNs of what a call may be about; of a part that this service lacks none."""
        place, _, path = call.resource.partition("/")
        if place in ("swept", "attic"):
            return list(self._swept(call.traits, place, path))
        if place in _NAMED:
            found = self._deployed.named(*_NAMED[place])
        else:
            of = {"own queue": ("saga", "step"), "queue of its type": ("saga",)}.get(place, ())
            found = self._deployed.marked(**_MARKED[place], **{name: self.mark[name] for name in of})
        return [f"{arn}/{path}" if path and not call.action.endswith("ListBucket") else arn for arn in found]

    def _swept(self, traits: tuple[str, ...], place: str, path: str) -> Iterator[str]:
        """The objects of the types whose sweeps do this, in the buckets that ``templates.py`` names."""
        names = {definition_of(one).name: (definition_of(one), away) for one, away in SWEEPING.items()}
        if not self._deployed.marked(part="queue", saga=next(iter(names))):
            return
        for definition, away in names.values():
            if definition.orphans is not None and (definition.orphans.action,) == traits:
                bucket = BUCKETS["ATTIC_BUCKET" if place == "attic" and away else "ZIPS_BUCKET"]
                yield f"arn:aws:s3:::{bucket}" + (f"/{path.replace('PREFIX', _PREFIX)}x" if path else "")


def functions_of(template: Template, classes: list[type[Any]]) -> list[Function]:
    deployed = Deployed(template)
    ids = [
        id
        for id, one in deployed.resources.items()
        if one["Type"] == "AWS::Lambda::Function" and str(one["Properties"].get("Handler")).startswith("sagas.")
    ]
    return [Function(deployed, id, classes) for id in ids]


def applies(call: Call, function: Function) -> bool:
    """Whether a function is one that can make a call."""
    swept = call.resource.startswith(("swept", "attic"))
    return call.function == function.module and (swept or set(call.traits) <= set(function.traits))


def refusals(template: Template, classes: list[type[Any]]) -> list[str]:
    """What the functions of a template may not do that they do in tests."""
    return [
        text
        for function in functions_of(template, classes)
        for call in sorted(recorded())
        if applies(call, function)
        for text in function.refused(call)
    ]


@pytest.mark.parametrize("name", CLASSES)
def test_functions_may_do_what_they_do(name: str) -> None:
    assert refusals(shared(name), CLASSES[name]) == []


def test_each_call_is_judged_somewhere() -> None:
    functions = [one for name, classes in CLASSES.items() for one in functions_of(shared(name), classes)]
    judged = {call for call in recorded() for one in functions if applies(call, one) and one.resources(call)}
    assert recorded() - judged == set()
    assert {one.module for one in functions} == {call.function for call in recorded()}


@pytest.mark.parametrize("name", CLASSES)
def test_lambda_may_read_what_calls_a_function(name: str) -> None:
    template = shared(name)
    functions = {one.role: one for one in functions_of(template, CLASSES[name])}
    deployed = Deployed(template)
    mappings = [one["Properties"] for one in template["Resources"].values() if "EventSourceMapping" in one["Type"]]
    roles = {
        id: resource["Properties"]["Role"]["Fn::GetAtt"][0]
        for id, resource in template["Resources"].items()
        if resource["Type"] == "AWS::Lambda::Function"
    }
    assert mappings
    for mapping in mappings:
        source = deployed.value(mapping["EventSourceArn"])
        alias = next(id for id in deployed.resources if f'"{id}"' in json.dumps(mapping["FunctionName"]))
        function = functions[roles[deployed.resources[alias]["Properties"]["FunctionName"]["Ref"]]]
        for action in _OF_MAPPINGS[source.split(":")[2]]:
            assert function.allows(action, source), (function.id, action, source)


@pytest.mark.parametrize(
    ("module", "action"),
    [
        ("step", "dynamodb:BatchGetItem"),
        ("commands", "dynamodb:UpdateItem"),
        ("api", "sqs:GetQueueAttributes"),
        ("now", "dynamodb:ConditionCheckItem"),
        ("outbox", "s3:GetObject"),
    ],
)
def test_a_right_that_is_missing_is_found(module: str, action: str) -> None:
    template, classes = shared("everything"), CLASSES["everything"]
    roles = {one.role for one in functions_of(template, classes) if one.module == module}
    for role, statement in statements(template):
        if role in roles:
            statement["Action"] = [one for one in as_list(statement["Action"]) if one != action] or "none:None"
    assert any(f"may not {action}" in text for text in refusals(template, classes))
