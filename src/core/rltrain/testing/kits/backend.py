"""What a backend has to do for ranks to train as one, as tests to subclass."""

from __future__ import annotations

import functools
from typing import Any

from rltrain.launch.preflight import preflight
from rltrain.launch.ranks import rank_device
from rltrain.plugins.registry import discover
from rltrain.specs import BackendSpec
from rltrain.testing.kits import arrays as kit_arrays
from rltrain.testing.kits.backend_ranks import RankReport, run_worlds
from rltrain.testing.kits.declaration import check_declaring_is_light
from rltrain.testing.kits.rules import may, must, skip

__all__ = ["BackendConformance"]

_HEAVY = ("jax", "numpy", "torch")

_NEVER = {"error": "it did not come so far"}


class BackendConformance:
    """What every backend must do, on real processes of this machine.

    The processes are started once for a class: `ranks` of them as one world, and one alone.

    Example:
        ```python
        from rltrain.testing import BackendConformance

        class TestMyBackend(BackendConformance):
            backend = "my_backend"
        ```
    """

    backend: str
    """The name under which the installed plugin declares it."""
    device: str | None = None
    """The kind of device to judge it on; by default its own."""
    ranks: int = 2
    """Processes to start. If there are fewer devices, unless ranks share them, the tests are
    skipped."""
    seeds_generator: bool = True
    """Whether the framework has a global random generator, which `rltrain_seed` is to seed. torch
    has one, jax has none."""

    @must("Declaring the backend imports no tensor framework and no numpy.")
    def test_declaring_is_light(self) -> None:
        """In a process of its own, with the other plugins left out."""
        check_declaring_is_light(BackendSpec, self.backend)

    @must("The group's rank, world size and device are the world's.")
    def test_each_rank_knows_its_place(self) -> None:
        """As the adapters read them."""
        spec, devices = self._spec(), self._devices()
        kind = spec.kind_of_device(self.device)
        for rank, told in enumerate(self._told("init_distributed")):
            device = rank_device(kind, rank, devices, shared=kind != spec.device)
            expected = {"rank": rank, "world_size": self.ranks, "device": device}
            assert told == expected, f"on rank {rank} the group says {told}, not {expected}"

    @must("all_reduce combines arrays of the framework and of numpy: sum, mean, min and max.")
    def test_all_reduce_combines_arrays(self) -> None:
        """Each rank gives its number, from 1, and the same with a minus."""
        numbers = [rank + 1.0 for rank in range(self.ranks)]
        for rank, told in enumerate(self._told("all_reduce")):
            for name, reduced in told.items():
                one = _combined(name.partition(" ")[0], numbers)
                two = _combined(name.partition(" ")[0], [-number for number in numbers])
                assert reduced == [one, two], (
                    f"on rank {rank}, the {name} that hold {numbers} in place 0 and the same with "
                    f"a minus in place 1 is {reduced}, not {[one, two]}"
                )

    @must("Collectives return arrays of the kind, dtype and shape that they are given.")
    def test_collectives_keep_kind_dtype_and_shape(self) -> None:
        """Transposed and 0-dimensional arrays too."""
        for rank, told in enumerate(self._told("keep_form")):
            for name, (given, got) in told.items():
                assert given == got, f"on rank {rank}, {name} returned {got}"

    @must("broadcast gives every rank the source's array, whichever rank is the source.")
    def test_broadcast_gives_the_sources_array(self) -> None:
        """Each rank offers its own number."""
        for rank, told in enumerate(self._told("broadcast")):
            for name, got in told.items():
                src = int(name.rpartition(" ")[2])
                assert got == [src], f"on rank {rank}, the {name}, [{src}], came as {got}"

    @must("broadcast_object gives every rank the source's object, whichever rank is the source.")
    def test_broadcast_object_gives_the_sources_object(self) -> None:
        """Objects are of several sizes."""
        expected = [["object of rank", src] * (src + 1) for src in range(self.ranks)]
        for rank, told in enumerate(self._told("broadcast_object")):
            assert told == expected, f"on rank {rank}, {expected} were sent and {told} came"

    @must("gather_objects gives every rank all objects, in the order of ranks.")
    def test_gather_objects_is_in_the_order_of_ranks(self) -> None:
        """Objects are of several sizes."""
        expected = [[src] * (src + 1) for src in range(self.ranks)]
        for rank, told in enumerate(self._told("gather_objects")):
            assert told == expected, f"on rank {rank}, {expected} were sent and {told} came"

    @must("gather_objects with dst gives that rank all objects, and the others an empty list.")
    def test_gather_objects_with_dst_is_for_one_rank(self) -> None:
        """The last rank gathers."""
        everything = [[src] * (src + 1) for src in range(self.ranks)]
        for rank, told in enumerate(self._told("gather_objects_on_one")):
            expected = everything if rank == self.ranks - 1 else []
            assert told == expected, f"on rank {rank}, {expected} was expected and {told} came"

    @must("No rank leaves a barrier before every rank has come.")
    def test_no_rank_leaves_a_barrier_early(self) -> None:
        """Each rank comes late once."""
        everyone = list(range(self.ranks))
        for rank, told in enumerate(self._told("barrier")):
            for late, seen in enumerate(told):
                assert seen == everyone, (
                    f"rank {late} came late, and rank {rank} left when only {seen} had come"
                )

    @may("The same seed draws the same numbers from the framework's generator, on every rank.")
    def test_the_same_seed_draws_the_same_numbers(self) -> None:
        """In one process, and over ranks."""
        drawn = [draws for first, second, _ in self._drawn() for draws in (first, second)]
        assert all(draws == drawn[0] for draws in drawn), (
            f"after the same seed, these were drawn: {drawn}: rltrain_seed must seed the "
            "framework's global generator with the very seed that it is given"
        )

    @may("Another seed draws other numbers from the framework's generator.")
    def test_another_seed_draws_other_numbers(self) -> None:
        """Ranks explore alike otherwise."""
        for _, second, other in self._drawn():
            assert second != other, f"after two different seeds, {other} was drawn both times"

    @must("wrap_model returns an object with the model's interface, normally the model itself.")
    def test_a_wrapped_model_keeps_its_interface(self) -> None:
        """Libraries call methods of their own on their models."""
        for told in self._told("wrap_model"):
            assert not told["lacks"], (
                f"the wrapped model lacks {told['lacks']}: return the model itself, or for jax a "
                "pytree of the same structure, shapes and dtypes"
            )

    @must("wrap_model gives every rank rank 0's parameters.")
    def test_a_wrapped_model_has_rank_0s_parameters(self) -> None:
        """Of every shape and dtype."""
        self._assert_rank_0s("parameters")

    @must("wrap_model gives every rank rank 0's buffers: the statistics of normalisers.")
    def test_a_wrapped_model_has_rank_0s_buffers(self) -> None:
        """Of every shape and dtype."""
        self._assert_rank_0s("buffers")

    @must("wrap_model calls session.watch with fingerprints that change with any one parameter.")
    def test_fingerprints_change_with_any_one_parameter(self) -> None:
        """By one element, of one parameter after another."""
        self._skip_unwatched()
        for told in self._told("fingerprints"):
            assert told["watched"] == ["policy"], (
                f'session.watch("policy", ...) was not called, but {told["watched"]} is watched'
            )
            blind = [name for name, changed in told["changed"].items() if not changed]
            assert not blind, f"the fingerprints stayed the same when these changed: {blind}"

    @must("Fingerprints are the same wherever parameters are: on every rank, and later.")
    def test_fingerprints_of_equal_parameters_are_equal(self) -> None:
        """Python's `hash` of bytes, for one, is each process' own."""
        self._skip_unwatched()
        told = [told.get("of equal parameters", []) for told in self._told("fingerprints")]
        texts = {text for texts in told for text in texts}
        assert len(texts) <= 1, f"the same parameters have these fingerprints: {sorted(texts)}"

    @must("close may be called twice.")
    def test_close_may_be_called_twice(self) -> None:
        """A run that fails closes what may be closed already."""
        self._told("close")

    @must("A world of one rank works.")
    def test_a_world_of_one_rank_works(self) -> None:
        """Every collective returns what it was given, and a model stays as it was."""
        [place] = self._told("init_distributed", alone=True)
        assert (place["rank"], place["world_size"]) == (0, 1), f"alone, the group says {place}"
        for check, expected in (
            ("all_reduce", [1.0, -1.0]),
            ("broadcast", [0]),
            ("broadcast_object", ["object of rank", 0]),
            ("gather_objects", [0]),
        ):
            [told] = self._told(check, alone=True)
            results = list(told.values()) if isinstance(told, dict) else told
            assert all(result == expected for result in results), (
                f"alone, {check} of {expected} gave {told}"
            )
        self._told("barrier", alone=True)
        self._assert_rank_0s("parameters", alone=True)

    # What the processes told

    def _assert_rank_0s(self, part: str, alone: bool = False) -> None:
        ranks = self._told("wrap_model", alone)
        expected = ranks[0]["before"][part]
        for rank, told in enumerate(ranks):
            for name, values in expected.items():
                got = told["after"][part].get(name, "missing")
                assert got == values, (
                    f"of the wrapped model's {part}, {name!r} is {got} on rank {rank}; on rank 0, "
                    f"before it was wrapped, it was {values}"
                )

    def _drawn(self) -> list[Any]:
        """Return by rank what was drawn after each of the process' `SEEDS`."""
        if not self.seeds_generator:
            skip(f"{self.backend} says that there is no generator (seeds_generator = False)")
        return self._told("seed")

    def _skip_unwatched(self) -> None:
        if discover().get(BackendSpec, self.backend).framework == "jax":
            skip(
                f"{self.backend}: jax's arrays never change, so that a backend cannot watch them: "
                "the library's adapter watches the pytree that a step leaves"
            )

    def _told(self, check: str, alone: bool = False) -> list[Any]:
        """Return a check's result by rank.

        Raises:
            AssertionError: it raised on a rank, or a rank did not come to it.
        """
        spec, devices = self._spec(), self._devices()
        kind = spec.kind_of_device(self.device)
        needed = 0 if kind == "cpu" else self.ranks if kind == spec.device else 1
        lacking = kit_arrays.missing(spec.framework)
        if devices < needed:
            lacking = f"{self.ranks} ranks need {needed} GPU(s), and {devices} are visible"
        if lacking:
            skip(f"{self.backend}: {lacking}")
        reports = self._reports()[alone]
        failures = [
            f"on rank {report.rank} of {len(reports)}: {error}\n{report.end}"
            for report in reports
            if (error := report.checks.get(check, _NEVER).get("error"))
        ]
        assert not failures, f"{check} failed " + "\n".join(failures)
        return [report.checks[check]["result"] for report in reports]

    @classmethod
    def _spec(cls) -> BackendSpec:
        return discover().get(BackendSpec, cls.backend)

    @classmethod
    @functools.cache
    def _devices(cls) -> int:
        """Return how many devices other than the CPU there are, where those are judged."""
        spec = cls._spec()
        count = spec.count_devices if spec.kind_of_device(cls.device) != "cpu" else None
        return int(preflight(count, in_child=True)) if count else 0

    @classmethod
    @functools.cache
    def _reports(cls) -> list[list[RankReport]]:
        """Return what a world of `ranks` told, and what a world of one."""
        return run_worlds(cls.backend, cls.device, cls._devices(), (cls.ranks, 1))


def _combined(op: str, numbers: list[float]) -> float:
    results = {
        "sum": sum(numbers),
        "mean": sum(numbers) / len(numbers),
        "min": min(numbers),
        "max": max(numbers),
    }
    return results[op]
