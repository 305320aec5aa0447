"""The rules of `LibraryConformance` for how ranks learn together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rltrain.options import get_dotted
from rltrain.plugins import discover
from rltrain.specs import SuiteSpec
from rltrain.testing import Fault, PeerLost, leaves
from rltrain_devkit.kits.library_probe import Arrays, Probe, differing
from rltrain_devkit.kits.library_settings import ITERATIONS, LibrarySettings
from rltrain_devkit.kits.rules import after, skip, varied

OTHER_SEED = 7
"""Any seed but the default."""

_WRITTEN_BY_THE_CORE = (
    *("manifest.json", "config.yaml", "agent.yaml", "checkpoints.json", "metrics.jsonl"),
)


class EnvironmentBroke(Exception):
    """The error that the kit makes the environment raise."""


class TrainingRules(LibrarySettings):
    """Part of `LibraryConformance`."""

    def test_the_spec_is_complete(self) -> None:
        """Default options have each required key; refusals have a reason and an alternative."""
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

    @varied
    def test_every_rank_trains_to_the_end(self) -> None:
        """Every rank trains to the end, and calls the same collectives in the same order."""
        self._trained().check()

    @varied
    def test_every_optimizer_averages_its_gradients(self) -> None:
        """Every optimizer averages its gradients with session.gradient_sync, in every step."""
        ranks = self._ranks()
        calls = [[sync.calls for sync in probe.syncs] for probe in ranks]
        assert calls[0], "No gradient sync was made: call session.gradient_sync once an optimizer."
        assert all(other == calls[0] for other in calls), (
            f"Numbers of gradient sync calls differ between ranks; by rank: {calls}."
        )
        before = [0] * len(calls[0])
        for iteration, now in ranks[0].recorded:
            idle = [index + 1 for index in range(len(now)) if now[index] == before[index]]
            assert not idle, (
                f"Gradient sync number {idle[0]} was not called in iteration {iteration}: call it "
                "between every backward pass and the optimizer's step."
            )
            before = now

    @varied
    @after("test_every_optimizer_averages_its_gradients")
    def test_a_step_costs_one_average(self) -> None:
        """A step of an optimizer costs one call of its gradient sync: one collective."""
        for index, sync in enumerate(self._ranks()[0].syncs):
            assert sync.steps in (0, sync.calls), (
                f"Gradient sync number {index + 1} was called {sync.calls} times, and its "
                f"optimizer made {sync.steps} steps: call it once a step, after the last backward "
                "pass."
            )

    @varied
    @after(
        "test_every_optimizer_averages_its_gradients",
        "test_environments_are_seeded_by_the_global_rank",
        "test_the_learner_is_seeded_by_the_global_rank",
    )
    def test_every_rank_learns_from_its_own_data(self) -> None:
        """Every rank learns from its own data: the first gradients differ."""
        first = [{f"{i}": x.first for i, x in enumerate(probe.syncs)} for probe in self._ranks()]
        for rank, own in enumerate(first):
            for other in range(rank):
                assert any(differing(own[name], first[other][name]) for name in own), (
                    f"The first gradients of ranks {other} and {rank} are the same: learn from "
                    "what the rank's own environments returned."
                )

    @varied
    @after("test_every_optimizer_averages_its_gradients")
    def test_every_rank_ends_with_the_same_state(self) -> None:
        """Every rank ends with the same parameters and statistics, and with equal watched state.

        To the last bit; `session.watch` names what else must be equal.
        """
        ranks = self._ranks()
        own, names = leaves(ranks[0].models), _apart(ranks, lambda probe: probe.parameters)
        left_out = [name for name in names if not ranks[0].synchronizes(own[name])]
        assert not left_out, (
            f"{', '.join(left_out)}: in no gradient sync, and different between ranks after "
            "training: pass all parameters of the optimizer to session.gradient_sync."
        )
        buffers = _apart(ranks, lambda probe: probe.buffers)
        assert not buffers, (
            f"{', '.join(buffers)}: different between ranks after training: pool a normalizer's "
            "moments with session.group.all_reduce before it uses them."
        )
        assert not names, (
            f"{', '.join(names)}: different between ranks after training, although gradients were "
            "averaged: each rank must take the same steps, with the same learning rate and the "
            "same optimizer state."
        )
        if (error := self._trained().error) is not None:
            raise error

    def test_environments_are_seeded_by_the_global_rank(self) -> None:
        """Environments are seeded by the global rank: first observations differ."""
        ranks = self._ranks()
        for probe in ranks:
            for other in ranks[: probe.rank]:
                assert differing(probe.first_observations, other.first_observations), (
                    f"The first observations of ranks {other.rank} and {probe.rank} are the same: "
                    "reset session.env without a seed; it uses the rank's own."
                )

    def test_the_learner_is_seeded_by_the_global_rank(self) -> None:
        """The learner is seeded by the global rank, after the library's constructors."""
        ranks = self._ranks()
        wrong = [probe for probe in ranks if not _in_order(probe.events)]
        assert not wrong, (
            'session.seed("learner") must be called once, after the last session.wrap_model and '
            f"before the first step; on rank(s) {', '.join(str(probe.rank) for probe in wrong)} it "
            f"was not. Rank {wrong[0].rank}: {', '.join(wrong[0].events)}."
        )
        for name in ranks[0].first_generators:
            states = [probe.first_generators[name] for probe in ranks]
            for state in states:
                shared = [str(rank) for rank, other in enumerate(states) if other == state]
                assert len(shared) == 1, (
                    f"The global generator of {name} is in the same state on ranks "
                    f"{', '.join(shared)} when training begins: do not reseed it after "
                    'session.seed("learner"), which uses the global rank.'
                )

    def test_the_seed_determines_the_run(self) -> None:
        """The same seed gives the same run, to the last bit; a different seed a different run."""
        ranks, again = self._ranks(), self._two_nodes().check().probes
        for probe, repeated in zip(ranks, again, strict=True):
            names = differing(probe.parameters, repeated.parameters)
            assert not names, (
                f"{names[0]} ended different on rank {probe.rank} when the run was repeated with "
                "its seed: take random numbers only from generators that session.seed seeds."
            )
        other = self._train(1, seed=OTHER_SEED).check().probes[0]
        assert differing(ranks[0].first_parameters, other.first_parameters), (
            "A different seed gave models with the same parameters: do not reseed the generators "
            "before the models are made."
        )

    def test_iterations_are_recorded_one_by_one(self) -> None:
        """Every iteration is recorded, one by one from 1 to max_iterations."""
        recorded = [iteration for iteration, _ in self._ranks()[0].recorded]
        wanted = list(range(1, ITERATIONS + 1))
        assert recorded == wanted, (
            f"max_iterations was {ITERATIONS}; Scalars were recorded for iterations "
            f"{recorded[:8]}, not {wanted}. If the library used its own option, name it in "
            "OptionSchema.run_keys."
        )
        done = self._trained().iterations()
        assert set(done) == {ITERATIONS}, (
            f"max_iterations was {ITERATIONS}; session.result() has, by rank: {done}."
        )

    def test_only_rank_0_writes_and_only_through_the_session(self) -> None:
        """Only rank 0 writes files, and only through the session."""
        root, stray = self._ranks()[0], self._trained().files
        assert not stray, f"Files were written to the working directory: {', '.join(stray)}."
        folder = root.session.run_folder.path
        own = {folder / name for name in _WRITTEN_BY_THE_CORE} | {Path(x[0]) for x in root.saved}
        for path in sorted(filter(Path.is_file, folder.rglob("*"))):
            assert path in own or path.parent == folder / "checkpoints/ranks", (
                f"{path.relative_to(folder)} in the run folder was not written through the "
                "session: save with session.save_checkpoint, and log with session.record."
            )

    def test_every_rank_stops_early(self) -> None:
        """When session.should_stop is set, every rank stops after that iteration."""
        self._ranks()

        def stop(probe: Probe) -> None:
            probe.session.should_stop = True

        done = self._train(2, on_step=stop).check().iterations()
        assert done == [1, 1], (
            "session.should_stop was set on every rank in iteration 1; iterations done, by rank: "
            f"{done}. Check it after session.record, on every rank."
        )

    def test_an_error_of_the_environment_ends_the_run(self) -> None:
        """rltrain_train raises an error of the environment unchanged."""
        middle = self._ranks()[1].steps // 2

        def fail(probe: Probe) -> None:
            if probe.rank == 1 and probe.steps == middle:
                raise EnvironmentBroke("step() failed, as the kit planned.")

        training = self._train(2, on_step=fail)
        assert isinstance(training.error, EnvironmentBroke), (
            "session.env.step raised EnvironmentBroke on rank 1; what ended the training was "
            f"{training.error!r}. Do not catch errors."
        )

    def test_a_lost_peer_ends_the_rank(self) -> None:
        """A rank that loses a peer ends with the error that its collective raises."""
        self._ranks()
        middle = self._trained().collectives // 2
        training = self._train(2, Fault("dies", rank=1, at=middle))
        root = training.probes[0]
        ended = f"raised {root.error!r}" if root.error else "returned, as if training had ended"
        assert isinstance(root.error, PeerLost), (
            f"Rank 1 died at its collective number {middle}, in training. On rank 0 rltrain_train "
            f"{ended}: it must raise the collective's error. The run raised {training.error!r}."
        )

    def test_one_process_trains_alone(self) -> None:
        """One process without --distributed trains alone, without a process group."""
        self._alone().check()

    def test_ranks_learn_as_one(self) -> None:
        """Two ranks learn as one rank with the environments of both, computed in float64."""
        if self.not_as_one or self.framework != "torch":
            skip(self.not_as_one or "random numbers of jax cannot be given to another rank")
        self._ranks()
        if self._broken:
            skip("ranks break another rule already")
        from rltrain_devkit.as_one.runs import ITERATIONS, apart_from_one

        options = {**self._options(), "agent": {**self.agent, **self.as_one}}
        apart = apart_from_one(options, self.scaled, self.rank_local)
        most = max(apart, key=lambda name: apart[name], default="")
        assert not apart, (
            f"{most} ended {apart[most]:.1g} of its size away, after {ITERATIONS} iterations; "
            f"{len(apart)} tensor(s) differ. Pool over ranks what is normalized or decided by a "
            "batch, such as advantages (rltrain_torch.moments.pool_moments). If options are sizes "
            "of batches, name them in `scaled`; if ranks cannot learn as one, say why in "
            "`not_as_one`."
        )


def _in_order(events: Sequence[str]) -> bool:
    wraps = [place for place, event in enumerate(events) if event.startswith("wrap")]
    seeds = [place for place, event in enumerate(events) if event == "seed learner"]
    return len(seeds) == 1 and max(wraps, default=-1) < seeds[0] < events.index("step")


def _apart(ranks: Sequence[Probe], state: Callable[[Probe], Arrays]) -> list[str]:
    """Return the names of the arrays that are not the same on all ranks."""
    first = state(ranks[0])
    names = [name for other in ranks[1:] for name in differing(first, state(other))]
    return list(dict.fromkeys(names))
