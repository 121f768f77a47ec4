"""What an example does to a service: the difference to the same service without options.

Next to each example of a page stands an invisible block, which compares this with what the page promises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, cast

from trips import Trip

from sagas.cdk import SagaService

from aws_cdk import App, CfnResource, Stack, assertions  # isort: skip - sagas.cdk names the Node that jsii is to use

Properties = dict[str, Any]
Parts = dict[str, Properties]
_DERIVED = {"Code", "Layers", "Description", "RedriveAllowPolicy", "AssumeRolePolicyDocument"}
"""Properties that name other resources, or follow from what the function runs."""
_FUNCTION = "AWS::Lambda::Function"


def example(sagas: Sequence[type[Any]] = (Trip,), **options: Any) -> SagaService:
    """A service of the pages' saga with options that a page names in its text."""
    return SagaService(Stack(App(), "Shop"), "Sagas", sagas=sagas, **options)


def changes(service: SagaService, before: SagaService | None = None) -> Parts:
    """Return what an example changes: the resources that differ, by their paths below the service.

    A function has the properties of its role, alias and mapping, too. A function that the other service does not have
    is compared with one that has the same handler; any other new resource is ``{"new": TYPE}``.

    Args:
        service: of the example.
        before: the service to compare with. Default: one of the same sagas without options.

    Returns:
        The new values of properties, ``"..."`` for those that refer to resources, ``None`` for those that are gone.
        Nested properties have paths such as ``WarmThroughput.WriteUnitsPerSecond``. ``may`` and ``may not`` are the
        actions that the function's role gains and loses.
    """
    sagas = service._catalogue.sagas  # pyright: ignore[reportPrivateUsage] - nobody else asks for the classes
    classes = tuple(saga.saga_class for saga in sagas)
    usual = _plain_parts(Stack.of(service).stack_name, service.node.id, classes) if before is None else _parts(before)
    parts = _parts(service)
    found: Parts = {path: {"gone": usual[path]["Type"]} for path in usual.keys() - parts.keys()}
    for path, properties in parts.items():
        handler = properties.get("Handler", "")
        alike = usual.get(path) or next((part for part in usual.values() if part.get("Handler") == handler), None)
        if alike is None:
            found[path] = {"new": properties["Type"]}
        elif changed := _changed(alike, properties):
            found[path] = changed
    return found


def may(principal: Any) -> list[str]:
    """Return the actions that the policies of a role of the example allow, sorted."""
    stack = Stack.of(principal)
    id = stack.resolve(principal.node.default_child.logical_id)
    policies = [one for one in _resources(stack).values() if one["Type"] == "AWS::IAM::Policy"]
    own = (one["Properties"]["PolicyDocument"] for one in policies if {"Ref": id} in one["Properties"]["Roles"])
    return sorted(set[str]().union(*map(_actions, own)))


def _resources(stack: Stack) -> Mapping[str, Any]:
    return assertions.Template.from_stack(stack).to_json()["Resources"]


@cache
def _plain_parts(stack: str, id: str, sagas: tuple[type[Any], ...]) -> Parts:
    return _parts(SagaService(Stack(App(), stack), id, sagas=sagas))


def _parts(service: SagaService) -> Parts:
    """The resources of a service by path."""
    stack = Stack.of(service)
    resources = _resources(stack)
    parts: Parts = {}
    for node in service.node.find_all():
        if CfnResource.is_cfn_resource(node):
            resource = resources.get(stack.resolve(cast("CfnResource", node).logical_id))
            if resource is not None and resource["Type"] != "AWS::Lambda::Version":
                path = node.node.path.removeprefix(f"{service.node.path}/").removesuffix("/Resource")
                parts[path] = {"Type": resource["Type"], **_flat(resource.get("Properties", {}))}
    functions = {path.removesuffix("/Function"): part for path, part in parts.items() if part["Type"] == _FUNCTION}
    joined: Parts = {}
    for path, part in parts.items():
        of_function = next((name for name in functions if _belongs(path, name)), None)
        joined[of_function or path] = {**part, **joined.get(of_function or path, {})}
    return {path: {**part, **functions.get(path, {})} for path, part in joined.items()}


def _belongs(path: str, function: str) -> bool:
    """Whether a resource is a function, its role, its alias or a mapping."""
    own = (f"{function}/Function", f"{function}/Role", f"{function}/Alias")
    return path in own or path.startswith(f"{function}/Alias/SqsEventSource")


def _flat(properties: Properties) -> Properties:
    """Properties without those that are derived; variables and actions by their own names."""
    flat = {name: value for name, value in properties.items() if name not in _DERIVED}
    variables = flat.pop("Environment", {}).get("Variables", {})
    policies = flat.pop("Policies", ())
    flat = dict(_leaves("", flat)) | {name: _plain(value) for name, value in variables.items()}
    if policies:
        flat["may"] = set[str]().union(*(_actions(policy["PolicyDocument"]) for policy in policies))
    return flat


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The values within a property, by path."""
    if isinstance(value, dict) and _plain(value) == "...":
        yield path[1:], "..."
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - JSON
        for name, inner in items:  # pyright: ignore[reportUnknownVariableType] - JSON
            yield from _leaves(f"{path}.{name}", inner)
    else:
        yield path[1:], value


def _plain(value: Any) -> Any:
    """A value; ``"..."`` for a function of CloudFormation."""
    if isinstance(value, dict) and any(str(name) == "Ref" or str(name).startswith("Fn::") for name in value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - JSON
        return "..."
    return value  # pyright: ignore[reportUnknownVariableType] - JSON


def _changed(usual: Properties, properties: Properties) -> Properties:
    names = (usual.keys() | properties.keys()) - {"may"}
    changed = {name: properties.get(name) for name in sorted(names) if usual.get(name) != properties.get(name)}
    allowed = properties.get("may", set[str]())
    before = usual.get("may", set[str]())
    if more := sorted(allowed - before):
        changed["may"] = more
    if less := sorted(before - allowed):
        changed["may not"] = less
    return changed


def _actions(document: Mapping[str, Any]) -> set[str]:
    """The actions that a policy allows."""
    allowed = set[str]()
    for statement in document["Statement"]:
        if statement["Effect"] == "Allow":
            actions = statement["Action"]
            allowed |= {actions} if isinstance(actions, str) else set(actions)
    return allowed
