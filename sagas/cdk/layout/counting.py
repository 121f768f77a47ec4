"""How many CloudFormation resources a service takes, and what there is room for."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

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
Part = Literal["now", "joins", "callbacks", "archive", "events", "commands", "access_log", "network", "web_acl"]
_OF_PART: Mapping[Part, int] = {
    "now": 13,
    "joins": 1,
    "callbacks": 4,
    "archive": 13,
    "events": 13,
    "commands": 13,
    "access_log": 3,
    "network": 1,
    "web_acl": 1,
}
"""What some services have: most of them a function, queues and alarms; of the others a log, a role and the like."""
_RELEASED: Collection[Part] = ("now", "events", "commands")
"""Parts whose function moves to new code by and by, where such a deployment is asked for."""
_LATER: Collection[Part] = ("events", "commands")
"""Parts that may be made when the service is there already."""
OF_SAGA = 9
"""The alarms of a saga type that has them all."""
OF_QUEUE = 2
"""A queue and its policy."""
_OF_FUNCTION = 9
"""Log, role, policy, function, version, alias, event source and two alarms."""


def of_function(groups: int, *, gradual: bool) -> int:
    """Count the resources of a step group's function with its alarms."""
    return _OF_FUNCTION + (1 if gradual else 0) + max(0, math.ceil((groups - 40) / 20))


def counted(groups: Sequence[int], *, gradual: bool, parts: Collection[Part] = ()) -> tuple[int, int]:
    """Count the resources of a service. Returns those of the whole service; and those that are left in its stack when
    functions and their alarms are in nested ones, with room for what may be made later."""
    queues = OF_QUEUE * (sum(groups) + len(groups))
    functions = sum(of_function(count, gradual=gradual) * count for count in groups)
    stacks = sum(1 + count // 20 for count in groups)
    # CodeDeploy has an application, a role, and a group for each function.
    once = OF_SERVICE + (2 + _FUNCTIONS if gradual else 0) + sum(_of_part(one, gradual) for one in parts)
    later = sum(_of_part(one, gradual) for one in _LATER if one not in parts)
    return once + queues + functions + OF_SAGA * len(groups), once + later + queues + stacks


def _of_part(part: Part, gradual: bool) -> int:
    return _OF_PART[part] + (1 if gradual and part in _RELEASED else 0)
