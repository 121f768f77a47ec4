"""The layer that all functions share: third-party code for Lambda's platform, and the library's own modules.

Pip fetches the third-party code without Docker, in the installed versions, once per set of versions. Later synths take
it from the cache and need no network.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

import sagas
from sagas.cdk.compute.bytecode import add_bytecode, compiler_for
from sagas.cdk.compute.staging import built_once, copy_files, digest_of, names_under, source_files

_DISTRIBUTION = "lambda-sagas"

_IN_THE_RUNTIME = frozenset({"boto3", "botocore", "s3transfer", "urllib3", "python-dateutil", "jmespath", "six"})
"""Distributions in every Python runtime of Lambda. botocore alone is 56 MB."""

RUNTIME_MODULES = ("boto3", "botocore", "s3transfer", "urllib3", "dateutil", "jmespath", "six.py")

_OWN_SERVICES = frozenset({"dynamodb", "events", "kms", "s3", "secretsmanager", "sqs", "sts"})
"""The services that the library's functions call, and those that botocore may need for credentials."""

_DEPLOYMENT_ONLY = frozenset({"cdk", "local", "cli", "testing", "node.py"})
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


class Layers:
    """The layers of a service: one for each platform that its functions use. Most use ``architecture`` and ``runtime``.
    ``requirements`` are the files of the functions' own packages. For ``bundle_sdk``, see ``SagaServiceProps``."""

    def __init__(
        self,
        scope: Construct,
        architecture: lambda_.Architecture,
        runtime: lambda_.Runtime,
        requirements: Sequence[Path] = (),
        *,
        bundle_sdk: bool | Sequence[str] = False,
        extras: Sequence[str] = (),
    ) -> None:
        self._scope = scope
        self._extras = extras
        self._bundle_sdk = bundle_sdk
        self._usual = (architecture.name, runtime.name)
        self._requirements = requirements
        self._made: dict[tuple[str, str], tuple[lambda_.LayerVersion, str]] = {}

    def of(self, architecture: lambda_.Architecture, runtime: lambda_.Runtime) -> tuple[lambda_.LayerVersion, str]:
        """Return the layer for a platform, and the digest of its content. The first call builds it or takes it from the
        cache."""
        platform = (architecture.name, runtime.name)
        if platform not in self._made:
            python = runtime.name.removeprefix("python")
            directory = build_layer(architecture.name, python, self._requirements, self._bundle_sdk, self._extras)
            digest = directory.name.removeprefix("layer-")
            layer = lambda_.LayerVersion(
                self._scope,
                "Layer" if platform == self._usual else f"Layer-{runtime.name}-{architecture.name}",
                code=lambda_.Code.from_asset(str(directory.resolve()), asset_hash=digest),
                compatible_architectures=[architecture],
                compatible_runtimes=[runtime],
                description="lambda-sagas and the packages it needs",
            )
            self._made[platform] = layer, digest
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
    pins = pinned_requirements(left_out=frozenset() if bundle_sdk else _IN_THE_RUNTIME, extras=extras)
    files = {str(number): path for number, path in enumerate(requirements)}
    services = frozenset[str]() if isinstance(bundle_sdk, bool) else _OWN_SERVICES | set(bundle_sdk)
    digest = digest_of(files, architecture, python, *sorted(services), *pins)

    def build(target: Path) -> None:
        libraries, name = _C_LIBRARIES[_OLDER.get(python, 0) :], f"Python {python} on {architecture}"
        tags = (f"{library}_{_PLATFORMS[architecture]}" for library in libraries)
        platform = [option for tag in tags for option in ("--platform", tag)]
        platform += ["--implementation", "cp", "--python-version", python, "--only-binary=:all:"]
        _pip(["--no-deps", *platform, "--target", str(target), *pins], name)
        for path in requirements:
            _pip([*platform, "--target", str(target), "--upgrade", "--requirement", str(path), *pins], name)
        _prune(target, () if bundle_sdk else RUNTIME_MODULES, services)

    return built_once(f"packages-{digest}", build)


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
                waiting.append(re.sub(r"[-_.]+", "-", match.group()).lower())
                required.update(waiting[-1:] if of_extra else ())
    pins.pop(name, None)
    return [f"{package}=={version}" for package, version in sorted(pins.items())]


def _pip(arguments: Sequence[str], platform: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)  # noqa: S603 - own argv
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1].removeprefix("ERROR: ") if lines else f"pip exited with {done.returncode}"
        raise PackagingError(f"cannot fetch the functions' dependencies for {platform}: {reason}")


def _prune(target: Path, runtime_modules: Sequence[str], services: Collection[str]) -> None:
    """Remove modules that Lambda provides or no function imports. If ``services`` has names, keep only their botocore
    data."""
    provided = [target / name for name in runtime_modules]
    described = [info for path in provided for info in target.glob(f"{path.stem}-*.dist-info")]
    if provided:
        described += target.glob("python_dateutil-*.dist-info")
    for path in [*provided, *described, target / "bin", *target.rglob("__pycache__"), *target.rglob("tests")]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    data = target / "botocore" / "data"
    for name in sorted(services):
        if not (data / name).is_dir():
            raise PackagingError(f"bundle_sdk: botocore has no service {name!r}")
    # The data of all services takes 50 of botocore's 56 MB.
    for path in data.iterdir() if services else ():
        if path.is_dir() and path.name not in services:
            shutil.rmtree(path)
