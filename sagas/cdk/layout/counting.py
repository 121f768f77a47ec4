"""How many CloudFormation resources a service takes, and what there is room for."""

from __future__ import annotations

import math

from sagas.cdk.layout.catalogue import Catalogue

MOST_RESOURCES = 480
"""Of a stack, which takes 500."""
MOST_OF_ONE_STACK = 393
"""Of a service that is all in one stack, so that the app's own tables, topics and policies have room there, too."""
MOST_AT_ONCE = 2_500
"""Resources of nested stacks that CloudFormation makes, changes or deletes in one operation."""
_FUNCTIONS = 3
"""Those there are once: of the API, the supervisor and the work queue ``bulk``."""
OF_SERVICE = 104
"""What there is once: tables, bucket, layer, API, dashboard and those functions, with their queue and alarms."""
OF_SAGA = 9
"""The alarms of a saga type that has them all."""
OF_QUEUE = 2
"""A queue and its policy."""
_OF_FUNCTION = 9
"""Log, role, policy, function, version, alias, event source and two alarms."""


def of_function(groups: int, *, gradual: bool) -> int:
    """Count the resources of a step group's function with its alarms."""
    return _OF_FUNCTION + (1 if gradual else 0) + max(0, math.ceil((groups - 40) / 20))


def counted(catalogue: Catalogue, parts: tuple[int, int]) -> tuple[int, int]:
    """Count the resources of a service. Returns those of the whole service; and those that are left in its stack when
    functions and their alarms are in nested ones, with room for what may be made later. ``parts``: the same, for what
    not every service has."""
    groups, gradual = [len(catalogue.groups(saga)) for saga in catalogue.sagas], catalogue.gradual
    queues = OF_QUEUE * (sum(groups) + len(groups))
    functions = sum(of_function(count, gradual=gradual) * count for count in groups)
    stacks = sum(1 + count // 20 for count in groups)
    # CodeDeploy has an application, a role, and a group for each function. A network takes a security group.
    once = OF_SERVICE + (2 + _FUNCTIONS if gradual else 0) + (1 if catalogue.service_options.network else 0)
    together, later = parts
    return once + together + queues + functions + OF_SAGA * len(groups), once + later + queues + stacks
