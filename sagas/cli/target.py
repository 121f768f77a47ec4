"""The common part of all commands: the options that name the service, and the report of errors."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, NoReturn, ParamSpec

import typer

from sagas.cli.output import fail
from sagas.errors import Ambiguous, NotFound, SagaError, Unavailable, full_text, text_of

if TYPE_CHECKING:
    from sagas.client import SagaClient

P = ParamSpec("P")

_DENIED = ("AccessDenied", "AuthorizationError", "UnauthorizedOperation", "403")
_REFUSED = ("ExpiredToken", "InvalidClientTokenId", "SignatureDoesNotMatch", "UnrecognizedClientException")
_UNSIGNED = re.compile(r"security token|signature|signed|credentials")
SIGN_IN = "sign in to AWS, or name a profile with --profile"

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


def what_to_do(error: BaseException) -> str:
    """Return what to do if AWS did not find the stack, refused the caller or is out of reach; else empty."""
    from botocore import exceptions as aws

    from sagas.aws import code_of

    cause = error.__cause__ if isinstance(error, SagaError) else error
    text = text_of(error)
    denied = isinstance(cause, aws.ClientError) and code_of(cause).startswith(_DENIED)
    right = re.search(r"perform:? ([\w-]+:\w+)", text)
    if right or denied:
        return f"grant {right[1] if right else vars(cause).get('operation_name')} to this caller"
    match cause:
        case aws.ClientError() if code_of(cause) in _REFUSED:
            return SIGN_IN
        case aws.ClientError() if "does not exist" in text and code_of(cause) == "ValidationError":
            return "check its name, or name its region with --region"
        case aws.NoRegionError():
            return "name one with --region or AWS_DEFAULT_REGION"
        case aws.HTTPClientError() | aws.ConnectionError():
            return "check the region and your network"
        case None if "the API refused the call (403)" in text or "AWS credentials" in text:
            return SIGN_IN if _UNSIGNED.search(text) else "grant execute-api:Invoke to this caller"
        case aws.BotoCoreError() if not isinstance(cause, aws.ParamValidationError):  # no credentials, no profile
            return SIGN_IN
        case _:
            return ""


def report(target: Target, error: SagaError, status: int = 0) -> NoReturn:
    """Print an error in one line and exit. The default status is 2 if the service was not found or refused the caller,
    else 1."""
    text = full_text(error)
    todo = what_to_do(error)
    reached = "_client" in vars(target)
    status = status or (1 if reached and not (todo and type(error) is SagaError) else 2)
    match error:
        case NotFound():
            fail(f"{text}{_suggestion(target, text)}", status)
        case Ambiguous():
            todo = "check before you try again"
        case Unavailable() if reached and target.stack is None and "is out of reach" in text:
            todo = "`sagas local up` starts the local stack"  # its file outlives a stack that was killed
            status = 2
        case Unavailable() if reached:
            todo = f"try again in {error.retry_after:.0f} s"
        case _:
            pass
    fail(f"{text.rstrip('.')}; {todo}" if todo else text, status)


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
        except SagaError as error:
            report(target, error)

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
