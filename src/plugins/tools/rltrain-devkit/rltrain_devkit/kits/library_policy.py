"""A loaded policy beside the training agent, for `LibraryConformance`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rltrain.errors import UsageError
from rltrain.launch import hide_rank_variables
from rltrain.policy import Policy, PolicyModule
from rltrain.seeding import SeedPlan
from rltrain.testing import FakeWorld
from rltrain_devkit.kits.arrays import array, to_numpy
from rltrain_devkit.kits.library_probe import Arrays, Step

if TYPE_CHECKING:
    from rltrain.commands import Plan

T = TypeVar("T")


@dataclass(frozen=True)
class Loader:
    """Loads a policy in a world of its own, whose global state is restored afterwards."""

    options: Mapping[str, Any]
    """Fields of `RunOptions`."""
    rank_local: Sequence[str]
    """As for `FakeWorld`."""
    checkpoint: str
    """In its run folder."""
    framework: str

    def actions(self, steps: Sequence[Step], seeds: SeedPlan) -> list[Any]:
        """Return what the policy draws where a training agent has acted, as numpy arrays."""

        def act(policy: Policy, seed: Callable[[], None]) -> list[Any]:
            policy.act(self._arrays(steps[0].observations))  # To be forgotten.
            policy.reset()
            seed()
            found = []
            for step in steps:
                drawn = policy.act(self._arrays(step.observations), deterministic=False)
                found.append(to_numpy(drawn))
                policy.reset(array(self.framework, step.done, "bool"))
            return found

        return self._with_policy(act, seeds)

    def repeated(self, step: Step) -> tuple[Any, Any]:
        """Return what the policy chooses twice for the same observations."""

        def act(policy: Policy, seed: Callable[[], None]) -> tuple[Any, Any]:
            first = to_numpy(policy.act(self._arrays(step.observations)))
            policy.reset()
            return first, to_numpy(policy.act(self._arrays(step.observations)))

        return self._with_policy(act)

    def by_module(self, step: Step) -> tuple[Any, Any] | str:
        """Return what policy and module choose, or why there is no module."""

        def act(policy: Policy, seed: Callable[[], None]) -> tuple[Any, Any] | str:
            chosen = to_numpy(policy.act(self._arrays(step.observations)))
            try:
                module = policy.module()
            except UsageError as error:
                return str(error)
            return chosen, to_numpy(self._call(module, step.observations))

        return self._with_policy(act)

    def _call(self, module: PolicyModule, observations: Arrays) -> Any:
        groups = {group: observations.get(group, observations.get("")) for group in module.inputs}
        inputs = [
            array(self.framework, groups[group], info.dtype)
            for group, info in module.inputs.items()
        ]
        import numpy as np

        batch = len(next(iter(groups.values())))  # type: ignore[arg-type]
        states = [
            array(self.framework, np.zeros((batch, *info.shape)), info.dtype)
            for info in module.states.values()
        ]
        return module.function(*inputs, *states)[0]

    def _arrays(self, observations: Arrays) -> Any:
        """Return observations as the environments return them."""
        made = {name: array(self.framework, x, str(x.dtype)) for name, x in observations.items()}
        if "" in made:
            return made[""]
        tree: dict[str, Any] = {}
        for name, x in made.items():
            *path, last = name.split(".")
            branch = tree
            for part in path:
                branch = branch.setdefault(part, {})
            branch[last] = x
        return tree

    def _with_policy(
        self, use: Callable[[Policy, Callable[[], None]], T], seeds: SeedPlan | None = None
    ) -> T:
        # Imported late: they need the whole core.
        from rltrain.policies import open_session

        def load(group: Any) -> T:
            hide_rank_variables(os.environ)
            plan = self._plan()
            assert plan.world is not None, "a policy that starts no ranks has a place"
            with open_session(plan.config, plan.world, plan.registry) as session:
                session.seeds = seeds or session.seeds
                policy = session.load_policy()
                return use(policy, lambda: session.seed("learner"))

        return FakeWorld(1, rank_local=self.rank_local).run(load)[0]

    def _plan(self) -> Plan:
        from rltrain.policies import Trained, plan_policy
        from rltrain.runs import Checkpoint

        found, options = Checkpoint(self.checkpoint), {**self.options, "device": "cpu"}
        return plan_policy(Trained(found, options, found.path.parent.parent))
