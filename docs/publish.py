"""Puts a built site next to those of other versions: ``python docs/publish.py build/site PUBLIC``.

``PUBLIC/0.2/`` is the site of a version, ``PUBLIC/latest/`` leads to the newest, ``PUBLIC/versions.json`` lists
them for
the switcher in the sidebar. Nothing is fetched; what serves ``PUBLIC`` is any server of files.
"""

from __future__ import annotations

import json
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

_REDIRECT = '<!doctype html><meta charset="utf-8"><title>latest</title><meta http-equiv="refresh" content="0; url={0}">'


def _number(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("."))


def publish(site: Path, public: Path, name: str) -> list[str]:
    """Add a site as the version ``name``; return all versions there are, the newest first."""
    target = public / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(site, target)
    there = [path.name for path in public.iterdir() if path.is_dir() and path.name.replace(".", "").isdigit()]
    versions = sorted(there, key=_number, reverse=True)
    (public / "versions.json").write_text(json.dumps({"latest": versions[0], "versions": versions}) + "\n")
    latest = public / "latest"
    shutil.rmtree(latest, ignore_errors=True)
    for page in sorted((public / versions[0]).rglob("*.html")):
        relative = page.relative_to(public / versions[0])
        stub = latest / relative
        stub.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * len(relative.parts)
        stub.write_text(_REDIRECT.format(f"{up}{versions[0]}/{relative.as_posix()}") + "\n")
    (public / "index.html").write_text(_REDIRECT.format(f"{versions[0]}/index.html") + "\n")
    return versions


if __name__ == "__main__":
    built, where = Path(sys.argv[1]), Path(sys.argv[2])
    print(*publish(built, where, ".".join(version("lambda-sagas").split(".")[:2])))
