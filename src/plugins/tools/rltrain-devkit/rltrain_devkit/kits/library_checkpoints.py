"""The rules for checkpoints, and for the policies that are loaded from them."""

from __future__ import annotations

from rltrain.errors import UsageError
from rltrain.policies import recognizes
from rltrain_devkit.kits import library_findings as find
from rltrain_devkit.kits.library_probe import Probe, Step, differing
from rltrain_devkit.kits.library_settings import ITERATIONS, LibrarySettings
from rltrain_devkit.kits.rules import may, skip

OTHER_SEED = 7
"""Any seed but the default."""


class CheckpointRules(LibrarySettings):
    """Part of `LibraryConformance`."""

    @may("It saves a checkpoint, which is recognized, and from which every rank resumes.")
    def test_every_rank_resumes_from_a_checkpoint(self) -> None:
        """On two ranks, from the last checkpoint of a run on four."""
        if not self.saves_checkpoints:
            skip("saves_checkpoints is False.")
        ranks = self._ranks()
        assert ranks[0].saved, "No checkpoint was saved: call session.save_checkpoint at the end."
        spec = self._spec()
        declared = spec.checkpoint is not None
        assert declared, "The spec lacks checkpoint=CheckpointFormat(...)."
        path, parameters = ranks[0].saved[-1]
        training = self._trainer().on_ranks(2, checkpoint=path, max_iterations=2 * ITERATIONS)
        training.check()
        for probe in training.probes:
            names = differing(parameters, probe.first_parameters)
            assert not names, (
                f"{', '.join(names)} on rank {probe.rank} differed from the checkpoint when "
                "training began: load session.checkpoint on every rank."
            )
        if self._trained().error is None and training.error is not None:
            raise training.error

    @may("It saves a checkpoint after every iteration in which one is due.")
    def test_a_checkpoint_is_saved_when_it_is_due(self) -> None:
        """On two ranks, with `checkpoint_interval=1`."""
        if not self.saves_checkpoints:
            skip("saves_checkpoints is False.")
        self._ranks()
        training = self._trainer().on_ranks(2, checkpoint_interval=1)
        training.check()
        root = training.probes[0]
        due = sorted(set(range(1, ITERATIONS + 1)) - {ITERATIONS} - set(root.saved_after))
        assert not due, (
            f"No checkpoint was saved after iteration {', '.join(map(str, due))}: after "
            "session.record, call session.save_checkpoint if session.should_save."
        )

    @may("A run that is stopped and resumed ends as if it had never stopped, to the last bit.")
    def test_a_resumed_run_ends_as_if_it_had_never_stopped(self) -> None:
        """On one rank: other tests check differences between ranks."""
        if not self.saves_checkpoints or not self.resumes_exactly:
            skip("saves_checkpoints or resumes_exactly is False.")
        ranks = self._ranks()
        whole, again = (self._trainer().on_ranks(1).check().probes[0] for _ in range(2))
        if (
            find.unordered_seeds(ranks)
            or find.shared_seeds(ranks)
            or differing(whole.parameters, again.parameters)
            or len(whole.recorded) != ITERATIONS
        ):
            skip("Seeds or records are wrong, which other tests report.")

        def stop(probe: Probe) -> None:
            probe.session.should_stop |= probe.steps == whole.steps // ITERATIONS - 1

        stopped = self._trainer().on_ranks(1, on_step=stop).check().probes[0]
        if len(stopped.recorded) != 1 or not stopped.saved:
            skip("It does not stop early, or saves no checkpoint then, which other tests report.")
        training = self._trainer().on_ranks(1, checkpoint=stopped.saved[-1][0])
        if isinstance(training.error, UsageError):
            skip("The checkpoint is refused, which another test reports.")
        resumed = training.check().probes[0]
        if not resumed.session.resuming_exactly:
            skip("The task cannot save its state: choose one that can.")
        assert len(resumed.recorded) == ITERATIONS - 1, (
            f"The run was stopped after iteration 1 of {ITERATIONS}, and resumed; then it recorded "
            f"{len(resumed.recorded)}: end at config.max_iterations, which includes iterations "
            "before the checkpoint (session.iterations_left)."
        )
        names = differing(whole.parameters, resumed.parameters)
        assert not names, (
            f"{', '.join(names)} ended different when the run was stopped after its first "
            "iteration and resumed. After session.record, save all that the next iteration depends "
            "on: optimizer, learning rate, schedules; and each rank's own state with "
            "save_checkpoint(rank_state=...)."
        )

    @may("A loaded policy acts as the agent does in training, to the last bit.")
    def test_a_loaded_policy_acts_as_in_training(self) -> None:
        """Draws by the same generators, until the agent has learned more."""
        checkpoint, ranks = self._checkpoint_of_a_policy(), self._ranks()
        if find.unordered_seeds(ranks) or find.shared_seeds(ranks):
            skip("The learner's seeds are wrong, which another test reports.")
        training = self._trainer().on_ranks(
            1, checkpoint=checkpoint, max_iterations=2 * ITERATIONS, seed=OTHER_SEED
        )
        if not training.finished or not training.probes[0].first_steps:
            skip("It does not resume from a checkpoint, which another test reports.")
        probe = training.probes[0]
        acted = self._loader(checkpoint).actions(probe.first_steps, probe.session.seeds)
        for number, (step, drawn) in enumerate(zip(probe.first_steps, acted, strict=True)):
            assert not differing({"": step.actions}, {"": drawn}), (
                f"In step {number} after the checkpoint the agent has chosen {step.actions[:2]} in "
                f"training, and the loaded policy {drawn[:2]}. With deterministic=False it must "
                "draw by the same calls as in training, from all that was learned: normalizers, "
                "too. The environments get what the library does with the network's output."
            )

    @may("A policy that acts deterministically repeats itself after a reset, to the last bit.")
    def test_a_deterministic_policy_repeats_itself(self) -> None:
        """Also with a recurrent state, and with normalizers."""
        checkpoint = self._checkpoint_of_a_policy()
        first, second = self._loader(checkpoint).repeated(self._a_step())
        assert not differing({"": first}, {"": second}), (
            f"For the same observations, after reset(), the policy has chosen {first[:2]}, and "
            f"then {second[:2]}: draw nothing, forget the recurrent state, update no normalizer."
        )

    @may("A policy's module chooses what the policy chooses.")
    def test_a_policys_module_chooses_the_same(self) -> None:
        """For the first observations of an episode; within 1e-5."""
        import numpy as np

        checkpoint = self._checkpoint_of_a_policy()
        found = self._loader(checkpoint).by_module(self._a_step())
        if isinstance(found, str):
            skip(f"module() is refused: {found}")
        chosen, exported = found
        assert chosen.shape == exported.shape, (
            f"policy.act returns actions of shape {list(chosen.shape)}, its module of shape "
            f"{list(exported.shape)}."
        )
        assert np.allclose(chosen, exported, rtol=1e-5, atol=1e-5), (
            f"policy.act has chosen {chosen[:2]}, and its module {exported[:2]}: the module holds "
            "everything from the suite's observations to the suite's actions."
        )

    def _checkpoint_of_a_policy(self) -> str:
        """Return a checkpoint; skip the test if there is none, or no policy is loaded."""
        if not self.loads_policies or not self.saves_checkpoints:
            skip("loads_policies or saves_checkpoints is False.")
        ranks = self._ranks()
        if not ranks[0].saved:
            skip("No checkpoint was saved, which another test reports.")
        checkpoint = ranks[0].saved[-1][0]
        if not recognizes(self._spec(), checkpoint, trusted=False, in_child=False):
            skip("The checkpoint is not recognized, which another test reports.")
        return checkpoint

    def _a_step(self) -> Step:
        return self._ranks()[0].first_steps[0]
