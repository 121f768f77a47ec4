"""Clients that others' tools generate from the API's OpenAPI document, and what linters say of it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from sagas.core.states import StepStatus
from sagas.lock.content import LETTERS
from tests.e2e.api import Api
from tests.e2e.client_tools import Tools
from tests.e2e.conftest import project_in
from tests.e2e.stack import REPOSITORY, assembled, launched, run_sagas

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.embedded("its calls are not signed"),
]

_METHODS = {"get", "post", "put", "delete"}
_MOST_FILES = 200

_USE = """
import sys, time
from shop import Client
from shop.api.approval import (
    audit_approval, cancel_approval, retry_approval, show_approval, signal_approval_decision, start_approval,
    verify_approval,
)
from shop.api.service import change_type, list_sagas, look_up
from shop.models import (
    ApprovalDecision, ApprovalOrderRequest, Error, ErrorCode, PauseChange, RetryRequest, SagaStatus, StepStatus,
    TypeName,
)

client = Client(base_url=sys.argv[1])
assert {status.value for status in StepStatus} == {*sys.argv[2:]}
order = ApprovalOrderRequest(order_id="order-1", amount="1250.00", purpose="a workbench")


def start(key, order=order):
    return start_approval.sync_detailed(client=client, body=order, idempotency_key=key)


def shown(saga_id, *statuses):
    deadline = time.monotonic() + 60
    while True:
        saga = show_approval.sync(saga_id, client=client)
        if saga.status in statuses:
            return saga
        assert time.monotonic() < deadline, saga
        time.sleep(0.1)


def refused(answer, status, code):
    assert answer.status_code == status, answer
    assert isinstance(answer.parsed, Error)
    assert answer.parsed.error.code is code
    return answer.parsed.error


first, again = start("one"), start("one")
assert (first.status_code, again.status_code) == (202, 200)
saga_id = first.parsed.saga_id
assert again.parsed.saga_id == saga_id
waiting = shown(saga_id, SagaStatus.WAITING)
assert waiting.request == order
assert waiting.result is None
assert look_up.sync(str(saga_id), client=client).saga_id == saga_id

found = list_sagas.sync(client=client, type_=TypeName.APPROVAL, status=SagaStatus.WAITING, limit=1)
assert [saga.saga_id for saga in found.sagas] == [saga_id]
assert not list_sagas.sync(client=client, type_=TypeName.APPROVAL, status=SagaStatus.FAILED).sagas
[by_key] = list_sagas.sync(client=client, type_=TypeName.APPROVAL, idempotency_key="one").sagas
assert by_key.saga_id == saga_id

yes = ApprovalDecision(approved=True, by="ada")
assert signal_approval_decision.sync_detailed(saga_id, client=client, body=yes).status_code == 202
done = shown(saga_id, SagaStatus.COMPLETED)
assert done.result.approved_by == "ada"
assert audit_approval.sync(saga_id, client=client).entries[0].saga_id == saga_id
assert verify_approval.sync(saga_id, client=client).verified

other = start("two").parsed.saga_id
shown(other, SagaStatus.WAITING)
assert cancel_approval.sync_detailed(other, client=client, reason="a mistake").status_code == 202
shown(other, SagaStatus.CANCELLED)

no = ApprovalDecision(approved=False, by="bob")
unknown = type(saga_id)(int=0)
refused(show_approval.sync_detailed(unknown, client=client), 404, ErrorCode.NOT_FOUND)
refused(cancel_approval.sync_detailed(saga_id, client=client), 409, ErrorCode.CONFLICT)
refused(signal_approval_decision.sync_detailed(saga_id, client=client, body=no), 409, ErrorCode.CONFLICT)
stale = retry_approval.sync_detailed(saga_id, client=client, body=RetryRequest(seq=waiting.seq))
refused(stale, 409, ErrorCode.STATE_CHANGED)
assert stale.parsed.saga.seq == done.seq > waiting.seq
bad = ApprovalOrderRequest(order_id="order-2", amount="much", purpose="")
assert refused(start("three", bad), 422, ErrorCode.INVALID_REQUEST).details[0].path == "$.amount"
different = ApprovalOrderRequest(order_id="order-2", amount="1", purpose="")
refused(start("one", different), 422, ErrorCode.IDEMPOTENCY_KEY_REUSED)
paused = change_type.sync(TypeName.APPROVAL, client=client, body=PauseChange(paused=True, reason="a test"))
assert paused.paused
assert not change_type.sync(TypeName.APPROVAL, client=client, body=PauseChange(paused=False)).paused
print("used")
"""

_TYPESCRIPT = """
import type { components, operations } from "./shop";

type Saga = components["schemas"]["CheckoutSaga"];
type Start = operations["start_checkout"]["requestBody"]["content"]["application/json"];
type Answer = operations["show_checkout"]["responses"][200]["content"]["application/json"];

export const order = (saga: Saga): string | undefined => saga.request?.order_id;
export const tracking = (saga: Answer): string | undefined => saga.result?.tracking;
export const failed = (saga: Saga): components["schemas"]["SagaError"] | null => saga.error;
export const skus = (start: Start): string[] => start.items.map((item) => item.sku);
export const letters: Record<Saga["steps"][number]["status"], string> = LETTERS;
// @ts-expect-error: a checkout has no such field
export const wrong = (saga: Saga): unknown => saga.request?.colour;
""".replace("LETTERS", json.dumps(LETTERS))


@pytest.fixture(scope="module")
def tools() -> Tools:
    tools = Tools()
    tools.install()
    return tools


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with launched(project_in(tmp_path_factory.mktemp("clients")), assembled("python -m infra.app")) as running:
        yield Api(running)


@pytest.fixture(scope="module")
def served(api: Api) -> dict[str, Any]:
    """The document that the service answers with."""
    return api.call("GET", "/openapi.json")[1]


@pytest.fixture
def document(tmp_path: Path, served: dict[str, Any]) -> Path:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(served))
    return path


def test_linters_find_no_error(document: Path, tools: Tools) -> None:
    directory = document.parent
    assert "OK" in tools.run("openapi-spec-validator", str(document), directory=directory)
    tools.run("redocly", "lint", str(document), directory=directory)
    (directory / ".spectral.json").write_text('{"extends": ["spectral:oas"]}')
    said = tools.run("spectral", "lint", "--ruleset", ".spectral.json", str(document), directory=directory)
    # Both ask for a contact or a licence. The library knows neither.
    assert re.findall(r"warning +(\S+)", said) == ["info-contact"], said


def test_a_python_client_has_every_operation_and_works(
    document: Path, served: dict[str, Any], api: Api, tools: Tools
) -> None:
    directory = document.parent
    options = ("--path", str(document), "--output-path", "shop", "--meta", "none", "--fail-on-warning")
    tools.run("openapi-python-client", "generate", *options, directory=directory)
    files = [file.relative_to(directory / "shop") for file in (directory / "shop").rglob("*.py")]
    assert len(files) <= _MOST_FILES
    generated = {file.stem for file in files if file.parts[0] == "api"}
    ids = [operation["operationId"] for item in served["paths"].values() for operation in _operations(item)]
    assert set(ids) <= generated
    (directory / "use.py").write_text(_USE)
    assert (
        tools.run("python", "use.py", api.url, *StepStatus, directory=directory, PYTHONPATH=str(directory)) == "used\n"
    )


def _operations(item: dict[str, Any]) -> list[dict[str, Any]]:
    return [item[method] for method in sorted(_METHODS & item.keys())]


def test_openapi_generator_makes_a_python_client(document: Path, tools: Tools) -> None:
    if shutil.which("java") is None:
        assert not os.environ.get("CI"), "OpenAPI Generator needs java"
        pytest.skip("OpenAPI Generator needs java")
    options = ("-i", str(document), "-g", "python", "-o", "shop")
    tools.run("openapi-generator-cli", "generate", *options, directory=document.parent)
    apis = (document.parent / "shop").rglob("*_api.py")
    assert {"approval_api.py", "checkout_api.py", "create_zip_api.py"} <= {api.name for api in apis}


def test_a_typescript_client_type_checks(document: Path, tools: Tools) -> None:
    directory = document.parent
    tools.run("openapi-typescript", str(document), "-o", "shop.ts", directory=directory)
    (directory / "use.ts").write_text(_TYPESCRIPT)
    tools.run("tsc", "--strict", "--noEmit", "use.ts", directory=directory)


def test_the_command_writes_what_the_service_serves(served: dict[str, Any]) -> None:
    title = served["info"]["title"]
    written = json.loads(run_sagas(REPOSITORY, "openapi", "--service", title).stdout)
    assert written == served | {"servers": [{"url": "/"}]}
