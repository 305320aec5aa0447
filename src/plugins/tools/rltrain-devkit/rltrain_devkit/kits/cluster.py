"""The conformance kit for clusters, as tests to subclass."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from unittest.mock import patch

from rltrain.clusters import StartedNode, StartedRank, shown
from rltrain.errors import UsageError
from rltrain.plugins import discover
from rltrain.specs import ClusterSpec
from rltrain_devkit.kits.given import GivenPlugins
from rltrain_devkit.kits.rules import may, must, skip

_OF_OTHERS = {
    **{"HOSTNAME": "node-1", "USER": "ada", "HOME": "/home/ada", "PATH": "/usr/bin"},
    **{"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"},
    **{"NODE_RANK": "1", "NNODES": "2", "MASTER_ADDR": "elsewhere", "MASTER_PORT": "1234"},
    **{"CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "1", "JOB_ID": "7", "HOSTS": "a,b"},
}
"""What other programs set, and what a cluster must not take for its own."""

_WRONG = ("", "x", "-1", "999999")
"""What a variable may hold that is wrong in some way."""


class ClusterConformance(GivenPlugins):
    """What every cluster must do: a pure function of the environment variables.

    Example:
        ```python
        from rltrain_devkit import ClusterConformance

        class TestMyCluster(ClusterConformance):
            cluster = "my_cluster"
            environ = {"MY_NODES": "2", "MY_NODE": "1", "MY_FIRST": "node-0"}
        ```
    """

    cluster: str
    """The name under which the plugin declares it."""
    environ: Mapping[str, str]
    """What it sets for one of several processes, not the first."""
    alone: Sequence[Mapping[str, str]] = ()
    """What it sets for a process that is the only one: a job of one node, say."""

    @must("A process that it has started as one of several knows its place.")
    def test_a_process_finds_its_place(self) -> None:
        """Which fits the number of ranks or nodes, and says by which variables."""
        place = self._place()
        unset = [name for name in place.variables if name not in self.environ]
        assert place.variables, "say in `variables` which variables say so: messages show them"
        assert not unset, f"`variables` names {', '.join(unset)}, which `environ` does not have"
        if isinstance(place, StartedNode):
            nodes = place.num_nodes
            assert place.node_rank >= 0, f"it finds the node {place.node_rank}"
            assert nodes is None or place.node_rank < nodes, f"{place.node_rank} of {nodes} nodes"
            return
        world = place.world
        assert 0 <= world.rank < world.world_size, f"rank {world.rank} of {world.world_size}"
        local = world.local_rank, world.local_world_size
        assert 0 <= local[0] < local[1] <= world.world_size, f"local rank {local[0]} of {local[1]}"
        node = world.node_rank, world.num_nodes
        assert 0 <= node[0] < node[1], f"node {node[0]} of {node[1]}"

    @must("The place depends on the given variables alone, and changes none.")
    def test_it_is_a_pure_function(self) -> None:
        """It is asked for other processes, too: `os.environ` may say something else."""
        spec, expected = self._spec(), self._place()  # Plugins are found by os.environ, too.
        for process in ({}, _OF_OTHERS, {name: "7" for name in self.environ}):
            with patch.dict(os.environ, process, clear=True):
                found = spec.find(MappingProxyType(dict(self.environ)))
                changed = set(os.environ.items()) ^ set(process.items())
            assert not changed, f"it changes os.environ: {', '.join(sorted(dict(changed)))}"
            assert found == expected, (
                f"with the same variables it finds {found} and {expected}, as os.environ differs. "
                "Read its argument only"
            )

    @must("What other programs set gives no place, and changes none.")
    def test_it_guesses_nothing_from_other_variables(self) -> None:
        """Else a process would wait for ranks that nobody has started."""
        spec, expected = self._spec(), self._place()
        others = {
            name: value
            for name, value in _OF_OTHERS.items()
            if name not in self.environ and not any(fnmatchcase(name, p) for p in spec.variables)
        }
        for environ in ({}, others):
            found = self._find(environ)
            assert found is None, f"it finds {found} where only {', '.join(others)} are set"
        found = self._find({**others, **self.environ})
        assert found == expected, (
            f"with {shown(others, sorted(others))} it finds {found} in place of {expected}. Name "
            "in ClusterSpec(variables=...) what it reads"
        )

    @must("Numbers that are none are a UsageError, which shows the variable.")
    def test_what_is_no_number_is_refused(self) -> None:
        """To find no place would be to train alone in silence."""
        for name in self._place().variables:
            if not self.environ[name].isdecimal():
                continue
            error = self._outcome({**self.environ, name: "x"})
            assert isinstance(error, UsageError), (
                f"with {name}=x it returns {error}. Raise a UsageError: "
                "rltrain.clusters.read_numbers does"
            )
            assert name in str(error), f"with {name}=x it says, without the variable: {error}"

    @must("Variables that are missing or wrong are a UsageError, which shows them, or no place.")
    def test_incomplete_variables_are_understood(self) -> None:
        """Each of `environ` is left out, and set to something wrong."""
        for name, environ in self._spoiled():
            error = self._outcome(environ)
            if not isinstance(error, Exception):
                continue
            with_ = shown(environ, [name])
            assert isinstance(error, UsageError), (
                f"with {with_} it raises {type(error).__name__}: {error}. Raise a UsageError that "
                "shows the variable"
            )
            assert name in str(error), f"with {with_} it says, without the variable: {error}"

    @may("A process that is the only one is none of several.")
    def test_a_process_alone_has_no_place(self) -> None:
        """A job of one node trains as on any machine."""
        if not self.alone:
            skip("alone = (): name what is set for a process that is the only one")
        for environ in self.alone:
            found = self._find(environ)
            assert found is None, f"with {shown(environ, list(environ))} it finds {found}"

    def _spec(self) -> ClusterSpec:
        return discover().get(ClusterSpec, self.cluster)

    def _find(self, environ: Mapping[str, str]) -> StartedRank | StartedNode | None:
        """Ask the cluster; what it is given cannot be changed."""
        return self._spec().find(MappingProxyType(dict(environ)))

    def _place(self) -> StartedRank | StartedNode:
        place = self._find(self.environ)
        assert place is not None, f"with {shown(self.environ, list(self.environ))} it finds none"
        assert isinstance(place, (StartedRank, StartedNode)), (
            f"it returns {place!r}: return a StartedRank, a StartedNode or None"
        )
        return place

    def _outcome(self, environ: Mapping[str, str]) -> StartedRank | StartedNode | Exception | None:
        try:
            return self._find(environ)
        except Exception as error:
            return error

    def _spoiled(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield what a mistake in each variable leaves, and the variable."""
        for name in self.environ:
            yield name, {key: value for key, value in self.environ.items() if key != name}
            yield from ((name, {**self.environ, name: wrong}) for wrong in _WRONG)
