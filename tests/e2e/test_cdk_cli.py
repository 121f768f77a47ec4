"""``make deploy``, ``make diff`` and ``make destroy``: the real CDK CLI, against the emulator."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import boto3
import pytest
from botocore.exceptions import ClientError

from sagas.local.files import Files
from sagas.local.process import REGION, Emulator
from tests.e2e.cdk_cli import command, install, make, run
from tests.e2e.stack import REPOSITORY, free_port

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.embedded("it begins and ends with an empty account"),
]

_STACK = "Sagas"
_CHANGED = """
from functions.create_zip import CreateZip
from infra.app import build_app

app = build_app()
app.node.find_child("Sagas").service.function(CreateZip.upload).add_environment("CHANGED", "yes")
app.synth()
"""


_SMALL = """
from aws_cdk import App, DefaultStackSynthesizer, Stack
from aws_cdk import aws_sns as sns

# The account has not been bootstrapped: the template is deployed without the CLI.
app = App(default_stack_synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False))
sns.Topic(Stack(app, "Sagas"), "Topic", display_name="{named}")
app.synth()
"""


class Cli:
    """The CDK CLI as make calls it, with no credentials but the emulator's.

    Args:
        directory: where the templates go.
        endpoint_url: of the emulator.
    """

    def __init__(self, directory: Path, endpoint_url: str) -> None:
        self._directory = directory
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "LANG": "C.UTF-8",
            "AWS_ENDPOINT_URL": endpoint_url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "CI": "true",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "NO_COLOR": "1",
        }

    def make(self, target: str, app: str, arguments: str = "") -> str:
        """Make a target with arguments for the CLI; it must succeed. Return what it said.

        Args:
            target: of the Makefile.
            app: a command that synthesizes, or a directory that was synthesized already.
            arguments: further ones.
        """
        options = f'--no-notices --app "{app}" --output {self._directory}/cdk.out {arguments}'
        return make(target, options, self._environment)

    def run(self, *arguments: str) -> str:
        """Run the CLI away from the repository's ``cdk.json``; it must succeed. Return what it said."""
        return run([*command(), *arguments, "--no-notices"], self._environment, self._directory)

    def bootstrap(self) -> str:
        """Bootstrap the emulator's account."""
        account = self.client("sts").get_caller_identity()["Account"]
        return self.run("bootstrap", f"aws://{account}/{REGION}")

    def acting_as(self, user: str, policy: str) -> Cli:
        """Return the CLI with the credentials of a new user who has this policy alone."""
        iam = self.client("iam")
        iam.create_user(UserName=user)
        iam.put_user_policy(UserName=user, PolicyName="only", PolicyDocument=policy)
        key = iam.create_access_key(UserName=user)["AccessKey"]
        other = Cli(self._directory, self._environment["AWS_ENDPOINT_URL"])
        other._environment |= {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
        return other

    def synthesize(self, script: str, name: str = "changed") -> str:
        """Run a CDK app; return the directory it wrote to, so that the CLI need not run it time and again."""
        directory = self._directory / name
        environment = {**self._environment, "CDK_OUTDIR": str(directory), "PYTHONPATH": str(REPOSITORY)}
        subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, env=environment, check=True, timeout=120)
        return str(directory)

    def client(self, service: str) -> Any:
        """Return a boto3 client of the emulator, with the same credentials."""
        return cast("Any", boto3).client(
            service,
            endpoint_url=self._environment["AWS_ENDPOINT_URL"],
            region_name=REGION,
            aws_access_key_id=self._environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self._environment["AWS_SECRET_ACCESS_KEY"],
        )

    def stacks(self) -> dict[str, str]:
        """Return the status of each stack that is there, by its name."""
        found = self.client("cloudformation").describe_stacks()["Stacks"]
        return {one["StackName"]: one["StackStatus"] for one in found if one["StackStatus"] != "DELETE_COMPLETE"}

    def changed(self) -> list[bool]:
        """Tell for each function whether it has the change."""
        functions = self.client("lambda").list_functions()["Functions"]
        return ["CHANGED" in one["Environment"]["Variables"] for one in functions]


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    """The CLI must be there."""
    install()


@pytest.fixture
def cli(tmp_path: Path) -> Generator[Cli]:
    """The CLI at an emulator of its own."""
    port = free_port()
    emulator = Emulator(Files(tmp_path), port)
    try:
        emulator.wait_until_healthy()
        yield Cli(tmp_path, f"http://127.0.0.1:{port}")
    finally:
        emulator.stop()


def test_from_an_empty_account_to_an_empty_account(cli: Cli) -> None:
    cli.bootstrap()
    assert cli.stacks() == {"CDKToolkit": "CREATE_COMPLETE"}

    cli.make("deploy", f"{sys.executable} -m infra.app", "--require-approval never")
    assert cli.stacks()[_STACK] == "CREATE_COMPLETE"
    assert cli.changed()
    assert not any(cli.changed())

    changed = cli.synthesize(_CHANGED)
    difference = cli.make("diff", changed)
    assert "CHANGED" in difference
    assert "Number of stacks with differences: 1" in difference
    assert not any(cli.changed())

    cli.make("deploy", changed, "--require-approval never")
    assert cli.stacks()[_STACK] == "UPDATE_COMPLETE"
    assert cli.changed().count(True) == 1

    tables = cli.client("dynamodb").list_tables()["TableNames"]
    cli.make("destroy", changed, "--force")
    assert _STACK not in cli.stacks()
    assert cli.changed() == []
    assert cli.client("dynamodb").list_tables()["TableNames"] == tables


def test_the_role_of_a_pull_request_reads_the_template_and_nothing_else(tmp_path: Path) -> None:
    """The policy of docs/operations/deploying.md, where IAM is enforced."""
    page = (REPOSITORY / "docs" / "operations" / "deploying.md").read_text()
    (policy,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    emulator = Emulator(Files(tmp_path), port := free_port(), enforce_iam=True)
    try:
        emulator.wait_until_healthy()
        cli = Cli(tmp_path, f"http://127.0.0.1:{port}")
        deployed, changed = (cli.synthesize(_SMALL.format(named=named), named) for named in ("before", "after"))
        template = Path(deployed, f"{_STACK}.template.json").read_text()
        cli.client("cloudformation").create_stack(StackName=_STACK, TemplateBody=template)
        assert cli.stacks() == {_STACK: "CREATE_COMPLETE"}
        account = cli.client("sts").get_caller_identity()["Account"]
        for word, value in (("REGION", REGION), ("ACCOUNT", account), ("STACK", _STACK)):
            policy = policy.replace(word, value)
        reader = cli.acting_as("reader", policy)
        difference = reader.run("diff", "--method=template", "--app", changed)
        assert "Number of stacks with differences: 1" in difference
        assert "after" in difference
        for service, operation in (
            ("dynamodb", "list_tables"),
            ("s3", "list_buckets"),
            ("logs", "describe_log_groups"),
        ):
            with pytest.raises(ClientError, match="AccessDenied"):
                getattr(reader.client(service), operation)()
    finally:
        emulator.stop()
