"""Local stacks for the end-to-end tests: each on its own port, in its own directory, ended by process id."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from localstack_client.config import get_service_endpoint

from tests.e2e.stack import REPOSITORY, Running, launch, run_sagas, start


def _project(directory: Path) -> Path:
    """An empty project that shares the repository's cache, so that nothing is fetched twice."""
    cache = REPOSITORY / ".sagas" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (directory / ".sagas").mkdir()
    (directory / ".sagas" / "cache").symlink_to(cache)
    return directory


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project directory."""
    return _project(tmp_path)


@pytest.fixture(scope="session")
def local_stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """The reference stack, running for the whole session; at the endpoint that one brings, if there is one."""
    project, endpoint = _project(tmp_path_factory.mktemp("stack")), _brought_endpoint()
    if endpoint is not None:
        yield _deployed(project, endpoint)
        run_sagas(project, "local", "down")
        return
    running = launch(project, "python -m infra.app")
    yield running
    running.stop()


def _brought_endpoint() -> str | None:
    """The URL in SAGAS_E2E_ENDPOINT; for ``localstack``, where LocalStack is by default or LOCALSTACK_HOST says."""
    given = os.environ.get("SAGAS_E2E_ENDPOINT")
    return get_service_endpoint("cloudformation") if given == "localstack" else given or None


def _deployed(project: Path, endpoint: str) -> Running:
    running = start(project, "python -m infra.app", "--endpoint", endpoint)
    assert running.process.wait(timeout=180) == 0, (project / "err.txt").read_text()
    return running


@pytest.fixture(scope="session")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """The sagas on trial, running for the whole session."""
    running = launch(_project(tmp_path_factory.mktemp("trials")), "python -m tests.e2e.trials.app")
    yield running
    running.stop()


@pytest.fixture
def probe(project: Path) -> Generator[Running]:
    """A stack of one queue and one function."""
    running = launch(project, "python -m tests.e2e.probe.app")
    yield running
    running.stop()
