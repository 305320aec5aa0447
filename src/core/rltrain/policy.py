"""A trained model as it acts: what play, evaluate and export use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rltrain.types import ArrayInfo

__all__ = ["Exporter", "Policy", "PolicyModule"]


class Policy(Protocol):
    """A trained model as it acts. The hook `rltrain_load_policy` returns one.

    It reads what the suite's environments return and returns what they take: what the library does
    between the two in training (groups, normalization, clipping, scaling) is part of it. It never
    changes what was learned, its normalizers included.
    """

    groups: tuple[str, ...]
    """The observation groups that it reads; ("policy",) if the task has no groups."""

    def act(self, observations: Any, deterministic: bool = True) -> Any:
        """Return actions for the environments' `step`, and remember the recurrent state.

        Observations are as the session's environments return them, batched over `num_envs`.
        `deterministic` takes the most likely action (for continuous actions, the mean); otherwise
        it is sampled as in training, by the same calls of the same generators.
        """

    def reset(self, done: Any = None) -> None:
        """Forget the recurrent state of environments that begin a new episode.

        `done` says which, booleans of shape (num_envs,); None for all of them.
        """

    def module(self) -> PolicyModule:
        """Return what export needs: `act` with `deterministic`, as one function of arrays.

        A policy that cannot be exported raises `UsageError`, which says why, and what to do.
        """


@dataclass(frozen=True, kw_only=True)
class PolicyModule:
    """A policy as one function of arrays: from observations and states to actions and states."""

    function: Callable[..., Any]
    """For torch a `torch.nn.Module` in evaluation mode, on the CPU; for jax a function that can be
    compiled. Its arguments are one array for each of `inputs`, then one for each of `states`, in
    their order; it returns a tuple of the actions and the new states. All arrays are batched in
    their first dimension, for any size of the batch."""
    inputs: Mapping[str, ArrayInfo]
    """One environment's observations, by group, with the shapes and dtypes of the suite."""
    states: Mapping[str, ArrayInfo] = field(default_factory=dict)
    """The recurrent state of one environment, by name. An episode begins with zeros."""
    output: ArrayInfo
    """One environment's action, with the shape and dtype that the suite takes."""
    normalization: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By group, how observations are normalized: bounds "input_clip", then "mean" and "std" as
    lists, then bounds "clip". Bounds are numbers; of bytes, mean and std are in bytes. It is part
    of the function, and written next to an exported file."""
    actions: Mapping[str, Any] = field(default_factory=dict)
    """For continuous actions, what is done with the network's output, in this order, as far as it
    applies: "squash" ("tanh"), times "scale", plus "offset", clipped to "low" and "high", all four
    as lists, in the task's own units. It is part of the function, too."""

    @property
    def input_names(self) -> list[str]:
        """The names of the function's arguments in an exported file."""
        return [*self.inputs, *(f"state_in.{name}" for name in self.states)]

    @property
    def output_names(self) -> list[str]:
        """The names of the function's results in an exported file."""
        return ["actions", *(f"state_out.{name}" for name in self.states)]


class Exporter(Protocol):
    """Writes policies of one framework to files that run without rltrain, and runs such files.

    `BackendSpec.exporter` names a class of these. Its methods import the framework; its module must
    not.
    """

    formats: Mapping[str, str]
    """The suffix of a file by format: {"onnx": ".onnx"}. The first format is the default."""

    def check(self, format: str) -> None:
        """Raise `UsageError`, which says how to install it, if what a format needs is missing."""

    def export(
        self,
        module: PolicyModule,
        format: str,
        path: Path,
        metadata: Mapping[str, str],
        opset: int | None = None,
    ) -> Mapping[str, Any]:
        """Write a policy, and return facts about the file, such as {"opset": 18}.

        The file takes batches of any size, and has the metadata if its format can hold it. `opset`
        is that of ONNX, or None for the exporter's own; one that does not work raises `UsageError`.
        """

    def load(self, path: Path, format: str) -> Callable[[Sequence[Any]], Sequence[Any]]:
        """Load a written file, with what will run it where it is used, and return its function.

        It takes numpy arrays in the order of `PolicyModule.input_names`, and returns them in the
        order of `PolicyModule.output_names`.
        """
