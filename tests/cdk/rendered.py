"""The template of a service, and what one looks for in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from aws_cdk import App, Stack, assertions
from cfnlint.config import ConfigMixIn, ManualArgs
from cfnlint.runner import Runner

from sagas.cdk import SagaService
from tests.cdk.saga_classes import Trip

Template = dict[str, Any]
CAPTURE = ("function", "checkout", "capture")
REGIONS = ("us-east-1", "cn-north-1", "us-gov-west-1")
"""One of each partition."""


def render(build: Callable[[Stack], object]) -> Template:
    """Synthesize a stack."""
    stack = Stack(App(), "Test")
    build(stack)
    return template_of(stack)


def template_of(stack: Stack) -> Template:
    """The template of a stack."""
    return dict(assertions.Template.from_stack(stack).to_json())


def service(*sagas: type[Any], **options: Any) -> Template:
    """The template of a service: of one short saga, unless others are named."""
    return render(lambda stack: SagaService(stack, "Shop", sagas=sagas or [Trip], **options))


def by_id(template: Template, kind: str) -> dict[str, Template]:
    """The properties of all resources of a type, by logical id."""
    return {id: one.get("Properties", {}) for id, one in template["Resources"].items() if one["Type"] == kind}


def of_type(template: Template, kind: str) -> list[Template]:
    """The properties of all resources of a type."""
    return list(by_id(template, kind).values())


def marks(template: Template) -> dict[tuple[str, ...], Template]:
    """The marked resources' properties, by what their mark says."""
    return {
        tuple(resource["Metadata"]["sagas"].values()): resource["Properties"]
        for resource in template["Resources"].values()
        if "sagas" in resource.get("Metadata", {})
    }


def variables(template: Template, function: tuple[str, ...] = CAPTURE) -> Template:
    return marks(template)[function]["Environment"]["Variables"]


def as_list(value: Any) -> list[Any]:
    """IAM writes a list of one as the one."""
    return value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType] - JSON


def shown(resource: Any) -> str:
    """A resource as text: ``<LogicalId.Arn>/path``."""
    match resource:
        case {"Fn::Join": [_, parts]}:
            return "".join(shown(part) for part in parts)
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Ref": name}:
            return f"<{name}>"
        case _:
            return str(resource)


def statements(template: Template) -> Iterator[tuple[str, Template]]:
    """The statements of all roles, each with the logical id of its role: those in the role itself, and those of the
    policies that name it."""
    for id, role in by_id(template, "AWS::IAM::Role").items():
        for own in role.get("Policies", ()):
            yield from ((id, statement) for statement in own["PolicyDocument"]["Statement"])
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for policy in of_type(template, kind):
            for role in policy.get("Roles", ()):
                yield from ((role["Ref"], statement) for statement in policy["PolicyDocument"]["Statement"])


def pairs(statements: Iterable[Template]) -> Iterator[tuple[str, str]]:
    """The permissions of statements, as (action, resource) pairs."""
    for statement in statements:
        assert statement["Effect"] == "Allow"
        assert "NotAction" not in statement
        assert "NotResource" not in statement
        for action in as_list(statement["Action"]):
            for resource in as_list(statement["Resource"]):
                yield action, shown(resource)


def rights(template: Template) -> dict[str, set[tuple[str, str]]]:
    """(action, resource) pairs of all roles, by the logical id of the role."""
    granted: dict[str, set[tuple[str, str]]] = {}
    for role, statement in statements(template):
        granted.setdefault(role, set()).update(pairs([statement]))
    return granted


def actions(template: Template, service_name: str) -> set[str]:
    """The actions of a service that some role has."""
    named = {action for _, statement in statements(template) for action in as_list(statement["Action"])}
    return {action for action in named if action.startswith(f"{service_name}:")}


def operations(template: Template) -> dict[tuple[str, str], Template]:
    """The operations of the document of the template's one API, by path without the leading slash, and method."""
    (api,) = of_type(template, "AWS::ApiGateway::RestApi")
    paths: dict[str, Template] = api["Body"]["paths"]
    return {(path[1:], method.upper()): one for path, methods in paths.items() for method, one in methods.items()}


def lint(*templates: Path, regions: Sequence[str] = ("us-east-1",), ignored: Sequence[str] = ()) -> list[str]:
    """What cfn-lint finds in templates. It reads its rules once for all of them."""
    assert templates, "there is none to look at"
    options = ManualArgs(regions=list(regions), ignore_checks=list(ignored))
    config = ConfigMixIn(["--template", *map(str, templates)], **options)
    return [str(finding) for finding in Runner(config).run()]
