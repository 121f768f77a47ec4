"""How much time and memory the console takes, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_REFRESHES = """
import json, pathlib, re, resource, time
from tests.unit.console.conftest import Browser
from tests.unit.console.service import FakeService, dead, numbered

browser, took = Browser(FakeService(dead(number) for number in range(10_000))).open(), []
for _ in range(1_000):
    began = time.process_time()  # what else the machine does is not the console's
    assert browser.get("/sagas").status_code == 200
    took.append(time.process_time() - began)
status = pathlib.Path("/proc/self/status")  # getrusage tells the peak of whoever started this, if that is higher
peak = re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1] if status.exists() else resource.getrusage(0).ru_maxrss
print(json.dumps([sorted(took)[949], int(peak)]))
"""


@pytest.mark.slow
def test_a_thousand_refreshes_of_ten_thousand_sagas_take_little() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _REFRESHES],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    seconds, kilobytes = json.loads(ran.stdout)
    assert seconds < 0.050
    assert kilobytes < 150 * 1024
