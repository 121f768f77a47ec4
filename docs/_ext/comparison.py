"""The pages of ``docs/compare``: the same rows for every alternative. ``generated.py`` writes them.

Each cell of an alternative names its sources; ``READ`` says when they were read.
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
    "new code while instances run",
    "runs at least once",
    "history limit",
    "payload limit",
    "longest duration",
    "local run",
    "offline tests",
    "user interface",
    "search",
    "USD per million instances of five steps",
    "price while idle",
    "lock-in",
)

OURS = (
    "none",
    "[timers and signals](../build/waits.md), up to a year",
    "by API, callback URL or event; no queries or updates",
    "no; as [child sagas](../build/children.md), or in one `async` step",
    "up to 10,000 per step, undone with their parent",
    "built in: in reverse order, and retried",
    "a saga keeps the steps it started with; `sagas check` finds what does not fit",
    "steps and undos, always with the same key ([guarantees](../concepts/guarantees.md))",
    "none",
    "request 256 KB, result 4 MB",
    "none",
    "yes, without Docker",
    "yes, and time is skipped",
    "[a console](../operations/console.md) on your machine; none hosted",
    "by type, status, time and [search keys](../operations/search.md); no query language, no full text",
    f"{FIVE:.2f}, chained 14.20 ([costs](../concepts/cost-model.md))",
    "alarms and pollers: 4.45 a month for [fifteen steps](../operations/deploying.md#what-it-costs-while-nothing-happens)",
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
        "your steps are mostly calls of AWS services, you want to see the workflow in AWS's own console, or you map over thousands of items",
        "undo is the point, you would rather write Python than a state language, or the price per transition matters",
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
            ("by hand, with Catch transitions to your own states; stopping an execution undoes nothing", "c"),
            ("versions and aliases; an execution keeps its definition", "e"),
            ("Standard: states exactly once, effects of retried tasks at least once; Express: at least once", "c"),
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
        "the workflow reads best as one function with waits, callbacks and branches, and undo is a detail",
        "you need undo, an attention list and redrives, steps with permissions of their own, or state in tables that people can read",
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
            ("no: `try` and `except` in your code; stopping an execution undoes nothing (a saga helper is an open request, #239)", "e"),
            ("an execution keeps its version of the function; replay needs deterministic code", "a"),
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
        "you run a cluster or pay for its cloud, and want several languages, search attributes and a product with years of use at large companies",
        "you want no server, no vendor except AWS, and state in two tables",
        {
            "a": "https://docs.temporal.io/workflow-execution/limits",
            "b": "https://docs.temporal.io/troubleshooting/blob-size-limit-error",
            "c": "https://docs.temporal.io/develop/python",
            "d": "https://docs.temporal.io/cloud/pricing",
            "e": "https://docs.temporal.io/visibility",
            "f": "https://docs.temporal.io/production-deployment/worker-deployments/worker-versioning",
        },
        (
            ("a cluster with a database, or Temporal Cloud; your own workers in both cases", "c"), ("yes, timers without a limit of their own", "c"),
            ("yes, and updates and queries", "c"), ("yes", "c"), ("yes", "c"),
            ("by hand, with a list of compensations in your code", "c"),
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
            ("no: cancel and failure undo nothing; a helper is an open request", "a"),
            ("recovery goes to executors of the same version; forks from a step", "c"), ("steps; transactions on the same database exactly once", "c"),
            ("the database", "c"), ("the database", "c"), ("none", "b"),
            ("yes, with PostgreSQL or SQLite", "a"), ("yes, with a database", "a"),
            ("its console (Conductor), hosted", "d"), ("by workflow, status, time; SQL on its tables", "e"),
            ("your database and processes", "c"), ("your database and processes", "c"), ("decorators, and PostgreSQL", "a"),
        ),
    ),
    "python-cqrs": Alternative(
        "python-cqrs",
        "you want CQRS with mediators, outbox and events, with sagas, in a service of your own",
        "crashes and concurrent recoveries must not run steps twice, and no process should run all the time",
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
        "you have one queue with one step, and will never need an undo",
        "you have more than one step, or people will ask what happened to order 17",
        {
            "a": "our benchmark's rival (`benchmarks/README.md`): Powertools' idempotency, a lock table, a state table, an audit table",
            "b": "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html",
            "c": "https://docs.aws.amazon.com/powertools/python/latest/utilities/idempotency/",
        },
        (
            ("none", "a"), ("a delay of 15 minutes; longer by Scheduler or a table", "b"), ("yours to write", "a"), ("yours to write", "a"),
            ("yours to write", "a"), ("yours to write, and to test for every crash", "a"), ("yours to write", "a"),
            ("everything; a step is lost if its worker dies after the claim and the claimed step is then skipped", "ac"),
            ("none", "a"), ("1 MiB a message, 400 KB an item", "b"), ("14 days in a queue", "b"),
            ("with an emulator", "a"), ("with mocks", "a"), ("the consoles of SQS and DynamoDB", "a"), ("what you index", "a"),
            ("26.90", "a"), ("pollers, and alarms if you write them", "a"), ("your own code", "a"),
        ),
    ),
}  # fmt: skip


_PAGES = ("step-functions", "lambda-durable-functions", "temporal")
"""The alternatives with a page of their own. The others share a table on the first page."""
_MADE = f"Sources were read on {READ}. *Generated by `make docs`: every page has the same rows.*\n"


def _sources(alternative: Alternative) -> list[str]:
    pairs = alternative.sources.items()
    return [f"- {letter}: " + (f"<{source}>" if source.startswith("https") else source) for letter, source in pairs]


def page(alternative: Alternative) -> str:
    """One page."""
    lines = [
        f"# {alternative.title}\n",
        f"**Choose {alternative.title} when** {alternative.choose_it}.\n",
        f"**Choose lambda-sagas when** {alternative.choose_us}.\n",
        _MADE,
        f"| | lambda-sagas | {alternative.title} | source |",
        "|---|---|---|---|",
    ]
    for row, ours, (text, letters) in zip(ROWS, OURS, alternative.cells, strict=True):
        lines.append(f"| {row} | {ours} | {text} | {', '.join(letters)} |")
    return "\n".join([*lines, "\n## Sources\n", *_sources(alternative)]) + "\n"


def index() -> str:
    """The first page: when to choose which, and the alternatives that have no page."""
    lines = [
        "# Compare\n",
        "Choose lambda-sagas for business transactions on AWS whose steps must be undone when one fails. It is not for you if you need a query language over",
        "workflows, steps in several languages, or steps that take less than a tenth of a second.\n",
        "| alternative | choose it when | choose lambda-sagas when |",
        "|---|---|---|",
    ]
    for name, one in ALTERNATIVES.items():
        title = f"[{one.title}]({name}.md)" if name in _PAGES else one.title
        lines.append(f"| {title} | {one.choose_it} | {one.choose_us} |")
    others = [one for name, one in ALTERNATIVES.items() if name not in _PAGES]
    lines += [
        "\nTo move an existing workflow: [Move here](../migrate/index.md).\n",
        "## Libraries, and by hand\n",
        f"{_MADE}",
        f"| | lambda-sagas | {' | '.join(one.title for one in others)} |",
        "|---|---|" + "---|" * len(others),
    ]
    for place, row in enumerate(ROWS):
        cells = [f"{text} ({', '.join(letters)})" for text, letters in (one.cells[place] for one in others)]
        lines.append(f"| {row} | {OURS[place]} | {' | '.join(cells)} |")
    for one in others:
        lines += [f"\nSources for {one.title}:\n", *_sources(one)]
    toctree = ["\n```{toctree}", ":hidden:", "", *_PAGES, "```"]
    return "\n".join([*lines, *toctree]) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "compare/index.md": index,
    **{f"compare/{name}.md": partial(page, ALTERNATIVES[name]) for name in _PAGES},
}
"""Each page, and what writes it."""
