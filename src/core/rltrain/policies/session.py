"""A session in which nothing is trained: environments, and the policy of a checkpoint."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.errors import UsageError
from rltrain.files.dotted import get_dotted, leaves
from rltrain.launch import private_folder
from rltrain.plugins.manager import RunPlugins, arrays_by_framework, chosen_specs
from rltrain.policy import Policy
from rltrain.ranks.hangs import watching
from rltrain.ranks.pulse import pulse_file
from rltrain.ranks.stacks import answering, stack_file
from rltrain.run.group import NotedGroup, SingleProcess
from rltrain.run.plugin_session import PluginSession
from rltrain.seeding import SeedPlan
from rltrain.specs import SuiteSpec
from rltrain.storage.run_folder import RunFolder
from rltrain.types import World

if TYPE_CHECKING:
    from rltrain.config import RunConfig
    from rltrain.plugins.registry import Registry
    from rltrain.ranks.logs import RankLog


class PolicySession(PluginSession):
    """One process' session, as for training on one rank, but without a run folder.

    Its world has one rank, also where several processes share the work: each has its own policy.
    `peers` is the process group of all of them.
    """

    def __init__(self, config: RunConfig, world: World, registry: Registry, folder: Path) -> None:
        """Choose the plugins, and meet the other processes; see `open_session`."""
        plugins = RunPlugins()
        for spec in chosen_specs(config, registry):
            plugins.choose(spec, config.plugins)
        alone = dataclasses.replace(config, distributed=False)
        arrays = arrays_by_framework(registry, config.backend)
        super().__init__(alone, World(device=world.device), plugins, arrays)
        self._play_overrides = registry.get(SuiteSpec, config.suite).play_overrides
        peers = self._make_group(config, world)
        self.peers = peers if config.distributed else NotedGroup(peers, self.pulse)
        self._place = world
        self.group = SingleProcess(world.device)
        self.seeds = SeedPlan(config.seed, 0)
        self.run_folder = RunFolder(folder)

    @contextlib.contextmanager
    def watched(self, log: RankLog) -> Iterator[None]:
        """End this rank if it hangs in the context; see `open_session`. Collective."""
        pulse = pulse_file(log.path.parent, self._place.rank)
        with contextlib.ExitStack() as watched:
            watched.enter_context(answering(stack_file(pulse)))
            self.pulse.share(pulse)
            if not log.has_launcher:
                gather, timeout = self.peers.gather_objects, self.config.hang_timeout
                watched.enter_context(watching(self._place.rank, pulse.parent, gather, timeout))
            yield

    def make_env(self) -> None:
        """Make the environments.

        Raises:
            UsageError: the task's options are wrong.
        """
        self.seed("environment")
        self.env = self._make_checked_env()

    def load_policy(self, checkpoint: Path | None = None) -> Policy:
        """Load a policy (hook `rltrain_load_policy`). It may reset the environments.

        Args:
            checkpoint: the file; None for that of the config.

        Raises:
            UsageError: the library cannot load policies, or the checkpoint does not fit.
        """
        if checkpoint is not None:
            self.config = dataclasses.replace(self.config, checkpoint=str(checkpoint))
        if not self._plugins.hook.rltrain_load_policy.get_hookimpls():
            raise UsageError(
                f"The library {self.config.library} cannot load what it has trained: its plugin "
                "does not implement the hook rltrain_load_policy. Upgrade it, or ask its author."
            )
        self.seed("model")
        try:
            policy: Policy = self._first_result("rltrain_load_policy", "library", session=self)
        except UsageError as error:
            played = [
                key
                for key, x in leaves(self._play_overrides)
                if get_dotted(self.config.env, key) == x
            ]
            if not played:
                raise
            raise UsageError(
                f"{error} The task is as it is played (env.{', env.'.join(played)}), which may "
                "have other observations: set that as in training."
            ) from error
        return policy

    def describe_task(self) -> Mapping[str, Any]:
        """Return what the suite tells about the task (hook `rltrain_describe_task`)."""
        return self._plugins.hook.rltrain_describe_task(session=self) or {}

    def reset(self, seed: int) -> Any:
        """Begin new episodes, which follow from the seed alone, and return their observations."""
        self._plugins.hook.rltrain_seed(stream="environment", seed=seed)
        return self.env.reset(seed=seed)[0]

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Step the environments, which is progress for who watches this rank."""
        outcome = self.env.step(actions)
        self.pulse.phase("playing episodes")
        return outcome


@contextlib.contextmanager
def open_session(
    config: RunConfig, world: World, registry: Registry, log: RankLog | None = None
) -> Iterator[PolicySession]:
    """Make a session with its environments, and close them at the end.

    Args:
        config: the run, resolved; see `rltrain.policies.trained.plan_policy`.
        world: this process' place among those that share the work.
        registry: the installed plugins.
        log: this rank's, to end it if it hangs: if nothing is progress for the seconds of the
            option `hang_timeout`. Progress are `PolicySession.step` and the collectives of `peers`.
            None if the user looks on.
    """
    with private_folder() as folder, contextlib.ExitStack() as watched:
        session = PolicySession(config, world, registry, folder)
        if log is not None:
            watched.enter_context(session.watched(log))
        session.make_env()
        try:
            yield session
        except BaseException:
            if not config.distributed:  # Else peers may be gone: closing could block.
                session.env.close()
            raise
        session.pulse.phase("ending")
        session.env.close()
        session.peers.close()
        session.pulse.phase("ended")
