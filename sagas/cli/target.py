"""Which service a command talks to, and how its errors are told: what all commands have in common."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from sagas.cli.output import fail
from sagas.client import SagaClient
from sagas.errors import Ambiguous, InvalidRequest, SagaError, Unavailable

P = ParamSpec("P")

_PANEL = "Which service"
_Stack = Annotated[
    str | None,
    typer.Option(
        envvar="SAGAS_STACK",
        rich_help_panel=_PANEL,
        help="CloudFormation stack of the service. Without it: the local stack of this directory.",
    ),
]
_Region = Annotated[str | None, typer.Option(rich_help_panel=_PANEL, help="AWS region of the stack.")]
_Profile = Annotated[str | None, typer.Option(rich_help_panel=_PANEL, help="AWS profile to use.")]
_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]

_COMMON = {"stack": (_Stack, None), "region": (_Region, None), "profile": (_Profile, None), "as_json": (_AsJson, False)}


@dataclass(frozen=True, slots=True)
class Target:
    """The service a command is for, and whether it prints JSON.

    Args:
        stack: CloudFormation stack; ``None`` is the local stack of this directory.
        region: of the stack.
        profile: of the AWS configuration.
        as_json: print JSON.
    """

    stack: str | None
    region: str | None
    profile: str | None
    as_json: bool

    def client(self) -> SagaClient:
        """Return a client of the service."""
        if self.stack is not None:
            return SagaClient.from_stack(self.stack, self.region, self.profile)
        if self.region is not None or self.profile is not None:
            raise typer.BadParameter("goes with --stack", param_hint="--region/--profile")
        return SagaClient.local()


def on_target(function: Callable[Concatenate[Target, P], None]) -> Callable[..., None]:
    """Give a command the options that name its target, and have the library's errors told in one line.

    Args:
        function: a command whose first parameter is the target.
    """

    @functools.wraps(function)
    def run(**arguments: Any) -> None:
        target = Target(**{name: arguments.pop(name) for name in _COMMON})
        try:
            # Typer passes by name what the signature below declares.
            function(target, **arguments)  # pyright: ignore[reportCallIssue]
        except InvalidRequest as error:
            fail("; ".join([str(error), *(f"{problem.path}: {problem.message}" for problem in error.problems)]))
        except Ambiguous as error:
            fail(f"{error}; it may have taken effect: look before you try again")
        except Unavailable as error:
            fail(f"{error}; try again in {error.retry_after:.0f} s")
        except SagaError as error:
            fail(str(error))

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in _COMMON.items()
    ]
    run.__dict__["__signature__"] = inspect.Signature([*named, *common])
    run.__annotations__ = {}
    return run
