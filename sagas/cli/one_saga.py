"""Finds the saga that a command is for: by its id, the start of its id or its idempotency key, or as the newest
saga."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sagas.cli.completion import complete
from sagas.cli.output import fail
from sagas.cli.target import Target, on_target

if TYPE_CHECKING:
    from sagas.client import Page, SagaClient, SagaView

Type = Annotated[str, typer.Argument(metavar="TYPE", help="Saga type", show_default=False, autocompletion=complete)]
OneType = Annotated[
    str | None,
    typer.Argument(metavar="[TYPE]", help="Only sagas of this type", show_default=False, autocompletion=complete),
]
Last = Annotated[bool, typer.Option("--last", help="The newest saga, of TYPE if given")]
_ID_HELP = "Saga id or its start, at least four characters; with TYPE also key:IDEMPOTENCY-KEY"
_ID = re.compile("[0-9a-fA-F-]{4,}")
_WHOLE_ID = 36
_KEY = "key:"
_MOST_PAGES = 20
"""At most this many further pages are requested to fill a list: with a filter, pages may be empty."""


def id_argument(metavar: str) -> Any:
    return typer.Argument(metavar=metavar, help=_ID_HELP, show_default=False, autocompletion=complete)


class SagaRef(NamedTuple):
    """A saga, with its view if that was requested already. Without an id, it stands for all sagas of the type."""

    type: str
    saga_id: str = ""
    view: SagaView | None = None

    def show(self, client: SagaClient) -> SagaView:
        return self.view or client.show(self.type, self.saga_id)


def which(client: SagaClient, names: Sequence[str], *, last: bool = False, typeless: bool = False) -> SagaRef:
    """Return the saga that ``[TYPE] ID`` or ``[TYPE] --last`` names. If ``typeless``, its type may be empty."""
    if last:
        if len(names) > 1:
            raise typer.BadParameter("takes no id", param_hint="--last")
        return _newest(client, names[0] if names else None)
    if not 0 < len(names) < 3:
        raise typer.BadParameter("expected [TYPE] ID, or --last", param_hint="ID")
    saga_id = names[-1]
    name = names[0] if len(names) > 1 else None
    if saga_id.startswith(_KEY):
        return _by_key(client, name, saga_id.removeprefix(_KEY))
    if not _ID.fullmatch(saga_id):
        raise typer.BadParameter(f"{saga_id!r} is not a saga id or the start of one", param_hint="ID")
    if len(saga_id) == _WHOLE_ID and (name is not None or typeless):
        return SagaRef(name or "", saga_id)
    view = client.look_up(saga_id)
    if name not in (None, view["type"]):
        fail(f"saga {view['saga_id']} has type {view['type']}, not {name}")
    return SagaRef(view["type"], view["saga_id"], view)


def _newest(client: SagaClient, name: str | None) -> SagaRef:
    sagas = full_page(lambda limit, cursor: client.list(name, limit=limit, cursor=cursor), 1, None)["sagas"]
    if not sagas:
        fail("no sagas yet" if name is None else f"no sagas of type {name} yet")
    return SagaRef(sagas[0]["type"], sagas[0]["saga_id"])


def _by_key(client: SagaClient, name: str | None, key: str) -> SagaRef:
    if name is None:
        raise typer.BadParameter("key: needs TYPE before it, since each type has its own keys", param_hint="ID")
    sagas = client.list(name, idempotency_key=key)["sagas"]
    if not sagas:
        fail(f"no saga of type {name} has the idempotency key {key!r}")
    return SagaRef(name, sagas[0]["saga_id"])


def full_page(ask: Callable[[int, str | None], Page], limit: int, cursor: str | None) -> Page:
    """Return a page of ``limit`` sagas if there are that many. With a filter, the service's own pages may be short."""
    page = ask(limit, cursor)
    for _ in range(_MOST_PAGES):
        if len(page["sagas"]) >= limit or page["cursor"] is None:
            break
        further = ask(limit - len(page["sagas"]), page["cursor"])
        page["sagas"] += further["sagas"]
        page["cursor"] = further["cursor"]
    return page


def find_values(find: Sequence[str] | None) -> dict[str, str]:
    values = dict[str, str]()
    for text in find or ():
        key, separator, value = text.partition("=")
        if not separator or not key or key in values:
            problem = f"{text!r} is not KEY=VALUE" if not separator or not key else f"{key} is given twice"
            raise typer.BadParameter(problem, param_hint="--find")
        values[key] = value
    return values


def for_saga(
    *after: str, all_help: str = "", typeless: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take its saga as all commands do, as the function's second parameter. ``after`` names parameters
    whose values follow the id. ``all_help`` is the help of ``--all``, if the function also takes all sagas of a type.
    If ``typeless``, it needs no type, so a whole id costs no request."""

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        target, _, *own = inspect.signature(function, eval_str=True).parameters.values()

        @functools.wraps(function)
        def run(target: Target, names: list[str] | None, *, last: bool, all_: bool, **arguments: Any) -> None:
            words = [*(names or ())]
            for name in reversed(after):
                if not words:
                    raise typer.BadParameter(f"Missing argument '{name.upper()}'.")
                arguments[name] = words.pop()
            if not all_:
                function(target, which(target.client(), words, last=last, typeless=typeless), **arguments)
            elif all_help and len(words) < 2 and not last:
                function(target, SagaRef("".join(words)), **arguments)
            else:
                problem = "takes TYPE and no id" if all_help else "this command takes one saga at a time"
                raise typer.BadParameter(problem, param_hint="--all")

        argument = id_argument(" ".join(["[TYPE] ID", *(name.upper() for name in after)]))
        many = typer.Option("--all", help=all_help, hidden=not all_help)
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters = [
            target.replace(kind=inspect.Parameter.POSITIONAL_ONLY),
            inspect.Parameter("names", kind, annotation=Annotated[list[str] | None, argument], default=None),
            *(parameter.replace(kind=kind) for parameter in own if parameter.name not in after),
            inspect.Parameter("last", kind, annotation=Last, default=False),
            inspect.Parameter("all_", kind, annotation=Annotated[bool, many], default=False),
        ]
        run.__dict__["__signature__"] = inspect.Signature(parameters)
        run.__annotations__ = {}
        return run

    return decorated


def on_saga(*after: str, **options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that makes a function a command on one saga of a service. See :func:`for_saga`."""
    return lambda function: on_target(for_saga(*after, **options)(function))
