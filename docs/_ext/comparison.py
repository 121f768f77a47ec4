"""The pages of ``docs/compare``: one table, the same rows on every page. ``generated.py`` writes them.

Each cell of an alternative names its source; ``READ`` says when it was read. A cell that has none says what we know
from trying it, or that it was not found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from costs import FIVE

READ = "22 November 2026"

ROWS = (
    "server to run",
    "waits",
    "signals",
    "parallel steps",
    "child sagas",
    "undo",
    "versions of code in flight",
    "what is at least once",
    "limit of the history",
    "limit of a payload",
    "longest duration",
    "run on a laptop",
    "test without the cloud",
    "user interface",
    "search",
    "price of a million with five steps, USD",
    "price while idle",
    "what ties you to it",
)

OURS = (
    "none",
    "timers and signals of up to a year, holding nothing; [waits](../build/waits.md)",
    "yes, by API, callback URL or event; no queries or updates answered by the saga",
    "[branches as child sagas](../build/children.md), each with retries and undos of its own; within one step by `async def`; no parallel steps in one saga",
    "yes: `@children`, up to 10,000 a step; all of it is undone with the parent; [how](../build/children.md)",
    "first class: strictly backward, retried, listed when it fails for good",
    "sagas keep the steps they were started with; `sagas check` compares types",
    "steps and undos, always under the same key; [guarantees](../concepts/guarantees.md)",
    "none of its own",
    "request 256 KB, result 4 MB; S3 behind it from 16 KB on",
    "none but the class keyword `timeout`",
    "yes: an emulator from PyPI, no Docker",
    "yes: `sagas.testing.run`, time is skipped",
    "[a console](../operations/console.md) on your machine, with your credentials, and a command line; no hosted one",
    "by type, status, time, idempotency key, and up to four values of the request ([`find_by`](../operations/search.md)); no query language, no full text",
    f"{FIVE:.2f}, chained 14.20 ([measured](../concepts/cost-model.md), by price list)",
    "pollers, alarms, dashboard: 12.70 a month for [fifteen steps of five types](../operations/deploying.md#what-it-costs-while-nothing-happens); no, not nothing",
    "AWS (Lambda, SQS, DynamoDB); steps are plain methods",
)


@dataclass(frozen=True)
class Alternative:
    """One of them.

    Args:
        title: its name.
        choose_it: when it is the better choice.
        choose_us: when this library is.
        sources: addresses by letter.
        cells: one a row: text and the letters of its sources.
    """

    title: str
    choose_it: str
    choose_us: str
    sources: dict[str, str]
    cells: tuple[tuple[str, str], ...]


ALTERNATIVES = {
    "step-functions": Alternative(
        "AWS Step Functions",
        "your steps are mostly calls of AWS services, you want a picture of the workflow in AWS's own console, or map over thousands of items",
        "undo is the point and you would rather write Python than a state language, or price a transition matters",
        {
            "a": "https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html",
            "b": "https://aws.amazon.com/step-functions/pricing/",
            "c": "https://docs.aws.amazon.com/step-functions/latest/dg/concepts-states.html",
            "d": "https://docs.aws.amazon.com/step-functions/latest/dg/testing.html",
            "e": "https://docs.aws.amazon.com/step-functions/latest/dg/concepts-state-machine-version.html",
        },
        (
            ("none", "a"), ("Wait state, up to the execution's year", "ac"), ("callback with a task token", "c"),
            ("yes: Parallel and Map states", "c"), ("yes: start another execution and wait", "c"),
            ("by hand: Catch transitions to states of yours; stopping an execution undoes nothing", "c"),
            ("versions and aliases; an execution keeps the definition it began with", "e"),
            ("Standard: states exactly once, the tasks' effects at least once when retried; Express at least once", "c"),
            ("25,000 events an execution", "a"), ("256 KiB in or out of a state", "a"), ("one year (Express five minutes)", "a"),
            ("AWS's own emulator is no longer developed; TestState calls the cloud", "d"),
            ("single states by TestState, with mocks; not offline", "d"),
            ("yes, in AWS's console", "c"), ("by status and name; no attributes", "a"),
            ("126.52 (25 a million transitions, plus Lambda); Express about 3", "b"), ("0", "b"),
            ("the state language, and AWS", "c"),
        ),
    ),
    "lambda-durable-functions": Alternative(
        "Lambda durable functions",
        "the whole workflow reads best as one function with waits, callbacks and branches, and undo is a detail",
        "undo, an attention list and redrives are what you need, steps need permissions of their own, or people must read the state in tables",
        {
            "a": "https://docs.aws.amazon.com/lambda/latest/dg/durable-basic-concepts.html",
            "b": "https://docs.aws.amazon.com/lambda/latest/dg/durable-configuration.html",
            "c": "https://docs.rs/durable-execution-sdk/0.1.0-alpha2/durable_execution_sdk/docs/limits",
            "d": "https://aws.amazon.com/lambda/pricing/",
            "e": "https://github.com/aws/aws-durable-execution-sdk-python",
        },
        (
            ("none", "a"), ("yes, up to a year, without compute", "a"), ("yes: callbacks", "a"),
            ("yes: parallel, map and child contexts", "a"), ("yes: child contexts, invoking others", "a"),
            ("no: try and except in your code; stopping an execution undoes nothing (a saga helper is an open request, #239)", "e"),
            ("replay needs deterministic code; executions keep the version of the function they began with", "a"),
            ("steps, unless at-most-once is chosen; code between steps runs again on each replay", "a"),
            ("25,000 operations", "c"), ("256 KB a checkpoint, 6 MB the response", "c"), ("366 days", "b"),
            ("its testing library runs it in process", "e"), ("yes: a runner with a clock that skips", "e"),
            ("yes, in AWS's console", "a"), ("by function, status and time", "a"),
            ("50.22 (8 a million operations, plus data and Lambda)", "d"), ("0; history kept 1 to 90 days", "bd"),
            ("the SDK's context in your code, and AWS", "a"),
        ),
    ),
    "temporal": Alternative(
        "Temporal",
        "you run a cluster or pay for its cloud, want several languages, search attributes, and years of practice at large users",
        "you want no server and no vendor besides AWS, and state that you can read in two tables",
        {
            "a": "https://docs.temporal.io/workflow-execution/limits",
            "b": "https://docs.temporal.io/troubleshooting/blob-size-limit-error",
            "c": "https://docs.temporal.io/develop/python",
            "d": "https://docs.temporal.io/cloud/pricing",
            "e": "https://docs.temporal.io/visibility",
            "f": "https://docs.temporal.io/production-deployment/worker-deployments/worker-versioning",
        },
        (
            ("a cluster with a database, or Temporal Cloud; workers of your own in either case", "c"), ("yes, timers without a limit of their own", "c"),
            ("yes, and updates and queries", "c"), ("yes", "c"), ("yes", "c"),
            ("by hand: a list of compensations in your code", "c"),
            ("patching, or worker versioning; replay needs deterministic code", "f"), ("activities", "c"),
            ("51,200 events or 50 MB; then continue-as-new", "a"), ("2 MB", "b"), ("none; the history is the limit", "a"),
            ("yes: a development server", "c"), ("yes: an environment that skips time", "c"),
            ("yes, a web interface", "e"), ("yes: search attributes and a query language", "e"),
            ("by actions in its cloud, from 50 a million; self-hosted: your cluster", "d"),
            ("the cluster, or the plan's minimum; and the workers", "d"), ("the SDK and its determinism; the server is open source", "c"),
        ),
    ),
    "dbos": Alternative(
        "DBOS Transact",
        "you have PostgreSQL and a service that runs all the time: it is a library in that process",
        "you are serverless, or undo is the point",
        {
            "a": "https://github.com/DBOS-project/dbos-transact-py",
            "b": "https://docs.dbos.dev/python/tutorials/workflow-tutorial",
            "c": "https://docs.dbos.dev/architecture",
            "d": "https://docs.dbos.dev/production/self-hosting/conductor",
            "e": "https://docs.dbos.dev/python/tutorials/workflow-management",
        },
        (
            ("PostgreSQL, and your own process", "a"), ("yes: durable sleep", "b"), ("yes: send and recv, events", "b"),
            ("yes: queues, and started steps", "b"), ("yes", "b"),
            ("no: cancelling or failing undoes nothing; a helper is an open request", "a"),
            ("recovery goes to executors of the same version; forks from a step", "c"), ("steps; transactions on the same database exactly once", "c"),
            ("the database", "c"), ("the database", "c"), ("none", "b"),
            ("yes, with PostgreSQL or SQLite", "a"), ("yes, with a database", "a"),
            ("its console (Conductor), hosted", "d"), ("by workflow, status, time; SQL on its tables", "e"),
            ("your database and processes", "c"), ("your database and processes", "c"), ("decorators, and PostgreSQL", "a"),
        ),
    ),
    "python-cqrs": Alternative(
        "python-cqrs",
        "you want CQRS with mediators, outbox and events, and sagas beside it, in a service of your own",
        "crashes and concurrent recoveries must not run steps twice, and there is to be no process that runs all the time",
        {
            "a": "https://pypi.org/project/python-cqrs/",
            "b": "tried with version 5.3.0: two concurrent recoveries ran every step twice, and failed sagas were picked again every minute",
        },
        (
            ("your process, a database, usually a broker", "a"), ("no", "a"), ("by events of its bus", "a"), ("no: steps in order", "a"),
            ("no", "a"), ("yes: each step's `compensate`, in reverse", "a"), ("not found", "a"),
            ("steps, and in a recovery all of them", "b"), ("the database", "a"), ("the database", "a"), ("none", "a"),
            ("yes", "a"), ("yes, with a memory storage", "a"), ("no", "a"), ("SQL on its tables", "a"),
            ("your database and processes", "a"), ("your database and processes", "a"), ("its containers and mediators", "a"),
        ),
    ),
    "by-hand": Alternative(
        "SQS and a table, by hand",
        "it is one queue with one step and an undo nobody will ever need",
        "there is more than one step, or anybody will ask what happened to order 17",
        {
            "a": "our benchmark's rival (`benchmarks/README.md`): Powertools' idempotency, a lock table, a state table, an audit table",
            "b": "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html",
            "c": "https://docs.aws.amazon.com/powertools/python/latest/utilities/idempotency/",
        },
        (
            ("none", "a"), ("a delay of 15 minutes; longer by Scheduler or a table", "b"), ("yours to write", "a"), ("yours to write", "a"),
            ("yours to write", "a"), ("yours to write, and to test in every crash", "a"), ("yours to write", "a"),
            ("everything; a worker that dies after the claim loses the step if it is claimed, then skipped", "ac"),
            ("none", "a"), ("1 MiB a message, 400 KB an item", "b"), ("14 days in a queue", "b"),
            ("with an emulator", "a"), ("with mocks", "a"), ("the consoles of SQS and DynamoDB", "a"), ("what you index", "a"),
            ("26.90", "a"), ("pollers, and alarms if you write them", "a"), ("your own code", "a"),
        ),
    ),
}  # fmt: skip


def page(alternative: Alternative) -> str:
    """One page."""
    lines = [
        f"# {alternative.title}\n",
        f"**Choose {alternative.title} when** {alternative.choose_it}.\n",
        f"**Choose lambda-sagas when** {alternative.choose_us}.\n",
        f"Read on {READ}. *Generated from the same rows for all pages by `make docs`.*\n",
        f"| | lambda-sagas | {alternative.title} | source, {READ} |",
        "|---|---|---|---|",
    ]
    for row, ours, (text, letters) in zip(ROWS, OURS, alternative.cells, strict=True):
        lines.append(f"| {row} | {ours} | {text} | {', '.join(letters)} |")
    lines.append("\n## Sources\n")
    for letter, source in alternative.sources.items():
        lines.append(f"- {letter}: " + (f"<{source}>" if source.startswith("https") else source))
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    f"compare/{name}.md": partial(page, alternative) for name, alternative in ALTERNATIVES.items()
}
"""Each page, and what writes it."""
