"""How many CloudFormation resources a service takes, and what there is room for."""

from __future__ import annotations

import math
from collections.abc import Sequence

MOST_RESOURCES = 480
"""Of a stack, which takes 500."""
MOST_OF_ONE_STACK = 390
"""Of a service that is all in one stack, so that the app's own tables, topics and policies have room there, too."""
MOST_AT_ONCE = 2_500
"""Resources of nested stacks that CloudFormation makes, changes or deletes in one operation."""
OF_SERVICE = 102
"""What there is once: tables, bucket, layers, API, supervisor and work queue with alarms, and some for options."""
OF_NOW = 14
"""The work queue ``now`` with its dead letters, its function and their alarms, where some saga waits."""
OF_SAGA = 9
"""The alarms of a saga type that has them all."""
OF_QUEUE = 2
"""A queue and its policy."""
_OF_FUNCTION = 9
"""Log, role, policy, function, version, alias, event source and two alarms."""


def of_function(groups: int, *, gradual: bool) -> int:
    """Count the resources of a step group's function with its alarms.

    Args:
        groups: how many the saga has. The CDK makes further policies where one cannot hold the names of all queues.
        gradual: whether CodeDeploy moves its alias.
    """
    return _OF_FUNCTION + (1 if gradual else 0) + max(0, math.ceil((groups - 40) / 20))


def counted(groups: Sequence[int], *, gradual: bool, now: bool = False) -> tuple[int, int]:
    """Count the resources of a service.

    Args:
        groups: how many step groups each saga has.
        gradual: whether CodeDeploy moves aliases.
        now: whether some saga waits.

    Returns:
        Those of the whole service, and those that are left in its stack when functions and their alarms are in nested
        ones.
    """
    queues = OF_QUEUE * (sum(groups) + len(groups))
    functions = sum(of_function(count, gradual=gradual) * count for count in groups)
    stacks = sum(1 + count // 20 for count in groups)
    once = OF_SERVICE + (OF_NOW if now else 0)
    return once + queues + functions + OF_SAGA * len(groups), once + queues + stacks
