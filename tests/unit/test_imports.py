"""Which imports of a function's code are refused, because the function has no such module."""

from __future__ import annotations

from pathlib import Path

import pytest

from sagas.imports import Code, Missing, Shipped, advice, is_here, module_names, standard_library

LAYER = module_names(
    [
        "sagas/__init__.py",
        "sagas/core/__init__.py",
        "msgspec/__init__.py",
        "msgspec/_core.cpython-313-aarch64-linux-gnu.so",
        "google/cloud/storage/__init__.py",
        "six_like.py",
        "msgspec-0.22.dist-info/METADATA",
    ]
)


def missing(tmp_path: Path, *, python: str = "3.13", provided: tuple[str, ...] = (), **sources: str) -> list[Missing]:
    """What a saga in ``shop.saga`` lacks. ``sources`` are further modules of the package by name."""
    files: dict[str, Path] = {}
    for name, text in {"__init__": "", **sources}.items():
        path = files[f"shop/{name}.py"] = tmp_path / f"{name}.py"
        path.write_text(text)
    return Code(files).missing_in(["shop.saga"], Shipped(python, module_names(files) | LAYER, provided))


@pytest.mark.parametrize(
    "source",
    [
        "import json, os.path, msgspec",
        "import boto3, botocore.config, urllib3, dateutil.parser",
        "from shop import other; from . import other; from .other import x",
        "from msgspec import Struct, _core",
        "from google.cloud import storage",
        "import six_like.moves.urllib",  # a module can make others
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pytest",
        "import typing as t\nif t.TYPE_CHECKING:\n    import pytest",
        "try:\n    import pytest\nexcept ImportError:\n    pytest = None",
        "try:\n    import pytest\nexcept (AttributeError, ModuleNotFoundError):\n    import json",
        "try:\n    import pytest\n    x = 1\nexcept Exception:\n    pass\nelse:\n    import moto",
        "try:\n    import json\nexcept ImportError:\n    import simplejson as json",
        "try:\n    from shop import tested\nexcept ImportError:\n    tested = None",
        "from contextlib import suppress\nwith suppress(ImportError):\n    import pytest",
        "import sys\nif sys.version_info < (3, 12):\n    import pytest\nelse:\n    import json",
        "import sys\nif sys.version_info[:2] >= (3, 14) or sys.platform == 'win32':\n    import pytest",
        "if __name__ == '__main__':\n    import pytest",
        "from importlib import import_module\nimport_module('pytest')",
        "import (",
    ],
)
def test_code_that_a_function_can_import(source: str, tmp_path: Path) -> None:
    assert not missing(tmp_path, saga=source, other="x = 1", tested="import pytest")


@pytest.mark.parametrize(
    ("source", "lacking"),
    [
        ("import pytest", ["pytest"]),
        ("import yaml as y, json", ["yaml"]),
        ("from pytest import fixture", ["pytest"]),
        ("def step():\n    import pytest", ["pytest"]),
        ("class A:\n    async def step(self):\n        with open('x'):\n            import pytest", ["pytest"]),
        ("match 1:\n    case 1:\n        import pytest", ["pytest"]),
        ("try:\n    import pytest\nexcept ValueError:\n    pass", ["pytest"]),
        ("try:\n    import pytest\nexcept ImportError:\n    import moto", ["moto"]),
        ("try:\n    pass\nfinally:\n    import pytest", ["pytest"]),
        ("from typing import TYPE_CHECKING\nif not TYPE_CHECKING:\n    import pytest", ["pytest"]),
        ("import sys\nif sys.version_info >= (3, 12) and sys.platform != 'win32':\n    import pytest", ["pytest"]),
        ("import os\nif os.environ.get('X'):\n    import pytest", ["pytest"]),
        ("import sagas.testing", ["sagas.testing"]),
        ("from sagas import testing, core", ["sagas.testing"]),
        ("from sagas.testing import run", ["sagas.testing"]),
        ("from shop import tested", ["pytest"]),
        ("import shop.tested", ["pytest"]),
        ("from . import tested", ["pytest"]),
        ("import cgi", ["cgi"]),
        ("import pytest\nimport pytest.mark\nfrom pytest import fixture", ["pytest"]),
    ],
)
def test_code_that_a_function_cannot_import(source: str, lacking: list[str], tmp_path: Path) -> None:
    assert [each.lacking for each in missing(tmp_path, saga=source, tested="import pytest")] == lacking


def test_only_files_that_handlers_reach_count(tmp_path: Path) -> None:
    assert not missing(tmp_path, saga="import json", conftest="import pytest")


def test_a_guarded_cycle_ends(tmp_path: Path) -> None:
    guarded = "try:\n    from shop import {}\nexcept ImportError:\n    pass\n"
    sources = {"saga": guarded.format("one"), "one": guarded.format("two"), "two": guarded.format("one")}
    assert not missing(tmp_path, python="3.13", provided=(), **sources)


@pytest.mark.parametrize("provided", ["pytest", "google.ads"])
def test_modules_by_other_means(provided: str, tmp_path: Path) -> None:
    source = f"import {provided}\nimport {provided}.more\nfrom {provided} import x"
    assert missing(tmp_path, saga="import pytest")
    assert not missing(tmp_path, saga=source, provided=(provided,))


def test_the_parent_of_a_provided_module(tmp_path: Path) -> None:
    assert not missing(tmp_path, saga="from azure.storage import blob", provided=("azure.storage.blob",))


def test_the_standard_library_is_that_of_the_runtime(tmp_path: Path) -> None:
    assert {"cgi", "distutils"} <= standard_library("3.11")
    assert not {"cgi", "distutils"} & standard_library("3.13")
    assert "annotationlib" in standard_library("3.14")
    assert not missing(tmp_path, python="3.12", saga="import cgi")


def test_modules_of_files() -> None:
    assert LAYER == {
        "sagas": True,
        "sagas.core": True,
        "msgspec": True,
        "msgspec._core": False,
        "google": True,
        "google.cloud": True,
        "google.cloud.storage": True,
        "six_like": False,
    }


def test_whether_a_module_is_here() -> None:
    assert is_here("sagas.testing.tables")
    assert not is_here("sagas.testing.nothing")
    assert not is_here("nothing.testing")


class TestAdvice:
    def of(self, module: str, file: str = "shop/saga.py", place: str = "src/shop/saga.py") -> str:
        text = advice([Missing(file, 7, module, module)], "3.13", lambda _: place)
        assert text.endswith(f'; if functions get it by other means, write SagaService(provided=("{module}",))')
        return text.partition("; ")[0]

    def test_names_the_distribution_and_the_line_to_add(self) -> None:
        lacks = (
            "src/shop/saga.py:7 imports {}, which functions do not have: add to src/shop/requirements.txt the line {}"
        )
        assert self.of("pytest") == lacks.format("pytest", f"pytest=={pytest.__version__}")
        assert self.of("typing_extensions").startswith(lacks.format("typing_extensions", "typing_extensions=="))
        assert "yaml (PyYAML), which" in self.of("yaml")

    def test_of_a_package_of_the_project(self) -> None:
        """It is found here, and no distribution has it."""
        assert self.of("tests").endswith("because it is outside src/shop: move it to src/shop/")

    def test_of_this_library(self) -> None:
        assert self.of("sagas.testing").endswith("imports sagas.testing, but the functions' layer has no sagas.testing")

    def test_of_an_older_standard_library(self) -> None:
        assert self.of("cgi").endswith("imports cgi, which Python 3.13 no longer has")

    def test_of_what_is_nowhere(self) -> None:
        assert self.of("nowhere").endswith("add to src/shop/requirements.txt the distribution that has it")

    def test_of_a_module_without_a_package(self) -> None:
        assert self.of("pytest", "saga.py", "saga.py").endswith(
            f"move saga.py to a package, and add to its requirements.txt the line pytest=={pytest.__version__}"
        )
        assert self.of("tests", "saga.py", "saga.py").endswith(
            "because it is outside saga.py: move both into one package"
        )
