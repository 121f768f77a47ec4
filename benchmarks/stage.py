"""The deployed variants: how their sagas are started and looked at, and how their functions are changed."""

from __future__ import annotations

import http.client
import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from benchmarks.recorder import Before
from benchmarks.variables import DURABLE_FUNCTION, HANDLER, RECORD, ROLE, VARIANT
from benchmarks.variants import DURABLE, HOPS, NAIVE, OURS

REGION = "us-east-1"
_ROOT = Path(__file__).resolve().parents[1]
_NOBODY = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}


@dataclass(frozen=True, slots=True)
class Function:
    """A deployed function.

    Args:
        name: of the function.
        variant: whose it is.
        role: what it is for.
        environment: its variables.
    """

    name: str
    variant: str
    role: str
    environment: dict[str, str]


class Stage:
    """The stack of :mod:`benchmarks.app` on an emulator, deployed as ``sagas local up`` does it.

    Args:
        directory: an empty one, from which it is deployed.
        endpoint_url: of the emulator.
        durable: whether there is a durable function, too.

    Raises:
        RuntimeError: it cannot be deployed.
    """

    def __init__(self, directory: Path, endpoint_url: str, *, durable: bool) -> None:
        self.endpoint_url = endpoint_url
        session: Any = boto3.Session(**_NOBODY, region_name=REGION)
        self.dynamodb: Any = session.client("dynamodb", endpoint_url=endpoint_url)
        self.sqs: Any = session.client("sqs", endpoint_url=endpoint_url)
        self.lambda_: Any = session.client("lambda", endpoint_url=endpoint_url)
        self._connections = threading.local()
        _deploy(directory, endpoint_url)
        description = json.loads((directory / ".sagas" / "local.json").read_text())
        outputs: dict[str, str] = description["outputs"]
        self._states = {OURS.name: description["tables"]["sagas"], NAIVE.name: outputs["NaiveStateTable"]}
        self._paths = {OURS.name: description["api_url"].removeprefix(endpoint_url) + "/sagas/purchase"}
        for name in (HOPS.name, NAIVE.name, *([DURABLE.name] if durable else [])):
            self._paths[name] = f"/_aws/execute-api/{outputs[f'{name.title()}Api']}/prod/"
        if durable:
            _add_durable_function(self.lambda_)

    def start(self, variant: str, order: dict[str, Any]) -> str:
        """Start a saga by POST, and return its id. Each thread has a connection of its own.

        Raises:
            RuntimeError: it is refused.
        """
        if not hasattr(self._connections, "mine"):
            self._connections.mine = http.client.HTTPConnection(self.endpoint_url.removeprefix("http://"), timeout=60)
        connection: http.client.HTTPConnection = self._connections.mine
        connection.request("POST", self._paths[variant], json.dumps(order), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read().decode()
        if answer.status // 100 != 2:
            raise RuntimeError(f"{variant} answered {answer.status}: {body}")
        return json.loads(body)["saga_id"]

    def require(self, variant: str, saga_id: str, status: str) -> None:
        """Fail unless the table of a variant, if it has one, says so of a saga."""
        if variant in self._states:
            key = {"saga_id": {"S": saga_id}}
            found = self.dynamodb.get_item(TableName=self._states[variant], Key=key, ConsistentRead=True)["Item"]
            assert found["status"] == {"S": status}, f"{variant}: {saga_id} is {found['status']}, not {status}"

    def restore(self, items: Iterable[Before]) -> None:
        """Make items what they were."""
        for before in items:
            if before["item"]:
                self.dynamodb.put_item(TableName=before["table"], Item=before["item"])
            else:
                self.dynamodb.delete_item(TableName=before["table"], Key=before["key"])

    def functions(self) -> list[Function]:
        """Return the functions of all variants."""
        pages = self.lambda_.get_paginator("list_functions").paginate()
        found = ((one["FunctionName"], one["Environment"]["Variables"]) for page in pages for one in page["Functions"])
        return [Function(name, told[VARIANT], told[ROLE], told) for name, told in found]

    def end_recording(self) -> None:
        """Have functions no longer note their requests. Their processes end; the new ones never did."""
        for function in self.functions():
            variables = {name: value for name, value in function.environment.items() if name != RECORD}
            self.lambda_.update_function_configuration(FunctionName=function.name, Environment={"Variables": variables})
            # What calls a function by an alias has a version of it, with the variables of its time.
            for alias in self.lambda_.list_aliases(FunctionName=function.name)["Aliases"]:
                version = self.lambda_.publish_version(FunctionName=function.name)["Version"]
                self.lambda_.update_alias(FunctionName=function.name, Name=alias["Name"], FunctionVersion=version)


def _deploy(directory: Path, endpoint_url: str) -> None:
    cache = _ROOT / ".sagas" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (directory / ".sagas").mkdir()
    (directory / ".sagas" / "cache").symlink_to(cache)
    command = [str(Path(sys.executable).parent / "sagas"), "local", "up", "--app", "python -m benchmarks.app"]
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(  # noqa: S603 - own argv
        [*command, "--endpoint", endpoint_url],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the variants cannot be deployed: {done.stderr}")


def _add_durable_function(client: Any) -> None:
    """Make the durable function by itself: the emulator drops what a template says of durability, and wants it said
    otherwise than AWS."""

    def durable(params: dict[str, Any], **_: Any) -> None:
        params["body"] = json.dumps(json.loads(params["body"]) | {"DurableConfig": {"Enabled": True}}).encode()

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("empty", "")
    client.meta.events.register("before-call.lambda.CreateFunction", durable)
    told = {HANDLER: "benchmarks.durable.saga.handler", VARIANT: DURABLE.name, ROLE: "step", RECORD: "yes"}
    client.create_function(
        FunctionName=DURABLE_FUNCTION,
        Runtime="python3.13",
        Role="arn:aws:iam::000000000000:role/benchmark",
        Handler="benchmarks.entry.handler",
        Code={"ZipFile": archive.getvalue()},
        Timeout=30,
        Environment={"Variables": told},
    )
