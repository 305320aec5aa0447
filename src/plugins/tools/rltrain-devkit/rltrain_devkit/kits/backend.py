"""The conformance kit for backends, as tests to subclass."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal

from rltrain.launch import rank_device
from rltrain.plugins import discover, usual_of
from rltrain.specs import BackendSpec, GradientSyncSpec, LauncherSpec, LibrarySpec, Spec
from rltrain.work import preflight
from rltrain_devkit.kits import arrays as kit_arrays
from rltrain_devkit.kits.backend_ranks import RankReport, run_worlds, train_on_ranks
from rltrain_devkit.kits.given import GivenPlugins
from rltrain_devkit.kits.rules import may, must, skip

_HEAVY = ("jax", "numpy", "torch")

_NOT_REACHED = {"error": "the process did not reach this check"}


class BackendConformance(GivenPlugins):
    """What every backend must do, tested with real processes on this machine.

    The processes are started once per class: one world of `ranks` processes, and one of a single
    process.

    Example:
        ```python
        from rltrain_devkit import BackendConformance

        class TestMyBackend(BackendConformance):
            backend = "my_backend"
        ```
    """

    backend: str
    """The name under which the installed plugin declares it."""
    device: str | None = None
    """The kind of device to test on; by default the backend's own."""
    ranks: int = 2
    """Number of processes to start. With fewer devices, unless ranks share them, the tests are
    skipped."""
    devices: int | None = None
    """On how many of its devices; with fewer than ranks, these share them. None for all."""
    started_by: Sequence[str] = ()
    """The command that starts `{ranks}` processes, if the backend needs one: `("mpiexec", "-n",
    "{ranks}")`. They find their places as ranks of rltrain do."""
    seeds_generator: bool = True
    """Whether the framework has a global random generator, which `rltrain_seed` must seed. torch
    has one, jax has none."""

    trains: bool = True
    """Whether to train on it, too, which takes longer than all other tests together."""

    @must("The launcher and the gradient sync of its runs are declared, and installed.")
    def test_its_runs_have_a_launcher_and_a_gradient_sync(self) -> None:
        """By the backend itself, or by the usual backends of its framework."""
        spec, registry = self._spec(), discover()
        defaults: tuple[tuple[Literal["launcher", "grad_sync"], type[Spec]], ...]
        defaults = ("launcher", LauncherSpec), ("grad_sync", GradientSyncSpec)
        for what, kind in defaults:
            name = usual_of(registry, spec.framework, what, spec.name)
            assert name in registry.names(kind), (
                f"without --{what.replace('_', '-')} a run takes {name}, which no installed plugin "
                f"provides: name one in BackendSpec({what}=...)"
            )

    @must("The group's rank, world size and device are the world's.")
    def test_each_rank_knows_its_place(self) -> None:
        """As the adapters read them."""
        spec, devices = self._spec(), self._devices()
        kind = spec.kind_of_device(self.device)
        for rank, found in enumerate(self._results("init_distributed")):
            device = rank_device(kind, rank, devices, shared=True)
            expected = {"rank": rank, "world_size": self.ranks, "device": device}
            assert found == expected, f"on rank {rank} the group has {found}, not {expected}"

    @must("all_reduce combines arrays of the framework and of numpy: sum, mean, min and max.")
    def test_all_reduce_combines_arrays(self) -> None:
        """Each rank contributes its number, from 1, and the negated number."""
        numbers = [rank + 1.0 for rank in range(self.ranks)]
        for rank, found in enumerate(self._results("all_reduce")):
            for name, reduced in found.items():
                one = _combined(name.partition(" ")[0], numbers)
                two = _combined(name.partition(" ")[0], [-number for number in numbers])
                assert reduced == [one, two], (
                    f"on rank {rank}, the {name} with {numbers} at index 0 and the negated numbers "
                    f"at index 1 is {reduced}, not {[one, two]}"
                )

    @must("Collectives return arrays of the framework, dtype and shape that they are given.")
    def test_collectives_keep_kind_dtype_and_shape(self) -> None:
        """Transposed and 0-dimensional arrays too."""
        for rank, found in enumerate(self._results("keep_form")):
            for name, (given, got) in found.items():
                assert given == got, f"on rank {rank}, {name} returned {got}"

    @must("broadcast gives every rank the source's array, whichever rank is the source.")
    def test_broadcast_gives_the_sources_array(self) -> None:
        """Each rank passes its own number."""
        for rank, found in enumerate(self._results("broadcast")):
            for name, got in found.items():
                src = int(name.rpartition(" ")[2])
                assert got == [src], f"on rank {rank}, the {name} was {got}, not [{src}]"

    @must("broadcast_object gives every rank the source's object, whichever rank is the source.")
    def test_broadcast_object_gives_the_sources_object(self) -> None:
        """Objects have different sizes."""
        expected = [["object of rank", src] * (src + 1) for src in range(self.ranks)]
        for rank, found in enumerate(self._results("broadcast_object")):
            assert found == expected, f"on rank {rank}, {found} arrived instead of {expected}"

    @must("gather_objects gives every rank all objects, in the order of ranks.")
    def test_gather_objects_is_in_the_order_of_ranks(self) -> None:
        """Objects have different sizes."""
        expected = [[src] * (src + 1) for src in range(self.ranks)]
        for rank, found in enumerate(self._results("gather_objects")):
            assert found == expected, f"on rank {rank}, {found} arrived instead of {expected}"

    @must("gather_objects with dst gives that rank all objects, and the others an empty list.")
    def test_gather_objects_with_dst_is_for_one_rank(self) -> None:
        """The last rank gathers."""
        everything = [[src] * (src + 1) for src in range(self.ranks)]
        for rank, found in enumerate(self._results("gather_objects_on_one")):
            expected = everything if rank == self.ranks - 1 else []
            assert found == expected, f"on rank {rank}, {found} arrived instead of {expected}"

    @must("An object that is not data only is refused with TypeError, before anything is sent.")
    def test_what_is_not_data_is_refused(self) -> None:
        """`rltrain.data.pack_object` does it; unpickling other objects can run any code."""
        for alone in (False, True):
            for rank, accepting in enumerate(self._results("refuse_objects", alone)):
                assert not accepting, (
                    f"on rank {rank}, {' and '.join(accepting)} took an object of a class: "
                    "exchange what rltrain.data.pack_object returns, and read it with "
                    "unpack_object"
                )

    @must("No rank leaves a barrier before every rank has reached it.")
    def test_no_rank_leaves_a_barrier_early(self) -> None:
        """Each rank is late once."""
        everyone = list(range(self.ranks))
        for rank, found in enumerate(self._results("barrier")):
            for late, seen in enumerate(found):
                assert seen == everyone, (
                    f"rank {late} was late, and rank {rank} left when only {seen} had arrived"
                )

    @may("The same seed draws the same numbers from the framework's generator, on every rank.")
    def test_the_same_seed_draws_the_same_numbers(self) -> None:
        """In one process, and on all ranks."""
        drawn = [draws for first, second, _ in self._drawn() for draws in (first, second)]
        assert all(draws == drawn[0] for draws in drawn), (
            f"after the same seed, different numbers were drawn: {drawn}: rltrain_seed must seed "
            "the framework's global generator with exactly the seed that it is given"
        )

    @may("A different seed draws different numbers from the framework's generator.")
    def test_another_seed_draws_other_numbers(self) -> None:
        """Otherwise, all ranks would explore alike."""
        for _, second, other in self._drawn():
            assert second != other, f"after two different seeds, {other} was drawn both times"

    @must("wrap_model returns an object with the model's interface, normally the model itself.")
    def test_a_wrapped_model_keeps_its_interface(self) -> None:
        """Libraries call their own methods on their models."""
        for found in self._results("wrap_model"):
            assert not found["lacks"], (
                f"the wrapped model lacks {found['lacks']}: return the model itself, or for jax a "
                "pytree of the same structure, shapes and dtypes"
            )

    @must("wrap_model gives every rank rank 0's parameters.")
    def test_a_wrapped_model_has_rank_0s_parameters(self) -> None:
        """Of every shape and dtype."""
        self._assert_equals_rank_0("parameters")

    @must("wrap_model gives every rank rank 0's buffers: the statistics of normalizers.")
    def test_a_wrapped_model_has_rank_0s_buffers(self) -> None:
        """Of every shape and dtype."""
        self._assert_equals_rank_0("buffers")

    @must("wrap_model calls session.watch with fingerprints that change with any one parameter.")
    def test_fingerprints_change_with_any_one_parameter(self) -> None:
        """Changes one element of one parameter after another."""
        self._skip_unwatched()
        for found in self._results("fingerprints"):
            assert found["watched"] == ["policy"], (
                f'session.watch("policy", ...) was not called; watched: {found["watched"]}'
            )
            blind = [name for name, changed in found["changed"].items() if not changed]
            assert not blind, f"the fingerprints stayed the same when these changed: {blind}"

    @must("Fingerprints of equal parameters are equal: on every rank, and at any time.")
    def test_fingerprints_of_equal_parameters_are_equal(self) -> None:
        """Python's `hash` of bytes, for example, differs between processes."""
        self._skip_unwatched()
        results = self._results("fingerprints")
        texts = {text for found in results for text in found.get("of equal parameters", [])}
        assert len(texts) <= 1, f"the same parameters have these fingerprints: {sorted(texts)}"

    @must("close may be called twice.")
    def test_close_may_be_called_twice(self) -> None:
        """A run that fails may close it a second time."""
        self._results("close")

    @must("A world of one rank works.")
    def test_a_world_of_one_rank_works(self) -> None:
        """Every collective returns its input, and a model does not change."""
        [place] = self._results("init_distributed", alone=True)
        assert (place["rank"], place["world_size"]) == (0, 1), f"alone, the group has {place}"
        for check, expected in (
            ("all_reduce", [1.0, -1.0]),
            ("broadcast", [0]),
            ("broadcast_object", ["object of rank", 0]),
            ("gather_objects", [0]),
        ):
            [found] = self._results(check, alone=True)
            results = list(found.values()) if isinstance(found, dict) else found
            assert all(result == expected for result in results), (
                f"alone, {check} of {expected} returned {found}"
            )
        self._results("barrier", alone=True)
        self._assert_equals_rank_0("parameters", alone=True)

    @may("Its ranks train, with the launcher and the gradient sync that its runs take by default.")
    def test_its_ranks_train(self) -> None:
        """By the command that a user types, with a library of its framework."""
        spec = self._spec()
        lacking = self._lacking()
        if lacking or not self.trains or self.devices is not None:
            skip(f"{self.backend}: {lacking or 'trains = False'}")
        libraries = discover().all(LibrarySpec)
        names = [each.name for each in libraries if spec.framework in each.frameworks]
        if not names:
            skip(f"{self.backend}: no installed library learns with {spec.framework}")
        found = train_on_ranks(
            *("--backend", self.backend, "--framework", spec.framework, "--library", names[0]),
            *(("--device", self.device) if self.device else ()),
            *("--nproc-per-node", str(self.ranks)),
        )
        assert not found, f"rltrain {found}"

    # The results of the processes

    def _assert_equals_rank_0(self, part: str, alone: bool = False) -> None:
        ranks = self._results("wrap_model", alone)
        expected = ranks[0]["before"][part]
        for rank, found in enumerate(ranks):
            for name, values in expected.items():
                got = found["after"][part].get(name, "missing")
                assert got == values, (
                    f"{name!r} of the wrapped model's {part} is {got} on rank {rank}; on rank 0, "
                    f"before it was wrapped, it was {values}"
                )

    def _drawn(self) -> list[Any]:
        """Return by rank the numbers that were drawn after each of `SEEDS`."""
        if not self.seeds_generator:
            skip(f"{self.backend} declares that it has no generator (seeds_generator = False)")
        return self._results("seed")

    def _skip_unwatched(self) -> None:
        if discover().get(BackendSpec, self.backend).framework == "jax":
            skip(
                f"{self.backend}: jax's arrays never change, so a backend cannot watch them: the "
                "library's adapter watches the pytree after each step"
            )

    def _results(self, check: str, alone: bool = False) -> list[Any]:
        """Return a check's results by rank.

        Raises:
            AssertionError: it raised on a rank, or a rank did not reach it.
        """
        if lacking := self._lacking():
            skip(f"{self.backend}: {lacking}")
        reports = self._reports()[alone]
        failures = [
            f"on rank {report.rank} of {len(reports)}: {error}\n{report.end}"
            for report in reports
            if (error := report.checks.get(check, _NOT_REACHED).get("error"))
        ]
        assert not failures, f"{check} failed " + "\n".join(failures)
        return [report.checks[check]["result"] for report in reports]

    def _lacking(self) -> str | None:
        """Return what this machine lacks for its ranks."""
        spec, devices = self._spec(), self._devices()
        kind = spec.kind_of_device(self.device)
        shared = kind != spec.device or self.devices is not None
        needed = 0 if kind == "cpu" else 1 if shared else self.ranks
        if devices < needed:
            return f"{self.ranks} ranks need {needed} GPU(s), but {devices} are visible"
        return kit_arrays.missing(spec.framework)

    @classmethod
    def _spec(cls) -> BackendSpec:
        return discover().get(BackendSpec, cls.backend)

    @classmethod
    @functools.cache
    def _devices(cls) -> int:
        """Return the number of devices of the kind to test on; 0 for the CPU."""
        spec = cls._spec()
        count = spec.count_devices if spec.kind_of_device(cls.device) != "cpu" else None
        found = int(preflight(count, in_child=True)) if count else 0
        return found if cls.devices is None else min(found, cls.devices)

    @classmethod
    @functools.cache
    def _reports(cls) -> list[list[RankReport]]:
        """Return the reports of a world of `ranks` processes, and of a world of one."""
        sizes = (cls.ranks, 1)
        return run_worlds(cls.backend, cls.device, cls._devices(), sizes, cls.started_by)


def _combined(op: str, numbers: list[float]) -> float:
    results = {
        "sum": sum(numbers),
        "mean": sum(numbers) / len(numbers),
        "min": min(numbers),
        "max": max(numbers),
    }
    return results[op]
