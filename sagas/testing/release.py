"""Asserts in a test that sagas of the last release can continue with this code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sagas.authoring.definition.definition import definition_of
from sagas.authoring.saga import Saga
from sagas.lock import LOCK
from sagas.lock.changes import changes, changes_in_flight, read_in_flight
from sagas.lock.content import read


def assert_fits_release(
    *saga_classes: type[Saga[Any]], lock: Path | str = LOCK, in_flight: Path | str | None = None
) -> None:
    """Compare a service's saga types with the types of its last release, as ``sagas check`` does.

    Args:
        saga_classes: all saga types of the service. A missing type counts as removed.
        lock: the file that ``sagas check --write`` wrote at the last release.
        in_flight: a file that ``sagas check --stack NAME --save FILE`` wrote. If passed, its sagas in flight are
            compared instead of the lock file.

    Raises:
        AssertionError: sagas in flight could not continue. The message says why, and what to do.
        NotFound: the file does not exist.
        InvalidRequest: the file is not such a file, or has another format.
    """
    definitions = [definition_of(saga_class) for saga_class in saga_classes]
    if in_flight is None:
        path = lock
        found = changes(read(Path(lock)), definitions)
    else:
        path = in_flight
        found = changes_in_flight(read_in_flight(Path(in_flight)), definitions)
    breaking = [change for change in found if change.breaks]
    if breaking:
        advice = [*dict.fromkeys(f"{change.todo}." for change in breaking)]
        missing = {change.saga for change in breaking} - {definition.name for definition in definitions}
        if missing:
            advice.append(f"Pass all saga types of the service to the assertion, also {', '.join(sorted(missing))}.")
        raise AssertionError("\n".join([f"sagas in flight would stop ({path}):", *map(str, breaking), *advice]))
