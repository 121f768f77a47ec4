"""What can be paused, and what a pause holds back."""

from __future__ import annotations

from dataclasses import dataclass

from sagas.core.states import SagaState


@dataclass(frozen=True, slots=True)
class Scope:
    """What is paused: a saga type, one of its steps, or one of its sagas.

    Args:
        name: of the type.
        step: name of the step; empty for all.
        saga_id: id of the saga; empty for all.
    """

    name: str
    step: str = ""
    saga_id: str = ""

    @classmethod
    def parse(cls, text: str) -> Scope:
        """Read what :attr:`text` wrote."""
        name, _, saga_id = text.partition("#")
        name, _, step = name.partition("/")
        return cls(name, step, saga_id)

    @property
    def text(self) -> str:
        """How it is stored, and shown to operators: ``TYPE``, ``TYPE/STEP`` or ``TYPE#ID``."""
        return self.name + (f"/{self.step}" if self.step else "") + (f"#{self.saga_id}" if self.saga_id else "")

    def covers(self, state: SagaState) -> bool:
        """Whether a saga, as it stands, is in this scope."""
        step = state.current
        at_step = not self.step or (step is not None and step.name == self.step)
        return state.saga == self.name and at_step and self.saga_id in ("", state.saga_id)


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause, or one that has ended. Times are epoch seconds; 0 means never.

    Args:
        at: when it began.
        by: the operator.
        reason: why.
        starts_only: new sagas are refused, and those in flight go on.
        starts: new sagas are accepted, and wait before their first step.
        undos: undos wait, too.
        resumed_at: when it ended; 0 while it lasts.
    """

    at: float = 0.0
    by: str = ""
    reason: str = ""
    starts_only: bool = False
    starts: bool = False
    undos: bool = False
    resumed_at: float = 0.0

    @property
    def on(self) -> bool:
        """Whether it lasts."""
        return bool(self.at) and not self.resumed_at

    def holds(self, *, undo: bool) -> bool:
        """Whether steps, or undos, may not begin."""
        return self.on and not self.starts_only and (self.undos or not undo)


NO_PAUSE = Pause()
