"""The local stack: what it says of itself, how it ends, and how it fails."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from demo.workers import processes
from tests.e2e.conftest import project_in
from tests.e2e.stack import (
    REPOSITORY,
    SAGAS,
    Running,
    assembled,
    free_port,
    launch,
    launched,
    poll,
    run_sagas,
    start,
)
from tests.support.wheels import Wheels

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PROBE = "python -m tests.e2e.probe.app"
SERVICE = "python -m tests.e2e.trials.enforced"

REFUSED = """
import json, os, pathlib
out = pathlib.Path(os.environ["CDK_OUTDIR"])
out.mkdir(parents=True)
resource = {"Type": "AWS::SQS::Queue", "Properties": {"RedrivePolicy": {"Fn::GetAtt": ["Nowhere", "Arn"]}}}
(out / "bad.template.json").write_text(json.dumps({"Resources": {"Queue": resource}}))
stack = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "bad.template.json"}}
(out / "manifest.json").write_text(json.dumps({"version": "1", "artifacts": {"bad": stack}}))
"""


def start_work(running: Running, seconds: float) -> Path:
    """Send the probe a message and return, once its function is at work, the directory it writes to."""
    directory = running.project / "work"
    directory.mkdir()
    body = json.dumps({"directory": str(directory), "seconds": seconds})
    running.client("sqs").send_message(QueueUrl=running.description["outputs"]["QueueUrl"], MessageBody=body)
    poll("function", (directory / "started").exists)
    return directory


def failure_of(project: Path, *options: str) -> str:
    """Run ``sagas local up``, which must fail with one line and leave nothing; return the line."""
    ended = run_sagas(project, "local", "up", *options)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stdout + ended.stderr
    assert not (project / ".sagas" / "local.json").exists()
    (line,) = ended.stderr.splitlines()
    return line


own_emulator = pytest.mark.embedded("it starts and ends an emulator of its own")
left_to_the_proof = pytest.mark.slow


@own_emulator
class TestEnd:
    @pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=left_to_the_proof), signal.SIGINT])
    def test_running_functions_finish_and_no_process_stays(self, probe: Running, number: signal.Signals) -> None:
        group = probe.description["pid"]
        work = start_work(probe, seconds=2)
        assert probe.stop(number) == 0
        assert (work / "finished").exists()
        assert processes(group) == []
        assert not (probe.project / ".sagas" / "local.json").exists()

    @left_to_the_proof
    def test_the_emulator_ends_when_the_command_is_killed(self, probe: Running) -> None:
        group = probe.description["pid"]
        probe.stop(signal.SIGKILL)
        poll("end of the emulator", lambda: not processes(group))

    @left_to_the_proof
    def test_functions_see_nothing_of_the_user(self, probe: Running) -> None:
        seen = json.loads((start_work(probe, seconds=0) / "environment").read_text())
        assert seen["AWS_ENDPOINT_URL"] == probe.description["endpoint_url"]
        assert seen["HOME"].startswith(str(probe.project))
        assert seen["AWS_SECRET_ACCESS_KEY"] == "test"
        assert not {"AWS_PROFILE", "PYTEST_CURRENT_TEST", "USER"} & set(seen)

    @left_to_the_proof
    def test_a_dead_emulator_is_reported(self, probe: Running) -> None:
        probe_pid = probe.description["pid"]
        os.kill(probe_pid, signal.SIGKILL)
        assert probe.process.wait(timeout=10) == 1
        (line,) = (probe.project / "err.txt").read_text().splitlines()
        assert "the emulator ended" in line


@own_emulator
@left_to_the_proof
class TestInterrupted:
    def test_while_the_app_is_still_synthesizing(self, project: Path) -> None:
        app = 'python -c \'import time; open("begun", "w"); time.sleep(60)\''
        starting = start(project, app)
        poll("app", (project / "begun").exists)
        pid = int((project / ".sagas" / "local.lock").read_text())
        assert starting.stop() == 0
        assert processes(pid) == []
        assert (project / "err.txt").read_text() == ""

    def test_a_terminal_is_told_meanwhile_what_is_done(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "xterm")
        ours, theirs = os.openpty()
        app = "python -c 'import time; time.sleep(60)'"
        starting = start(project, app, errors=theirs)
        os.close(theirs)
        os.set_blocking(ours, False)
        told = b""

        def synthesizing() -> bool:
            nonlocal told
            with suppress(BlockingIOError):
                told += os.read(ours, 4096)
            return f"Synthesizing: {app}".encode() in told

        try:
            poll("what is done", synthesizing)
            assert b"Starting the emulator" in told
        finally:
            assert starting.stop() == 0
            os.close(ours)
        assert (project / "out.txt").read_text() == ""


@own_emulator
class TestDetached:
    def test_stays_until_down(self, project: Path) -> None:
        up = run_sagas(project, "local", "up", "--app", assembled(PROBE), "--port", str(free_port()), "--detach")
        assert up.returncode == 0, up.stderr
        group = json.loads((project / ".sagas" / "local.json").read_text())["pid"]
        assert group in dict(processes(group))
        assert "already running" in second_up(project)
        assert run_sagas(project, "local", "down").returncode == 0
        assert processes(group) == []
        assert "No local stack" in run_sagas(project, "local", "down").stdout

    @left_to_the_proof
    def test_stays_although_its_seed_is_not_there_and_nobody_reads_on(self, project: Path) -> None:
        """As before ``head -1``."""
        command = [SAGAS, "local", "up", "--app", assembled(PROBE), "--port", str(free_port()), "--detach"]
        command += ["--seed", "no-such-file"]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        with subprocess.Popen(
            command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as up:
            assert up.stdout is not None
            told = [up.stdout.readline(), up.stdout.readline()]
            up.stdout.close()
        assert b"no-such-file: No such file or directory" in told[0]
        assert b"The stack is ready nevertheless" in told[1]
        group = json.loads((project / ".sagas" / "local.json").read_text())["pid"]
        assert group in dict(processes(group))
        assert "has ended" in run_sagas(project, "local", "down").stdout

    @left_to_the_proof
    def test_down_when_already_dead(self, project: Path) -> None:
        up = run_sagas(project, "local", "up", "--app", assembled(PROBE), "--port", str(free_port()), "--detach")
        assert up.returncode == 0, up.stderr
        os.kill(json.loads((project / ".sagas" / "local.json").read_text())["pid"], signal.SIGKILL)
        assert run_sagas(project, "local", "down").returncode == 0
        assert not (project / ".sagas" / "local.json").exists()


def second_up(project: Path) -> str:
    """Start once more where a stack is running; return the line it says."""
    ended = run_sagas(project, "local", "up", "--app", assembled(PROBE), "--port", str(free_port()))
    assert ended.returncode == 1
    return ended.stderr


@own_emulator
class TestFailure:
    def test_port_taken(self, project: Path) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            assert f"cannot use port {port}" in failure_of(project, "--app", assembled(PROBE), "--port", str(port))

    def test_template_refused(self, project: Path) -> None:
        (project / "bad.py").write_text(REFUSED)
        line = failure_of(project, "--app", "python bad.py", "--port", str(free_port()))
        assert "stack bad" in line
        assert "Queue: " in line

    def test_no_app(self, project: Path) -> None:
        """Where there is none, it starts none that Python finds elsewhere."""
        ended = run_sagas(project, "local", "up", "--port", str(free_port()))
        assert ended.returncode == 1
        assert ended.stderr.endswith("sagas: the app command is empty; name it in cdk.json or with --app\n")

    @pytest.mark.parametrize(
        ("app", "reason"),
        [
            ("python -c 'raise SystemExit(\"no such bucket\")'", "no such bucket"),
            pytest.param("python -c pass", "wrote no templates", marks=left_to_the_proof),
            pytest.param("no-such-program", "no-such-program", marks=left_to_the_proof),
            pytest.param("", "is empty", marks=left_to_the_proof),
            pytest.param("python 'unclosed", "cannot read", marks=left_to_the_proof),
        ],
    )
    def test_app_fails(self, project: Path, app: str, reason: str) -> None:
        assert reason in failure_of(project, "--app", app, "--port", str(free_port()))

    def test_endpoint_out_of_reach(self, project: Path) -> None:
        line = failure_of(project, "--app", assembled(PROBE), "--endpoint", f"http://127.0.0.1:{free_port()}")
        assert "does not answer" in line


@own_emulator
@left_to_the_proof
class TestEndpoint:
    def test_deploys_to_a_running_one_and_updates_it(
        self, probe: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = tmp_path / "other"
        other.mkdir()
        command = ["local", "up", "--app", PROBE, "--endpoint", probe.description["endpoint_url"]]
        for timeout in ("50", "50", "40"):
            monkeypatch.setenv("PROBE_TIMEOUT", timeout)
            ended = run_sagas(other, *command)
            assert ended.returncode == 0, ended.stderr
        description = json.loads((other / ".sagas" / "local.json").read_text())
        assert description["pid"] is None
        assert description["outputs"] == probe.description["outputs"]
        assert [one["Timeout"] for one in probe.client("lambda").list_functions()["Functions"]] == [40]
        assert "being deleted" in run_sagas(other, "local", "down").stdout
        poll("deletion", lambda: not probe.client("lambda").list_functions()["Functions"])


@own_emulator
@left_to_the_proof
class TestPersistence:
    def test_state_outlives_a_stop(self, project: Path) -> None:
        state, port = str(project / "state"), free_port()
        first = launch(project, assembled(PROBE), "--persist", state, port=port)
        first.client("s3").put_object(Bucket=bucket_of(first), Key="kept", Body=b"still here")
        url = first.description["outputs"]["QueueUrl"]
        assert first.stop() == 0
        second = launch(project, assembled(PROBE), "--persist", state, port=port)
        try:
            assert second.client("s3").get_object(Bucket=bucket_of(second), Key="kept")["Body"].read() == b"still here"
            assert second.description["outputs"]["QueueUrl"] == url
            poll("end of the function", (start_work(second, seconds=0) / "finished").exists)
        finally:
            second.stop()
        assert f"stored with port {port}" in failure_of(
            project, "--app", assembled(PROBE), "--persist", state, "--port", str(free_port())
        )

    def test_a_service_keeps_its_id(self, project: Path) -> None:
        """So a start that is repeated after the restart is the same saga."""
        state = str(project / "state")
        port = free_port()
        found = list[tuple[set[str], str]]()
        for _ in range(2):
            running = launch(project, assembled(SERVICE), "--persist", state, port=port)
            try:
                functions = running.client("lambda").list_functions()["Functions"]
                variables = [one.get("Environment", {}).get("Variables", {}) for one in functions]
                ids = {one["SAGAS_SERVICE"] for one in variables if "SAGAS_SERVICE" in one}
                saga = running.saga_client().start("invoice", {"order_id": "o-1"}, key="invoice-1")
                found.append((ids, saga["saga_id"]))
            finally:
                running.stop()
        assert len(found[0][0]) == 1
        assert found[0] == found[1]


def bucket_of(running: Running) -> str:
    """A bucket of the stack: the one its assets are in."""
    buckets = running.client("s3").list_buckets()["Buckets"]
    return next(bucket["Name"] for bucket in buckets if bucket["Name"].startswith("cdk-"))


NIGHTLY = """
        nightly = events.Schedule.cron(hour="2", minute="0")
        service.start_on(nightly, Trip, request={"order_id": "$.time", "seats": 1, "budget": 100})
        CfnOutput(self, "ApiUrl\""""


@own_emulator
def test_schedules_follow_time_that_is_skipped(tmp_path: Path) -> None:
    """``tests/unit/local/test_schedules.py`` fails first."""
    assert run_sagas(tmp_path, "init", "nightly").returncode == 0
    stack = tmp_path / "nightly" / "infra" / "stack.py"
    imported = "from aws_cdk import aws_events as events\nfrom aws_cdk import"
    text = stack.read_text().replace("from aws_cdk import", imported, 1)
    stack.write_text(text.replace('        CfnOutput(self, "ApiUrl"', NIGHTLY))
    with launched(project_in(tmp_path / "nightly"), "python -m infra.app") as running:
        assert running.sagas("local", "tick", "--advance", "3d").returncode == 0
        sagas = running.saga_client().list("trip")["sagas"]
        assert [(saga["status"], saga["created_at"][11:16]) for saga in sagas] == [("COMPLETED", "02:00")] * 3


SALE = """
import pytest
from sagas import Saga, step

class Sale(Saga[str], name="sale"):
    @step
    def pay(self, request: str) -> str:
        return pytest.__version__
"""
SHOP = """
import os
from sagas.cdk import SagaService
from aws_cdk import App, Stack
from shop.sale import Sale

app = App(outdir=os.environ["CDK_OUTDIR"])
SagaService(Stack(app, "Shop"), "Sales", sagas=[Sale])
app.synth()
"""


@own_emulator
def test_imports_are_declared(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / ".sagas/cache").unlink()
    wheels = Wheels.of_the_library(project, monkeypatch)
    (project / "shop").mkdir()
    (project / "shop/__init__.py").touch()
    (project / "shop/sale.py").write_text(SALE)
    (project / "app.py").write_text(SHOP)
    declared = f"pytest=={pytest.__version__}"
    line = (
        f"shop/sale.py:2 imports pytest, which functions do not have: add to shop/requirements.txt the line {declared};"
    )
    assert line in failure_of(project, "--app", "python app.py", "--port", str(free_port()))
    wheels.write("pytest", pytest.__version__)
    (project / "shop/requirements.txt").write_text(declared)
    with launched(project, "python app.py") as stack:
        started = stack.saga_client().start("sale", "now")
        assert stack.saga_client().result("sale", started["saga_id"], timeout=60) == pytest.__version__
