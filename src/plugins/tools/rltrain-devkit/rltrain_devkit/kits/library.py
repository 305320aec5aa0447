"""The conformance kit for libraries: what an adapter must do for ranks to learn together."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from rltrain.errors import UsageError
from rltrain.launch import hide_rank_variables
from rltrain.policies import Trained, open_session, plan_policy
from rltrain.policy import Policy, PolicyModule
from rltrain.runs import Checkpoint
from rltrain.seeding import SeedPlan
from rltrain.testing import FakeWorld
from rltrain_devkit.kits.arrays import array, to_numpy
from rltrain_devkit.kits.library_probe import Arrays, Probe, differing
from rltrain_devkit.kits.library_settings import ITERATIONS
from rltrain_devkit.kits.library_training import OTHER_SEED, TrainingRules
from rltrain_devkit.kits.rules import after, skip, varied

T = TypeVar("T")


class LibraryConformance(TrainingRules):
    """Trains with a library on the ranks of a fake world, and checks the contract.

    Subclass it in a test file and set `library`. `rltrain_devkit.kits.library_settings` has the
    other settings. Training runs in this process, without sockets.

    Example:
        ```python
        class TestMyLibrary(LibraryConformance):
            library = "my_library"
            agent = {"steps": 8}
        ```

    If training fails altogether, one test fails, and those that need the training are skipped.
    """

    @after(
        "test_every_optimizer_averages_its_gradients", "test_every_rank_ends_with_the_same_state"
    )
    def test_every_rank_resumes_from_a_checkpoint(self) -> None:
        """It saves a checkpoint, which is recognized, and from which every rank resumes."""
        if not self.saves_checkpoints:
            skip("saves_checkpoints is False.")
        ranks, spec = self._ranks(), self._spec()
        assert ranks[0].saved, "No checkpoint was saved: call session.save_checkpoint at the end."
        declared = spec.checkpoint is not None
        assert declared, "The spec lacks checkpoint=CheckpointFormat(...)."
        path, parameters, _ = ranks[0].saved[-1]
        training = self._train(2, checkpoint=path, max_iterations=2 * ITERATIONS).check()
        for probe in training.probes:
            names = differing(parameters, probe.first_parameters)
            assert not names, (
                f"{', '.join(names)} on rank {probe.rank} differed from the checkpoint when "
                "training began: load session.checkpoint on every rank."
            )
        if training.error is not None:
            raise training.error

    def test_a_checkpoint_is_saved_when_it_is_due(self) -> None:
        """It saves a checkpoint after every iteration in which one is due."""
        if not self.saves_checkpoints:
            skip("saves_checkpoints is False.")
        self._ranks()
        root = self._train(2, checkpoint_interval=1).check().probes[0]
        due = sorted(set(range(1, ITERATIONS)) - {iteration for *_, iteration in root.saved})
        assert not due, (
            f"No checkpoint was saved after iteration {', '.join(map(str, due))}: after "
            "session.record, call session.save_checkpoint if session.should_save."
        )

    @varied
    @after(
        "test_every_optimizer_averages_its_gradients",
        "test_every_rank_ends_with_the_same_state",
        "test_the_learner_is_seeded_by_the_global_rank",
        "test_the_seed_determines_the_run",
        "test_iterations_are_recorded_one_by_one",
        "test_every_rank_stops_early",
        "test_every_rank_resumes_from_a_checkpoint",
    )
    def test_a_resumed_run_ends_as_if_it_had_never_stopped(self) -> None:
        """A run that is stopped and resumed ends as if it had never stopped, to the last bit."""
        if not self.saves_checkpoints or not self.resumes_exactly:
            skip("saves_checkpoints or resumes_exactly is False.")
        self._ranks()
        whole = self._train(2).check().probes

        def stop(probe: Probe) -> None:
            probe.session.should_stop |= probe.steps == whole[0].steps // ITERATIONS - 1

        stopped = self._train(2, on_step=stop).check().probes[0]
        resumed = self._train(2, checkpoint=stopped.saved[-1][0]).check().probes
        if not resumed[0].session.resuming_exactly:
            skip("The task cannot save its state: choose one that can.")
        recorded = len(resumed[0].recorded)
        assert recorded == ITERATIONS - 1, (
            f"The run was stopped after iteration 1 of {ITERATIONS}, and resumed; then it recorded "
            f"{recorded}: end at config.max_iterations, which includes iterations "
            "before the checkpoint (session.iterations_left)."
        )
        for probe, again in zip(whole, resumed, strict=True):
            names = differing(probe.state, again.state)
            assert not names, (
                f"{', '.join(names)} on rank {probe.rank} ended different when the run was stopped "
                "after its first iteration and resumed. After session.record, save all that the "
                "next iteration depends on: optimizer, learning rate, schedules; and each rank's "
                "own state with save_checkpoint(rank_state=...)."
            )

    @after(
        "test_every_rank_resumes_from_a_checkpoint",
        "test_a_resumed_run_ends_as_if_it_had_never_stopped",
    )
    def test_a_finished_run_has_nothing_left_to_do(self) -> None:
        """A finished run is not resumed: where its iterations are done, nothing is trained."""
        if not self.saves_checkpoints:
            skip("saves_checkpoints is False.")
        # Alone, as a user copies it: what rltrain writes next to it, it reads itself.
        checkpoint = shutil.copy(self._ranks()[0].saved[-1][0], self._scratch)
        training = self._train(2, checkpoint=checkpoint)
        assert isinstance(training.error, UsageError), (
            f"A run of {ITERATIONS} iterations was resumed after the last one, and "
            f"{f'raised {training.error!r}' if training.error else 'trained on'}: ask "
            "session.iterations_left how many are left, which refuses if none is."
        )

    @varied
    @after(
        "test_the_learner_is_seeded_by_the_global_rank",
        "test_every_rank_resumes_from_a_checkpoint",
    )
    def test_a_loaded_policy_acts_as_in_training(self) -> None:
        """A loaded policy acts as the agent does in training, to the last bit."""
        checkpoint = self._checkpoint_of_a_policy()
        more = 2 * ITERATIONS
        resumed = self._train(1, checkpoint=checkpoint, max_iterations=more, seed=OTHER_SEED)
        probe = resumed.check().probes[0]
        steps = probe.first_steps

        def act(policy: Policy, seed: Callable[[], None]) -> list[Any]:
            policy.act(self._as_returned(steps[0].observations))  # To be forgotten.
            policy.reset()
            seed()
            found = []
            for step in steps:
                actions = policy.act(self._as_returned(step.observations), deterministic=False)
                found.append(to_numpy(actions))
                policy.reset(array(self.framework, step.done, "bool"))
            return found

        acted = self._with_policy(checkpoint, act, probe.session.seeds)
        for number, (step, actions) in enumerate(zip(steps, acted, strict=True)):
            assert not differing({"": step.actions}, {"": actions}), (
                f"In step {number} after the checkpoint the agent has chosen {step.actions[:2]} in "
                f"training, and the loaded policy {actions[:2]}. With deterministic=False it must "
                "sample by the same calls as in training, from all that was learned: normalizers, "
                "too. The environments get what the library does with the network's output."
            )

    @varied
    @after("test_every_rank_resumes_from_a_checkpoint")
    def test_a_deterministic_policy_repeats_itself(self) -> None:
        """A policy that acts deterministically repeats itself after a reset, to the last bit."""
        step = self._ranks()[0].first_steps[0]

        def act(policy: Policy, seed: Callable[[], None]) -> tuple[Any, Any]:
            first = to_numpy(policy.act(self._as_returned(step.observations)))
            policy.reset()
            return first, to_numpy(policy.act(self._as_returned(step.observations)))

        first, second = self._with_policy(self._checkpoint_of_a_policy(), act)
        assert not differing({"": first}, {"": second}), (
            f"For the same observations, after reset(), the policy has chosen {first[:2]}, and "
            f"then {second[:2]}: sample nothing, forget the recurrent state, update no normalizer."
        )

    @varied
    @after("test_every_rank_resumes_from_a_checkpoint")
    def test_a_policys_module_chooses_the_same(self) -> None:
        """A policy's module chooses what the policy chooses, within 1e-5."""

        def act(policy: Policy, seed: Callable[[], None]) -> list[tuple[Any, Any]] | str:
            try:
                module = policy.module()
            except UsageError as error:
                return str(error)
            infos = module.states.values()
            states: list[Any] = [np.zeros((self.num_envs, *info.shape)) for info in infos]
            found = []
            for step in self._ranks()[0].first_steps:
                chosen = to_numpy(policy.act(self._as_returned(step.observations)))
                exported, *states = self._call(module, step.observations, states)
                found.append((chosen, exported))
                policy.reset(array(self.framework, step.done, "bool"))
                states = [(state.T * ~step.done).T for state in states]
            return found

        found = self._with_policy(self._checkpoint_of_a_policy(), act)
        if isinstance(found, str):
            skip(f"module() is refused: {found}")
        for chosen, exported in found:
            assert chosen.shape == exported.shape, (
                f"policy.act returns actions of shape {chosen.shape}, its module {exported.shape}."
            )
            assert np.allclose(chosen, exported, rtol=1e-5, atol=1e-5), (
                f"policy.act has chosen {chosen[:2]}, and its module {exported[:2]}: the module "
                "holds everything from the suite's observations to the suite's actions."
            )

    def _checkpoint_of_a_policy(self) -> str:
        if not self.loads_policies or not self.saves_checkpoints:
            skip("loads_policies or saves_checkpoints is False.")
        return self._ranks()[0].saved[-1][0]

    def _with_policy(
        self,
        checkpoint: str,
        use: Callable[[Policy, Callable[[], None]], T],
        seeds: SeedPlan | None = None,
    ) -> T:
        """Load a policy in a world of its own; call `use` with it and what seeds the learner."""

        def load(group: Any) -> T:
            hide_rank_variables(os.environ)
            found, options = Checkpoint(checkpoint), {**self._options(), "device": "cpu"}
            plan = plan_policy(Trained(found, options, found.path.parent.parent))
            assert plan.world is not None, "a policy that starts no ranks has a place"
            with open_session(plan.config, plan.world, plan.registry) as session:
                session.seeds = seeds or session.seeds
                return use(session.load_policy(), lambda: session.seed("learner"))

        return FakeWorld(1, rank_local=self.rank_local).run(load)[0]

    def _as_returned(self, observations: Arrays) -> Any:
        """Return observations as the environments return them."""
        made = {name: array(self.framework, x, str(x.dtype)) for name, x in observations.items()}
        return made.get("", made)

    def _call(self, module: PolicyModule, seen: Arrays, states: list[Any]) -> tuple[Any, ...]:
        infos = [*module.inputs.values(), *module.states.values()]
        groups = [seen.get(group, seen.get("")) for group in module.inputs]
        given = zip([*groups, *states], infos, strict=True)
        arrays = [array(self.framework, each, info.dtype) for each, info in given]
        return tuple(map(to_numpy, module.function(*arrays)))
