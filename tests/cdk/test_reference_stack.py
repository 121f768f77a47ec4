"""What an update must not change in the reference stack: which statements its roles have, and which resources stay.

``golden_reference.json`` has both. ``python -m tests.cdk.test_reference_stack`` writes it again, and the review of its
difference is the point: each line that comes or goes is a right that a role gets or loses, or a resource that an update
deletes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cdk.rendered import as_list, by_id, shown, statements

Template = dict[str, Any]
GOLDEN = Path(__file__).with_name("golden_reference.json")
STAYING = (
    "AWS::DynamoDB::Table",
    "AWS::S3::Bucket",
    "AWS::SQS::Queue",
    "AWS::SQS::QueuePolicy",
    "AWS::Lambda::Function",
    "AWS::Lambda::Alias",
    "AWS::Lambda::EventSourceMapping",
    "AWS::IAM::Role",
    "AWS::ApiGateway::RestApi",
    "AWS::ApiGateway::Stage",
)
"""Data, messages, and what others refer to by name. A second mapping of the same queue and function cannot be created
while the first exists, so an update that renames one fails."""


def roles(template: Template) -> dict[str, list[str]]:
    """What each role may do: a line for each resource and condition, with its actions."""
    lines = dict[str, dict[tuple[str, str, str], set[str]]]()
    for role, statement in statements(template):
        condition = json.dumps(statement.get("Condition", {}), sort_keys=True)
        for resource in as_list(statement["Resource"]):
            actions = lines.setdefault(role, {}).setdefault((statement["Effect"], text(resource), condition), set())
            actions.update(as_list(statement["Action"]))
    return {
        role: sorted(
            f"{effect} {', '.join(sorted(actions))} on {resource}" + ("" if condition == "{}" else f" if {condition}")
            for (effect, resource, condition), actions in of_role.items()
        )
        for role, of_role in sorted(lines.items())
    }


def text(resource: Any) -> str:
    """A resource as text. Of the ARN of a queue, the name."""
    named = resource["Fn::Sub"][0].rpartition(":")[2] if "Fn::Sub" in resource else ""
    return f"queue {named}" if named else shown(resource)


def described(template: Template) -> Mapping[str, Any]:
    """What the golden file has."""
    return {"statements": roles(template), "staying": {kind: sorted(by_id(template, kind)) for kind in STAYING}}


def test_roles_may_do_what_they_could_and_no_resource_with_data_goes(template: Template) -> None:
    assert described(template) == json.loads(GOLDEN.read_text())


if __name__ == "__main__":
    import tempfile

    from tests.cdk.templates import reference, synthesize

    with tempfile.TemporaryDirectory() as directory:
        path = synthesize(reference, Path(directory)) / "Sagas.template.json"
        GOLDEN.write_text(json.dumps(described(json.loads(path.read_text())), indent=1, sort_keys=True) + "\n")
