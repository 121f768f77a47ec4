"""Divides executions among the step groups of a service: AWS can limit one queue, but not several queues together."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sagas.cdk.options.function_options import FunctionOptions
from sagas.errors import DefinitionError

_LEAST = 2
_MOST = 1_000
"""The range of the maximum concurrency of an SQS event source mapping."""


def divided(service: str, most: int, lanes: Mapping[str, FunctionOptions]) -> dict[str, int]:
    """Divide ``most`` executions by weight among the step groups that set no limit themselves. Returns the share of
    each such group: at least 2, at most 1,000."""
    own = {name: limit for name, options in lanes.items() if (limit := options.limit) is not None}
    weights = {name: options.weight or 1 for name, options in lanes.items() if name not in own}
    taken = sum(own.values())
    if taken + _LEAST * len(weights) > most:
        parts = [f"{len(own)} with a limit of their own take {taken}"] if own else []
        parts += [f"{len(weights)} {'others ' if own else ''}need {_LEAST} each"] if weights else []
        needed = taken + _LEAST * len(weights)
        raise DefinitionError(
            f"{service}: max_concurrency={most} is not enough for {len(lanes)} functions of steps: "
            f"{' and '.join(parts)}, which is {needed}"
        )
    shares = dict[str, int]()
    spare = most - taken
    # A group that would get less than the minimum gets the minimum; the others divide the remainder.
    while few := [name for name, weight in weights.items() if spare * weight < _LEAST * math.fsum(weights.values())]:
        for name in few:
            shares[name] = _LEAST
            spare -= _LEAST
            del weights[name]
    whole = math.fsum(weights.values())
    exact = {name: spare * weight / whole for name, weight in weights.items()}
    rounded = {name: math.floor(share) for name, share in exact.items()}
    spare -= sum(rounded.values())
    for name in sorted(exact, key=lambda name: (rounded[name] - exact[name], name))[:spare]:
        rounded[name] += 1
    shares |= rounded
    return {name: min(shares[name], _MOST) for name in lanes if name in shares}
