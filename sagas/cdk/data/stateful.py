"""What holds messages, sagas or payloads, and where it is in the templates: a deployment must not replace it."""

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
    """Leave the places of queues, tables and buckets in the assembly, for ``sagas layout``; warn of recorded ones
    left."""
    # On a construct without children: an aspect of the service would be asked about each of thousands.
    Aspects.of(Construct(service, "Layout")).add(cast("IAspect", _Watch(service, held)))


@jsii.implements(IAspect)
class _Watch:
    def __init__(self, service: Construct, held: Callable[[], Mapping[str, object]]) -> None:
        self._service, self._held = service, held

    def visit(self, node: IConstruct) -> None:
        """Note the places, and compare them."""
        service, held = self._service, self._held()
        by_stack: dict[Stack, dict[str, dict[str, str]]] = {}
        for what, one in held.items():
            resource = cast("IConstruct", one).node.default_child
            if isinstance(resource, CfnResource):  # if it is not imported
                name = resource.queue_name if isinstance(resource, sqs.CfnQueue) else None
                by_stack.setdefault(Stack.of(resource), {})[what] = {"id": resource.logical_id, "name": name or ""}
        places: dict[str, str] = {}
        for stack, found in by_stack.items():
            path = stack.node.path
            for what, known in stack.resolve(found).items():
                places[what] = f"{path}/{known['id']}"
                if name := known.get("name"):  # a resource that is given another name is another one
                    places[what] += f" {json.dumps(name, sort_keys=True)}"
        service.node.add_metadata(LAYOUT, places)
        recorded = service.node.try_get_context(f"{LAYOUT}:{service.node.path}")
        for what in moved(recorded or {}, places):
            told = f"{what} of what is deployed would be replaced or dropped, with what is in it"
            more = "see docs/how-to/change-code-in-flight.md, or `sagas layout --write` if that is meant"
            Annotations.of(service).add_warning_v2(f"sagas:Replaced:{what}", f"{told}; {more}")
