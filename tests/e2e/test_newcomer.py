"""The README's two commands, as somebody types them who has just cloned the repository."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.cdk_cli import command, install
from tests.e2e.stack import REPOSITORY, free_port, poll

pytestmark = [
    pytest.mark.proof,
    pytest.mark.e2e,
    pytest.mark.embedded("it starts a stack as the README does"),
    pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="this is no clone"),
    pytest.mark.timeout(900),
]

_INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "PIP_")
"""What a login shell has: nothing of this virtual environment, of AWS, or of the tests."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What is committed, in an empty directory."""
    directory = tmp_path / "newcomer" / "sagas"
    subprocess.run(["git", "clone", "--quiet", REPOSITORY, directory], check=True)
    return directory


def _shell() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_INHERITED)}


def test_the_cdk_cli_synthesizes_a_fresh_clone_without_make_and_without_what_tests(clone: Path, tmp_path: Path) -> None:
    """The commands of the fourth lesson up to the deployment."""
    install()
    page = (clone / "docs" / "tutorial" / "deploy.md").read_text()
    (block,) = re.findall(r"## From a clone of this repository\n.*?```sh\n(.*?)```", page, re.DOTALL)
    setup, synth, deploy = block.splitlines()
    assert " deploy " in deploy, "not run here: there is no account"
    node, cli = command()
    programs = tmp_path / "bin"
    programs.mkdir()
    # The CDK's CLI as npx finds it, and the Python that made this virtual environment: nothing else is there.
    python = Path(sys.executable).resolve()
    for name, runs in (("npx", f"shift; exec {node} {cli}"), ("python3", f"exec {python}"), ("sh", "exec /bin/sh")):
        (programs / name).write_text(f'#!/bin/sh\n{runs} "$@"\n')
        (programs / name).chmod(0o755)
    own = {**_shell(), "PATH": str(programs)}
    for line in (setup, synth):
        shown = subprocess.run(
            ["sh", "-c", line], cwd=clone, env=own, capture_output=True, text=True, timeout=600, check=False
        )
        assert shown.returncode == 0, shown.stdout + shown.stderr
    assert (clone / "cdk.out" / "Sagas.template.json").is_file()
    assert not list(clone.glob(".venv/lib/python3*/site-packages/pytest"))


def test_what_the_readme_says_first_works_in_a_fresh_clone(clone: Path) -> None:
    (block,) = re.findall(r"## Try it\n.*?```sh\n(.*?)```", (clone / "README.md").read_text(), re.DOTALL)
    demo, test = (line.partition("#")[0].strip() for line in block.splitlines())
    assert test == "make test", "the gate runs it in a clean clone"

    shown = subprocess.run(
        demo.split(), cwd=clone, env=_shell(), capture_output=True, text=True, timeout=600, check=False
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert (clone / ".venv").is_dir()

    with (clone / "out.txt").open("w") as out:
        # Ports of its own, since other tests are running; a group of its own, as a terminal gives it.
        command = ["make", "run", f"ARGS=--port {free_port()}"]
        stack = subprocess.Popen(command, cwd=clone, env=_shell(), stdout=out, stderr=out, start_new_session=True)

    def printed() -> str:
        return (clone / "out.txt").read_text()

    def ready() -> bool:
        assert stack.poll() is None, printed()
        return "\nReady. Stop it with Ctrl-C." in printed()

    try:
        poll("the stack", ready, deadline=180)
        (url,) = re.findall(r"^Console  (http://\S+)$", printed(), re.MULTILINE)
        # A browser knows where *.localhost is; this machine's resolver need not.
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(url.replace("sagas.localhost", "127.0.0.1"), timeout=30) as page:
            assert "Attention" in page.read().decode()
    finally:
        os.killpg(stack.pid, signal.SIGINT)
        stack.wait(timeout=90)
    assert not (clone / ".sagas" / "local.json").exists()
