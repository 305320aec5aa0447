"""The launcher `elastic`: torch elastic starts and monitors the ranks."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import multiprocessing.forkserver
import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from types import FrameType
from typing import Any

from rltrain.config import Placement
from rltrain.errors import UsageError
from rltrain.launch import (
    OF_SCHEDULERS,
    REQUESTS,
    Latest,
    ask_to_end,
    ended_by_signal,
    hide_rank_variables,
    interrupt,
    may_catch,
    private_folder,
    with_temporary_files,
)
from rltrain.nodes import connected_nodes, reachable_address
from rltrain.types import TrainResult
from rltrain.watch import hang_watch
from rltrain_torch.children import Children
from rltrain_torch.compat import optional
from rltrain_torch.mps import served
from rltrain_torch.preload import imports_of_library

PRELOADED = [
    *("rltrain_torch.parent", "torch", "torch.distributed", "torch._dynamo"),
    *("rltrain.run.worker", "rltrain_torch.forkserver"),
]
"""Modules that the forkserver imports once for all ranks, before those of the library. No suite's:
importing Warp opens a CUDA context. Every optimizer imports torch._dynamo, which takes as long as
importing torch. torch._inductor starts a thread in older versions."""

LIBRARY = "RLTRAIN_PRELOAD"
"""The variable that names the forkserver the module with a library's imports."""

OF_THREAD = "RLTRAIN_OF_THREAD"
"""The variable that says whether a thread starts it, which may end before its process does."""

SHUTDOWN_TIMEOUT = 5
"""Seconds that ranks have to exit after a signal, before they are killed."""

_OF_TORCH = "SIGRTMAX"
"""The signal that torch elastic handles: one that nobody sends, in place of those that end a run.
Its own handler raises each time that a signal comes, also while it handles the first one."""

_SIGNALS = (*REQUESTS, signal.SIGQUIT)

_NOISY = ("torch.distributed.elastic", "torch.multiprocessing.spawn")
"""Loggers that would print a failure a second time; rltrain prints it once, traceback last."""


class ElasticLauncher:
    """Starts this node's ranks with `torch.distributed.elastic`.

    The ranks are forked from a server that has already imported torch, so eight of them start as
    fast as one. Neither this process nor the server initializes CUDA.
    """

    def launch(self, config: Placement, work: Callable[..., TrainResult | None]) -> TrainResult:
        """Start the ranks, wait for them, and return rank 0's result.

        On a node without rank 0, the result is that of an empty run.
        """
        with (
            private_folder() as reports,
            connected_nodes(config, reports),
            with_temporary_files(reports),
        ):
            signals = _Signals(reports)
            try:
                with _prepared_process(config, reports):
                    signals.interrupt()
                    return self._launch(config, work, reports, signals)
            except BaseException as error:
                # A signal may also come while the failure of a rank is read.
                if number := signals.raised(error):
                    raise ended_by_signal(number) from None
                raise

    def _launch(
        self,
        config: Placement,
        work: Callable[..., TrainResult | None],
        reports: Path,
        signals: _Signals,
    ) -> TrainResult:
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.elastic.rendezvous.api import RendezvousError
        from torch.distributed.launcher.api import elastic_launch

        children = Children(reports)
        results: dict[int, Any] = {}
        failed: BaseException | None = None
        try:
            looks = signals.look, hang_watch(config, reports), children.look
            attended = launch_config(config, reports, *looks)
            results = elastic_launch(attended, work)(config, str(reports))
        except ChildFailedError as error:
            rank, process = next(iter(error.failures.items()))
            failed = children.failure(rank, process.exitcode)
        except RendezvousError as error:
            failed = UsageError(
                f"The nodes did not find each other at {config.endpoint}: {error} Check --nnodes, "
                "--node-rank, --master-addr and --master-port on every node."
            )
        except BaseException:
            children.abandon()
            raise
        finally:
            children.kill()
        if failed is not None:
            raise failed
        result = next((value for value in results.values() if value is not None), None)
        return result or TrainResult(0, 0, None, None, run_dir="")


class _Signals:
    """Asks ranks to end after their iteration when a signal arrives; the next one ends them."""

    def __init__(self, reports: Path) -> None:
        self._last: signal.Signals | None = None
        self._latest = Latest()
        self._reports = reports
        self._handled = [number for number in _SIGNALS if may_catch(number)]

    def interrupt(self) -> None:
        """Let signals end the run at once, until the first look: torch may not be imported yet."""
        self._set(self._interrupt)

    def look(self) -> None:
        """Handle signals in place of torch elastic, which sets its handlers with every start."""
        self._set(self._handle)

    def _set(self, handler: Callable[[int, FrameType | None], None]) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in self._handled:
                signal.signal(number, handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._last = signal.Signals(number)
        interrupt(number, frame, KeyboardInterrupt(), self._latest)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        from torch.distributed.elastic.multiprocessing import SignalException

        if not ask_to_end(self._reports, number) and not self._latest.is_again(number):
            self._last = signal.Signals(number)
            # torch elastic passes this signal on, and ranks that train ignore Ctrl-C.
            raise SignalException(f"{self._last.name} has arrived", signal.SIGTERM)

    def raised(self, error: BaseException) -> signal.Signals | None:
        """Return the signal that has raised an error, here or in torch elastic; None if none."""
        if self._last is None and isinstance(error, Exception):
            from torch.distributed.elastic.multiprocessing import SignalException

            return error.sigval if isinstance(error, SignalException) else None
        return self._last


def launch_config(config: Placement, reports: Path, *looks: Callable[[], None]) -> Any:
    """Return torch elastic's configuration; the options have the same meaning as torchrun's.

    Args:
        config: where the run runs.
        reports: where its ranks report.
        looks: are called again and again while ranks run.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig

    from rltrain_torch import alone, attended

    if config.nnodes == 1:
        # Any free port, so that two runs on one machine do not collide.
        endpoint, address, run_id = "127.0.0.1:0", "127.0.0.1", uuid.uuid4().hex
        settings: dict[str, Any] = {"of": alone.register()}
    else:
        # Host names often do not resolve, in particular a laptop's own.
        address = reachable_address(config.master_addr, 2) or config.master_addr
        endpoint, run_id = config.endpoint, "rltrain"
        settings = {"of": "static", "rank": config.node_rank}
    return LaunchConfig(
        min_nodes=config.nnodes,
        max_nodes=config.nnodes,
        nproc_per_node=int(config.nproc_per_node or 1),
        run_id=run_id,
        rdzv_backend=attended.register(),
        rdzv_endpoint=endpoint,
        rdzv_configs={**settings, "looks": looks},
        max_restarts=config.max_restarts,
        start_method="forkserver",
        logs_specs=DefaultLogsSpecs(log_dir=str(reports)),
        local_addr=config.local_addr or address,
        **optional(shutdown_timeout=SHUTDOWN_TIMEOUT, signals_to_handle=_OF_TORCH),
    )


@contextlib.contextmanager
def _prepared_process(config: Placement, reports: Path) -> Iterator[None]:
    """Prepare this process for torch elastic, and restore it afterwards.

    Inside, it has no rank variables and torch elastic logs nothing. Afterwards, environment
    variables, log levels and signal handlers are as before.
    """
    saved = dict(os.environ)
    hide_rank_variables(os.environ)
    # LaunchConfig checks whether CUDA is available. With NVML, the check opens no CUDA context.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    # Semaphores of a killed rank (tqdm creates one) are cleaned up; a warning would not help.
    quiet = "ignore::UserWarning:multiprocessing.resource_tracker"
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [saved.get("PYTHONWARNINGS"), quiet]))
    loggers = [logging.getLogger(name) for name in _NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        os.environ[LIBRARY] = imports_of_library(config) or ""
        if threading.current_thread() is not threading.main_thread():
            os.environ[OF_THREAD] = "yes"
        with served(config, reports):  # Ranks have the environment of the server.
            multiprocessing.set_forkserver_preload(PRELOADED)
            # Where addresses have no names, torch's store would say so in each run's first line.
            os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
            # Schedulers send theirs to each process of a job: these two must not end by them.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, OF_SCHEDULERS)
            try:
                resource_tracker.ensure_running()  # It unblocks SIGINT.
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                multiprocessing.forkserver.ensure_running()  # It imports while this process does.
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            yield
    finally:
        for number, handler in handlers.items():
            with contextlib.suppress(ValueError):  # Outside of the main thread, none was changed.
                signal.signal(number, handler)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        os.environ.clear()
        os.environ.update(saved)
