"""The number of CloudFormation resources of a service, and the limits."""

from __future__ import annotations

import math

from sagas.cdk.layout.catalogue import Catalogue

MOST_RESOURCES = 480
"""Most resources of the service in its stack, which allows 500."""
MOST_OF_ONE_STACK = 393
"""Most resources of a service in a single stack. The rest is for the app's own tables, topics and policies."""
MOST_AT_ONCE = 2_500
"""Resources of nested stacks that CloudFormation can change in one operation."""
_FUNCTIONS = 3
"""Functions that every service has: the API's, the supervisor's and that of the work queue ``bulk``."""
OF_SERVICE = 104
"""Resources of every service: tables, bucket, layer, API, dashboard and those functions, with queue and alarms."""
OF_SAGA = 9
"""Alarms of a saga type that has them all."""
OF_QUEUE = 2
"""Resources of a queue: itself and its policy."""
_OF_FUNCTION = 9
"""Resources of a function: log, role, policy, function, version, alias, event source and two alarms."""


def of_function(groups: int, *, gradual: bool) -> int:
    """Count the resources of a step group's function with its alarms."""
    return _OF_FUNCTION + (1 if gradual else 0) + max(0, math.ceil((groups - 40) / 20))


def counted(catalogue: Catalogue, parts: tuple[int, int]) -> tuple[int, int]:
    """Count the resources of a service. Returns the count of the whole service, and that of its stack if functions and
    alarms are nested, with room for later parts. ``parts``: both counts of the optional parts."""
    groups, gradual = [len(catalogue.groups(saga)) for saga in catalogue.sagas], catalogue.gradual
    queues = OF_QUEUE * (sum(groups) + len(groups))
    functions = sum(of_function(count, gradual=gradual) * count for count in groups)
    stacks = sum(1 + count // 20 for count in groups)
    # CodeDeploy has an application, a role, and a group per function. A network has a security group.
    once = OF_SERVICE + (2 + _FUNCTIONS if gradual else 0) + (1 if catalogue.service_options.network else 0)
    together, later = parts
    return once + together + queues + functions + OF_SAGA * len(groups), once + later + queues + stacks
