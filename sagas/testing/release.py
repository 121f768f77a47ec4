"""In a test: the sagas of the last release can go on with this code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sagas.authoring.definition.definition import definition_of
from sagas.authoring.saga import Saga
from sagas.lock import LOCK
from sagas.lock.changes import changes
from sagas.lock.content import read


def assert_fits_release(*saga_classes: type[Saga[Any]], lock: Path | str = LOCK) -> None:
    """Compare a service's saga types with those of its last release, as ``sagas check`` does.

    Args:
        saga_classes: all saga types of the service: one that is missing counts as removed.
        lock: the file that ``sagas check --write`` wrote at the last release.

    Raises:
        AssertionError: sagas in flight could not go on by themselves; says why, and what to do.
        NotFound: there is no such file.
        InvalidRequest: it is no lock file.
    """
    found = changes(read(Path(lock)), map(definition_of, saga_classes))
    broken = [str(change) for change in found if change.breaks]
    if broken:
        raise AssertionError("\n".join([f"sagas in flight since the last release ({lock}):", *broken]))
