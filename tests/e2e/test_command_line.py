"""The operator's commands on the running stack: what they print, what they exit with, and what becomes of the sagas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from functions.create_zip import CreateZip, CreateZipRequest
from sagas.errors import NotFound
from tests.e2e.desk import Desk
from tests.e2e.stack import PACE, REPOSITORY, Stack, run_sagas

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

KEY = "sources/command-line/hello.txt"
PATIENCE = 100.0 * PACE


class ZipDesk(Desk):
    """An operator's place, with requests for archives."""

    def request(self, key: str = KEY) -> CreateZipRequest:
        """A request for an archive of one object."""
        return CreateZipRequest(self.stack.description["outputs"]["ZipsBucket"], [key])

    def file(self, name: str, key: str = KEY) -> str:
        """Write such a request to a file and return its path."""
        path = self.stack.project / name
        path.write_text(json.dumps({"bucket": self.request().bucket, "keys": [key]}))
        return str(path)


@pytest.fixture
def desk(local_stack: Stack) -> ZipDesk:
    bucket = local_stack.description["outputs"]["ZipsBucket"]
    local_stack.client("s3").put_object(Bucket=bucket, Key=KEY, Body=b"hello")
    return ZipDesk(local_stack, local_stack.saga_client())


class TestStart:
    def test_a_saga_that_completes_is_watched_to_exit_code_0(self, desk: ZipDesk) -> None:
        ended = desk.sagas("start", "create-zip", "--file", desk.file("good.json"), "--watch")
        assert ended.returncode == 0, ended.stderr
        assert "step announce COMPLETED" in ended.stdout
        assert "saga COMPLETED" in ended.stdout

    def test_one_that_is_undone_exits_with_3_and_says_why(self, desk: ZipDesk) -> None:
        ended = desk.sagas("start", "create-zip", "--file", desk.file("bad.json", "sources/none"), "--watch")
        assert ended.returncode == 3, ended.stderr
        assert "saga COMPENSATED" in ended.stdout
        assert "step check, attempt 1 failed: Rejected: bucket " in ended.stdout
        assert "has no object 'sources/none'" in ended.stdout

    def test_the_same_key_starts_one_saga(self, desk: ZipDesk) -> None:
        first, second = (
            desk.json("start", "create-zip", "--file", desk.file("keyed.json"), "--key", "command-line-1") for _ in "12"
        )
        assert first["saga_id"] == second["saga_id"]

    def test_a_request_that_does_not_fit_names_the_paths(self, desk: ZipDesk) -> None:
        ended = desk.sagas("start", "checkout", "--file", desk.file("unfit.json"))
        assert (ended.returncode, ended.stdout) == (1, "")
        (line,) = ended.stderr.splitlines()
        assert "$.order_id: required field is missing" in line
        assert "$.keys: unknown field" in line

    def test_a_type_whose_starts_are_paused_is_not_started(self, desk: ZipDesk) -> None:
        event = str(REPOSITORY / "events" / "checkout.json")
        assert desk.json("pause", "checkout", "--starts-only", "--reason", "stocktaking")["active"] is False
        refused = desk.sagas("start", "checkout", "--file", event)
        assert desk.json("resume", "checkout")["active"] is True
        assert refused.returncode == 1
        assert "starts of checkout are paused: stocktaking; try again in" in refused.stderr


class TestReading:
    def test_show_list_and_audit_tell_of_one_saga(self, desk: ZipDesk) -> None:
        saga_id: str = desk.client.start(CreateZip, desk.request())["saga_id"]
        desk.client.wait("create-zip", saga_id, PATIENCE)
        assert desk.json("show", "create-zip", saga_id)["status"] == "COMPLETED"
        assert saga_id in [saga["saga_id"] for saga in desk.json("list", "create-zip")["sagas"]]
        entries = desk.json("audit", "create-zip", saga_id)["entries"]
        assert [entry["action"] for entry in entries] == ["SagaStarted", *["StepCompleted"] * 3]
        assert f"create-zip {saga_id} COMPLETED" in desk.sagas("show", "create-zip", saga_id).stdout

    def test_one_is_found_by_its_id_alone_or_how_that_begins(self, desk: ZipDesk) -> None:
        saga = desk.client.start(CreateZip, desk.request())
        desk.client.wait("create-zip", saga["saga_id"], timeout=PATIENCE)
        for told in ([saga["saga_id"]], [saga["saga_id"][:30]], ["create-zip", saga["saga_id"][:30]]):
            assert desk.json("show", *told)["saga_id"] == saga["saga_id"]
        assert desk.client.look_up(saga["saga_id"])["type"] == "create-zip"

    def test_top_counts(self, desk: ZipDesk) -> None:
        saga = desk.client.start(CreateZip, desk.request())
        desk.client.wait("create-zip", saga["saga_id"], timeout=PATIENCE)
        top = desk.sagas("top")
        assert top.returncode == 0, top.stderr
        assert "create-zip" in top.stdout

    def test_definitions(self, desk: ZipDesk) -> None:
        assert {saga["type"] for saga in desk.json("types")["types"]} == {
            "create-zip",
            "checkout",
            "approval",
            "basket",
            "parcel",
        }

    def test_what_is_not_there_is_not_found(self, desk: ZipDesk) -> None:
        with pytest.raises(NotFound):
            desk.client.show("create-zip", "01a1fd82-30a8-780f-adb2-367c651cfde6")
        assert desk.sagas("show", "no-such-saga", "01a1fd82").returncode == 1

    def test_elsewhere_no_stack_is_running(self, desk: ZipDesk, tmp_path: Path) -> None:
        ended = run_sagas(tmp_path, "list")
        assert (ended.returncode, ended.stderr) == (
            2, "sagas: no local stack is running for this project; `sagas local up` starts one\n",
        )  # fmt: skip


@pytest.fixture
def named(desk: ZipDesk, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The options that name the stack, on an emulator as in an account, where they are always given."""
    endpoint = desk.stack.description["endpoint_url"]
    if endpoint is None:
        return []
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    return ["--stack", "Sagas", "--region", desk.stack.description["region"]]


class TestSupervising:
    """As on the local stack, so on one that is named."""

    def test_recovers_now(self, desk: ZipDesk, named: list[str]) -> None:
        for where in ([], named):
            report = desk.json("recover", "--all", "--stale-after", "1h", *where)
            assert (report["failed"], report["remaining"]) == (0, 0)

    def test_sweeps_now(self, desk: ZipDesk, named: list[str]) -> None:
        for where in ([], named):
            report = desk.json("sweep", "create-zip", "--dry-run", *where)
            assert (report["type"], report["prefix"], report["finished"]) == ("create-zip", "create-zip/", True)
            refused = desk.sagas("sweep", "checkout", *where)
            assert (refused.returncode, refused.stdout) == (1, "")
            # The emulator does not say which error it was, as Lambda does, but only its text.
            assert refused.stderr.endswith(
                "saga type 'checkout' has no orphans= policy, so there is nothing to sweep\n"
            )


def test_a_stack_that_is_named_is_found_with_api_and_queues(desk: ZipDesk, named: list[str]) -> None:
    names = {saga["type"] for saga in desk.json("types", *named)["types"]}
    assert names == {"create-zip", "checkout", "approval", "basket", "parcel"}
    assert desk.json("dlq", "list", "checkout", *named) == {"dead_letters": []}


@pytest.mark.emulated("in an account `sagas local` has no stack")
def test_a_tick_recovers_the_local_stack(desk: ZipDesk) -> None:
    ended = desk.sagas("local", "tick", "--stale-after", "1h")
    assert (ended.returncode, ended.stdout.splitlines()[0].split()[-1]) == (0, "failed")
