"""A project of one's own, from the built wheel in a virtual environment that has nothing of this repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import site
import subprocess
import sys
import venv
import zipfile
from collections.abc import Generator
from email import message_from_bytes
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.e2e.api import Api
from tests.e2e.cdk_cli import command, install, run
from tests.e2e.conftest import project_in
from tests.e2e.elsewhere import Elsewhere, chosen
from tests.e2e.pages import play
from tests.e2e.stack import REPOSITORY, Stack, free_port

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

_OURS = ("lambda_sagas-", "_editable_impl_lambda_sagas", "__editable__.lambda_sagas")
"""How what makes this repository importable is called in our own virtual environment."""

FIRST_TUTORIAL = REPOSITORY / "docs" / "tutorial" / "first-saga.md"
_NOT_INHERITED = ("PYTHON", "AWS_", "SAGAS_", "VIRTUAL_ENV", "PYTEST_")


# What the tutorial's reader has and a machine without a network has not, nor one with other tests at work.
_PREPARED = """
python3() {{ {python} -m venv --without-pip .venv && echo {lent} > $(echo .venv/lib/python3*/site-packages)/lent.pth; }}
pip() {{ {python} -m pip --python .venv/bin/python install --quiet --no-deps --no-index {wheel}; }}
sagas() {{
    if [ "$1 $2" = "local up" ]; then
        mkdir -p .sagas && ln -sfn {cache} .sagas/cache && command sagas "$@" --port {port}
    else
        command sagas "$@"
    fi
}}
"""


def _clean() -> dict[str, str]:
    """Our environment without what would lead to this repository."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}


class Installed:
    """A virtual environment with the wheel, and a project in an empty directory.

    Args:
        bin: of the virtual environment.
        directory: of the project.
    """

    def __init__(self, bin: Path, directory: Path) -> None:
        self.bin = bin
        self.directory = directory

    def run(self, program: str, *arguments: str, deadline: float = 90) -> str:
        """Run a program of the virtual environment in the project; it must succeed. Return what it printed."""
        ended = subprocess.run(
            [self.bin / program, *arguments],
            cwd=self.directory,
            env=_clean(),
            capture_output=True,
            text=True,
            timeout=deadline,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: building writes nothing into the repository."""
    directory = tmp_path_factory.mktemp("wheel")
    source = directory / "source"
    shutil.copytree(REPOSITORY / "sagas", source / "sagas", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "hatch_build.py"):
        shutil.copy(REPOSITORY / name, source)
    # Where the builder is not installed, pip fetches it.
    isolation = ["--no-build-isolation", "--no-index"] if find_spec("hatchling") else []
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *isolation]
    released = os.environ | {"GITHUB_SERVER_URL": "https://host.example", "GITHUB_REPOSITORY": "some/sagas"}
    subprocess.run([*pip, "--wheel-dir", "dist", "./source"], cwd=directory, env=released, check=True, timeout=60)
    (built,) = (directory / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Installed]:
    """The wheel, unpacked into a new virtual environment beside the packages it needs. Nothing is downloaded."""
    home = tmp_path_factory.mktemp("own")
    venv.create(home / "venv", with_pip=False, symlinks=True)
    one = Installed(home / "venv" / "bin", home / "project")
    one.directory.mkdir()
    (packages,) = (home / "venv").glob("lib/python3*/site-packages")
    _lend_packages(home / "lent")
    (packages / "lent.pth").write_text(f"{home / 'lent'}\n")
    pip = [sys.executable, "-m", "pip", "--python", str(one.bin / "python"), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True, timeout=60)
    one.run("sagas", "init", ".", "--name", "first-project")
    project_in(one.directory)
    yield one
    one.run("sagas", "local", "down")


def _lend_packages(lent: Path) -> None:
    """Fill a directory with what is installed in our virtual environment, but for this repository."""
    lent.mkdir()
    # Debian names places that a virtual environment does not have.
    for place in filter(Path.is_dir, map(Path, site.getsitepackages())):
        for entry in place.iterdir():
            if not entry.name.startswith(_OURS) and not (lent / entry.name).exists():
                (lent / entry.name).symlink_to(entry)


def test_the_wheel_holds_sagas_only(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"sagas"}
    assert "sagas/py.typed" in names
    assert not [name for name in names if name.endswith(".pyc")]
    templates = (
        path for part in ("template", "examples") for path in (REPOSITORY / "sagas" / "cli" / part).rglob("*.tmpl")
    )
    wanted = {path.relative_to(REPOSITORY).as_posix() for path in templates}
    assert wanted
    assert wanted <= set(names)


def test_the_wheels_page_on_pypi_leads_somewhere(wheel: Path) -> None:
    """PyPI shows the README alone: each link and image has to be a whole URL, and leads to a file of the release."""
    archive = zipfile.ZipFile(wheel)
    [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = message_from_bytes(archive.read(name))
    urls = dict(str(line).split(", ") for line in metadata.get_all("Project-URL", []))
    tag = f"v{metadata['Version']}"
    assert urls["Repository"] == "https://host.example/some/sagas"
    assert urls["Changelog"].endswith(f"/blob/{tag}/CHANGELOG.md")
    assert metadata["Author"]
    assert metadata["License-Expression"] == "Apache-2.0 AND 0BSD"  # the console's idiomorph
    readme = str(metadata.get_payload())
    links, images = re.findall(r"\]\(([^)#]+)", readme), re.findall(r'src(?:set)?="([^"]+)"', readme)
    assert len(links) > 10
    assert len(images) > 2
    assert [one for one in (*links, *images) if not one.startswith("https://")] == []
    pages, files = f"{urls['Repository']}/blob/{tag}/", f"{urls['Repository']}/raw/{tag}/"
    paths = [
        *(one.removeprefix(pages) for one in links if one.startswith(pages)),
        *(one.removeprefix(files) for one in images),
    ]
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []


def test_nothing_of_the_repository_is_found(installed: Installed) -> None:
    places = installed.run("python", "-c", "import sagas, sys; print(sagas.__file__, *sys.path)")
    assert str(REPOSITORY / "sagas") not in places
    assert str(REPOSITORY) not in places.split()


def test_the_project_passes_its_own_tests(installed: Installed) -> None:
    assert "passed" in installed.run("python", "-m", "pytest", "-q")


def test_the_types_are_those_of_its_app_if_it_lists_none(installed: Installed) -> None:
    listed = installed.directory / "pyproject.toml"
    text = listed.read_text()
    listed.write_text(text.replace("[tool.sagas]", "[tool.others]"))
    try:
        checked = installed.run("sagas", "check", "--json")
    finally:
        listed.write_text(text)
    assert json.loads(checked)["changes"] == []


def test_the_cdk_cli_synthesizes_the_project_without_make(installed: Installed, tmp_path: Path) -> None:
    install()
    (tmp_path / "sh").symlink_to("/bin/sh")
    own = {**_clean(), "PYTHONPATH": "", "PATH": f"{installed.bin}{os.pathsep}{tmp_path}"}
    arguments = ("synth", "--quiet", "-c", "alarm_email=ops@example.com")
    run([*command(), *arguments], own, installed.directory)
    template = (installed.directory / "cdk.out" / "first-project.template.json").read_text()
    assert "ops@example.com" in template


@pytest.mark.emulated("it is about `sagas local`")
def test_the_project_runs_here(installed: Installed) -> None:
    elsewhere = chosen(os.environ)
    brought = ("--endpoint", elsewhere.endpoint) if isinstance(elsewhere, Elsewhere) else ()
    installed.run("sagas", "local", "up", *(brought or ("--port", str(free_port()), "--detach")))
    api = Api(Stack(installed.directory))
    event = json.loads((installed.directory / "events" / "trip.json").read_text())
    done = api.run("trip", event)
    assert done["status"] == "COMPLETED", done
    refused = api.run("trip", json.loads((installed.directory / "events" / "trip_too_expensive.json").read_text()))
    assert refused["status"] == "COMPENSATED", refused
    assert "COMPLETED" in installed.run("sagas", "list", "trip")
    assert ("being deleted" if brought else "ended") in installed.run("sagas", "local", "down")


@pytest.mark.timeout(600)
@pytest.mark.embedded("it is about `sagas local`")
def test_the_first_tutorial_shows_what_one_sees(wheel: Path, tmp_path: Path) -> None:
    _lend_packages(tmp_path / "lent")
    prepared = _PREPARED.format(
        python=sys.executable,
        lent=tmp_path / "lent",
        wheel=wheel,
        cache=REPOSITORY / ".sagas" / "cache",
        port=free_port(),
    )
    places = [one for one in os.environ["PATH"].split(os.pathsep) if not (Path(one) / "sagas").exists()]
    try:
        play(FIRST_TUTORIAL, tmp_path, {**_clean(), "PATH": os.pathsep.join(places)}, before=prepared)
    finally:
        Installed(tmp_path / "my-trips" / ".venv" / "bin", tmp_path / "my-trips").run("sagas", "local", "down")
