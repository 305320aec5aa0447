"""rsl_rl's distillation of a teacher into a student, on the ranks of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from rsl_rl.algorithms import Distillation

from rltrain.types import GradientSync
from rltrain_rsl_rl.normalizers import NormalizerPool
from rltrain_rsl_rl.upstream import CompileFallback
from rltrain_torch.gradients import check_alone, synchronize
from rltrain_torch.optimizers import watch_optimizer

if TYPE_CHECKING:
    from rltrain.session import Session


class SessionDistillation(Distillation, CompileFallback):
    """rsl_rl's distillation with gradients and statistics of all ranks.

    Every mini-batch is one step of a rank's environments, so the mean over ranks is the mean over
    all rows.
    """

    _raw_student: torch.nn.Module
    _raw_teacher: torch.nn.Module
    gradient_sync: GradientSync
    parameters: list[torch.nn.Parameter]

    def connect(self, session: Session, compile_mode: str | None) -> None:
        """Broadcast the models from rank 0 and create the gradient sync. Collective.

        Args:
            session: this rank's session.
            compile_mode: rsl_rl's `torch_compile_mode`.
        """
        self.normalizers = NormalizerPool(session.group)
        self.normalizers.replace_in(self._raw_student)
        self._raw_student = session.wrap_model(self._raw_student, "student")
        self._raw_teacher = session.wrap_model(self._raw_teacher, "teacher")
        self.compile(compile_mode)
        self.parameters = [p for p in self._raw_student.parameters() if p.requires_grad]
        self.gradient_sync = session.gradient_sync(self.parameters)
        if not self.is_multi_gpu:
            check_alone(self.optimizer, self.gradient_sync, self.parameters)
        watch_optimizer(session, self.optimizer)

    def update(self) -> dict[str, float]:
        """Learn from the rollout and return the mean losses. Collective."""
        losses: dict[str, float] = super().update()
        self.normalizers.pool()
        return losses

    def reduce_parameters(self) -> None:
        """Average the gradients over ranks. rsl_rl calls it after each backward pass."""
        synchronize(self.gradient_sync, self.parameters)

    def broadcast_parameters(self) -> None:
        """Do nothing: `session.wrap_model` has already broadcast the models."""

    def extra_metrics(self) -> dict[str, float | tuple[float, float]]:
        """Return metrics that rsl_rl does not log: none."""
        return {}

    def counters(self) -> dict[str, int]:
        """Return counters that rsl_rl does not save: none."""
        return {}

    def set_counters(self, counters: Mapping[str, int]) -> None:
        """Do nothing: there are no counters."""

    def get_state(self) -> dict[str, Any]:
        """Return the state of this rank that an exact resume needs and rsl_rl does not save."""
        return {
            "student": self.student.get_hidden_state(),
            "teacher": self.teacher.get_hidden_state(),
            "last": self.last_hidden_states,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` returned."""
        self.student.reset(hidden_state=state["student"])
        self.teacher.reset(hidden_state=state["teacher"])
        self.last_hidden_states = state["last"]
