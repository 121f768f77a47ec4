"""Updates the code of running functions without a synthesis, so an edit is live in less than two seconds."""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sagas.local.deploy.assembly import Asset, Stack
from sagas.local.deploy.deployment import Deployed
from sagas.local.emulator.clients import Clients
from sagas.local.errors import LocalStackError

_POLL = 0.2
_SETTLED = 0.1
"""Seconds to wait for further changes: editors write a file in several steps, and a checkout writes many files."""
_NOT_WATCHED = frozenset({"__pycache__", "node_modules", "cdk.out", "build", "dist", "tests"})
_AT_ONCE = 8


def changes(project: Path, before: Mapping[Path, tuple[int, int]], running: Callable[[], bool]) -> Iterator[list[Path]]:
    """Yield the relative paths of changed files, whenever files of a project have changed."""
    while running():
        time.sleep(_POLL)
        now = seen(project)
        if now == before:
            continue
        settled = False
        while not settled:
            time.sleep(_SETTLED)
            settled = now == (now := seen(project))
        yield sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
        before = now


def seen(project: Path) -> dict[Path, tuple[int, int]]:
    """Return the time and size of each watched file of a project, by relative path. Hidden directories, virtual
    environments, tests and build output are not watched."""
    stats: dict[Path, tuple[int, int]] = {}
    for at, names, files in os.walk(project):
        directory = Path(at)
        is_venv = (directory / "pyvenv.cfg").is_file()
        names[:] = [] if is_venv else [name for name in names if name not in _NOT_WATCHED and name[0] != "."]
        for name in () if is_venv else files:
            path = directory / name
            if path.suffix == ".pyc" or name[0] == ".":
                continue
            try:
                stat = path.stat()
            except OSError:  # deleted since
                continue
            stats[path.relative_to(project)] = (stat.st_mtime_ns, stat.st_size)
    return stats


class LiveCode:
    """The code of the deployed functions, which is updated file by file from ``project``. ``scratch`` is the directory
    for copies of the current code."""

    def __init__(
        self, clients: Clients, project: Path, scratch: Path, stacks: Sequence[tuple[Stack, Deployed]]
    ) -> None:
        self._lambda = clients.client("lambda")
        self._s3 = clients.client("s3")
        self._project = project
        self._functions: dict[Asset, list[str]] = {}
        self._published: dict[str, list[str]] = {}
        for stack, deployed in stacks:
            assets = {asset.key: asset for asset in stack.assets if asset.zipped}
            for logical_id, resource in deployed.template["Resources"].items():
                if resource["Type"] != "AWS::Lambda::Function":
                    continue
                asset = assets.get(str(resource["Properties"].get("Code", {}).get("S3Key")))
                if asset is not None:
                    self._functions.setdefault(asset, []).append(deployed.physical_ids[logical_id])
        self._code: dict[Asset, Asset] = {}
        shutil.rmtree(scratch / "live", ignore_errors=True)
        for asset in self._functions:
            copy = scratch / "live" / hashlib.sha256(asset.key.encode()).hexdigest()[:16]
            # Without bytecode, which would hide a change of its source file.
            shutil.copytree(asset.path, copy, ignore=shutil.ignore_patterns("__pycache__"))
            self._code[asset] = Asset(copy, True, asset.bucket, asset.key)

    def renew(self, changed: Sequence[Path]) -> tuple[int, bool]:
        """Copy changed files into the functions that use them. Returns the number of functions with new code, and
        whether the stack must be deployed, too, because more than the bodies of functions and methods changed."""
        everything = False
        touched = set[Asset]()
        for relative in changed:
            source = self._project / relative
            holders = [asset for asset, code in self._code.items() if (code.path / relative).is_file()]
            if not source.is_file() or not holders:
                everything = everything or relative.suffix == ".py"
                continue
            if relative.suffix == ".py":
                before = (self._code[holders[0]].path / relative).read_text()
                everything = everything or outline(source.read_text(), relative) != outline(before, relative)
            touched.update(holders)
        for relative in changed:
            for asset in touched:
                target = self._code[asset].path / relative
                if target.is_file() and (self._project / relative).is_file():
                    shutil.copyfile(self._project / relative, target)
        work: list[tuple[str, str, str]] = []
        for asset in touched:
            content = self._code[asset].content()
            key = f"live-{hashlib.sha256(content).hexdigest()}.zip"
            self._s3.put_object(Bucket=asset.bucket, Key=key, Body=content)
            work += [(name, asset.bucket, key) for name in self._functions[asset]]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._publish, work))
        return len(work), everything

    def _publish(self, work: tuple[str, str, str]) -> None:
        """Publish a new version of a function's code, and move the function's aliases to the new version. Running
        invocations continue with the old version. Only the last two versions from here are kept, because each version
        has its own processes."""
        function, bucket, key = work
        answer = self._lambda.update_function_code(FunctionName=function, S3Bucket=bucket, S3Key=key, Publish=True)
        for alias in self._lambda.list_aliases(FunctionName=function)["Aliases"]:
            self._lambda.update_alias(FunctionName=function, Name=alias["Name"], FunctionVersion=answer["Version"])
        versions = self._published.setdefault(function, [])
        versions.append(answer["Version"])
        while len(versions) > 2:
            self._lambda.delete_function(FunctionName=function, Qualifier=versions.pop(0))


def outline(source: str, path: Path) -> str:
    """Return the parts of a module that can affect the stack: all imports, and everything except function bodies."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise LocalStackError(f"{path}:{error.lineno}: {error.msg}") from None
    imports = [ast.dump(node) for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Pass()]
    return ast.dump(tree) + "".join(imports)
