"""Files that are written from the code: ``python docs/_ext/generated.py`` writes them.

Sphinx writes the pages before it reads them, so git has none of them. Git has the files that others read without a build
of the site; a test compares each with what is written here.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, cast, get_overloads

import architecture
import comparison
import costs
import typer.main
import ways
from http_reference import StandIn, http_page
from states_page import page as states_page
from states_page import svg as states_drawing

from sagas import AutoDisable, CircuitBreaker, OrphanSweep, Retry, children, errors, sleep, step, wait_for
from sagas.authoring.definition.definition import OPTION_NAMES, SagaOptions
from sagas.authoring.policies import DEFAULT_RETRY
from sagas.authoring.saga import Saga
from sagas.authoring.steps import Undoable
from sagas.cli.main import MODULES, app, commands_in
from sagas.core import events
from sagas.engine.attempt.doubt import CLIENTS
from sagas.handlers.http import answers
from sagas.handlers.telemetry import METRICS

DOCS = Path(__file__).resolve().parents[1]
NOTE = "*Generated from the code by `make docs`.*\n"

# fmt: off
CODES = {
    "malformed_body": ("The body is not JSON, or has an object with the same key twice.", "Fixed by the caller", "no: it fails the same way"),
    "not_found": ("The saga type, saga, step or path does not exist.", "Fixed by the caller", "no"),
    "conflict": ("The saga's state does not allow the call; the message names the state.", "Fixed by the caller, after reading the saga", "no"),
    "state_changed": ("The saga has a later audit entry than the call's `seq`, or none with that number. `saga` is the saga as it is now.", "Fixed by the caller, after reading the saga", "no; with the same `seq` only if the answer was lost"),
    "too_large": ("The body is larger than 256 KB.", "Fixed by the caller: put the data into S3", "no"),
    "idempotency_key_reused": ("The key was used with another request.", "Fixed by the caller: another key, or the first request", "no"),
    "invalid_request": ("The input is not valid. `details` lists paths and messages.", "Fixed by the caller", "no"),
    "paused": ("An operator or `auto_disable` has paused starts of this type. The message has the operator's reason.", "Fixed by an operator: `sagas resume`", "yes, after `Retry-After`"),
    "unavailable": ("A table or queue is out of reach, or throttles.", "Usually transient; involve an operator if it persists", "yes, after `Retry-After`; a start with the same key"),
    "internal": ("An unexpected error. The service's log has it.", "Fixed by an operator", "yes, with the same key"),
    "bad_request": ("The gateway refused the call: it is not valid HTTP.", "Fixed by the caller", "no"),
    "forbidden": ("The call is not signed or not allowed, or the path or method does not exist.", "Fixed by the caller, or whoever grants [rights](../concepts/security-model.md#rights-by-saga-type)", "no"),
    "throttled": ("More calls than the API (`throttling`) or the account's quota allows.", "Usually transient; involve an operator if it persists", "yes, after a moment; a start with the same key"),
    "timeout": ("There was no answer within 29 seconds. The call may have taken effect.", "Involve an operator if it persists", "reads, and starts with the same key; otherwise check first"),
    "refused": ("The gateway or the router refused the request.", "Fixed by the caller", "no"),
}
# fmt: on
"""The meaning of each code of the API, who fixes it, and whether the call can be repeated."""


def cell(text: object) -> str:
    """A text as it can stand in a table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def paragraph(text: str | None) -> str:
    """The first paragraph of a docstring, as Markdown."""
    return cell(inspect.cleandoc(text or "").split("\n\n")[0].replace("``", "`"))


def arguments_of(docstring: str | None, heading: str) -> dict[str, str]:
    """What a docstring says of each argument."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    found: dict[str, str] = {}
    name, inside = "", False
    for line in lines:
        if line.strip() == f"{heading}:":
            inside = True
        elif inside and line and not line.startswith(" "):
            break
        elif inside and line.startswith("    ") and not line.startswith("     ") and ":" in line:
            name, _, text = line.strip().partition(": ")
            found[name] = text
        elif inside and name:
            found[name] = f"{found[name]} {line.strip()}".rstrip()
    return {name: text.replace("``", "`") for name, text in found.items()}


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Each command with its whole name."""
    for name, one in sorted(getattr(command, "commands", {}).items()):
        if hasattr(one, "commands"):
            yield from commands(one, f"{path} {name}")
        elif not one.hidden:
            yield f"{path} {name}", one


COMMON = {"stack", "region", "profile", "json"}


def commands_page() -> str:
    """Every command with its arguments and options: the part of ``cli.md`` that the code knows."""
    parts: list[str] = []
    for name, command in commands(typer.main.get_command(app), "sagas"):
        rows = [f"### {name}\n\n{cell(command.help)}\n"]
        listed = [one for one in command.params if not getattr(one, "hidden", False)]
        common = {option.lstrip("-") for one in listed for option in one.opts} >= COMMON
        for parameter in listed:
            names = ", ".join(f"`{one}`" for one in [*parameter.opts, *parameter.secondary_opts])
            if common and parameter.opts[0].lstrip("-") in COMMON:
                continue
            if parameter.param_type_name == "argument":
                names = f"`{parameter.metavar or parameter.name.upper()}`"
            helps = cell(getattr(parameter, "help", "") or "")
            default = parameter.default
            shown = (
                f" (default `{default}`)"
                if isinstance(default, str | int | float) and default not in ("", False)
                else ""
            )
            rows.append(f"- {names}: {helps}{shown}")
        if common:
            rows.append("- [Common options](#common-options)")
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def command_summaries() -> str:
    """The module and the help of each command: what ``sagas --help`` needs without importing the modules."""
    summaries = {
        name: {"module": module, "help": (command.help or "").split("\n\n")[0], "hidden": command.hidden}
        for module in MODULES
        for name, command in commands_in(module).items()
    }
    return json.dumps(summaries, indent=1) + "\n"


def errors_page() -> str:
    """Every error class, and every code of the API."""
    lines = [
        f"# Errors\n\n{NOTE}\nThe error codes of the API, and the exceptions of the library. Each has an anchor.\n\n## Codes of the API\n"
    ]
    codes: Any = vars(answers)["_CODES"]
    statuses = {code: status for _, status, code in codes} | {
        "bad_request": 400, "forbidden": 403, "throttled": 429, "internal": 500, "timeout": 504, "refused": "4xx"
    }  # fmt: skip
    for code, (meaning, who, again) in CODES.items():
        lines.append(f"### {code}\n\nStatus {statuses[code]}. {meaning} {who}. Safe to repeat: {again}.\n")
    lines.append("## Classes\n\n```text")
    tree = (errors.__doc__ or "").split("\n\n")[1]
    lines.append(inspect.cleandoc(tree) + "\n```\n")
    for name, one in vars(errors).items():
        if isinstance(one, type) and issubclass(one, Exception):
            lines.append(f"### {name}\n\n{paragraph(one.__doc__)}\n")
    return "\n".join(lines)


def shown(value: object) -> str:
    """A default as one reads it."""
    if value is dataclasses.MISSING:
        return "required"
    if isinstance(value, Enum):
        return f"`{type(value).__name__}.{value.name}`"
    if value == {}:
        return "none"
    if isinstance(value, timedelta):
        return f"`{value}` (h:mm:ss)"
    if isinstance(value, tuple):
        return ", ".join(f"`{one.__name__}`" for one in cast("tuple[type, ...]", value)) or "none"
    return f"`{value!r}`"


def given_to(made: Any) -> dict[str, object]:
    """What a decorator is given besides the method, with its default."""
    if made is children:  # its options are read from what it makes
        decorator: Any = children(StandIn)
        options: Any = decorator(lambda self: []).options  # pyright: ignore[reportUnknownLambdaType]
        return {
            "types": dataclasses.MISSING,
            "concurrency": options.wait.concurrency,
            "tolerate": options.wait.tolerate,
            "on_failed": options.wait.on_timeout,
            "undo": "reverse" if options.wait.in_reverse else "parallel",
            "retry": options.retry,
            "step_timeout": options.timeout,
            "name": options.name,
            "retired": options.retired,
            "in_doubt_on": options.in_doubt_on,
            "when": options.when,
        }
    kinds = [*(get_overloads(made) or [made])]
    return {
        name: dataclasses.MISSING if one.default is one.empty else one.default
        for kind in kinds
        for name, one in inspect.signature(kind).parameters.items()
    }


def step_keywords() -> str:
    """What the decorators of a saga's methods take."""
    compensate: Any = vars(Undoable)["compensate"]
    calls: dict[str, Any] = {"step": step, "compensate": compensate}
    calls |= {"wait_for": wait_for, "sleep": sleep, "children": children}
    lines = ["## Steps\n"]
    for call, made in calls.items():
        said = arguments_of(made.__doc__, "Args")
        summary = paragraph(made.__doc__).partition(": see")[0].rstrip(".")
        lines += [f"### {call}\n\n{summary}.\n", "| keyword | default | |", "|---|---|---|"]
        for name, default in given_to(made).items():
            if name in said and name != "fn":
                one = "one of the two" if made is sleep and default is dataclasses.MISSING else shown(default)
                lines.append(f"| `{name}` | {one} | {cell(said[name])} |")
        lines.append("")
    return "\n".join(lines)


def doubts() -> str:
    """The exceptions that leave the outcome of a step in doubt, by client."""
    lines = [
        "## In doubt",
        "",
        "These exceptions, and subclasses of them, decide whether the outcome of a step is [in doubt](../build/steps.md#in-doubt).",
        "A class that can mean both, such as `requests.ConnectionError`, is decided by its cause. An error that is raised while the",
        "client connects, such as the timeout of a handshake, leaves no doubt.",
        "",
        "| package | in doubt: the answer is lost | not in doubt: it did not connect |",
        "|---|---|---|",
    ]
    for package, client in CLIENTS.items():
        lost = ", ".join(f"`{name}`" for name in client.lost)
        unsent = ", ".join(f"`{name}`" for name in client.unsent)
        lines.append(f"| `{package}` | {lost} | {unsent} |")
    return "\n".join([*lines, ""])


def keywords_page() -> str:
    """Class keywords and policies, with their defaults."""
    lines = [
        f'# Class keywords and policies\n\n{NOTE}\n## Class keywords\n\n`class Trip(Saga[Order], name="trip")`:\n',
        "| keyword | default | |",
        "|---|---|---|",
    ]
    said = arguments_of(Saga.__doc__, "Class keywords")
    usual = SagaOptions("Trip", "trip")
    for keyword in OPTION_NAMES:
        default = "the class's name" if keyword == "name" else shown(getattr(usual, keyword))
        lines.append(f"| `{keyword}` | {default} | {cell(said[keyword])} |")
    lines.append(f"\n{step_keywords()}")
    lines.append(doubts())
    lines.append(
        "## Retry\n\nCreate a policy with `Retry.exponential`, `Retry.linear` or `Retry.constant`. The default is "
        f'`Retry.exponential(max_retries={DEFAULT_RETRY.max_retries}, base_delay={DEFAULT_RETRY.base_delay}, jitter="{DEFAULT_RETRY.jitter}")`.\n'
    )
    makers: list[Callable[..., Retry]] = [Retry.exponential, Retry.linear, Retry.constant]
    for maker in makers:
        lines.append(f"### Retry.{maker.__name__}\n\n{paragraph(maker.__doc__)}\n\n| parameter | default |\n|---|---|")
        lines += [f"| `{name}` | {shown(one.default)} |" for name, one in inspect.signature(maker).parameters.items()]
        lines.append("")
    for policy in (CircuitBreaker, AutoDisable, OrphanSweep):
        said = arguments_of(policy.__doc__, "Args")
        lines += [
            f"## {policy.__name__}\n\n{paragraph(policy.__doc__)}\n",
            "| parameter | default | |",
            "|---|---|---|",
        ]
        lines += [
            f"| `{one.name}` | {shown(one.default)} | {cell(said[one.name])} |" for one in dataclasses.fields(policy)
        ]
        lines.append("")
    return "\n".join(lines)


def actions_page() -> str:
    """What the audit trail calls what happened."""
    lines = [
        f"# Audit actions\n\n{NOTE}\nEach committed change of a saga is one entry, with one of these as its `action`.\n",
        "| action | meaning |",
        "|---|---|",
    ]
    told = {name: paragraph(fact.__doc__) for name, fact in events.FACTS.items()}
    told["SagaStarted"] = "The first entry: the saga was accepted. The entry has its request."
    told["SagaPurged"] = "The last entry of a purged saga: who purged it, when and why. Its stored data is deleted."
    lines += [f"| `{name}` | {means} |" for name, means in sorted(told.items())]
    return "\n".join(lines) + "\n"


def metrics_page() -> str:
    """What a service's functions measure."""
    dimensions = {
        "saga type": "`service`, `saga`",
        "service": "`service`",
        "both": "`service`, `saga`; and `service` alone",
    }
    lines = [
        f"# Metrics\n\n{NOTE}",
        "The functions write metrics as log lines in the embedded metric format; CloudWatch's namespace is `Sagas`. `service` is",
        "the option `service_name` of `SagaService`, and `saga` is the saga type. Use the sum of counts, and the maximum or a",
        "percentile of times and ages. A metric is written only when there is something to report, so its absence is normal: see",
        "[what they cost](../operations/deploying.md#what-it-costs-while-nothing-happens). [Alarms](alarms.md) watch some of",
        "them.\n",
        "| metric | unit | dimensions | written when |",
        "|---|---|---|---|",
    ]
    for name, metric in METRICS.items():
        lines.append(f"| `{name}` | {metric.unit.value} | {dimensions[metric.of]} | {cell(metric.when)} |")
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "contributing/benchmarks.md": costs.benchmarks_page,
    "concepts/cost-model.md": costs.page,
    "concepts/states.md": states_page,
    "reference/audit-actions.md": actions_page,
    "reference/commands.txt": commands_page,
    "reference/errors.md": errors_page,
    "reference/http-api.md": http_page,
    "reference/keywords-and-policies.md": keywords_page,
    "reference/metrics.md": metrics_page,
    **comparison.PAGES,
}
"""Each page, or part of one, that only the site has, and what writes it. ``.gitignore`` names them."""

IN_GIT: dict[str, Callable[[], str]] = {
    "images/architecture.svg": architecture.svg,
    "images/dead-letter.svg": partial(ways.svg, "dead-letter"),
    "images/release.svg": partial(ways.svg, "release"),
    "images/states.svg": states_drawing,
    "../sagas/cli/commands.json": command_summaries,
}
"""Each file that git has: drawings, which the README shows, and what ``sagas --help`` reads."""


def write(files: dict[str, Callable[[], str]]) -> None:
    """Write the files that differ from what the code says. Sphinx reads an unchanged page only once."""
    for name, made in files.items():
        path, text = DOCS / name, made()
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(exist_ok=True)  # git keeps no folder whose pages are all written here
            path.write_text(text)


if __name__ == "__main__":
    write(PAGES | IN_GIT)
