"""``sagas doctor`` on the local stack: fine, with broken code, with a setting changed by hand, and without a right."""

from __future__ import annotations

import io
import json
import os
import subprocess
import zipfile
from collections.abc import Generator
from typing import Any

import pytest

from tests.e2e.conftest import project_in
from tests.e2e.stack import REPOSITORY, SAGAS, Running, assembled, launched

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(300),
    pytest.mark.embedded("it is about our emulator, too"),
    pytest.mark.slow,
]

APP = "python -m tests.e2e.trials.enforced"
LACKING = {"clock", "bootstrap", "concurrency", "in flight", "alarms"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """A stack where IAM is enforced."""
    with launched(project_in(tmp_path_factory.mktemp("doctor")), assembled(APP), "--enforce-iam") as running:
        yield running


def doctor(stack: Running) -> tuple[int, dict[str, list[tuple[str, str]]]]:
    """Its exit status, and state and text of what it finds, by check."""
    ended = stack.sagas("doctor", "--json", "--app", assembled(APP))
    found: dict[str, list[tuple[str, str]]] = {}
    for one in json.loads(ended.stdout)["checks"]:
        found.setdefault(one["check"], []).append((one["state"], one["text"]))
        assert one["todo"] or one["state"] in ("ok", "unchecked"), one
    return ended.returncode, found


def asked_by(stack: Running, user: str, *rights: str) -> subprocess.CompletedProcess[str]:
    """Return the findings about the stack for a user with only these rights, as in an account."""
    iam = stack.client("iam")
    iam.create_user(UserName=user)
    statement = {"Effect": "Allow", "Action": ["sts:GetCallerIdentity", *rights], "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName=user, PolicyName="only", PolicyDocument=policy)
    key = iam.create_access_key(UserName=user)["AccessKey"]
    return in_account(stack, "Enforced", key["AccessKeyId"], key["SecretAccessKey"])


def in_account(stack: Running, name: str, key: str, secret: str) -> subprocess.CompletedProcess[str]:
    """Return the findings about a stack for the holder of a key."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment = kept | {
        "AWS_ENDPOINT_URL": stack.description["endpoint_url"],
        "AWS_DEFAULT_REGION": stack.description["region"],
        "AWS_EC2_METADATA_DISABLED": "true",
        "HOME": str(stack.project),
        "PYTHONPATH": str(REPOSITORY),
        **({"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret} if key else {}),
    }
    command = [SAGAS, "doctor", "--stack", name, "--app", assembled(APP)]
    return subprocess.run(
        command, cwd=stack.project, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_stack_that_is_fine(stack: Running) -> None:
    status, found = doctor(stack)
    assert status == 0
    states = {check: state for check, [(state, _)] in found.items()}
    assert states == {check: "unchecked" if check in LACKING else "ok" for check in found}
    assert all(
        text.startswith("not checked here: the emulator has no") for check in LACKING for _, text in found[check]
    )


def test_code_that_is_broken(stack: Running) -> None:
    """It was changed by hand: what the app has is sound."""
    functions, name = stack.client("lambda"), stack.description["functions"]["invoice"]["write"]
    name = name.partition(":function:")[2].partition(":")[0] or name
    before = functions.get_alias(FunctionName=name, Name="live")["FunctionVersion"]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for package in ("tests", "tests/e2e", "tests/e2e/trials"):
            archive.writestr(f"{package}/__init__.py", "")
        archive.writestr("tests/e2e/trials/calls.py", "import nowhere_at_all\n")
    functions.update_function_code(FunctionName=name, ZipFile=content.getvalue())
    version = functions.publish_version(FunctionName=name)["Version"]
    functions.update_alias(FunctionName=name, Name="live", FunctionVersion=version)
    try:
        status, found = doctor(stack)
    finally:
        functions.update_alias(FunctionName=name, Name="live", FunctionVersion=before)
    assert status == 1
    [(state, text)] = found.pop("functions")
    assert state == "fail"
    assert text.startswith(f"{name}: ")
    assert {one for findings in found.values() for one, _ in findings} == {"ok", "unchecked"}


def test_a_mapping_that_was_disabled_by_hand(stack: Running) -> None:
    functions = stack.client("lambda")
    mapping = functions.list_event_source_mappings()["EventSourceMappings"][0]
    name = mapping["FunctionArn"].partition(":function:")[2].partition(":")[0]
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    try:
        status, found = doctor(stack)
    finally:
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)
    assert status == 1
    assert found["functions"] == [("fail", f"{name}: its event source mapping is disabled")]


def test_a_caller_without_a_right_to_look(stack: Running) -> None:
    ended = asked_by(stack, "nobody")
    where = f"{stack.description['region']} ({stack.description['endpoint_url']})"
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"sagas: arn:aws:iam::000000000000:user/nobody has no permission for cloudformation:DescribeStacks in {where}; "
        "grant cloudformation:DescribeStacks to this caller\n"
    )


def test_a_caller_who_may_look_at_some_of_it(stack: Running) -> None:
    ended = asked_by(stack, "reader", "cloudformation:*")
    assert ended.returncode == 0, ended.stderr
    lines = {line[6:20].strip(): line for line in ended.stdout.splitlines() if line[:1] != " "}
    assert lines["stack"].startswith("ok")
    assert lines["functions"].startswith("warn")
    right = "lambda:ListEventSourceMappings"
    assert f"not checked: arn:aws:iam::000000000000:user/reader has no permission for {right} in " in lines["functions"]
    assert "(403)" in lines["API"]


@pytest.mark.parametrize(
    ("name", "key", "told"),
    [
        ("Other", "test", "there is no stack Other in us-east-1 (http://127.0.0.1:"),
        ("Enforced", "", "Unable to locate credentials; sign in to AWS, or name a profile with --profile"),
        ("Enforced", "AKIAUNKNOWN", "refused the credentials (InvalidClientTokenId); sign in to AWS"),
    ],
)
def test_what_there_is_not(stack: Running, name: str, key: str, told: str) -> None:
    ended: Any = in_account(stack, name, key, "test")
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert told in line
