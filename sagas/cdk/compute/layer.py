"""The layer that all functions share: third-party code for Lambda's platform, and the library's own modules.

Pip fetches the third-party code without Docker, in the installed versions, once per set of versions. Later synths take
it from the cache and need no network.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import cast

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

import sagas
from sagas.cdk.compute.bytecode import add_bytecode, compiler_for
from sagas.cdk.compute.staging import built_once, copy_files, digest_of, names_under, source_files
from sagas.imports import PROVIDED, canonical

_DISTRIBUTION = "lambda-sagas"

_IN_THE_RUNTIME = frozenset({"boto3", "botocore", "s3transfer", "urllib3", "python-dateutil", "jmespath", "six"})
"""Distributions in every Python runtime of Lambda. botocore alone is 56 MB."""

_LOCK = Path("requirements.lock")
"""The versions and hashes of the project's packages, in the directory in which the CDK app runs."""
_NAMES_LIBRARY = re.compile(rf"^{_DISTRIBUTION}\b(?![-_.\w])", re.MULTILINE | re.IGNORECASE)

_OWN_SERVICES = frozenset({"dynamodb", "events", "kms", "s3", "secretsmanager", "sqs", "sts"})
"""The services that the library's functions call, and those that botocore may need for credentials."""

_DEPLOYMENT_ONLY = frozenset({"cdk", "cli", "console", "local", "testing", "imports.py", "loopback.py", "node.py"})
"""Parts of ``sagas`` that no function imports."""

_PLATFORMS = {"arm64": "aarch64", "x86_64": "x86_64"}
_C_LIBRARIES = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
"""Platforms of wheels, newest first. Lambda has glibc 2.34 since Python 3.12, and runs wheels for older versions."""
_OLDER = {"3.11": 1}
"""By Python version, how many of these platforms, from the first, are too new. 3.11 runs on glibc 2.26 (Amazon Linux
2)."""


_MOST_BYTES = 250 * 2**20
"""Lambda's limit for a function with its layers, not zipped."""


class PackagingError(Exception):
    """The layer could not be built. The message gives the reason in one line."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer, the directory and the digest of its content, and the version of Python that it is for."""

    version: lambda_.LayerVersion
    directory: Path
    digest: str
    python: str


class Layers:
    """The layers of a service: one for each platform that its functions use. Most use ``architecture`` and ``runtime``.
    ``requirements`` are the files of the functions' own packages. For ``bundle_sdk`` and ``provided``, see
    ``SagaServiceProps``."""

    def __init__(
        self,
        scope: Construct,
        architecture: lambda_.Architecture,
        runtime: lambda_.Runtime,
        requirements: Sequence[Path] = (),
        *,
        bundle_sdk: bool | Sequence[str] = False,
        extras: Sequence[str] = (),
        provided: Sequence[str] = (),
    ) -> None:
        self._scope = scope
        self._extras = extras
        self._provided = provided
        self._bundle_sdk = bundle_sdk
        self._usual = (architecture.name, runtime.name)
        self._requirements = requirements
        self._made: dict[tuple[str, str], Layer] = {}

    def of(self, architecture: lambda_.Architecture, runtime: lambda_.Runtime) -> Layer:
        """Return the layer for a platform. The first call builds it or takes it from the cache."""
        platform = (architecture.name, runtime.name)
        if platform not in self._made:
            python = runtime.name.removeprefix("python")
            directory = build_layer(architecture.name, python, self._requirements, self._bundle_sdk, self._extras)
            digest = directory.name.removeprefix("layer-")
            version = lambda_.LayerVersion(
                self._scope,
                "Layer" if platform == self._usual else f"Layer-{runtime.name}-{architecture.name}",
                code=lambda_.Code.from_asset(str(directory.resolve()), asset_hash=digest),
                compatible_architectures=[architecture],
                compatible_runtimes=[runtime],
                description="lambda-sagas and the packages it needs",
            )
            if self._provided:
                # The local stack runs functions with the modules of their layer only, and with these.
                resource = cast("lambda_.CfnLayerVersion", version.node.default_child)
                resource.add_metadata(PROVIDED, [*self._provided])
            self._made[platform] = Layer(version, directory, digest, python)
        return self._made[platform]


def build_layer(
    architecture: str,
    python: str,
    requirements: Sequence[Path] = (),
    bundle_sdk: bool | Sequence[str] = False,
    extras: Sequence[str] = (),
) -> Path:
    """Return the directory with the layer's content, below ``python/`` as Lambda requires."""
    packages = _third_party(architecture, python, requirements, bundle_sdk, extras)
    root = Path(sagas.__path__[0])
    needed = (file for file in source_files(root) if file.parts[0] not in _DEPLOYMENT_ONLY)
    library = names_under(root, needed, "python/sagas")
    digest = digest_of(library, packages.name, *(["bytecode"] if compiler_for(f"python{python}") else []))

    def build(target: Path) -> None:
        shutil.copytree(packages, target / "python", symlinks=True)
        copy_files(library, target)
        add_bytecode(target, "/opt", f"python{python}")
        size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
        if size > _MOST_BYTES:
            raise PackagingError(
                f"the layer is {size // 2**20} MB; Lambda allows {_MOST_BYTES // 2**20} MB; remove packages from "
                "requirements.txt, or name the services of bundle_sdk"
            )

    return built_once(f"layer-{digest}", build)


def _third_party(
    architecture: str,
    python: str,
    requirements: Sequence[Path],
    bundle_sdk: bool | Sequence[str],
    extras: Sequence[str],
) -> Path:
    locked = _locked(_LOCK) if _LOCK.is_file() else {}
    pins = pinned_requirements(left_out=frozenset() if bundle_sdk else _IN_THE_RUNTIME, extras=extras)
    pins = [_pinned_by(locked, pin) for pin in pins] if locked else pins
    # The functions' own packages must have these versions, too.
    fixed = {name: version for name, versions in locked.items() if len(versions) == 1 for version in versions}
    fixed |= {pin.partition("==")[0]: pin.partition(" ")[0] for pin in pins}
    for path in requirements:
        if _NAMES_LIBRARY.search(path.read_text(encoding="utf-8")):
            raise PackagingError(f"{path} names {_DISTRIBUTION}, which the layer contains anyway; remove that line")
    files = {str(number): path for number, path in enumerate(requirements)}
    services = frozenset[str]() if isinstance(bundle_sdk, bool) else _OWN_SERVICES | set(bundle_sdk)
    digest = digest_of(
        files, architecture, python, *sorted(services), *pins, *(sorted(fixed.values()) if files else ())
    )

    def build(target: Path) -> None:
        libraries = _C_LIBRARIES[_OLDER.get(python, 0) :]
        name = f"Python {python} on {architecture}"
        tags = (f"{library}_{_PLATFORMS[architecture]}" for library in libraries)
        platform = [option for tag in tags for option in ("--platform", tag)]
        platform += ["--implementation", "cp", "--python-version", python, "--only-binary=:all:"]
        own = target.parent / "requirements.txt"
        constraints = target.parent / "constraints.txt"
        own.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
        _pip(["--no-deps", *platform, "--target", str(target), "--requirement", str(own)], name)
        if requirements:
            # What these packages need comes along, even if the runtime has it in another version. A file with hashes
            # makes pip require them of all packages.
            constraints.write_text("".join(f"{pin}\n" for pin in sorted(fixed.values())), encoding="utf-8")
            listed = [option for path in requirements for option in ("--requirement", str(path))]
            _pip([*platform, "--target", str(target), "--upgrade", *listed, "--constraint", str(constraints)], name)
        _prune(target, services)

    return built_once(f"packages-{digest}", build)


def _locked(lock: Path) -> dict[str, dict[str, list[str]]]:
    """Return the hashes in a lock file, by the name of a package and ``name==version``; empty if it has no hashes."""
    locked: dict[str, dict[str, list[str]]] = {}
    for line in lock.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        pin = re.match(r"([\w.-]+)(?:\[.*?\])?==([^\s;]+)", line)
        hashes = re.findall(r"--hash=\S+", line)
        if pin and hashes:
            name = canonical(pin[1])
            locked.setdefault(name, {}).setdefault(f"{name}=={pin[2]}", []).extend(hashes)
    return locked


def _pinned_by(locked: Mapping[str, Mapping[str, Sequence[str]]], pin: str) -> str:
    """Return the requirement of the lock file for a package of the library, with hashes. If the file has several
    versions of the package, the installed one counts."""
    versions = locked.get(pin.partition("==")[0], {})
    if pin not in versions and len(versions) != 1:
        raise PackagingError(f"{_LOCK} has no hashes of {pin}, which the functions need; compile it again")
    chosen = pin if pin in versions else next(iter(versions))
    return " ".join([chosen, *versions[chosen]])


def pinned_requirements(
    name: str = _DISTRIBUTION, left_out: Collection[str] = _IN_THE_RUNTIME, extras: Sequence[str] = ()
) -> list[str]:
    """Return ``name==version``, as installed, of each package that the library needs in a function."""
    selected = [re.compile(rf"extra\s*==\s*[\"']{extra}[\"']") for extra in extras]
    pins: dict[str, str] = {}
    required: set[str] = set()
    waiting = [name]
    while waiting:
        package = waiting.pop()
        if package in pins or package in left_out:
            continue
        try:
            installed = distribution(package)
        except PackageNotFoundError:
            if package in required:
                extra = f"{name}[{','.join(extras)}]"
                raise PackagingError(f"the functions need {extra}, but {package} is not installed") from None
            # The package's marker does not apply to this interpreter.
            continue
        pins[package] = installed.version
        for requirement in installed.requires or ():
            specifier, _, marker = requirement.partition(";")
            match = re.match(r"[A-Za-z0-9._-]+", specifier.strip())
            of_extra = package == name and any(extra.search(marker) for extra in selected)
            if match is not None and (of_extra or "extra" not in marker):
                waiting.append(canonical(match.group()))
                required.update(waiting[-1:] if of_extra else ())
    pins.pop(name, None)
    return [f"{package}=={version}" for package, version in sorted(pins.items())]


def _pip(arguments: Sequence[str], platform: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)  # noqa: S603 - own argv
    if done.returncode:
        # The errors name packages and hashes; the output names the requirements that exclude each other.
        errors = re.split(r"^ERROR: ", done.stderr, flags=re.MULTILINE)[1:]
        named = [" ".join(error.split()) for error in errors if not error.startswith("ResolutionImpossible")]
        conflict = re.search(r"The conflict is caused by:.*?(?=\n\n)", done.stdout, re.DOTALL)
        reasons = [*named, *([" ".join(conflict[0].split())] if conflict else [])]
        reason = " ".join(reasons) or f"pip exited with {done.returncode}"
        raise PackagingError(f"cannot fetch the functions' dependencies for {platform}: {reason}")


def _prune(target: Path, services: Collection[str]) -> None:
    """Remove what no function imports. If ``services`` has names, keep only their botocore data."""
    for path in [target / "bin", *target.rglob("__pycache__"), *target.rglob("tests")]:
        shutil.rmtree(path, ignore_errors=True)
    data = target / "botocore" / "data"
    for name in sorted(services):
        if not (data / name).is_dir():
            raise PackagingError(f"bundle_sdk: botocore has no service {name!r}")
    # The data of all services takes 50 of botocore's 56 MB.
    for path in data.iterdir() if services else ():
        if path.is_dir() and path.name not in services:
            shutil.rmtree(path)
