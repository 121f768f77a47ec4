"""Records where resources with messages, sagas or payloads are in the templates: no deployment must replace them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import cast

import jsii
from aws_cdk import Annotations, Aspects, CfnResource, IAspect, Stack
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct

from sagas.topology import LAYOUT, moved


def watch_layout(service: Construct, held: Callable[[], Mapping[str, object]]) -> None:
    """Write the places of queues, tables and buckets into the cloud assembly, for ``sagas layout``. Warn if one
    changes."""
    # The aspect is on a construct without children. On the service, it would visit thousands of constructs.
    Aspects.of(Construct(service, "Layout")).add(cast("IAspect", _Watch(service, held)))


@jsii.implements(IAspect)
class _Watch:
    def __init__(self, service: Construct, held: Callable[[], Mapping[str, object]]) -> None:
        self._service, self._held = service, held

    def visit(self, node: IConstruct) -> None:
        """Record where the resources are, and compare the places with those of the last record."""
        service, held = self._service, self._held()
        by_stack: dict[Stack, dict[str, dict[str, str]]] = {}
        for what, construct in held.items():
            resource = cast("IConstruct", construct).node.default_child
            if isinstance(resource, CfnResource):  # an imported resource has no CfnResource
                name = resource.queue_name if isinstance(resource, sqs.CfnQueue) else None
                by_stack.setdefault(Stack.of(resource), {})[what] = {"id": resource.logical_id, "name": name or ""}
        places: dict[str, str] = {}
        for stack, resources in by_stack.items():
            path = stack.node.path
            for what, place in stack.resolve(resources).items():
                places[what] = f"{path}/{place['id']}"
                if name := place.get("name"):  # CloudFormation replaces a renamed resource
                    places[what] += f" {json.dumps(name, sort_keys=True)}"
        service.node.add_metadata(LAYOUT, places)
        recorded = service.node.try_get_context(f"{LAYOUT}:{service.node.path}")
        for what in moved(recorded or {}, places):
            fault = f"the deployed {what} would be replaced or dropped, with its content"
            more = "see docs/operations/deploying.md, or run `sagas layout --write` if that is intended"
            Annotations.of(service).add_warning_v2(f"sagas:Replaced:{what}", f"{fault}; {more}")
