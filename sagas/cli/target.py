"""The common part of all commands: the options that name the service, and the report of errors."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer

from sagas.cli.output import fail
from sagas.errors import Ambiguous, NotFound, SagaError, Unavailable, full_text

if TYPE_CHECKING:
    from sagas.client import SagaClient

P = ParamSpec("P")

_PANEL = "Service"
_Stack = Annotated[
    str | None,
    typer.Option(
        envvar="SAGAS_STACK",
        rich_help_panel=_PANEL,
        help="CloudFormation stack of the service; the local stack of this directory by default",
    ),
]
_Region = Annotated[str | None, typer.Option(rich_help_panel=_PANEL, help="AWS region of the stack")]
_Profile = Annotated[str | None, typer.Option(rich_help_panel=_PANEL, help="AWS profile")]
_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else")]

_COMMON = {"stack": (_Stack, None), "region": (_Region, None), "profile": (_Profile, None), "as_json": (_AsJson, False)}


@dataclass(frozen=True)
class Target:
    """The service that a command is for: a CloudFormation stack, or ``None`` for this directory's local stack."""

    stack: str | None
    region: str | None
    profile: str | None
    as_json: bool

    def client(self) -> SagaClient:
        return self._client

    @functools.cached_property
    def _client(self) -> SagaClient:
        from sagas.client import SagaClient

        if self.stack is not None:
            return SagaClient.from_stack(self.stack, self.region, self.profile)
        if self.region is not None or self.profile is not None:
            raise typer.BadParameter("goes with --stack", param_hint="--region/--profile")
        return SagaClient.local()

    def ahead(self) -> float:
        """Return the seconds by which the service's clock is ahead, because time was skipped on the local stack."""
        from sagas.engine.clock import skipped

        return skipped(str(Path.cwd() / ".sagas" / "clock")) if self.stack is None else 0.0

    def now(self) -> float:
        from sagas.engine.clock import SystemClock

        return SystemClock().now() + self.ahead()


def _suggestion(target: Target, message: str) -> str:
    """For an error about an unknown saga type, return a hint with similar types or all types; else empty."""
    unknown = re.match(r"this service has no (?:dead-letter queue for )?saga type '([^']*)'", message)
    if unknown is None:
        return ""
    try:
        names = [view["type"] for view in target.client().types()]
    except (SagaError, KeyError):
        return ""
    if unknown[1] in names:  # it only waits
        return ""
    close = difflib.get_close_matches(unknown[1], names, 1)
    listed = f"; there are {', '.join(names)}" if names and "; it has " not in message else ""
    return f"; did you mean {close[0]!r}?" if close else listed


def on_target(function: Callable[Concatenate[Target, P], None]) -> Callable[..., None]:
    """Give a command the options that name the service, and have it print the library's errors in one line."""

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    own_names = {parameter.name for parameter in own}
    # Typer passes its context only once: to the command's own parameter, or else to ours.
    context_name = next((parameter.name for parameter in own if parameter.annotation is typer.Context), "_context")

    @functools.wraps(function)
    def run(**arguments: Any) -> None:
        target = Target(**{name: arguments.pop(name) for name in _COMMON})
        context = arguments[context_name] if context_name in own_names else arguments.pop(context_name)
        root = context.find_root().obj
        if root and root["json"]:
            target = replace(target, as_json=True)
        try:
            # Typer passes all parameters of the signature below by name.
            function(target, **arguments)  # pyright: ignore[reportCallIssue]
        except NotFound as error:
            fail(f"{error}{_suggestion(target, str(error))}")
        except Ambiguous as error:
            fail(f"{error}; check before you try again")
        except Unavailable as error:
            fail(f"{error}; try again in {error.retry_after:.0f} s")
        except SagaError as error:
            fail(full_text(error))

    named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in _COMMON.items()
    ]
    if context_name not in own_names:
        common.append(inspect.Parameter(context_name, inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))
    run.__dict__["__signature__"] = inspect.Signature([*named, *common])
    run.__annotations__ = {}
    return run
