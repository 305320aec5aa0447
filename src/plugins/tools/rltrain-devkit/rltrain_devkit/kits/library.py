"""The conformance kit for libraries: what an adapter must do for ranks to learn together."""

from __future__ import annotations

from collections.abc import Sequence

from rltrain.options import get_dotted
from rltrain.plugins import discover
from rltrain.specs import SuiteSpec
from rltrain.testing import Fault, PeerLost
from rltrain_devkit.kits import library_findings as find
from rltrain_devkit.kits.library_checkpoints import OTHER_SEED, CheckpointRules
from rltrain_devkit.kits.library_probe import Probe, differing
from rltrain_devkit.kits.library_settings import ITERATIONS
from rltrain_devkit.kits.rules import may, must, skip


class EnvironmentBroke(Exception):
    """The error that the kit makes the environment raise."""


class LibraryConformance(CheckpointRules):
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

    @must("The default options have every required key; refusals have a reason and an alternative.")
    def test_the_spec_is_complete(self) -> None:
        """For the kit's task, with every algorithm."""
        spec = self._spec()
        task = next(filter(None, (s.describe(self.task, {}) for s in discover().all(SuiteSpec))))
        for algorithm in spec.algorithms:
            agent = spec.default_agent(task, algorithm)
            lacking = [key for key in spec.schema.required if get_dotted(agent, key, None) is None]
            assert not lacking, f"default_agent for {algorithm} lacks {', '.join(lacking)}."
        assert spec.schema.required, "schema.required is empty: it would match any library's file."
        for refusal in spec.refuses:
            parts = (refusal.name, refusal.reason, refusal.instead)
            assert all(parts), f"name, reason or instead is empty in {refusal}."

    @must("Every rank trains to the end, and calls the same collectives in the same order.")
    def test_every_rank_trains_to_the_end(self) -> None:
        """On two nodes with two ranks each; most other tests check this training."""
        if self._breaks_contract() and find.unwrapped(self._trained().probes):
            skip("A model that is trained is not wrapped, which another test reports.")
        self._trained().check()

    @must("Every optimizer averages its gradients with session.gradient_sync, in every step.")
    def test_every_optimizer_averages_its_gradients(self) -> None:
        """Counts the calls of each gradient sync between two records."""
        _require(find.missing_averages(self._ranks()))

    @must("Every trained parameter is in a gradient sync.")
    def test_no_parameter_is_left_out_of_the_gradient_sync(self) -> None:
        """A parameter that is missing differs between ranks after training."""
        _require(find.left_out(self._ranks()))

    @must("Every model that is trained goes through session.wrap_model.")
    def test_every_trained_model_is_wrapped(self) -> None:
        """The parameters in a gradient sync are those that are trained."""
        # A run ends by itself for that, after the first iteration.
        _require(
            find.unwrapped(self._trained().probes if self._breaks_contract() else self._ranks())
        )

    @must("Every rank ends with the same parameters, and with equal watched state.")
    def test_every_rank_ends_with_the_same_parameters(self) -> None:
        """To the last bit; `session.watch` names what else must be equal."""
        ranks = self._ranks()
        if find.missing_averages(ranks) or find.left_out(ranks):
            skip("Gradients are not averaged, which another test reports.")
        _require(find.different_parameters(ranks))
        error = self._trained().error
        if error is not None and not find.different_buffers(ranks):
            raise error

    @must("Every rank ends with the same normalizer statistics.")
    def test_every_rank_ends_with_the_same_statistics(self) -> None:
        """The buffers of the wrapped models."""
        _require(find.different_buffers(self._ranks()))

    @may("Two ranks learn as one rank with the environments of both.")
    def test_ranks_learn_as_one(self) -> None:
        """From the same episodes and random numbers, in float64."""
        if self.not_as_one or self.framework != "torch":
            skip(self.not_as_one or "random numbers of jax cannot be given to another rank")
        ranks = self._ranks()
        if any(wrong(ranks) for wrong in find.APART):
            skip("The ranks do not learn together, which another test reports.")
        from rltrain_devkit.as_one.runs import ITERATIONS, apart_from_one

        options = {**self._options(), "agent": {**self.agent, **self.as_one}}
        try:
            apart = apart_from_one(options, self.scaled, self.rank_local)
        except Exception:
            if self._trainer().alone().error is not None:
                skip("One process does not train alone, which another test reports.")
            raise
        if apart and find.changed(ranks, self._two_nodes().probes):
            skip("The seed does not determine the run, which another test reports.")
        most = max(apart, key=lambda name: apart[name], default="")
        assert not apart, (
            f"{most} ended {apart[most]:.1g} of its size away, after {ITERATIONS} iterations; "
            f"{len(apart)} tensor(s) differ. Pool over ranks what is normalized or decided by a "
            "batch, such as advantages (rltrain_torch.moments.pool_moments). If options are sizes "
            "of batches, name them in `scaled`; if ranks cannot learn as one, say why in "
            "`not_as_one`."
        )

    @must("Environments are seeded by the global rank.")
    def test_environments_are_seeded_by_the_global_rank(self) -> None:
        """Compares first observations; two ranks have the same local rank."""
        _require(find.alike(self._ranks()))

    @must("The learner is seeded by the global rank, after the library's constructors.")
    def test_the_learner_is_seeded_by_the_global_rank(self) -> None:
        """Compares the states of the global generators at the first step."""
        ranks = self._ranks()
        _require(find.unordered_seeds(ranks) or find.shared_seeds(ranks))

    @must("The same seed gives the same run, and a different seed a different run.")
    def test_the_seed_determines_the_run(self) -> None:
        """To the last bit, on every rank."""
        ranks = self._ranks()
        again = self._two_nodes()
        again.check()
        _require(find.changed(ranks, again.probes))
        other = self._trainer().on_ranks(1, seed=OTHER_SEED)
        other.check()
        assert differing(ranks[0].first_parameters, other.probes[0].first_parameters), (
            "A different seed gave models with the same parameters: do not reseed the generators "
            "before the models are made."
        )

    @must("Every iteration is recorded, one by one from 1 to max_iterations.")
    def test_iterations_are_recorded_one_by_one(self) -> None:
        """Checks the writers' records and each rank's result."""
        ranks = self._ranks()
        recorded = [iteration for iteration, _ in ranks[0].recorded]
        wanted = list(range(1, ITERATIONS + 1))
        assert recorded == wanted, (
            f"max_iterations was {ITERATIONS}; Scalars were recorded for iterations "
            f"{recorded[:8]}, not {wanted}. If the library used its own option, name it in "
            "OptionSchema.run_keys."
        )
        done = _iterations(ranks)
        assert done == [ITERATIONS] * len(ranks), (
            f"max_iterations was {ITERATIONS}; session.result() has, by rank: {done}."
        )

    @must("Only rank 0 writes files, and only through the session.")
    def test_only_rank_0_writes_and_only_through_the_session(self) -> None:
        """Checks the run folder and the working directory."""
        root = self._ranks()[0]
        stray = self._trained().files
        assert not stray, f"Files were written to the working directory: {', '.join(stray)}."
        _require(find.foreign_files(root))

    @must("When session.should_stop is set, every rank stops after that iteration.")
    def test_every_rank_stops_early(self) -> None:
        """Sets `session.should_stop` during the first iteration."""
        self._ranks()

        def stop(probe: Probe) -> None:
            probe.session.should_stop = True

        training = self._trainer().on_ranks(2, on_step=stop)
        training.check()
        done = _iterations(training.probes)
        assert done == [1, 1], (
            "session.should_stop was set on every rank in iteration 1; iterations done, by rank: "
            f"{done}. Check it after session.record, on every rank."
        )

    @must("rltrain_train raises an error of the environment unchanged.")
    def test_an_error_of_the_environment_ends_the_run(self) -> None:
        """Raises it on one rank, in the middle of training."""
        middle = self._ranks()[1].steps // 2

        def fail(probe: Probe) -> None:
            if probe.rank == 1 and probe.steps == middle:
                raise EnvironmentBroke("step() failed, as the kit planned.")

        training = self._trainer().on_ranks(2, on_step=fail)
        assert isinstance(training.error, EnvironmentBroke), (
            "session.env.step raised EnvironmentBroke on rank 1; what ended the training was "
            f"{training.error!r}. Do not catch errors."
        )

    @must("A rank that loses a peer ends with the error that its collective raises.")
    def test_a_lost_peer_ends_the_rank(self) -> None:
        """One of two ranks dies in the middle of training."""
        self._ranks()
        middle = self._trained().collectives // 2
        training = self._trainer().on_ranks(2, Fault("dies", rank=1, at=middle))
        root = training.probes[0]
        ended = f"raised {root.error!r}" if root.error else "returned, as if training had ended"
        assert isinstance(root.error, PeerLost), (
            f"Rank 1 died at its collective number {middle}, in training. On rank 0 rltrain_train "
            f"{ended}: it must raise the collective's error. The run raised {training.error!r}."
        )

    @must("One process without --distributed trains alone, without a process group.")
    def test_one_process_trains_alone(self) -> None:
        """With an ordinary session, in this process."""
        self._trainer().alone().check()


def _require(findings: Sequence[str]) -> None:
    assert not findings, "\n".join(findings)


def _iterations(ranks: Sequence[Probe]) -> list[int | None]:
    return [probe.result.iterations if probe.result else None for probe in ranks]
