"""The options that the launcher `elastic` passes to the installed torch elastic."""

from __future__ import annotations

from rltrain.testing import make_config
from rltrain_torch.elastic import SHUTDOWN_TIMEOUT, launch_config


def test_torch_elastic_takes_the_options(tmp_path):
    config = launch_config(
        make_config(distributed=True, nproc_per_node=2, max_restarts=1), tmp_path
    )
    assert (config.min_nodes, config.nproc_per_node, config.max_restarts) == (1, 2, 1)
    assert config.start_method == "forkserver"
    # From torch 2.12 on. Before, ranks have torch's own 30 seconds.
    assert getattr(config, "shutdown_timeout", SHUTDOWN_TIMEOUT) == SHUTDOWN_TIMEOUT
