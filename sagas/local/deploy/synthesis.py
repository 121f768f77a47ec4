"""Runs the project's CDK app without the CDK CLI."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from sagas.local.errors import LocalStackError
from sagas.local.files import Files
from sagas.node import use_bundled_node


def synthesize(app: str, files: Files, output: str = "cdk.out") -> Path:
    """Run the app, and return the directory with the templates."""
    try:
        words = shlex.split(app)
    except ValueError as error:
        raise LocalStackError(f"cannot read the app command {app!r}: {error}") from error
    if not words:
        raise LocalStackError("the app command is empty; name it in cdk.json or with --app")
    if words[0] in ("python", "python3"):
        words[0] = sys.executable
    assembly = files.root / output
    shutil.rmtree(assembly, ignore_errors=True)
    environment = {**os.environ, "CDK_OUTDIR": str(assembly)}
    # An app may import aws_cdk, which starts Node, before it imports this library.
    use_bundled_node(environment)
    with files.synth_log.open("wb") as log:
        try:
            # The app has its own session, so Ctrl-C reaches only this process, and the app's Node ends with the app.
            process = subprocess.Popen(  # noqa: S603 - the user's own command
                words, cwd=files.project, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        except OSError as error:
            raise LocalStackError(f"cannot run {words[0]!r}: {error.strerror}") from error
        try:
            code = process.wait()
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code:
        lines = [line.strip() for line in files.synth_log.read_text(errors="replace").splitlines() if line.strip()]
        last = lines[-1] if lines else "it printed nothing"
        raise LocalStackError(f"the app {app!r} failed: {last} (full output: {files.synth_log})")
    if not (assembly / "manifest.json").is_file():
        raise LocalStackError(f"the app {app!r} wrote no templates; does it call App().synth()?")
    return assembly
