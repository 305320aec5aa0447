"""The conformance kit for clusters, as tests to subclass."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from unittest.mock import patch

from rltrain.clusters import StartedNode, StartedRank, shown
from rltrain.errors import UsageError
from rltrain.plugins import discover
from rltrain.specs import ClusterSpec
from rltrain_devkit.kits.rules import Kit, skip

_OF_OTHERS = {
    "HOSTNAME": "node-1",
    "USER": "ada",
    "HOME": "/home/ada",
    "PATH": "/usr/bin",
    "RANK": "1",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_WORLD_SIZE": "2",
    "NODE_RANK": "1",
    "NNODES": "2",
    "MASTER_ADDR": "elsewhere",
    "MASTER_PORT": "1234",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "OMP_NUM_THREADS": "1",
    "JOB_ID": "7",
    "HOSTS": "a,b",
}
"""What other programs set, and what a cluster must not take for its own."""

_WRONG = ("", "x", "-1", "999999")
"""What a variable may hold that is wrong in some way."""


class ClusterConformance(Kit):
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

    def test_a_process_finds_its_place(self) -> None:
        """A process that it has started as one of several knows its place."""
        place = self._place()
        unset = [name for name in place.variables if name not in self.environ]
        assert place.variables, "say in `variables` which variables say so: messages show them"
        assert not unset, f"`variables` names {', '.join(unset)}, which `environ` does not have"
        if isinstance(place, StartedNode):
            node, nodes = place.node_rank, place.num_nodes
            fits = node >= 0 and (nodes is None or node < nodes)
            assert fits, f"it finds the node {node} of {nodes}"
            return
        world = place.world
        assert 0 <= world.rank < world.world_size, f"it finds the rank {world}"
        assert 0 <= world.local_rank < world.local_world_size <= world.world_size, f"it is {world}"
        assert 0 <= world.node_rank < world.num_nodes, f"it finds the node {world}"

    def test_it_is_a_pure_function(self) -> None:
        """The place depends on the given variables alone, and changes none."""
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

    def test_it_guesses_nothing_from_other_variables(self) -> None:
        """What other programs set gives no place, and changes none."""
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

    def test_incomplete_variables_are_understood(self) -> None:
        """Variables that are missing or wrong give a UsageError, which shows them, or no place.

        A number that is none must be refused: to find no place would be to train alone in silence.
        """
        numbers = [name for name in self._place().variables if self.environ[name].isdecimal()]
        for name in self.environ:
            for value in (None, *_WRONG):
                spoiled = {**self.environ, name: value or ""}
                if value is None:
                    del spoiled[name]
                outcome: object
                try:
                    outcome = self._find(spoiled)
                except Exception as error:
                    outcome = error
                refused = isinstance(outcome, UsageError) and name in str(outcome)
                must_be = isinstance(outcome, Exception) or (value == "x" and name in numbers)
                assert refused or not must_be, (
                    f"with {shown(spoiled, [name])} it returns or raises {outcome!r}: raise a "
                    "UsageError that shows the variable, as rltrain.clusters.read_numbers does"
                )

    def test_a_process_alone_has_no_place(self) -> None:
        """A process that is the only one is none of several: it trains as on any machine."""
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
