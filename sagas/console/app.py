"""The console's routes."""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from sagas.client.operate.jobs import JobFolder, service_of
from sagas.console import actions
from sagas.console.desk import LOCAL, Desk
from sagas.console.guard import Guard, Session
from sagas.console.jobs import Jobs
from sagas.console.links import Links
from sagas.console.pages import attention, charts, others, saga, sagas
from sagas.console.redaction import ConsoleRedaction
from sagas.console.source import Source
from sagas.errors import SagaError
from sagas.loopback import Loopback

_LARGEST = 1024 * 1024
"""The maximum size of a form in bytes."""
_STACK = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}")
Handler = Callable[..., Response]


def console(
    client: Any,
    session: Session,
    *,
    stack: str | None = None,
    redaction: ConsoleRedaction | None = None,
    read_only: bool = False,
    clock: Callable[[], float] = time.time,  # noqa: TID251 - only for display
    ahead: Callable[[], float] = float,
    rate: float = 5.0,
    links: Links | None = None,
    folder: JobFolder | None = None,
) -> Loopback:
    """Return the console as an ASGI application. ``clock``: epoch seconds. ``ahead``: seconds by which the service's
    clock is ahead of ``clock``. ``rate``: sagas per second in a job. ``folder``: the files of
    jobs; by default the user's."""

    jobs = Jobs(client, rate, service_of(stack, client.region), folder or JobFolder())
    desk = Desk(
        *(Source(client, live=stack is None), session, redaction or ConsoleRedaction(), stack or LOCAL, client.region),
        *(lambda: clock() + ahead(), jobs, read_only, ahead, links or Links()),
    )
    routes = [
        Route("/", _get(desk, attention.show)),
        Route("/sagas", _get(desk, sagas.show)),
        Route("/sagas/all", _get(desk, sagas.everything)),
        Route("/search", _get(desk, sagas.search)),
        Route("/sagas/{name}/{saga_id}", _get(desk, _canonical)),
        Route("/letters", _get(desk, others.letters_of_all)),
        Route("/letters/{name}", _get(desk, others.letters)),
        Route("/types", _get(desk, others.types)),
        Route("/types/{name}", _get(desk, others.type_)),
        Route("/charts/{name}", _get(desk, charts.show)),
        Route("/breakers", _get(desk, others.breakers)),
        Route("/sweeps", _get(desk, others.sweeps_of_all)),
        Route("/sweeps/{name}", _get(desk, others.sweeps)),
        Route("/jobs", _get(desk, others.jobs)),
        Route("/jobs/{name}", _get(desk, others.job)),
        Route("/{stack}/{region}/sagas/{name}/{saga_id}", _get(desk, _of_this_stack(saga.show))),
        Route("/{stack}/{region}/sagas/{name}/{saga_id}/json", _get(desk, _of_this_stack(saga.document))),
        Mount("/static", StaticFiles(packages=[("sagas.console", "static")])),
    ]
    if not read_only:
        routes += [
            Route("/sagas/{name}/{saga_id}/signals/{step}", _post(desk, actions.signal), methods=["POST"]),
            Route("/sagas/{name}/{saga_id}/{do}", _post(desk, actions.on_saga), methods=["POST"]),
            Route("/types/{name}/start", _post(desk, actions.start), methods=["POST"]),
            Route("/types/{name}/{do}", _post(desk, actions.on_type), methods=["POST"]),
            Route("/breakers/{name}/{step}/close", _post(desk, actions.close_breaker), methods=["POST"]),
            Route("/letters/{name}/{do}", _post(desk, actions.on_letters), methods=["POST"]),
            Route("/sweeps/{name}", _post(desk, actions.sweep), methods=["POST"]),
            Route("/jobs", _post(desk, actions.begin_job), methods=["POST"]),
            Route("/jobs/{name}/stop", _post(desk, actions.stop_job), methods=["POST"]),
            Route("/jobs/{name}/resume", _post(desk, actions.resume_job), methods=["POST"]),
        ]

    async def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return _failed(desk, request, "Page not found." if status == 404 else str(error), status)

    pages = Starlette(routes=routes, exception_handlers={HTTPException: missing})
    return Loopback(Guard(pages, session, read_only=read_only), {session.origin}, links=True)


def _get(desk: Desk, page: Handler) -> Callable[[Request], Any]:
    """Return an endpoint that reads. It runs in a thread, because it blocks."""

    def answer(request: Request) -> Response:
        return _answered(desk, request, lambda: page(desk, request, **request.path_params))

    return answer


def _post(desk: Desk, act: Handler) -> Callable[[Request], Any]:
    """Return an endpoint for an action. It accepts only forms of this console."""

    async def answer(request: Request) -> Response:
        size = request.headers.get("content-length", "")
        if not size.isdigit() or int(size) > _LARGEST:
            return _failed(desk, request, "The form is too large.", 413)
        form = parse_qs((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
        token = form.get("csrf", [""])[0]
        if not hmac.compare_digest(token.encode(), desk.session.csrf.encode()):
            return _failed(desk, request, "The form is from another console or an earlier one: reload the page.", 403)
        return await run_in_threadpool(
            _answered, desk, request, lambda: act(desk, request, form, **request.path_params)
        )

    return answer


def _answered(desk: Desk, request: Request, answer: Callable[[], Response]) -> Response:
    """Return the answer or, after an error, a page about the error."""
    try:
        return answer()
    except SagaError as error:
        status, text, problems = actions.refusal_of(error)
        return _failed(desk, request, text, status, tuple(f"{problem.path}: {problem.message}" for problem in problems))


def _failed(desk: Desk, request: Request, text: str, status: int, problems: tuple[str, ...] = ()) -> Response:
    at = datetime.fromtimestamp(desk.clock(), UTC).strftime("%H:%M:%S UTC")
    back = request.headers.get("referer", "/")
    own = back if back.startswith(f"{desk.session.origin}/") else "/"
    return desk.page(request, "failed.html", status, text=text, problems=problems, at=at, back=own, code=status)


def _canonical(desk: Desk, request: Request, name: str, saga_id: str) -> Response:
    """Redirect to a saga's URL that also names the service, so people can share the link."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(desk.saga_path(name, saga_id) + query, 303)


def _of_this_stack(page: Handler) -> Handler:
    """Wrap a page: answer links to another service with a page that says how to open its console."""

    def answer(desk: Desk, request: Request, stack: str, region: str, **which: str) -> Response:
        if (stack, region) == (desk.stack, desk.region):
            return page(desk, request, **which)
        # Anyone can write a link, and users copy this command to a shell. So accept only plain names.
        names = _STACK.fullmatch(stack) and _STACK.fullmatch(region)
        command = "sagas console" if stack == LOCAL else f"sagas console --stack {stack} --region {region}"
        command = command if names else ""
        return desk.page(request, "elsewhere.html", 404, other_stack=stack, other_region=region, command=command)

    return answer
