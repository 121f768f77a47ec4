"""The gate and the proof run every test somewhere, continue, and end what they started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import gate, proof, subjects
from tests.gate import ROOT, TIERS


def _tiers_of(file: str) -> list[str]:
    return [
        name
        for name, tier in TIERS.items()
        if file not in tier.without and any(file == path or file.startswith(f"{path}/") for path in tier.paths)
    ]


def test_every_test_is_in_one_tier() -> None:
    files = [file.relative_to(ROOT).as_posix() for file in (ROOT / "tests").rglob("test_*.py")]
    wrong = {file: tiers for file in files if len(tiers := _tiers_of(file)) != 1}
    assert not wrong
    assert len(files) > 200


def test_every_path_of_a_tier_exists() -> None:
    paths = [path for tier in TIERS.values() for path in (*tier.paths, *tier.without)]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_tier_runs_in_the_whole_gate() -> None:
    assert {name for stage in gate.RUNS["check"] for lane in stage for name in lane} == TIERS.keys()


def test_titles_of_parts_are_unique() -> None:
    titles = [part.title for part in proof.parts()]
    assert len(titles) == len(set(titles))


def test_every_subject_has_tests_and_a_part_of_the_proof() -> None:
    assert [subject for subject in subjects.SUBJECTS if not subjects.test_files(subject)] == []
    assert {f"Breadth: {subject}" for subject in subjects.SUBJECTS} <= {part.title for part in proof.parts()}


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(proof, "RECORD", tmp_path / "proof.json")
    return tmp_path / "proof.json"


def _parts(folder: Path) -> tuple[proof.Part, ...]:
    """One part that fails the first time, and one that may run only once."""
    second = f"import pathlib; f = pathlib.Path({str(folder / 'seen')!r}); seen = f.exists(); f.touch()"
    return (
        proof.Part("fails at first", ("-c", f"{second}; print('3 violations'); raise SystemExit(not seen)")),
        proof.Part(
            "runs once", ("-c", f"import pathlib; pathlib.Path({str(folder / 'once')!r}).touch(exist_ok=False)")
        ),
    )


def test_the_proof_continues_with_what_has_not_passed(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(proof, "parts", lambda: _parts(tmp_path))
    assert proof.main([]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 of 2 parts, 3 violations, ")
    stored = json.loads(record.read_text())
    assert (stored["fails at first"]["passed"], stored["runs once"]["passed"]) == (False, True)
    assert {part["commit"] for part in stored.values()} == {proof.commit()}

    assert proof.main([]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 of 2 parts, 0 violations, ")


def test_a_verdict_on_another_commit_does_not_count(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "parts", lambda: _parts(tmp_path)[1:])
    monkeypatch.setattr(proof, "commit", lambda: "before")
    assert proof.main([]) == 0
    monkeypatch.setattr(proof, "commit", lambda: "after")
    assert proof.main([]) == 1
    assert [part["commit"] for part in json.loads(record.read_text()).values()] == ["after"]


def test_words_choose_parts(record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "parts", lambda: _parts(tmp_path))
    assert proof.main(["ONCE"]) == 0
    assert list(json.loads(record.read_text())) == ["runs once"]
    assert proof.main(["nothing like it"]) == 2


_ENDLESS = """
import sys
from pathlib import Path
from tests import {module} as it
child = ("-c", "import os, signal; print(os.getpid(), file=open({pid!r}, 'w')); signal.pause()")
it.{record} = Path({folder!r}) / it.{record}.name
{setup}
sys.exit(it.main({arguments}))
"""
_SETUPS = {
    "proof": ("RECORD", 'it.parts = lambda: [it.Part("endless", child)]', "[]"),
    "gate": ("RESULTS", "it.Tier.command = lambda self, name: [sys.executable, *child]", "['unit']"),
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", _SETUPS)
def test_an_interrupted_run_leaves_no_process(tmp_path: Path, module: str, number: signal.Signals) -> None:
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    record, setup, arguments = _SETUPS[module]
    program = _ENDLESS.format(
        module=module, record=record, setup=setup, arguments=arguments, folder=str(tmp_path), pid=str(pid)
    )
    with subprocess.Popen((sys.executable, "-c", program), cwd=ROOT, stderr=subprocess.DEVNULL) as runner:
        child = int(pid.read_text())
        runner.send_signal(number)
        assert runner.wait(60) != 0
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
