"""The modules of a step's function, laid out as in Lambda: its code, the layer, and the packages of the runtime.

Code and layer are the synthesized assets, with their bytecode.
"""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from benchmarks.variables import ROLE, VARIANT
from sagas.imports import RUNTIME_MODULES
from sagas.local.deploy.assembly import read_assembly


class Layout:
    """Where functions find their modules.

    Args:
        directory: of the deployed app.
    """

    def __init__(self, directory: Path) -> None:
        [stack] = read_assembly(directory / ".sagas" / "cdk.out", "000000000000", "us-east-1")
        self._assets = {asset.key: asset.path for asset in stack.assets}
        self._resources: list[dict[str, Any]] = list(stack.template["Resources"].values())
        [layer] = (one for one in self._resources if one["Type"] == "AWS::Lambda::LayerVersion")
        runtime = directory / "runtime"
        runtime.mkdir()
        installed = Path(str(distribution("boto3").locate_file("")))
        for path in (installed / each for name in RUNTIME_MODULES for each in (name, f"{name}.py")):
            if path.exists():
                (runtime / path.name).symlink_to(path)
        self._shared = [self._assets[layer["Properties"]["Content"]["S3Key"]] / "python", runtime]

    def of(self, variant: str) -> list[Path]:
        """Return the directories in which a step's function of a variant looks for modules, in order."""
        functions = (one["Properties"] for one in self._resources if one["Type"] == "AWS::Lambda::Function")
        for function in functions:
            told = function.get("Environment", {}).get("Variables", {})
            if (told.get(VARIANT), told.get(ROLE)) == (variant, "step"):
                return [self._assets[function["Code"]["S3Key"]], *self._shared]
        raise LookupError(f"{variant} has no function for a step")
