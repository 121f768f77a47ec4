"""Sagas that both versions run. They use nothing that 0.1.0 does not have."""

from __future__ import annotations

from dataclasses import dataclass

from sagas import Context, Exhausted, Rejected, Retry, Saga, step


@dataclass(frozen=True)
class Errand:
    """What a saga is to do, and at which step it is to fail, how."""

    name: str
    fails_at: str = ""
    how: str = ""
    note: str = ""


@dataclass(frozen=True)
class Part:
    """What a step made of what it got."""

    by: str
    of: list[str]


def _done(by: str, request: Errand, ctx: Context, *before: Part) -> Part:
    if request.fails_at == by:
        if request.how == "once" and ctx.attempt == 1:
            raise RuntimeError("the first time it fails")
        if request.how == "rejected":
            raise Rejected("the business says no")
        if request.how == "always":
            raise RuntimeError("it always fails")
    return Part(by, [request.note, *(name for part in before for name in (part.by, *part.of))])


ONCE_MORE = Retry.constant(max_retries=1, delay=0)


class Errands(Saga[Errand], name="errands"):
    """Four steps; each takes what those before made, three can be undone."""

    @step(retry=ONCE_MORE)
    def first(self, request: Errand, ctx: Context) -> Part:
        return _done("first", request, ctx)

    @first.compensate
    def undo_first(self, first: Part, ctx: Context) -> None:
        assert first.by == "first"

    @step(retry=ONCE_MORE)
    def second(self, request: Errand, first: Part, ctx: Context) -> Part:
        return _done("second", request, ctx, first)

    @second.compensate
    def undo_second(self, request: Errand, second: Part) -> None:
        assert second.of == [request.note, "first", request.note]

    @step(retry=ONCE_MORE)
    def third(self, request: Errand, first: Part, second: Part, ctx: Context) -> Part:
        return _done("third", request, ctx, first, second)

    @third.compensate
    def undo_third(self, first: Part, third: Part) -> None:
        assert (first.by, third.by) == ("first", "third")

    @step(retry=Retry.constant(max_retries=1, delay=0, on_exhausted=Exhausted.DEAD_LETTER))
    def fourth(self, request: Errand, first: Part, second: Part, third: Part, ctx: Context) -> int:
        return len(_done("fourth", request, ctx, first, second, third).of)
