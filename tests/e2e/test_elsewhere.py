"""The suite itself, run elsewhere: which place it takes, and that it leaves nothing behind there.

What stands for an account here is an emulator that, unlike ours, checks signatures and permissions (``AUTH``), reached
as an account is: by a profile, through the CDK CLI, by the name of a stack.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import boto3
import pytest
import urllib3

from sagas import SagaClient
from sagas.errors import SagaError
from tests.e2e.api import Api
from tests.e2e.cdk_cli import command, install, run
from tests.e2e.elsewhere import Account, Elsewhere, Place, chosen
from tests.e2e.stack import LEASH, REPOSITORY, Stack, free_port, poll, run_sagas

pytestmark = [
    pytest.mark.slow,
    pytest.mark.e2e,
    pytest.mark.timeout(400),
    pytest.mark.embedded("it runs the suite at emulators of its own"),
]

REGION, ACCOUNT = "us-east-1", "000000000000"
SOME_TESTS = "test_checkout_moves_stock_and_money or test_location_and_links or test_recovers_now"
GUEST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": ["cloudformation:ListStackResources", "cloudformation:GetTemplate", "execute-api:Invoke"],
            "Resource": "*",
        }
    ],
}
EVERYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


class TestChoice:
    def test_nothing_said_is_the_embedded_emulator(self) -> None:
        assert chosen({}) is None
        assert chosen({"SAGAS_E2E_ENDPOINT": "", "SAGAS_E2E_PROFILE": ""}) is None

    def test_an_endpoint(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert chosen({"SAGAS_E2E_ENDPOINT": "http://127.0.0.1:5000"}) == Elsewhere("http://127.0.0.1:5000")
        monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
        monkeypatch.setenv("LOCALSTACK_HOST", "127.0.0.1:5001")
        assert chosen({"SAGAS_E2E_ENDPOINT": "localstack"}) == Elsewhere("http://127.0.0.1:5001")

    def test_an_account(self) -> None:
        named = {"SAGAS_E2E_PROFILE": "test", "SAGAS_E2E_REGION": REGION, "SAGAS_E2E_STACK": "MySagas"}
        assert chosen(named) == Account("test", REGION, {"Sagas": "MySagas"})

    def test_not_both(self) -> None:
        with pytest.raises(ValueError, match="exclude each other"):
            chosen({"SAGAS_E2E_ENDPOINT": "http://127.0.0.1:5000", "SAGAS_E2E_PROFILE": "test"})


class Brought:
    """An emulator started by hand, as a user starts one.

    Args:
        directory: where it keeps its files.
        auth: check signatures and permissions.
    """

    def __init__(self, directory: Path, *, auth: bool) -> None:
        port = free_port()
        self.endpoint_url = f"http://127.0.0.1:{port}"
        self._port = port
        fixed = {
            "PATH": os.defpath, "HOME": str(directory), "TMPDIR": str(directory), "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port), "MINISTACK_HOST": "127.0.0.1", "MINISTACK_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
            "LAMBDA_EXECUTOR": "local", "DOCKER_HOST": "unix:///nonexistent", "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0", "AUTH": "true" if auth else "false",
        }  # fmt: skip
        with (directory / "emulator.log").open("w") as log:
            self._process = subprocess.Popen(
                [*LEASH, Path(sys.executable).parent / "ministack"],
                cwd=directory, env=fixed, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def answers(self) -> bool:
        """Tell whether it is up; fail if it has ended."""
        assert self._process.poll() is None
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2)
        try:
            connection.request("GET", "/_ministack/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def client(self, service: str) -> Any:
        """Return a client with the rights of the account's owner."""
        session: Any = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION)
        return session.client(service, endpoint_url=self.endpoint_url)

    def stacks(self) -> set[str]:
        """Return the names of the stacks that are there."""
        found = self.client("cloudformation").describe_stacks()["Stacks"]
        return {one["StackName"] for one in found if one["StackStatus"] != "DELETE_COMPLETE"}

    def stop(self) -> None:
        """End it and what it started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def endpoint(tmp_path: Path) -> Generator[Brought]:
    """An endpoint that checks nothing."""
    yield from _brought(tmp_path, auth=False)


@pytest.fixture
def account(tmp_path: Path) -> Generator[Brought]:
    """An account, bootstrapped for the CDK."""
    install()
    for one in _brought(tmp_path, auth=True):
        run([*command(), "bootstrap", "--no-notices", f"aws://{ACCOUNT}/{REGION}"], _environment(one), tmp_path)
        # It refuses requests by plain HTTP, which is all there is here.
        one.client("s3").delete_bucket_policy(Bucket=f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}")
        yield one


def _brought(directory: Path, *, auth: bool) -> Generator[Brought]:
    one = Brought(directory, auth=auth)
    try:
        poll("emulator", one.answers)
        yield one
    finally:
        one.stop()


def _environment(account: Brought, **further: str) -> dict[str, str]:
    """The user's, pointed at the account, with nothing of a configuration that is here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SAGAS_", "PYTEST_"))}
    fixed = {
        "AWS_ENDPOINT_URL": account.endpoint_url, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true", "CI": "true", "CDK_DISABLE_CLI_TELEMETRY": "true",
    }  # fmt: skip
    return kept | fixed | further


def _suite(environment: dict[str, str]) -> str:
    """Run some tests of the suite; return the last line of its report."""
    files = [f"tests/e2e/{name}.py" for name in ("test_reference_sagas", "test_command_line", "test_local_stack")]
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    picked = [*files, "-k", f"{SOME_TESTS} or test_port_taken"]
    ended = subprocess.run(
        [*pytest_, *picked], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.splitlines()[-1]


@pytest.mark.slow
def test_at_an_endpoint_the_suite_runs_and_leaves_nothing(endpoint: Brought) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTEST_"))}
    assert "3 passed, 1 skipped" in _suite(environment | {"SAGAS_E2E_ENDPOINT": endpoint.endpoint_url})
    poll("deletion", lambda: not endpoint.stacks())


class Users:
    """Users of an account, each with a profile of that name.

    Args:
        account: the account.
        file: the profiles.
    """

    def __init__(self, account: Brought, file: Path) -> None:
        self._iam = account.client("iam")
        self._file = file

    def add(self, name: str, policy: dict[str, Any]) -> None:
        """Add a user who may do what the policy says."""
        self._iam.create_user(UserName=name)
        self._iam.put_user_policy(UserName=name, PolicyName="may", PolicyDocument=json.dumps(policy))
        self.let_in(name)

    def let_in(self, name: str) -> str:
        """Give a user that is there a key, and a profile; return the key's id."""
        key = self._iam.create_access_key(UserName=name)["AccessKey"]
        lines = (
            f"[{name}]",
            f"aws_access_key_id = {key['AccessKeyId']}",
            f"aws_secret_access_key = {key['SecretAccessKey']}",
        )
        with self._file.open("a") as file:
            file.write("\n".join(lines) + "\n")
        return key["AccessKeyId"]

    def lock_out(self, name: str, key_id: str) -> None:
        """Take the key away: CloudFormation deletes no user who has one."""
        self._iam.delete_access_key(UserName=name, AccessKeyId=key_id)


@pytest.fixture
def users(account: Brought, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Users:
    """The account's users; from here on, the environment is that of somebody who has their profiles and no more."""
    file = tmp_path / "credentials"
    environment = _environment(account, AWS_SHARED_CREDENTIALS_FILE=str(file), AWS_CONFIG_FILE=str(tmp_path / "none"))
    for name in [name for name in os.environ if name.startswith(("AWS_", "SAGAS_"))]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        if name.startswith("AWS_") and not name.endswith(("KEY_ID", "ACCESS_KEY")):
            monkeypatch.setenv(name, value)
    return Users(account, file)


@pytest.mark.slow
def test_in_an_account_it_deploys_signs_and_destroys(account: Brought, users: Users, tmp_path: Path) -> None:
    users.add("tester", EVERYTHING)
    users.add("guest", GUEST)
    before = account.stacks()
    place = Account("tester", REGION, {}, f"{sys.executable} -m tests.e2e.account.emulated")
    with place.deployed(Place("Sagas", ""), tmp_path) as stack:
        assert account.stacks() == before | {"SagasE2E"}
        _only_signed_calls_pass(stack)
        _whoever_may_not_recover_is_told(stack)
        _rights_hold_for_one_type(stack, users)
        given = {"SAGAS_E2E_PROFILE": "tester", "SAGAS_E2E_REGION": REGION, "SAGAS_E2E_STACK": "SagasE2E"}
        assert "3 passed, 1 skipped" in _suite({**os.environ, **given})
        assert "SagasE2E" in account.stacks()
    assert account.stacks() == before
    assert account.client("dynamodb").list_tables()["TableNames"] == []
    assert len(account.client("s3").list_buckets()["Buckets"]) == 1


def _only_signed_calls_pass(stack: Stack) -> None:
    api = Api(stack)
    assert api.call("GET", "/types")[0] == 200
    assert api.call("POST", "/sagas/create-zip", {"bucket": "none", "keys": ["a"]})[0] == 202
    assert urllib3.request("GET", api.url + "/types").status == 403
    forged = boto3.Session("AKIAIOSFODNN7EXAMPLE", "forged", region_name=REGION)
    with pytest.raises(SagaError, match="refused the call"):
        SagaClient(api.url, session=forged).types()
    assert stack.saga_client().types()


CALLS = {
    "start": "POST /sagas/{type}",
    "show": "GET /sagas/{type}/{id}",
    "audit": "GET /sagas/{type}/{id}/audit",
    "cancel": "DELETE /sagas/{type}/{id}",
    "signal": "POST /sagas/{type}/{id}/signals/pay",
    "retry": "POST /sagas/{type}/{id}/retry",
    "compensate": "POST /sagas/{type}/{id}/compensate",
    "resolve": "POST /sagas/{type}/{id}/resolve",
    "purge": "POST /sagas/{type}/{id}/purge",
    "patience": "PUT /sagas/{type}/{id}/recovery-attempts",
    "definition": "GET /types/{type}",
    "pause": "PUT /types/{type}",
    "recover": "POST /types/{type}/recover",
    "breaker": "POST /breakers/{type}/pay/close",
    "list": "GET /sagas",
    "attention": "GET /attention",
    "types": "GET /types",
    "breakers": "GET /breakers",
    "openapi": "GET /openapi.json",
}
"""Every call of the API, about a saga that is not there, without a body: who may make it is told what is wrong."""
LISTS = {"list", "attention", "types", "breakers", "openapi"}
OPERATING = {"retry", "compensate", "resolve", "patience", "pause", "recover", "breaker"}
RIGHTS: dict[str, dict[str, set[str]]] = {
    "starter": {"checkout": {"start"}},
    "reader": {"checkout": {"show", "audit", "definition"}},
    "canceller": {"checkout": {"cancel"}},
    "approver": {"checkout": {"signal"}},
    "operator": {"create-zip": OPERATING},
    "purger": {"create-zip": {"purge"}},
    "auditor": {name: {"show", "audit", "definition", *LISTS} for name in ("checkout", "create-zip")},
}
"""The calls that each user of ``tests.e2e.account.emulated`` may make, by saga type. No other."""


def _rights_hold_for_one_type(stack: Stack, users: Users) -> None:
    keys = {user: users.let_in(user) for user in RIGHTS}
    for user, rights in RIGHTS.items():
        api = Api(stack, boto3.Session(profile_name=user, region_name=REGION))
        for name in ("checkout", "create-zip"):
            answers: dict[str, int] = {}
            for what, call in CALLS.items():
                method, path = call.format(type=name, id="019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17").split(" ")
                answers[what] = api.call(method, path)[0]
            assert {what for what, status in answers.items() if status != 403} == rights.get(name, set()), (user, name)
            assert not {status for status in answers.values() if status >= 500}
    named = ("--stack", "SagasE2E", "--profile", "operator", "--region", REGION)
    assert run_sagas(stack.project, "dlq", "list", "create-zip", *named).returncode == 0
    assert run_sagas(stack.project, "dlq", "list", "checkout", *named).returncode == 2
    for user, key_id in keys.items():
        users.lock_out(user, key_id)


def _whoever_may_not_recover_is_told(stack: Stack) -> None:
    named = ("--stack", "SagasE2E", "--profile", "guest", "--region", REGION)
    assert run_sagas(stack.project, "types", *named).returncode == 0
    refused = run_sagas(stack.project, "recover", "--all", *named)
    assert (refused.returncode, refused.stdout) == (2, "")
    where = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:SagasE2E-"
    assert f"access denied: calling the supervisor needs lambda:InvokeFunction on {where}" in refused.stderr
    assert stack.sagas("recover", "--all").returncode == 0
