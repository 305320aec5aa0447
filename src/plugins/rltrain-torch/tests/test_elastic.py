"""The options that the launcher `elastic` passes to the installed torch elastic."""

from __future__ import annotations

from rltrain.testing import make_config
from rltrain_torch.elastic import SHUTDOWN_TIMEOUT, launch_config


def look() -> None:
    """Do nothing."""


def test_torch_elastic_takes_the_options(tmp_path):
    config = launch_config(
        make_config(distributed=True, nproc_per_node=2, max_restarts=1), tmp_path, look
    )
    assert (config.min_nodes, config.nproc_per_node, config.max_restarts) == (1, 2, 1)
    assert (config.start_method, config.local_addr) == ("forkserver", "127.0.0.1")
    assert config.rdzv_configs["of"] == "rltrain-loopback"
    # From torch 2.12 on. Before, ranks have torch's own 30 seconds.
    assert getattr(config, "shutdown_timeout", SHUTDOWN_TIMEOUT) == SHUTDOWN_TIMEOUT


def test_a_node_has_the_address_that_the_user_names(tmp_path):
    nodes = make_config(
        distributed=True,
        nnodes=2,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:29400",
        local_addr="10.0.0.2",
    )
    assert launch_config(nodes, tmp_path, look).local_addr == "10.0.0.2"


def test_torch_elastic_takes_a_range_of_nodes(tmp_path):
    meeting = {"rdzv_backend": "c10d", "rdzv_endpoint": "127.0.0.1:29400", "rdzv_id": "mine"}
    made = make_config(distributed=True, nproc_per_node=2, min_nodes=1, nnodes=4, **meeting)
    config = launch_config(made, tmp_path, look)
    assert (config.min_nodes, config.max_nodes, config.run_id) == (1, 4, "mine")
    assert (config.rdzv_configs["of"], config.rdzv_configs["join_timeout"]) == ("rltrain-c10d", 300)
