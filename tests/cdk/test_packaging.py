"""What is deployed: the layer and the functions' own code."""

from __future__ import annotations

import importlib
import json
import marshal
import os
import re
import shutil
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_lambda as lambda_

import functions
from functions.checkout import Checkout
from infra.app import build_app
from sagas.cdk import FunctionOptions, SagaService
from sagas.cdk.compute import layer
from sagas.cdk.compute.bytecode import add_bytecode
from sagas.cdk.compute.code import CodeAssets, packages_of, requirements_of
from sagas.cdk.compute.layer import PackagingError, build_layer, pinned_requirements
from sagas.cdk.compute.staging import built_once, copy_files, digest_of, source_files
from sagas.errors import DefinitionError
from sagas.imports import PROVIDED
from tests.cdk.rendered import template_of
from tests.support.modules import forgotten
from tests.support.wheels import Wheels
from tests.unit.test_import_budget import loaded_by

LIMIT = 25 * 2**20


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def module(name: str, *paths: Path) -> ModuleType:
    """A package as if it had been imported from ``paths``."""
    made = ModuleType(name)
    made.__path__ = [str(path) for path in paths]
    return made


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wheels:
    """In a project without a cache."""
    monkeypatch.chdir(tmp_path)
    return Wheels.of_the_library(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def content() -> Path:
    """The layer's content, as functions see it."""
    return build_layer("arm64", "3.13") / "python"


def test_the_constructs_load_nothing_that_functions_need() -> None:
    assert loaded_by("import sagas.cdk") == [{"aws_cdk"}]


class TestBytecode:
    """For Lambda's Python, which here is the one that runs the tests."""

    @pytest.fixture
    def runtime(self) -> str:
        return f"python{sys.version_info.major}.{sys.version_info.minor}"

    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        (tmp_path / "shop").mkdir()
        (tmp_path / "shop/orders.py").write_text(
            "NAMES = {'a', 'b', 'c'}\n\ndef f(x):\n    return x in {'d', 'e', 'f'}\n"
        )
        (tmp_path / "shop/old.py").write_text("print 'not of this Python'\n")
        return tmp_path / "shop"

    def compiled(self, directory: Path, runtime: str) -> dict[str, bytes]:
        add_bytecode(directory, "/var/task/shop", runtime)
        return {path.name: path.read_bytes() for path in (directory / "__pycache__").iterdir()}

    def test_is_valid_without_its_source_and_names_the_place_of_the_function(self, source: Path, runtime: str) -> None:
        [(name, content)] = self.compiled(source, runtime).items()
        assert name == f"orders.cpython-{runtime.removeprefix('python').replace('.', '')}.pyc"
        assert int.from_bytes(content[4:8], "little") == 0b01  # PEP 552: a hash that is not checked
        assert marshal.loads(content[16:]).co_filename == "/var/task/shop/orders.py"  # noqa: S302 - compiled just now

    def test_is_the_same_each_time(self, source: Path, runtime: str, tmp_path: Path) -> None:
        again = shutil.copytree(source, tmp_path / "elsewhere")
        assert self.compiled(source, runtime) == self.compiled(again, runtime)

    def test_is_in_the_code_and_not_in_its_live_copy(self, runtime: str) -> None:
        code = Path(CodeAssets([Checkout], None, runtime).of(Stack(App(), "Test")).path)
        sources = {path.stem for path in (code / "functions").glob("*.py")}
        assert {path.name.partition(".")[0] for path in (code / "functions/__pycache__").iterdir()} == sources

    def test_of_another_python_is_left_out(self, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        add_bytecode(source, "/var/task/shop", "python3.99")
        assert not (source / "__pycache__").exists()


class TestLayer:
    def test_is_small(self, content: Path) -> None:
        assert size_of(content) < LIMIT

    def test_holds_what_functions_import(self, content: Path) -> None:
        assert {"sagas", "aws_lambda_powertools", "msgspec", "pynamodb"} <= names_in(content)
        assert {"core", "store", "engine", "handlers", "authoring", "errors.py"} <= names_in(content / "sagas")

    def test_leaves_out_what_lambda_has(self, content: Path) -> None:
        assert not {"boto3", "botocore", "s3transfer", "urllib3", "dateutil", "jmespath", "six.py"} & names_in(content)

    def test_leaves_out_what_only_deploys(self, content: Path) -> None:
        parts = {"cdk", "cli", "console", "local", "testing", "imports.py", "loopback.py", "node.py"}
        assert not parts & names_in(content / "sagas")
        assert all(path.name.endswith(".cpython-313.pyc") for path in content.rglob("__pycache__/*"))

    def test_is_built_for_lambda(self, content: Path) -> None:
        binaries = [path.name for path in (content / "msgspec").glob("*.so")]
        assert binaries
        assert all("cpython-313-aarch64-linux" in name for name in binaries)

    def test_is_built_for_x86_when_asked(self) -> None:
        binaries = (build_layer("x86_64", "3.13") / "python" / "msgspec").glob("*.so")
        assert all("x86_64" in path.name for path in binaries)

    def test_python_3_11_runs_on_an_older_c_library(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        fetched: list[str] = []

        def fetch(arguments: Any, platform: str) -> None:
            fetched.extend(arguments)

        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(layer, "_pip", fetch)
        build_layer("x86_64", "3.11")
        assert "manylinux_2_28_x86_64" not in fetched
        build_layer("x86_64", "3.12")
        assert "manylinux_2_28_x86_64" in fetched

    def test_beyond_lambdas_limit_is_an_error(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(layer, "_pip", print)
        monkeypatch.setattr(layer, "_MOST_BYTES", 2**20)
        with pytest.raises(PackagingError, match=r"the layer is \d+ MB; Lambda allows 1 MB; remove packages"):
            build_layer("x86_64", "3.12")

    def test_comes_from_the_cache(self, content: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fetch(arguments: Any, platform: str) -> None:
            raise AssertionError(f"fetched again: {arguments}")

        monkeypatch.setattr(layer, "_pip", fetch)
        assert build_layer("arm64", "3.13") / "python" == content

    def test_a_bundled_sdk_has_what_the_library_itself_calls(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Beside what the steps call, which is named."""
        root = Path(layer.__file__).parents[2]
        parts = ("store", "messaging", "handlers", "engine")
        sources = [path for part in parts for path in (root / part).rglob("*.py")]
        called = {name for path in sources for name in re.findall(r'\bconnect\("(\w+)"', path.read_text())}
        assert {"dynamodb", "sqs", "s3", "kms", "events", "secretsmanager"} <= called

        def fetch(arguments: list[str], platform: str) -> None:
            data = Path(arguments[arguments.index("--target") + 1], "botocore", "data")
            for service in {*called, "sts", "sns", "ec2"}:
                (data / service).mkdir(parents=True, exist_ok=True)

        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(layer, "_pip", fetch)
        data = build_layer("arm64", "3.13", bundle_sdk=["sns"]) / "python" / "botocore" / "data"
        assert names_in(data) == {*called, "sts", "sns"}

    def test_versions_are_those_installed_here(self) -> None:
        pins = dict(pin.split("==") for pin in pinned_requirements())
        assert pins["aws-lambda-powertools"] == "3.37.0"
        assert {"msgspec", "pynamodb", "typing-extensions"} <= set(pins)
        assert not {"boto3", "botocore", "moto", "ministack", "aws-cdk-lib", "lambda-sagas"} & set(pins)

    def test_a_version_that_is_pinned_stays(self, wheels: Wheels) -> None:
        """Of a package that the runtime has, too, and of what a package needs."""
        wheels.write("urllib3", "1.26.0")
        wheels.write("asking", "1.0", "Requires-Dist: jmespath")
        wheels.write("jmespath", "0.9")
        (wheels.directory / "requirements.txt").write_text("urllib3==1.26.0\nasking\n")
        content = build_layer("arm64", "3.13", [wheels.directory / "requirements.txt"]) / "python"
        assert {"urllib3-1.26.0.dist-info", "jmespath-0.9.dist-info", "asking"} <= names_in(content)
        assert "botocore" not in names_in(content)

    @pytest.mark.slow  # test_a_version_that_is_pinned_stays fails first
    def test_hashes_are_checked(self, wheels: Wheels) -> None:
        digest, path = wheels.write("asking", "1.0"), wheels.directory / "requirements.txt"
        path.write_text(f"asking==1.0 --hash=sha256:{digest}\n")
        assert "asking" in names_in(build_layer("arm64", "3.13", [path]) / "python")
        path.write_text(f"asking==1.0 --hash=sha256:{'0' * 64}\n")
        with pytest.raises(PackagingError, match=f"DO NOT MATCH THE HASHES.* asking==1.0 .* Got {digest}"):
            build_layer("arm64", "3.13", [path])
        path.write_text(f"msgspec==1.0\nasking==1.0 --hash=sha256:{digest}\n")
        with pytest.raises(PackagingError, match=r"Hashes are required .* msgspec==1\.0|msgspec"):
            build_layer("arm64", "3.13", [path])

    def test_a_version_that_the_library_cannot_have(self, wheels: Wheels) -> None:
        wheels.write("msgspec", "0.1")
        path = wheels.directory / "requirements.txt"
        path.write_text("msgspec==0.1\n")
        pinned = dict(pin.split("==") for pin in pinned_requirements())["msgspec"]
        with pytest.raises(PackagingError, match=rf"Cannot install msgspec==0.1 .*\(constraint\) msgspec=={pinned}"):
            build_layer("arm64", "3.13", [path])

    @pytest.mark.parametrize(
        "line", ["lambda-sagas", "lambda-sagas[pydantic]==0.2.0", "Lambda-Sagas>=0.2  # the library"]
    )
    def test_the_library_is_not_among_the_requirements(self, line: str, tmp_path: Path) -> None:
        (tmp_path / "requirements.txt").write_text(f"lambda-sagas-of-mine\n{line}\n")
        with pytest.raises(
            PackagingError, match=r"requirements.txt names lambda-sagas, which the layer contains anyway"
        ):
            build_layer("arm64", "3.13", [tmp_path / "requirements.txt"])

    @pytest.mark.slow  # test_a_version_that_is_pinned_stays fails first
    def test_a_lock_file_gives_versions_and_hashes(self, wheels: Wheels) -> None:
        """Those of the library's packages, and the versions of the functions' own."""
        digests = {pin: wheels.write(*pin.split("==")) for pin in pinned_requirements()}
        older, other = wheels.write("msgspec", "0.1"), wheels.write("asking", "1.0")
        wheels.write("asking", "2.0")
        digests = {pin: digest for pin, digest in digests.items() if not pin.startswith("msgspec")}
        digests |= {"msgspec==0.1": older, "Asking==1.0": other}
        lock = "".join(
            f"{pin} ; python_version > '3' \\\n    --hash=sha256:{digests[pin]}\n    # why\n" for pin in digests
        )
        Path("requirements.lock").write_text(lock)
        (wheels.directory / "requirements.txt").write_text("asking\n")
        content = build_layer("arm64", "3.13", [wheels.directory / "requirements.txt"]) / "python"
        assert {"msgspec-0.1.dist-info", "asking-1.0.dist-info"} <= names_in(content)
        Path("requirements.lock").write_text(lock.replace(older, "0" * 64))
        with pytest.raises(PackagingError, match=f"DO NOT MATCH THE HASHES.* msgspec==0.1 .* Got {older}"):
            build_layer("arm64", "3.13")
        Path("requirements.lock").write_text(lock.replace("msgspec", "other"))
        with pytest.raises(
            PackagingError, match=r"requirements.lock has no hashes of msgspec==\S+, which the functions"
        ):
            build_layer("arm64", "3.13")

    @pytest.mark.slow  # test_the_library_is_not_among_the_requirements fails first
    def test_a_lock_file_without_hashes_is_of_another_tool(self, wheels: Wheels) -> None:
        before = build_layer("arm64", "3.13")
        Path("requirements.lock").write_text("msgspec==0.1\n")
        assert build_layer("arm64", "3.13") == before

    def test_a_package_that_cannot_be_had(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        with pytest.raises(PackagingError) as error:
            build_layer("arm64", "3.13")
        assert "cannot fetch the functions' dependencies for Python 3.13 on arm64" in str(error.value)
        assert "\n" not in str(error.value)
        assert not list((tmp_path / ".sagas" / "cache").iterdir())


class TestCode:
    def test_holds_the_packages_of_the_sagas_only(self, template_assets: list[Path]) -> None:
        assets = [path for path in template_assets if (path / "functions").is_dir()]
        assert all(names_in(code) == {"functions"} for code in assets)
        # Each saga's, of which two are in one module, and that of API and supervisor.
        assert len(assets) == 5
        code = max(assets, key=lambda code: len(list(code.rglob("*"))))
        expected = {str(path) for path in source_files(Path(functions.__path__[0]))}
        sources = (path for path in code.rglob("*") if path.is_file() and path.suffix != ".pyc")
        assert {str(path.relative_to(code / "functions")) for path in sources} == expected

    @pytest.fixture
    def template_assets(self, tmp_path: Path) -> list[Path]:
        """Of a synthesis of its own: what an earlier one made may have had to make room for what came after it."""
        build_app(str(tmp_path)).synth()
        listed = json.loads((tmp_path / "Sagas.assets.json").read_text())["files"].values()
        return [tmp_path / file["source"]["path"] for file in listed if file["source"]["packaging"] == "zip"]

    def test_equal_sources_make_equal_assets(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        paths: list[str] = []
        for name in ("one", "two"):
            (shop,) = sagas_in(monkeypatch, tmp_path / name / "shop", {"__init__.py": "x = 1"}, "shop")
            byproducts = tmp_path / name / "shop" / "__pycache__"
            byproducts.mkdir()
            (byproducts / "x.pyc").write_bytes(name.encode())
            paths.append(CodeAssets([shop]).of(Stack(App(), "Test")).path)
        assert paths[0] == paths[1]

    def test_requirements_lie_in_the_package(self, tmp_path: Path) -> None:
        assert requirements_of([module("shop", tmp_path)]) == []
        (tmp_path / "requirements.txt").write_text("pydantic\n")
        assert requirements_of([module("shop", tmp_path)]) == [tmp_path / "requirements.txt"]

    def test_a_saga_in_the_script_itself(self) -> None:
        here = type("Here", (), {"__module__": "__main__"})
        with pytest.raises(DefinitionError, match="Here is defined in the script"):
            packages_of([here])

    def test_a_module_without_a_package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "lonely_saga.py").write_text("class Lonely: ...\n")
        lonely: Any = ModuleType("lonely_saga")
        lonely.__file__ = str(tmp_path / "lonely_saga.py")
        lonely.Lonely = type("Lonely", (), {"__module__": "lonely_saga"})
        monkeypatch.setitem(sys.modules, "lonely_saga", lonely)
        assert names_in(Path(CodeAssets([lonely.Lonely]).of(Stack(App(), "Test")).path)) == {"lonely_saga.py"}


ORDERS = {
    "__init__.py": "",
    "common.py": "x = 1",
    "rates.csv": "1",
    "all.py": "import shop.pay.saga, shop.ship, shop.refund",
    "pay/__init__.py": "",
    "pay/saga.py": "from shop.common import x",
    "pay/prices.json": "{}",
    "ship.py": "from . import common",
    "refund.py": "from importlib import import_module; pay = import_module('shop.pay.saga')",
}


class TestCodeOfOneSaga:
    def deployed(self, directory: Path, sources: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        """The assets of three sagas, and of what runs them all, by the last word of the module."""
        names = ("shop.pay.saga", "shop.ship", "shop.refund")
        classes = sagas_in(monkeypatch, directory / "shop", sources, *names)
        code, scope = CodeAssets(classes), Stack(App(), "Test")
        return {"all": code.of(scope), **{one.__module__: code.of(scope, one) for one in classes}}

    def test_leaves_out_what_is_only_other_sagas(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        found = {
            name: {str(path.relative_to(asset.path)) for path in Path(asset.path).rglob("*") if path.is_file()}
            for name, asset in self.deployed(tmp_path, ORDERS, monkeypatch).items()
        }
        everything = {f"shop/{name}" for name in ORDERS}
        pay = {"shop/pay/__init__.py", "shop/pay/saga.py", "shop/pay/prices.json"}
        assert found["all"] == everything
        assert found["shop.pay.saga"] == everything - {"shop/ship.py", "shop/refund.py"}
        assert found["shop.ship"] == everything - {"shop/refund.py"} - pay
        assert found["shop.refund"] == everything - {"shop/ship.py"}

    @pytest.mark.parametrize(
        ("edited", "same"),
        [("ship.py", {"shop.pay.saga", "shop.refund"}), ("pay/saga.py", {"shop.ship"}), ("rates.csv", set[str]())],
    )
    def test_an_edit_reaches_those_that_have_it(
        self, edited: str, same: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = self.deployed(tmp_path / "one", ORDERS, monkeypatch)
        after = self.deployed(tmp_path / "two", ORDERS | {edited: ORDERS[edited] + "\n"}, monkeypatch)
        names = {name: (Path(before[name].path).name, Path(after[name].path).name) for name in before}
        assert {name for name, (one, other) in names.items() if one == other} == same

    def test_a_package_that_imports_all_has_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        sources = ORDERS | {"__init__.py": "from shop import all"}
        found = self.deployed(tmp_path, sources, monkeypatch)
        assert len({asset.path for asset in found.values()}) == 1

    def test_what_cannot_be_read_has_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        found = self.deployed(tmp_path, ORDERS | {"ship.py": "import ("}, monkeypatch)
        assert found["shop.ship"].path == found["all"].path


def sagas_in(
    monkeypatch: pytest.MonkeyPatch, directory: Path, sources: dict[str, str], *modules: str
) -> list[type[Any]]:
    """Write a package, and return a class of each module as if it had been imported from there."""
    for name, text in sources.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setitem(sys.modules, directory.name, module(directory.name, directory))
    return [type("Kind", (), {"__module__": name}) for name in modules]


class TestImports:
    """Code that imports what its functions do not have is refused, wherever that is."""

    def service(self, monkeypatch: pytest.MonkeyPatch, source: str, **options: Any) -> Stack:
        stack = Stack(App(), "Test")
        saga = "class Sale(Saga[str]):\n    @step\n    def pay(self) -> None: ...\n"
        Path("shop").mkdir(exist_ok=True)
        Path("shop/__init__.py").touch()
        Path("shop/sale.py").write_text(f"from sagas import Saga, step\n{source}\n{saga}")
        monkeypatch.setattr(sys, "path", [str(Path.cwd()), *sys.path])
        forgotten(monkeypatch, "shop", "shop.sale")
        SagaService(stack, "S", sagas=[importlib.import_module("shop.sale").Sale], **options)
        return stack

    def test_that_are_not_declared(self, wheels: Wheels, monkeypatch: pytest.MonkeyPatch) -> None:
        line = f"pytest=={pytest.__version__}"
        with pytest.raises(PackagingError) as error:
            self.service(monkeypatch, "import json, pytest")
        refused = (
            f"shop/sale.py:2 imports pytest, which functions do not have: add to shop/requirements.txt the line {line}"
        )
        assert str(error.value).startswith(refused)
        wheels.write("pytest", pytest.__version__)
        Path("shop/requirements.txt").write_text(line)
        self.service(monkeypatch, "import json, pytest")

    @pytest.mark.slow  # test_that_are_not_declared fails first
    def test_that_come_by_other_means(self, wheels: Wheels, monkeypatch: pytest.MonkeyPatch) -> None:
        stack = self.service(monkeypatch, "import pytest", provided=["pytest"])
        resources = template_of(stack)["Resources"].values()
        (layer,) = (each for each in resources if each["Type"] == "AWS::Lambda::LayerVersion")
        assert layer["Metadata"] == {PROVIDED: ["pytest"]}
        for wrong in ("pytest", ["py-test"], ["pytest."]):
            with pytest.raises(DefinitionError, match="S: provided must be a list of modules, not "):
                self.service(monkeypatch, "import pytest", provided=wrong)

    @pytest.mark.slow  # test_that_are_not_declared fails first
    def test_of_another_package_of_the_project(self, wheels: Wheels, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("common_to_all").mkdir()
        Path("common_to_all/rates.py").touch()
        with pytest.raises(PackagingError, match=r"imports common_to_all\.rates,.* outside shop: move it to shop/;"):
            self.service(monkeypatch, "import common_to_all.rates")

    @pytest.mark.slow  # test_that_are_not_declared fails first
    def test_of_the_platform_of_one_step(self, wheels: Wheels, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its Python no longer has what that of the other functions has."""
        old = lambda_.Runtime.PYTHON_3_12
        guarded = "import sys\nif sys.version_info >= (3, 12): import cgi"
        self.service(monkeypatch, guarded, runtime=old)
        function = FunctionOptions(runtime=lambda_.Runtime.PYTHON_3_13)
        with pytest.raises(PackagingError, match=r"shop/sale.py:3 imports cgi, which Python 3.13 no longer has"):
            self.service(monkeypatch, guarded, runtime=old, function_options=function)


class TestStaging:
    def test_the_digest_depends_on_names_content_and_extras(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("1")
        (tmp_path / "b").write_text("2")
        a, b = tmp_path / "a", tmp_path / "b"
        digests = {digest_of({"a": a}), digest_of({"b": a}), digest_of({"a": b}), digest_of({"a": a}, "x")}
        assert len(digests) == 4

    def test_a_build_that_fails_leaves_nothing(self, tmp_path: Path) -> None:
        def build(target: Path) -> None:
            (target / "half").touch()
            raise OSError("disk full")

        with pytest.raises(OSError, match="disk full"):
            built_once("thing", build, tmp_path)
        assert names_in(tmp_path) == set()
        assert names_in(built_once("thing", lambda target: (target / "whole").touch(), tmp_path)) == {"whole"}

    def test_the_cache_does_not_grow_for_ever(self, tmp_path: Path) -> None:
        for number in range(20):
            made, hours_ago = built_once(f"thing-{number}", lambda target: None, tmp_path), time.time() - 7200 + number
            os.utime(made, (hours_ago, hours_ago))
        built_once("other-1", lambda target: None, tmp_path)
        built_once("thing-20", lambda target: None, tmp_path)
        assert len(names_in(tmp_path)) < 12
        assert {"thing-19", "thing-20", "other-1"} <= names_in(tmp_path)

    def test_what_was_just_asked_for_stays(self, tmp_path: Path) -> None:
        """An app may have many services, and another may be synthesized meanwhile."""
        made = [built_once(f"thing-{number}", lambda target: None, tmp_path) for number in range(20)]
        assert all(one.is_dir() for one in made)

    def test_copies_keep_their_names(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("1")
        copy_files({"deep/er/b": tmp_path / "a"}, tmp_path / "out")
        assert (tmp_path / "out" / "deep" / "er" / "b").read_text() == "1"
