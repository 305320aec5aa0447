"""Train any task, with any RL library, on any number of processes and machines.

The core knows no RL library, no tensor framework and no simulator: it knows how a distributed run
is put together, and asks plugins for every part of it. `rltrain.hookspecs` is that contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rltrain import errors as errors
    from rltrain.hookspecs import hookimpl
    from rltrain.types import TrainResult

__all__ = ["__version__", "hookimpl", "train"]

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    import importlib

    if name == "errors":
        return importlib.import_module("rltrain.errors")
    if name != "hookimpl":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # It imports pluggy: the command imports nothing first.
    return importlib.import_module("rltrain.hookspecs").hookimpl


def train(**options: Any) -> TrainResult:
    """Run one training job and return what rank 0 returned.

    The keyword arguments are the fields of `rltrain.options.RunOptions`, which are the flags of the
    command line: `train(library="rl_games", distributed=True, nproc_per_node=2)`. `agent` and `env`
    take nested or dotted mappings of overrides, such as `agent={"params.config.gamma": 0.98}`.
    `plugins` takes plugins that are not installed, `plugins=[my_plugin]`: modules, which started
    ranks import too, or objects with the hook `rltrain_provides`, for a run in this process.

    A distributed run starts its ranks from this process: call it under
    `if __name__ == "__main__":` in a script, as for any use of `multiprocessing`.

    Raises:
        rltrain.errors.UsageError: an option is wrong, or a combination cannot work.
        rltrain.errors.RankFailed: a rank failed while training.
        KeyboardInterrupt: Ctrl-C has ended the run: while training after an iteration, with a
            checkpoint.
        SystemExit: another signal has, with the command's status: 75, "try again", or 143 for
            SIGTERM before training.
    """
    from rltrain.run.start import run

    return run(options)
