"""The stacks of the end-to-end tests: on emulators started for them, at an endpoint one brings, or in an account."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from sagas.local.stack import down
from tests.e2e.elsewhere import Account, Place, chosen
from tests.e2e.stack import REPOSITORY, Running, Stack, assembled, launched

_REFERENCE = Place("Sagas", "python -m infra.app")
_TRIALS = Place("Trials", "python -m tests.e2e.trials.app")
_ACCOUNT_TIMEOUT = 3600
"""Seconds for one test in an account, the deployment included."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the place that was chosen cannot run, and say why."""
    here = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    elsewhere = chosen(os.environ)
    if elsewhere is None or not here:
        return
    if hasattr(config, "workerinput"):
        raise pytest.UsageError("at an endpoint or in an account the tests share their stacks: run them with -n 0")
    account = isinstance(elsewhere, Account)
    for item in here:
        for kind in ("embedded", "emulated") if account else ("embedded",):
            marker = item.get_closest_marker(kind)
            if marker is not None:
                item.add_marker(
                    pytest.mark.skip(reason=f"not {'in an account' if account else 'there'}: {marker.args[0]}")
                )
        if account:
            item.add_marker(pytest.mark.timeout(_ACCOUNT_TIMEOUT), append=False)


@pytest.fixture(scope="session", autouse=True)
def _assets_are_staged() -> None:
    """Have the CDK copy assets, since an app's own may be gone soon; ``tests/cdk`` in the same process has it not."""
    os.environ.pop("CDK_CONTEXT_JSON", None)


def project_in(directory: Path) -> Path:
    """An empty project that shares the repository's cache, so that nothing is fetched twice."""
    cache = REPOSITORY / ".sagas" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (directory / ".sagas").mkdir()
    (directory / ".sagas" / "cache").symlink_to(cache)
    return directory


@pytest.fixture
def project(tmp_path: Path) -> Generator[Path]:
    """An empty project directory. No stack of it outlives the test, whatever the test came to."""
    yield project_in(tmp_path)
    down(tmp_path)


@pytest.fixture(scope="session")
def local_stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stack]:
    """The reference stack, there for the whole session."""
    yield from _stack(_REFERENCE, project_in(tmp_path_factory.mktemp("stack")))


@pytest.fixture(scope="session")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stack]:
    """The sagas on trial, there for the whole session."""
    yield from _stack(_TRIALS, project_in(tmp_path_factory.mktemp("trials")))


def _stack(place: Place, project: Path) -> Generator[Stack]:
    elsewhere = chosen(os.environ)
    if elsewhere is not None:
        with elsewhere.deployed(place, project) as stack:
            yield stack
        return
    with launched(project, assembled(place.app)) as running:
        yield running


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """The sagas of an app that has an API, tables and sources of events of its own, there for the whole session."""
    with launched(project_in(tmp_path_factory.mktemp("shop")), assembled("python -m tests.e2e.shop.app")) as running:
        yield running


@pytest.fixture
def probe(project: Path) -> Generator[Running]:
    """A stack of one queue and one function, on an emulator of its own."""
    with launched(project, assembled("python -m tests.e2e.probe.app")) as running:
        yield running
