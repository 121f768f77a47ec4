"""Checks existing tables, and the place in an existing API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from sagas.errors import DefinitionError

AnyTable = dynamodb.ITable | dynamodb.Table | dynamodb.TableV2
AnyResource = apigateway.IResource | apigateway.Resource | apigateway.ResourceBase

EXPIRES = "expires_at"
"""The time-to-live attribute."""

Keys = Mapping[str, str]
"""Attribute types (``S``, ``N``) by attribute name: first the partition key, then the sort key."""


@dataclass(frozen=True, slots=True)
class TableForm:
    """The keys that a table must have, those of its global indexes by name, and which attributes an index must project
    besides keys."""

    keys: Keys
    indexes: Mapping[str, Keys] = field(default_factory=dict[str, Keys])
    projected: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])


def check_table(where: str, table: AnyTable, form: TableForm, *, expires: bool) -> None:
    """Refuse a table whose keys or indexes differ from ``form``. Accept imported tables, which cannot be checked."""
    resource: Any = table.node.default_child
    if not isinstance(resource, dynamodb.CfnTable | dynamodb.CfnGlobalTable):
        return

    def plain(value: Any) -> Any:
        return Stack.of(resource).resolve(value)

    definitions = plain(resource.attribute_definitions) or ()
    types = {definition["attributeName"]: definition["attributeType"] for definition in definitions}
    _same_keys(f"{where}: the table", _keys(plain(resource.key_schema), types), form.keys)
    existing = plain(resource.global_secondary_indexes) or ()
    indexes = {index["indexName"]: index for index in existing}
    for name, keys in form.indexes.items():
        if name not in indexes:
            raise DefinitionError(f"{where}: the table lacks the index {name} with {_described(keys)}")
        _same_keys(f"{where}: the index {name}", _keys(indexes[name]["keySchema"], types), keys)
        projection: dict[str, Any] = indexes[name]["projection"]
        missing = set(form.projected.get(name, ())) - {*projection.get("nonKeyAttributes", ())}
        if missing and projection.get("projectionType") != "ALL":
            raise DefinitionError(f"{where}: the index {name} must project {' and '.join(sorted(missing))}, too")
    ttl: dict[str, Any] = plain(resource.time_to_live_specification) or {}
    if expires and ttl.get("attributeName") != EXPIRES:
        raise DefinitionError(f"{where}: with a retention the table needs {EXPIRES} as its time_to_live_attribute")


def _keys(schema: Any, types: Mapping[str, str]) -> Keys:
    ordered = sorted(schema, key=lambda key: key["keyType"])  # HASH comes before RANGE
    return {key["attributeName"]: types[key["attributeName"]] for key in ordered}


def _same_keys(what: str, actual: Keys, expected: Keys) -> None:
    if list(actual.items()) != list(expected.items()):
        raise DefinitionError(f"{what} must have {_described(expected)}, not {_described(actual)}")


def _described(keys: Keys) -> str:
    parts = [
        f"the {role} key {name} ({kind})"
        for role, (name, kind) in zip(("partition", "sort"), keys.items(), strict=False)
    ]
    return " and ".join(parts) + (" and no sort key" if len(keys) == 1 else "")


def mounted_api(where: str, scope: Construct, mount: AnyResource) -> apigateway.RestApi:
    """Return the API that a resource belongs to. Refuse resources that a service cannot use."""
    api: Any = mount.api
    if not isinstance(api, apigateway.RestApi):
        raise DefinitionError(
            f"{where}: mount must be a resource of a RestApi that this app creates, not of an imported one"
        )
    if Stack.of(api) != Stack.of(scope):
        raise DefinitionError(f"{where}: mount must be a resource of an API in the service's own stack")
    if "{" in mount.path:
        raise DefinitionError(f"{where}: mount must be a path without parameters, not {mount.path}")
    return api
