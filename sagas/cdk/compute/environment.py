"""The environment variables that name tables, queues and sagas to functions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.policies import SETTLE
from sagas.cdk.data.queues import SagaQueues, base_of
from sagas.cdk.data.tables import Stores
from sagas.cdk.layout.nested_stacks import service_token
from sagas.cdk.layout.step_groups import SHARED
from sagas.cdk.options.service_options import METRICS_NAMESPACE, ServiceOptions
from sagas.errors import DefinitionError
from sagas.messaging.routes import TYPES_FILE
from sagas.messaging.work import NOW

_LIMIT = 4096
"""Lambda's limit in bytes for all variables of a function together."""
_MOST_NAMED = 1024
"""The variables have this many bytes for names of saga types and shared queues. More go to a file next to the code."""


def service_environment(
    scope: Construct,
    tables: Stores,
    options: ServiceOptions,
    queues: Mapping[str, SagaQueues],
    sagas: Sequence[SagaDefinition],
    work: Mapping[str, sqs.Queue] | None = None,
) -> dict[str, str]:
    """Return the variables of a function that handles ``sagas``."""
    filed = types_file(sagas, queues)
    (classes, groups) = _types(sagas, queues)
    some = next(iter(queues.values()), None)
    routes = _routes(scope, some, groups if filed is None else {}, work or {})
    own_id = service_token(scope) if some is None else some.token(scope)
    joins = any(saga.name in tables.families for saga in sagas)
    return {
        "SAGAS_SERVICE": options.service_id or own_id,
        "SAGAS_TABLE": tables.sagas.table_name,
        "SAGAS_AUDIT_TABLE": tables.audit.table_name,
        "SAGAS_PAYLOAD_BUCKET": tables.payloads.bucket_name,
        **({"SAGAS_JOINS_TABLE": tables.joins.table_name} if tables.joins is not None and joins else {}),
        "SAGAS_SHARDS": str(options.shards),
        "SAGAS_CLASSES": json.dumps(classes, separators=(",", ":")) if filed is None else f"@{TYPES_FILE}",
        "SAGAS_QUEUES": Stack.of(scope).to_json_string(routes),
        "POWERTOOLS_SERVICE_NAME": options.service,
        "POWERTOOLS_METRICS_NAMESPACE": METRICS_NAMESPACE,
        "POWERTOOLS_LOG_LEVEL": options.log_level,
        **_numbers(options, tells_how_often=bool(work)),
        **({} if options.payload_key is None else {"SAGAS_PAYLOAD_KEY": options.payload_key.key_arn}),
        **({} if options.auto_disable is None else {"SAGAS_AUTO_DISABLE": options.auto_disable.text}),
        **(options.environment or {}),
    }


def _numbers(options: ServiceOptions, *, tells_how_often: bool) -> dict[str, str]:
    """Return the settings of the store and the supervisor that differ from the library's defaults."""
    every = options.recover_every
    numbers: dict[str, float | None] = {
        "SAGAS_RETENTION": None if options.retention is None else options.retention.total_seconds(),
        "SAGAS_KEY_RETENTION": None if options.key_retention is None else options.key_retention.total_seconds(),
        "SAGAS_PAYLOAD_LIMIT": options.payload_limit,
        "SAGAS_CARRY_INPUTS": None if options.carry_inputs and options.payload_key is None else 0,
        "SAGAS_SETTLE": None if options.settle_seconds == SETTLE else options.settle_seconds,
        "SAGAS_RECOVER_EVERY": every.total_seconds() if tells_how_often and every != timedelta(minutes=1) else None,
    }
    return {name: f"{value:.0f}" for name, value in numbers.items() if value is not None}


def _routes(
    scope: Construct, queues: SagaQueues | None, groups: Mapping[str, Mapping[str, str]], work: Mapping[str, sqs.Queue]
) -> dict[str, object]:
    """Return the routes that ``sagas.messaging.routes.Routes`` reads. ``queues`` are the queues of any saga, or
    ``None`` if no saga has code."""
    if queues is None:
        routes: dict[str, object] = {"base": base_of(work[NOW]), "token": ""}
    else:
        routes = {"base": queues.base_url(scope), "token": queues.token(scope)}
        if SHARED in queues.by_group:
            routes["shared"] = SHARED
    if groups:
        routes["groups"] = groups
    if work:
        routes["work"] = {name: queue.queue_name for name, queue in work.items()}
    return routes


def types_file(sagas: Sequence[SagaDefinition], queues: Mapping[str, SagaQueues]) -> str | None:
    """Return the names of sagas and shared queues as JSON, for a file next to the code. Returns ``None`` if the
    variables have room for the names."""
    classes, groups = _types(sagas, queues)
    text = json.dumps({"classes": classes, "groups": groups}, separators=(",", ":"))
    return text if len(text.encode()) > _MOST_NAMED else None


def _types(
    sagas: Sequence[SagaDefinition], queues: Mapping[str, SagaQueues]
) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Return where the classes are, and the group of each step that shares a queue with some steps of its saga."""
    classes = [f"{saga.saga_class.__module__}:{saga.saga_class.__qualname__}" for saga in sagas]
    return classes, {saga.name: grouped for saga in sagas if saga.has_code and (grouped := queues[saga.name].grouped)}


def check_size(scope: Construct, environment: Mapping[str, str]) -> None:
    """Refuse variables that Lambda would refuse at deployment."""
    stack = Stack.of(scope)
    stack_name = len(stack.stack_name)
    values = stack.resolve(environment)
    size = sum(len(name.encode()) + _resolved_size(value, stack_name) for name, value in values.items())
    if size > _LIMIT:
        raise DefinitionError(
            f"{scope.node.path}: its environment variables are about {size} bytes; Lambda's limit is {_LIMIT}; "
            "give the function fewer variables"
        )


def _resolved_size(value: Any, stack_name: int) -> int:
    """Estimate the bytes of a CloudFormation value. A generated name consists of the stack's name, the logical id and
    13 characters, and has at most 80."""
    match value:
        case str():
            return len(value.encode())
        case {"Fn::Join": [_, parts]}:
            return sum(_resolved_size(part, stack_name) for part in parts)
        case {"Ref": str(logical_id)} | {"Fn::GetAtt": [str(logical_id), *_]}:
            return min(80, stack_name + len(logical_id) + 14)
        case _:
            # The values of pseudo parameters and the parts of a URL are shorter.
            return 40
