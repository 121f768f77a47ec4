"""What the command line says of parents and children."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.cli.conftest import Run
from tests.unit.client.stub import SAGA_ID, StubApi, a_saga, a_step

CHILD = "00000000-0000-8000-8000-000000000001"
PARENT: dict[str, Any] = {"type": "create-zip", "saga_id": SAGA_ID, "step": "parts", "position": 0}
CHILDREN: dict[str, Any] = {"sagas": [a_saga(saga_id=CHILD, type="part", parent=PARENT)], "cursor": None}
TYPES: dict[str, Any] = {
    "types": [
        {"type": "create-zip", "steps": [{"name": "parts", "children": ["part"]}]},
        {"type": "part", "steps": [{"name": "pack"}]},
    ]
}


def test_lists_the_children_of_a_saga(api: StubApi, run: Run) -> None:
    api.will(200, CHILDREN)
    result = run("list", "--parent", SAGA_ID)
    assert result.exit_code == 0, result.output
    assert CHILD in result.stdout
    assert f"parent={SAGA_ID}" in api.asked[0].path
    assert run("list", "--parent", SAGA_ID, "part").exit_code != 0


@pytest.mark.parametrize("status", ["WAITING", "COMPENSATED", "COMPLETED"])
def test_a_parent_names_its_failed_children_whatever_became_of_it(api: StubApi, run: Run, status: str) -> None:
    error = {"type": "PermanentError", "message": "no\n\x1b[31mparcels"}
    failure = {"position": 2, "saga_id": CHILD, "label": "of c-5\x1b", "status": "COMPENSATED", "error": error}
    counts = {"total": 3, "started": 3, "completed": 2, "failed": 1, "finished": 1.0, "href": ""}
    waits = {"waiting_for": "children", "waits_until": None} if status == "WAITING" else {}
    parts = a_step("parts", status, children=counts | {"failures": [failure]}, **waits)
    early = a_step("later", "PENDING", children=counts | {"total": 0, "failures": []})
    api.will(200, a_saga(status, steps=[parts, early]))
    lines = run("show", "create-zip", SAGA_ID).stdout.splitlines()
    assert f"parts[2] of c-5 {CHILD} COMPENSATED: PermanentError: no [31mparcels" in lines
    what = "parts waits for its children" if waits else "The children of parts"
    assert f"{what}: 2 of 3 completed, 1 failed, 100% ended. `sagas list --parent {SAGA_ID}` lists them." in lines
    assert not [line for line in lines if "children of later" in line]


def test_shows_a_tree(api: StubApi, run: Run) -> None:
    api.will(200, a_saga()).will(200, TYPES).will(200, CHILDREN)
    result = run("show", "create-zip", SAGA_ID, "--tree")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"create-zip {SAGA_ID}")
    assert f"parts[0] part {CHILD}" in lines[1]


def test_shows_a_tree_as_json(api: StubApi, run: Run) -> None:
    api.will(200, a_saga()).will(200, TYPES).will(200, CHILDREN)
    family = json.loads(run("show", "create-zip", SAGA_ID, "--tree", "--json").stdout)
    assert family["children"][0]["saga"]["saga_id"] == CHILD


def test_cancels_and_compensates_with_force(api: StubApi, run: Run) -> None:
    api.will(200, a_saga()).will(202, a_saga()).will(202, a_saga())
    assert run("cancel", "create-zip", SAGA_ID, "--force").exit_code == 0
    assert run("cancel", "create-zip", SAGA_ID).exit_code == 0
    assert run("compensate", "create-zip", SAGA_ID, "--force").exit_code == 0
    assert ["force=true" in one.path for one in api.asked] == [True, False, False]
    assert api.asked[2].body == {"reason": "", "force": True}
