"""``sagas local up --enforce-iam``: the API is called by callers that IAM lets in, and what needs no more works."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Generator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import boto3
import pytest
import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from sagas import SagaError
from sagas.cdk.access.api import PUBLIC_ROUTES, ROUTES
from sagas.client import SagaClient
from sagas.client.endpoints import endpoints_from_file
from tests.e2e.api import Api
from tests.e2e.conftest import project_in
from tests.e2e.stack import REPOSITORY, Running, assembled, launched, poll
from tests.e2e.trials import calls, enforced

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.embedded("it is about our emulator's IAM"),
    pytest.mark.slow,
]

PAGE = REPOSITORY / "docs" / "build" / "children.md"
ORDER = {"order_id": "o-1"}
NOWHERE = "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """The stack, where IAM is enforced."""
    project = project_in(tmp_path_factory.mktemp("enforced"))
    with launched(project, assembled("python -m tests.e2e.trials.enforced"), "--enforce-iam") as running:
        yield running


@pytest.fixture(scope="module")
def api(stack: Running) -> Api:
    """The API, as the account's owner calls it."""
    return Api(stack)


def session_of(user: str, stack: Running) -> Any:
    """The session of a user, with a new key."""
    key = stack.client("iam").create_access_key(UserName=user)["AccessKey"]
    return boto3.Session(key["AccessKeyId"], key["SecretAccessKey"], region_name=stack.description["region"])


def misspelt(session: Any) -> Any:
    """The session with another secret."""
    key_id = session.get_credentials().access_key
    return boto3.Session(key_id, "misspelt", region_name=session.region_name)


def routes_of(api: Api, *, public: bool = False) -> Iterator[tuple[str, str]]:
    """Method and path of each route, from the constructs and from the API's own document."""
    table = PUBLIC_ROUTES if public else ROUTES
    declared = {(method, f"/{path}") for path, methods in table.items() for method in methods}
    paths: dict[str, dict[str, Any]] = api.call("GET", "/openapi.json")[1]["paths"]
    described = {
        (method.upper(), path)
        for path, operations in paths.items()
        for method in operations
        if path.startswith("/callbacks/") == public and method != "parameters"
    }
    assert described
    for method, path in sorted(declared | described):
        yield method, re.sub(r"\{(\w+)\}", lambda match: {"type": "invoice"}.get(match[1], NOWHERE), path)


def test_each_route_asks_for_a_signature_and_a_right(stack: Running, api: Api) -> None:
    stack.client("iam").create_user(UserName="bob")
    bob, zed = session_of("bob", stack), boto3.Session("AKIAIOSFODNN7EXAMPLE", "x", region_name="us-east-1")
    callers = {
        "without a right": Api(stack, bob),
        "with another secret": Api(stack, misspelt(bob)),
        "the owner with another secret": Api(stack, misspelt(stack.session)),
        "unknown": Api(stack, zed),
    }
    for method, path in routes_of(api):
        unsigned = urllib3.request(method, api.url + path, json={})
        assert unsigned.status == 403, (method, path)
        for caller, their in callers.items():
            assert their.call(method, path, {})[0] == 403, (caller, method, path)
    assert api.call("GET", "/sagas")[1]["sagas"] == []


def test_what_only_looks_signed_is_refused(stack: Running, api: Api) -> None:
    url, day = f"{api.url}/sagas", f"{datetime.now(UTC):%Y%m%d}"
    scope, no_signature = f"test/{day}/us-east-1/execute-api/aws4_request", "SignedHeaders=host, Signature=" + "0" * 64
    stamp = {"X-Amz-Date": f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"}
    headers = (
        {"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, {no_signature}"},
        {"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}"},
        {"Authorization": "AWS4-HMAC-SHA256"},
        {
            "Authorization": f"AWS4-ECDSA-P256-SHA256 Credential=test/{day}/execute-api/aws4_request, "
            f"SignedHeaders=host;x-amz-region-set, Signature={'0' * 64}",
            "X-Amz-Region-Set": "*",
        },
        {"Authorization": "AWS test:c2lnbmF0dXJl"},
        {"Authorization": "Basic dGVzdDp0ZXN0"},
        {"Authorization": "Bearer test"},
    )
    for odd in headers:
        assert urllib3.request("GET", url, headers={**stamp, **odd}).status == 403, odd
    for service in ("execute-api", "s3"):
        named = {"Algorithm": "AWS4-HMAC-SHA256", "Credential": f"test/{day}/us-east-1/{service}/aws4_request"}
        named |= {"Date": stamp["X-Amz-Date"], "Expires": "60", "SignedHeaders": "host", "Signature": "0" * 64}
        for kept in (named.keys(), {"Credential"}, {"Algorithm", "Credential"}):
            query = {f"X-Amz-{name}": value for name, value in named.items() if name in kept}
            assert urllib3.request("GET", url, fields=query).status == 403, query
    assert urllib3.request("GET", url, fields={"AWSAccessKeyId": "test", "Signature": "0"}).status == 403


def test_what_is_signed_for_another_service_is_refused(stack: Running, api: Api) -> None:
    credentials = stack.session.get_credentials()
    for service, status in (("execute-api", 200), ("dynamodb", 403)):
        request: Any = cast("Any", AWSRequest)(method="GET", url=f"{api.url}/sagas", headers={})
        cast("Any", SigV4Auth)(credentials, service, stack.description["region"]).add_auth(request)
        assert urllib3.request("GET", request.url, headers=dict(request.headers.items())).status == status


def test_a_right_opens_its_own_routes_alone(stack: Running, api: Api) -> None:
    starter = Api(stack, session_of("starter", stack))
    opened = {f"{method} {path}" for method, path in routes_of(api) if starter.call(method, path, {})[0] != 403}
    assert opened == {"POST /sagas/invoice"}
    assert api.wait(starter.start("invoice", ORDER))["status"] == "COMPLETED"


def test_a_public_route_asks_for_neither(stack: Running, api: Api) -> None:
    for method, path in routes_of(api, public=True):
        assert urllib3.request(method, api.url + path, json={}).status == 404


def test_a_public_wait_runs_to_its_end(stack: Running, api: Api) -> None:
    saga = api.wait(api.start("asked", {}), "WAITING")
    table = next(name for name in stack.client("dynamodb").list_tables()["TableNames"] if "Urls" in name)
    (item,) = stack.client("dynamodb").scan(TableName=table, ConsistentRead=True)["Items"]
    assert urllib3.request("POST", item["url"]["S"], json={"by": "ada"}).status == 202
    assert api.wait(saga)["result"] == "ada"


def test_a_saga_starts_a_saga_as_the_page_says(stack: Running, api: Api) -> None:
    def invoices() -> dict[str, str]:
        return {one["saga_id"]: one["status"] for one in api.call("GET", "/sagas?type=invoice")[1]["sagas"]}

    before, saga = invoices(), api.start("fulfil", ORDER)

    def ended() -> dict[str, Any] | None:
        # The step that looks too early looks again half a minute later.
        assert stack.sagas("local", "tick", "--advance", "31s").returncode == 0
        now = api.show(saga)
        return now if now["status"] not in ("PENDING", "RUNNING", "WAITING") else None

    shown = poll("the end", ended)
    assert shown["status"] == "COMPLETED", shown["error"]
    assert [status for saga_id, status in invoices().items() if saga_id not in before] == ["COMPLETED"]


def test_an_operator_replays_events(stack: Running, api: Api) -> None:
    saga = api.wait(api.start("invoice", ORDER))
    sqs, url = stack.client("sqs"), stack.description["outputs"]["HeardUrl"]

    def ended() -> str | None:
        """The id of the event that this saga has ended."""
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            event = json.loads(message["Body"])
            if event["detail-type"] == "SagaCompleted" and event["detail"]["saga_id"] == saga["saga_id"]:
                return event["detail"]["id"]
        return None

    first = poll("the event", ended)
    endpoints = endpoints_from_file(stack.project)
    operator = SagaClient(api.url, session=session_of("operator", stack), endpoints=endpoints)
    assert operator.replay_events(datetime.now(UTC) - timedelta(hours=1), "invoice") > 0
    assert poll("the event once more", ended) == first
    starter = SagaClient(api.url, session=session_of("starter", stack), endpoints=endpoints)
    with pytest.raises(SagaError, match="lambda:InvokeFunction"):
        starter.replay_events(datetime.now(UTC) - timedelta(hours=1), "invoice")


def test_the_code_here_is_the_pages() -> None:
    section = PAGE.read_text().partition("\n## Start an independent saga\n")[2]
    saga, grants = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    assert saga.strip() in inspect.getsource(calls)
    here = re.sub(r"^ +", "", inspect.getsource(enforced), flags=re.MULTILINE)
    assert re.sub(r"^ +", "", grants, flags=re.MULTILINE).strip() in here
