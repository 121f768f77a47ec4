"""What runs at the repository's host, ours and that of `sagas init`: pinned, with the rights of its job and no more."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / ".github" / "workflows"
TEMPLATE = ROOT / "sagas" / "cli" / "template" / ".github" / "workflows"
ALL = sorted([*OURS.glob("*.yml"), *TEMPLATE.glob("*.yml.tmpl")])
YAML: Any = importlib.import_module("yaml")


def workflow(path: Path) -> dict[str, Any]:
    """A workflow as its host reads it; YAML 1.1 takes the key ``on`` for true."""
    read: dict[Any, Any] = YAML.safe_load(path.read_text())
    return {"on" if key is True else key: value for key, value in read.items()}


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_every_action_is_pinned_to_a_commit(path: Path) -> None:
    named = re.findall(r"uses: (\S+)(.*)", path.read_text())
    assert named
    assert [uses for uses, _ in named if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", uses)] == []
    assert [uses for uses, told in named if not re.fullmatch(r"  # v\d+\.\d+\.\d+", told)] == []


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_what_is_granted_is_granted_to_a_job(path: Path) -> None:
    whole = workflow(path)
    assert whole["permissions"] == {"contents": "read"}
    for name, job in whole["jobs"].items():
        if "write" in job.get("permissions", {}).values():
            assert not [step for step in job["steps"] if "pytest" in step.get("run", "")], name


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_no_clone_keeps_a_token(path: Path) -> None:
    for job in workflow(path)["jobs"].values():
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_what_publishes_may_not_write_to_the_repository() -> None:
    jobs = workflow(OURS / "release.yml")["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write", "attestations": "write"}
    assert jobs["publish"]["environment"] == "pypi"
    assert jobs["announce"]["permissions"] == {"contents": "write"}
    (announces,) = (step["run"] for step in jobs["announce"]["steps"] if "run" in step)
    assert "--repo" in announces
    assert "--notes-from-tag" not in announces  # gh refuses the two together


def test_sagas_in_flight_are_checked_before_a_deployment() -> None:
    steps = [step.get("run", "") for step in workflow(TEMPLATE / "deploy.yml.tmpl")["jobs"]["deploy"]["steps"]]
    [check] = [number for number, run in enumerate(steps) if "sagas check --stack {{name}}" in run]
    [deploy] = [number for number, run in enumerate(steps) if " deploy --require" in run]
    assert check < deploy


def test_a_pull_request_gets_no_role_that_deploys() -> None:
    jobs = workflow(TEMPLATE / "deploy.yml.tmpl")["jobs"]
    roles = {
        name: [step["with"]["role-to-assume"] for step in job["steps"] if "role-to-assume" in step.get("with", {})]
        for name, job in jobs.items()
    }
    assert roles == {"test": [], "diff": ["${{ vars.AWS_DIFF_ROLE }}"], "deploy": ["${{ vars.AWS_ROLE }}"]}
    assert jobs["deploy"]["if"].startswith("github.ref == 'refs/heads/main'")
    assert "head.repo.full_name == github.repository" in jobs["diff"]["if"]
    assert not [step for step in jobs["diff"]["steps"] if " deploy" in step.get("run", "")]


def test_a_pull_request_reads_templates_alone() -> None:
    text = (TEMPLATE / "deploy.yml.tmpl").read_text()
    (diff,) = [
        step["run"]
        for step in workflow(TEMPLATE / "deploy.yml.tmpl")["jobs"]["diff"]["steps"]
        if "diff" in step.get("run", "")
    ]
    assert "--method=template" in diff  # a change set would need rights to write
    assert "lookup-role-*" not in text


def test_a_job_with_a_role_installs_by_hashes() -> None:
    """A project without a lock installs what there is."""
    for name, job in workflow(TEMPLATE / "deploy.yml.tmpl")["jobs"].items():
        installs = [step["run"] for step in job["steps"] if "pip install" in step.get("run", "")]
        assert len(installs) == 1
        assert ("--require-hashes -r requirements.lock" in installs[0]) is (name != "test")
