"""Dividing a number of executions over the lanes of a service: AWS has a limit for each queue, and none for several."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sagas.cdk.options.function_options import FunctionOptions
from sagas.errors import DefinitionError

_LEAST, _MOST = 2, 1_000
"""What an event source mapping of SQS takes as its maximum concurrency."""


def limit_of(options: FunctionOptions) -> int | None:
    """Return how many executions a lane has at most by its own options; ``None`` when they do not say."""
    given = [one for one in (options.maximum_concurrency, options.reserved_concurrency) if one is not None]
    return min(given, default=None)


def divided(service: str, most: int, lanes: Mapping[str, FunctionOptions]) -> dict[str, int]:
    """Divide ``most`` executions over the lanes that have no limit of their own, in proportion to their weights.
    Returns the share of each lane without a limit of its own: 2 at least, 1,000 at most."""
    own = {name: limit for name, options in lanes.items() if (limit := limit_of(options)) is not None}
    weights = {name: options.weight for name, options in lanes.items() if name not in own}
    taken = sum(own.values())
    if taken + _LEAST * len(weights) > most:
        parts = [f"{len(own)} with a limit of their own take {taken}"] if own else []
        parts += [f"{len(weights)} {'others ' if own else ''}need {_LEAST} each"] if weights else []
        needed = taken + _LEAST * len(weights)
        raise DefinitionError(
            f"{service}: max_concurrency={most} is not enough for {len(lanes)} functions of steps: "
            f"{' and '.join(parts)}, which is {needed}"
        )
    shares, left = dict[str, int](), most - taken
    # Who would get less than the least gets that; the others divide what then is left.
    while few := [name for name, weight in weights.items() if left * weight < _LEAST * math.fsum(weights.values())]:
        for name in few:
            shares[name] = _LEAST
            left -= _LEAST
            del weights[name]
    whole = math.fsum(weights.values())
    exact = {name: left * weight / whole for name, weight in weights.items()}
    rounded = {name: math.floor(share) for name, share in exact.items()}
    spare = left - sum(rounded.values())
    for name in sorted(exact, key=lambda name: (rounded[name] - exact[name], name))[:spare]:
        rounded[name] += 1
    shares |= rounded
    return {name: min(shares[name], _MOST) for name in lanes if name in shares}
