"""``make proof``: the long versions of what the gate cuts short, each in a process of its own, and their figures.

What has passed on this commit is not run again: ``build/proof.json`` has the verdict, duration and commit of each part.
A call may be interrupted at any time, and the next one continues.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import msgspec

from tests.gate import end, interruptible
from tests.subjects import SUBJECTS, test_files

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "build/proof.json"

_PYTEST = ("-m", "pytest", "-q", "-n", "0", "--timeout", "1500")
_ENGINE = (*_PYTEST, "tests/engine", "tests/handlers")
_HOSTILE = ("tests/unit/authoring/test_schema_agrees.py", "tests/handlers/test_hostile_events.py")
_PROPERTIES = ("-m", "hypothesis", "tests/unit", "tests/store")
_FULL = {"SAGAS_PROOF": "full"}


@dataclass(frozen=True, slots=True)
class Part:
    """One proof: what it shows, and what runs it.

    Args:
        title: what it shows.
        arguments: Python's.
        variables: of its environment.
    """

    title: str
    arguments: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a part ended.

    Args:
        passed: it ended without a violation.
        violations: how many it counted; 1 if it failed without a count.
        seconds: how long it took.
        commit: what it ran on.
    """

    passed: bool
    violations: int
    seconds: float
    commit: str


def parts() -> Iterator[Part]:
    """Yield all parts, the longest first, so that no processor waits for the last."""
    from tests.interleavings.family_stories import LONG_FAMILIES  # loads the engine
    from tests.interleavings.stories import LONG

    yield from (
        Part("Sagas soaked on the local stack", ("-m", "tests.soak")),
        Part("The service under load", ("-m", "tests.load")),
        *(
            Part(f"Orders of requests, a larger story: {name}", ("-m", "tests.interleavings", name))
            for name in (*LONG, *LONG_FAMILIES)
        ),
        Part("Requests that linger, a message twice", ("-m", "tests.faults", "lingers")),
        Part("Requests that linger, others cancel", ("-m", "tests.faults", "cancels")),
        Part("Requests that linger, others purge", ("-m", "tests.faults", "purges")),
        Part("The engine and its functions on DynamoDB Local", _ENGINE, {"SAGAS_TESTS_TABLES": "dynamodb_local"}),
        Part("The engine and its functions on moto's DynamoDB", _ENGINE, {"SAGAS_TESTS_TABLES": "moto"}),
        Part("Killed workers, and a thousand in line", (*_PYTEST, "tests/e2e/test_failures.py"), _FULL),
        Part("A thousand that wait", (*_PYTEST, "tests/e2e/test_waiting.py"), _FULL),
        Part("A newcomer's two commands", (*_PYTEST, "tests/e2e/test_newcomer.py"), _FULL),
        Part("Hostile events", (*_PYTEST, *_HOSTILE), _FULL),
        Part("Properties, 500 examples of each", (*_PYTEST, *_PROPERTIES), _FULL),
        Part("Pairs of releases", (*_PYTEST, "tests/model/test_pairs.py", "tests/engine/test_pairs.py"), _FULL),
        Part("A service of 60 types and 480 steps", (*_PYTEST, "tests/cdk/test_size.py"), _FULL),
        Part("Answers that are lost, and outages", ("-m", "tests.faults", "answers", "outages")),
        Part("Deaths", ("-m", "tests.faults", "deaths", "successors", "rules")),
        Part("Parents and children", ("-m", "tests.faults", "families", "kin-answers", "kin-outages", "kin-lingers")),
        Part("Deaths, two in a row", ("-m", "tests.faults", "pairs")),
        Part("Reads that are behind, short pages and half batches", ("-m", "tests.faults", "behind", "scarce")),
        Part("Every scenario on moto's DynamoDB, too", ("-m", "tests.faults", "moto")),
        Part(
            "Orders of requests: all short stories, and without each rule",
            ("-m", "tests.interleavings", "short", "rules"),
        ),
        Part("Races on real engines", (*_PYTEST, "tests/store", "tests/engine/test_races.py")),
        Part(
            "100,000 sagas, of which 50 stall",
            (*_PYTEST, "tests/engine/test_recovery_reads.py"),
            {"SAGAS_MANY": "100000"},
        ),
        *(
            Part(
                f"Breadth: {subject}",
                (*_PYTEST, "-m", "proof", *test_files(subject)),
                {"SAGAS_SUBJECTS": subject} | _FULL,
            )
            for subject in SUBJECTS
        ),
    )


class Record:
    """The verdicts by title, in a file that is whole at any moment."""

    def __init__(self, commit: str) -> None:
        self.commit = commit
        self._lock = Lock()

    def read(self) -> dict[str, Verdict]:
        """Return the verdicts on this commit."""
        verdicts = msgspec.json.decode(RECORD.read_bytes(), type=dict[str, Verdict]) if RECORD.exists() else {}
        return {title: verdict for title, verdict in verdicts.items() if verdict.commit == self.commit}

    def add(self, title: str, verdict: Verdict) -> None:
        """Keep a part's verdict."""
        with self._lock:
            verdicts = self.read() | {title: verdict}
            RECORD.parent.mkdir(exist_ok=True)
            temporary = RECORD.with_suffix(".tmp")
            temporary.write_bytes(msgspec.json.format(msgspec.json.encode(verdicts), indent=1))
            temporary.replace(RECORD)


def commit() -> str:
    """Return the commit that is checked out, with a hash of what differs from it."""

    def git(*arguments: str) -> bytes:
        return subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, check=True).stdout

    changes = git("diff", "HEAD") + git("ls-files", "--others", "--exclude-standard")
    return git("rev-parse", "HEAD").decode()[:12] + (f"+{hashlib.sha256(changes).hexdigest()[:8]}" if changes else "")


def violations(output: str) -> int:
    """Return how many violations or failures a part's output counts."""
    return sum(int(number) for number in re.findall(r"(?<![\w.])(\d+) (?:violations?|failed|errors?)\b", output))


class Runner:
    """Runs parts, and ends those under way when the call is interrupted."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._processes: list[subprocess.Popen[str]] = []
        self._stopped = False

    def run(self, part: Part) -> Verdict | None:
        """Run a part, print its figures, keep its verdict; None if the call is interrupted."""
        began = time.monotonic()
        if self._stopped:
            return None
        process = subprocess.Popen(
            (sys.executable, *part.arguments),
            cwd=ROOT,
            env=os.environ | {"CI": "true"} | part.variables,  # a missing engine proves nothing
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
        self._processes.append(process)
        output = process.communicate()[0]
        if self._stopped:
            return None
        passed, counted = process.returncode == 0, violations(output)
        verdict = Verdict(passed, 0 if passed else max(counted, 1), time.monotonic() - began, self._record.commit)
        self._record.add(part.title, verdict)
        suffix = "" if passed else "  FAILED"
        print(f"== {part.title}: {verdict.seconds:.0f} s{suffix}\n{output.rstrip()}\n", flush=True)
        return verdict

    def stop(self) -> None:
        """End the parts under way."""
        self._stopped = True
        for process in self._processes:
            if process.poll() is None:
                end(process)


def _summary(parts: Sequence[Part], verdicts: dict[str, Verdict]) -> Iterator[str]:
    done = [verdicts[part.title] for part in parts if part.title in verdicts]
    if left := len(parts) - len(done):
        yield f"{left} parts are left: make proof continues with them"
    yield (
        f"{len(done)} of {len(parts)} parts, {sum(one.violations for one in done)} violations, "
        f"{sum(one.seconds for one in done) / 3600:.2f} hours"
    )


def main(words: Sequence[str]) -> int:
    """Run what has not passed, of the parts with one of ``words`` in their title; return 1 unless all have passed."""
    record = Record(commit())
    every = [*parts()]
    chosen = [part for part in every if not words or any(word.lower() in part.title.lower() for word in words)]
    if not chosen:
        print(f"no part has {' or '.join(words)} in its title; there are:", *(part.title for part in every), sep="\n  ")
        return 2
    passed = {title for title, verdict in record.read().items() if verdict.passed}
    if skipped := [part.title for part in chosen if part.title in passed]:
        print(f"passed before on {record.commit}: {len(skipped)} of {len(chosen)} parts", flush=True)
    runner = Runner(record)
    interruptible()
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        try:
            for done in as_completed([pool.submit(runner.run, part) for part in chosen if part.title not in passed]):
                done.result()
        except KeyboardInterrupt:
            runner.stop()
            pool.shutdown(cancel_futures=True)
    verdicts = record.read()
    print(*_summary(chosen, verdicts), sep="\n", flush=True)
    return int(not all(part.title in verdicts and verdicts[part.title].passed for part in chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
