"""Reduces a case that is wrong to the smallest one that still is, and prints as code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tests.model.pairs import Case, Part, Release, Script, consistent

_DEFAULT = Part("")


def smallest(case: Case, wrong: Callable[[Case], str]) -> tuple[Case, str]:
    """Return the smallest case that can be reached step by step and is wrong at each, and what is wrong with it."""
    found = wrong(case)
    while True:
        smaller = sorted({one for one in _simpler(case) if _size(one) < _size(case) and _sound(one)}, key=_size)
        following = next(((one, what) for one in smaller if (what := wrong(one))), None)
        if following is None:
            return case, found
        case, found = following


def _size(case: Case) -> tuple[int, str]:
    return len(repr(case)), repr(case)


def _sound(case: Case) -> bool:
    """Whether its releases are of sagas, and what fails in it can fail."""
    steps = [part for part in case.old if not part.retired]
    fails = case.script.fails
    failing = fails < 0 or (fails < len(steps) and steps[fails].kind in ("", "children"))
    return failing and bool(steps) and any(not part.retired for part in case.new)


def _simpler(case: Case) -> Iterator[Case]:
    """Cases with a little less in them."""
    yield case._replace(faults=())
    yield case._replace(requests=("text", "text"), upcast=False)
    yield case._replace(upcast=False)
    yield from (case._replace(script=script) for script in _simpler_scripts(case.script))
    for name in {part.name for part in (*case.old, *case.new)}:
        for old, new in ((True, True), (True, False), (False, True)):
            yield _with(
                case, _without(case.old, name) if old else case.old, _without(case.new, name) if new else case.new
            )
    for field, usual in _DEFAULT._asdict().items():
        for name in {part.name for part in (*case.old, *case.new)} if field != "name" else ():
            for old, new in ((True, True), (True, False), (False, True)):
                yield _with(
                    case,
                    _usual(case.old, name, field, usual) if old else case.old,
                    _usual(case.new, name, field, usual) if new else case.new,
                )


def _simpler_scripts(script: Script) -> Iterator[Script]:
    for field, usual in Script()._asdict().items():
        value = getattr(script, field)
        yield script._replace(**{field: usual})
        if isinstance(value, int) and not isinstance(value, bool) and field != "fails":
            yield from (script._replace(**{field: less}) for less in range(min(value, 10)))


def _without(release: Release, name: str) -> Iterable[Part]:
    return [part for part in release if part.name != name]


def _usual(release: Release, name: str, field: str, usual: object) -> Iterable[Part]:
    return [part._replace(**{field: usual}) if part.name == name else part for part in release]


def _with(case: Case, old: Iterable[Part], new: Iterable[Part]) -> Case:
    """The same with other releases; the same step fails."""
    old, script = consistent(old), case.script
    if script.fails >= 0:
        steps = [part.name for part in case.old if not part.retired]
        left = [part.name for part in old if not part.retired]
        failing = steps[script.fails]
        script = script._replace(fails=left.index(failing) if failing in left else -1)
    return case._replace(old=old, new=consistent(new), script=script)


def refuse(case: Case, wrong: Callable[[Case], str]) -> None:
    """Fail if a case is wrong, and print the smallest one like it: a line of code that makes it again."""
    if first := wrong(case):
        small, found = smallest(case, wrong)
        raise AssertionError(f"{found}\n{small!r}\nThe case that this was made of: {first}\n{case!r}")
