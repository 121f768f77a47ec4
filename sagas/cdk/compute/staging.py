"""Directories that become Lambda assets. They contain no by-products, and a hash of the content is their name."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

CACHE = Path(".sagas/cache")
"""The directory for built assets, below the directory in which the CDK app runs."""

_KEPT = 8
"""The cache keeps at least this many directories of each kind."""
_IN_USE = 3600.0
"""Seconds for which the cache keeps any directory after its last use: another service or synthesis may need it."""

_BYPRODUCTS = frozenset({"__pycache__", "node_modules"})


def source_files(root: Path) -> Iterator[Path]:
    """Yield the source files below ``root``, in a fixed order, relative to ``root``."""
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        byproduct = any(part in _BYPRODUCTS or part.startswith(".") for part in relative.parts)
        if path.is_file() and path.suffix != ".pyc" and not byproduct:
            yield relative


def digest_of(files: Mapping[str, Path], *extra: str) -> str:
    """Hash files by name and content. Returns 32 hexadecimal digits."""
    digest = hashlib.sha256("\0".join(extra).encode())
    for name in sorted(files):
        digest.update(f"\0{name}\0".encode())
        digest.update(hashlib.sha256(files[name].read_bytes()).digest())
    return digest.hexdigest()[:32]


def copy_files(files: Mapping[str, Path], target: Path) -> None:
    """Copy each file to its name, below ``target``."""
    for name, source in files.items():
        destination = target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, destination)


def built_once(name: str, build: Callable[[Path], None], cache: Path = CACHE) -> Path:
    """Return the cached directory ``name``. Build it if it is missing; an interrupted build leaves nothing behind."""
    target = cache / name
    if target.is_dir():
        target.touch()
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as scratch:
        directory = Path(scratch) / name
        directory.mkdir()
        build(directory)
        try:
            directory.replace(target)
        except OSError:
            # If the target exists, another synth has built the same content. Otherwise this is an error.
            if not target.is_dir():
                raise
    # Every change to a source makes a new directory. Keep the most recently used ones.
    used: list[tuple[float, Path]] = []
    for path in cache.glob(f"{name.partition('-')[0]}-*"):
        with suppress(FileNotFoundError):  # another synthesis has removed it
            used.append((path.stat().st_mtime, path))
    used.sort(reverse=True)
    for at, path in used[_KEPT:]:
        if at < used[0][0] - _IN_USE:
            shutil.rmtree(path, ignore_errors=True)
    return target


def names_under(root: Path, files: Iterable[Path], prefix: str) -> dict[str, Path]:
    """Return the full paths of ``files``, which are relative to ``root``, by a name: ``prefix`` and the relative
    path."""
    return {f"{prefix}/{file.as_posix()}": root / file for file in files}
