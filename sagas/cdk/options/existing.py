"""Tables and an API that are there already: what they must be like."""

from __future__ import annotations

from collections.abc import Mapping
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
"""The attribute by which DynamoDB deletes items."""

Keys = Mapping[str, str]
"""Types (``S``, ``N``) of the partition key and the sort key, by name, in this order."""


@dataclass(frozen=True, slots=True)
class TableForm:
    """What a table of a service is like.

    Args:
        keys: of the table.
        indexes: keys of its global indexes, by name. Keys are all they need to project.
    """

    keys: Keys
    indexes: Mapping[str, Keys] = field(default_factory=dict[str, Keys])


def check_table(where: str, table: AnyTable, form: TableForm, *, expires: bool) -> None:
    """Refuse a table that does not fit. One that is imported, and so unknown, is believed to."""
    resource: Any = table.node.default_child
    if not isinstance(resource, dynamodb.CfnTable | dynamodb.CfnGlobalTable):
        return

    def plain(value: Any) -> Any:
        return Stack.of(resource).resolve(value)

    types = {one["attributeName"]: one["attributeType"] for one in plain(resource.attribute_definitions) or ()}
    _same_keys(f"{where}: the table", _keys(plain(resource.key_schema), types), form.keys)
    indexes = {one["indexName"]: one["keySchema"] for one in plain(resource.global_secondary_indexes) or ()}
    for name, keys in form.indexes.items():
        if name not in indexes:
            raise DefinitionError(f"{where}: the table lacks the index {name} with {_shown(keys)}")
        _same_keys(f"{where}: the index {name}", _keys(indexes[name], types), keys)
    ttl: dict[str, Any] = plain(resource.time_to_live_specification) or {}
    if expires and ttl.get("attributeName") != EXPIRES:
        raise DefinitionError(f"{where}: with a retention the table needs {EXPIRES} as its time_to_live_attribute")


def _keys(schema: Any, types: Mapping[str, str]) -> Keys:
    ordered = sorted(schema, key=lambda one: one["keyType"])  # HASH comes before RANGE
    return {one["attributeName"]: types[one["attributeName"]] for one in ordered}


def _same_keys(what: str, found: Keys, needed: Keys) -> None:
    if list(found.items()) != list(needed.items()):
        raise DefinitionError(f"{what} must have {_shown(needed)}, not {_shown(found)}")


def _shown(keys: Keys) -> str:
    parts = [
        f"the {role} key {name} ({kind})"
        for role, (name, kind) in zip(("partition", "sort"), keys.items(), strict=False)
    ]
    return " and ".join(parts) + (" and no sort key" if len(keys) == 1 else "")


def mounted_api(where: str, scope: Construct, mount: AnyResource) -> apigateway.RestApi:
    """Return the API that a resource belongs to."""
    api: Any = mount.api
    if not isinstance(api, apigateway.RestApi):
        raise DefinitionError(
            f"{where}: mount must be a resource of a RestApi that this app makes, not of an imported one"
        )
    if Stack.of(api) != Stack.of(scope):
        raise DefinitionError(f"{where}: mount must be a resource of an API in the service's own stack")
    if "{" in mount.path:
        raise DefinitionError(f"{where}: mount must be a path without parameters, not {mount.path}")
    return api
