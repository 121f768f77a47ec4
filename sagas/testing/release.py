"""Assert in a test that the sagas of the last release can continue with this code."""

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
        saga_classes: all saga types of the service; a missing one counts as removed.
        lock: the file that ``sagas check --write`` wrote at the last release.

    Raises:
        AssertionError: sagas in flight could not continue; the message says why, and what to do.
        NotFound: the file does not exist.
        InvalidRequest: the file is not a lock file.
    """
    differences = changes(read(Path(lock)), map(definition_of, saga_classes))
    breaking = [str(change) for change in differences if change.breaks]
    if breaking:
        raise AssertionError("\n".join([f"sagas in flight since the last release ({lock}):", *breaking]))
