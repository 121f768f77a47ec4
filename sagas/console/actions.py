"""The actions of the console. Each action makes exactly one call of the client."""

from __future__ import annotations

import getpass
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sagas.client import DeadLetter
from sagas.client.operate.selection import Chosen, Selection
from sagas.client.read.next_action import Do
from sagas.console.desk import Desk
from sagas.console.forms import refused, value_of
from sagas.console.pages import others, saga, sagas
from sagas.errors import Ambiguous, Conflict, InvalidRequest, NotFound, Problem, SagaError, TooLarge, Unavailable
from sagas.operations import VERBS

_LOG = logging.getLogger(__name__)
_FOR_MANY = (*(name for name, operation in VERBS.items() if operation.bulk_statuses), Do.RECOVER)
_RATES = (1, 5, 20)
_SEQ = re.compile("[0-9]{1,9}")
_BY_SQS = "SQS moves them back."
_STATUS: tuple[tuple[type[SagaError], int], ...] = (
    (NotFound, 404),
    (Conflict, 409),
    (InvalidRequest, 422),
    (TooLarge, 413),
    (Ambiguous, 502),
    (Unavailable, 503),
)
Form = Mapping[str, list[str]]


def refusal_of(error: SagaError) -> tuple[int, str, Sequence[Problem]]:
    """Return the HTTP status for an error, the error's text, and the invalid fields."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 502)
    more = f"; try again in {error.retry_after:.0f} s" if isinstance(error, Unavailable) else ""
    return status, f"{error}{more}", error.problems if isinstance(error, InvalidRequest) else ()


def act_on(client: Any, do: str, saga: Chosen, form: Form) -> tuple[str, str]:
    """Apply an action to one saga, with its options from a form. Return the type and id of the saga to show next."""
    name, saga_id, seq = saga
    match do:
        case Do.RECOVER:
            client.recover(type=name, saga_id=saga_id)
        case Do.RERUN:
            new = client.rerun(name, saga_id)
            return new["type"], new["saga_id"]
        case _:
            operation = VERBS.get(do)
            if operation is None or not operation.verb.label:
                raise NotFound(f"unknown action {do!r}")
            chosen = {option.name: value for option in operation.options if (value := _option_of(form, option))}
            if operation.takes_seq:
                chosen["seq"] = seq
            for needed in operation.needed:
                _need(needed, chosen.get(needed, ""))
            getattr(client, do)(name, saga_id, **chosen)
    return name, saga_id


def _option_of(form: Form, option: Field[Any]) -> Any:
    """Return the value of an option in a form; empty if the form does not have the option."""
    if option.default_factory is not MISSING:  # a list
        return form.get(option.name, [])
    return _one(form, option.name) == "yes" if option.default is False else _one(form, option.name)


def on_saga(desk: Desk, _request: Request, form: Form, name: str, saga_id: str, do: str) -> Response:
    """Apply an action to one saga, and return to its page."""
    client = desk.source.client
    chosen = Chosen(name, saga_id, _seq_in(_one(form, "seq")))
    to_show = act_on(client, do, chosen, form)
    if do in VERBS and (note := client.take_letters(VERBS[do], name, [saga_id])):
        _LOG.warning("%s", note)
    return _back(desk, f"{desk.saga_path(*to_show)}?did={quote(do)}")


def signal(desk: Desk, request: Request, form: Form, name: str, saga_id: str, step: str) -> Response:
    """Send a signal to a step. If the signal is refused, the form keeps its value."""
    saga_type = next((each for each in desk.source.types() if each["type"] == name), None)
    steps: list[dict[str, Any]] = saga_type["steps"] if saga_type else []
    schema = next((each.get("signal") for each in steps if each["name"] == step), None)
    typed = {key: values[0] for key, values in form.items()}
    try:
        desk.source.client.signal(name, saga_id, step, value_of(schema, typed))
    except SagaError as error:
        status, text, problems = refusal_of(error)
        desk.source.forget()
        return saga.show(desk, request, name, saga_id, refused(text, problems, schema, typed), status)
    return _back(desk, f"{desk.saga_path(name, saga_id)}?did=signal")


def start(desk: Desk, request: Request, form: Form, name: str) -> Response:
    """Start a saga. If its request is refused, the form keeps the request."""
    schema = others.type_named(desk, name)["request"]
    typed = {key: values[0] for key, values in form.items()}
    try:
        new = desk.source.client.start(name, value_of(schema, typed), key=_one(form, "key") or None)
    except SagaError as error:
        status, text, problems = refusal_of(error)
        return others.type_(desk, request, name, refused(text, problems, schema, typed), status)
    return _back(desk, desk.saga_path(new["type"], new["saga_id"]))


def on_type(desk: Desk, _request: Request, form: Form, name: str, do: str) -> Response:
    client = desk.source.client
    reason = _one(form, "reason")
    scope = {part: _one(form, part) or None for part in ("step", "saga_id")}
    if do == "pause":
        _need("reason", reason)
        kinds = {kind: _one(form, kind) == "yes" for kind in ("starts_only", "starts", "undos")}
        client.pause(name, reason, **scope, **kinds)
    elif do == "resume":
        client.resume(name, **scope)
    else:
        raise NotFound(f"unknown action {do!r}; expected pause or resume")
    return _back(desk, f"/types/{quote(name, safe='')}")


def close_breaker(desk: Desk, _request: Request, _form: Form, name: str, step: str) -> Response:
    desk.source.client.close_breaker(name, step)
    return _back(desk, "/breakers")


def on_letters(desk: Desk, request: Request, form: Form, name: str, do: str) -> Response:
    """Show dead letters, have SQS move them back, delete all that no saga needs, or delete one of them."""
    client = desk.source.client
    said = ""
    fates = dict[str, str]()
    found: list[DeadLetter] | None = None
    if do == "redrive":
        client.redrive(name)
        said = _BY_SQS
    elif do == "prune":
        dry = _one(form, "really") != "yes"
        done = client.prune(name, dry_run=dry)
        said = f"{len(done.stale)} {'would be ' if dry else ''}deleted, {len(done.kept)} stay."
        fates = {kept.letter.message_id: f"It stays: {kept.why}." for kept in done.kept}
        fates |= {each.message_id: "It would be deleted, because no saga needs it." for each in done.stale}
    elif do == "delete":
        gone = client.delete_letter(name, _one(form, "message_id"))
        said = f"Message {gone.message_id} is deleted."
        # No audit trail records this deletion, so the console's log names the operator.
        _LOG.warning("%s deleted message %s from the dead letters of %s", getpass.getuser(), gone.message_id, name)
    desk.source.forget()
    if said != _BY_SQS:  # reading would hide messages from SQS's move task
        try:
            found = client.dead_letters(name, 100)
        except SagaError as error:
            if not said:
                raise
            said = f"{said} Reading the remaining messages failed: {error}."
    return others.letters(desk, request, name, found, said, fates)


def sweep(desk: Desk, request: Request, form: Form, name: str) -> Response:
    """Sweep a type's orphaned objects or, in a dry run, list them."""
    dry = _one(form, "really") != "yes"
    report = desk.source.client.sweep(name, dry_run=dry, force=_one(form, "force") == "yes")
    return others.sweeps(desk, request, name, report)


def begin_job(desk: Desk, _request: Request, form: Form) -> Response:
    """Begin a job on the sagas that are ticked or, if none is, on all of the selection."""
    do = _one(form, "do")
    reason = _one(form, "reason")
    if do not in _FOR_MANY:
        raise NotFound(f"action {do!r} is not available in bulk")
    picked = [_picked_in(text) for text in form.get("one", [])]
    selection = _selection_in(form) if not picked else Selection()
    if not picked and next(selection.sagas(desk.source.client), None) is None:
        raise InvalidRequest("no saga matches", [Problem("selection", "matches no saga any more")])
    _need("reason", reason)
    number = str(len(picked)) if picked else _one(form, "number")
    if "first" not in form and not number.isdecimal():
        raise InvalidRequest("no saga is chosen", [Problem("one", "choose sagas, or count all of them first")])
    if "first" not in form and int(number) > sagas.MANY and number != _one(form, "count"):
        raise InvalidRequest(f"these are {number} sagas", [Problem("count", f"type {number} to continue")])
    wish = _one(form, "rate")
    if wish and wish not in map(str, _RATES):
        raise InvalidRequest("invalid rate", [Problem("rate", "must be 1, 5 or 20")])
    rate = float(wish) if wish else None
    batch = desk.jobs.begin(do, reason, rate, selection=selection, picked=picked)
    desk.jobs.run(batch, most=1 if "first" in form else None)
    return _back(desk, f"/jobs/{batch.job}")


def resume_job(desk: Desk, _request: Request, _form: Form, name: str) -> Response:
    """Run a job again, with its reason: it acts on what is left."""
    desk.jobs.run(desk.jobs.again(name))
    return _back(desk, f"/jobs/{name}")


def _selection_in(form: Form) -> Selection:
    """Return the selection of a page's form."""
    try:
        selection = msgspec.json.decode(_one(form, "selection") or "{}", type=Selection)
    except msgspec.MsgspecError as error:
        raise InvalidRequest("invalid selection", [Problem("selection", str(error))]) from error
    if not selection:
        raise InvalidRequest("no saga is chosen", [Problem("one", "choose at least one saga")])
    return selection


def _picked_in(text: str) -> Chosen:
    """Return the saga that a row of a page stands for, as the page shows it."""
    name, _, rest = text.partition("/")
    saga_id, _, seq = rest.partition("/")
    return Chosen(name, saga_id, _seq_in(seq))


def _seq_in(text: str) -> int:
    if not _SEQ.fullmatch(text):
        raise InvalidRequest("the page does not say which state it shows", [Problem("seq", "load the page again")])
    return int(text)


def stop_job(desk: Desk, _request: Request, _form: Form, name: str) -> Response:
    desk.jobs.stop(name)
    return _back(desk, f"/jobs/{name}")


def _back(desk: Desk, path: str) -> Response:
    desk.source.forget()
    return RedirectResponse(path, 303)


def _one(form: Form, name: str) -> str:
    return form.get(name, [""])[0].strip()


def _need(name: str, value: str) -> None:
    if not value:
        raise InvalidRequest(f"the {name} is missing", [Problem(name, "is required; the audit trail keeps it")])
