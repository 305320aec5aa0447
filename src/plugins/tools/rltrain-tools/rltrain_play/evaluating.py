"""Evaluating policies: whole episodes, shared by the ranks, and their statistics."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltrain.config import RunConfig
from rltrain.errors import UsageError
from rltrain.launch import RankLog, say
from rltrain.options import hide
from rltrain.plugins import discover
from rltrain.policies import Trained, open_session, plan_policy
from rltrain.runs import Checkpoint
from rltrain.terminal import note
from rltrain.types import World
from rltrain.work import on_ranks
from rltrain_play.episodes import Block, Episode, Progress, make_blocks, play_block
from rltrain_play.kept import EVALUATIONS, Evaluated, add_evaluation
from rltrain_play.statistics import Summary, summarize


@dataclass(frozen=True)
class Evaluation:
    """What each rank does: its share of the blocks, with each checkpoint."""

    checkpoints: tuple[str, ...]
    blocks: tuple[Block, ...]
    success_key: str | None = None

    def __call__(self, config: RunConfig, world: World, log: RankLog) -> list[list[Episode]] | None:
        """Return the episodes of each checkpoint on rank 0. Collective."""
        with open_session(config, world, discover(config.no_plugins), log) as session:
            blocks, found = self.share(world), []
            total = len(blocks) * len(self.checkpoints) * session.env.num_envs
            progress = Progress(total, say if world.is_root else lambda text: None)
            for checkpoint in self.checkpoints:
                policy = session.load_policy(Path(checkpoint))
                own: list[tuple[Any, ...]] = []  # As tuples: ranks send each other data only.
                for block in blocks:
                    played = play_block(session, policy, block, self.success_key, progress.update)
                    progress.before += len(played)
                    own += map(dataclasses.astuple, played)
                of_all = session.peers.gather_objects(own, dst=0)
                found.append(
                    [Episode(*each) for each in sorted(each for rank in of_all for each in rank)]
                )
                if world.is_root and len(self.checkpoints) > 1:
                    mean = sum(each.episode_return for each in found[-1]) / len(found[-1])
                    say(f"{Path(checkpoint).name}: {len(found[-1])} episodes, return {mean:.2f}")
        return found if world.is_root else None

    def share(self, world: World) -> tuple[Block, ...]:
        """Return the blocks that a rank plays."""
        return self.blocks[world.rank :: world.world_size]


def evaluate(
    trained: Trained,
    *,
    episodes: int = 100,
    seeds: Sequence[int] = (0,),
    checkpoints: Sequence[Checkpoint] = (),
    success_key: str | None = None,
) -> list[Result]:
    """Play whole episodes of a policy, on the ranks that its options ask for.

    Each environment plays equally many episodes, so that short ones are not favored. On any number
    of ranks the episodes are the same.

    Args:
        trained: the policy, and the options with which it plays.
        episodes: the least number of each seed; each environment plays as many as the others.
        seeds: of the environments.
        checkpoints: those of the run to evaluate; by default the policy's own.
        success_key: where the task's infos say whether an episode was a success.

    Returns:
        A result for each checkpoint; none on nodes without rank 0.

    Raises:
        UsageError: an option, a checkpoint or the success key is wrong.
        RankFailed: a rank failed.
    """
    if importlib.util.find_spec("scipy") is None:
        raise UsageError(
            'evaluate: its statistics need scipy. Install it: pip install "rltrain[evaluate]".'
        )
    checkpoints = tuple(checkpoints) or (trained.checkpoint,)
    plan = plan_policy(trained)
    config = plan.config
    blocks = make_blocks(seeds, episodes, config.num_envs)
    played = len(blocks) // len(seeds) * config.num_envs
    if plan.world is None or plan.world.is_root:
        text = f"{config.library} {config.algorithm} on {config.task}: {played} episodes"
        if played != episodes:
            text += f" (--episodes {episodes}, made equal for {config.num_envs} environments)"
        if len(seeds) > 1:
            text += f" of each of {len(seeds)} seeds"
        note(f"{text}, {len(checkpoints)} checkpoint{'s' if len(checkpoints) > 1 else ''}")
    work = Evaluation(tuple(map(str, checkpoints)), tuple(blocks), success_key)
    return [
        Result(
            run=str(trained.run) if trained.run else None,
            checkpoint=str(checkpoint),
            digest=checkpoint.digest,
            iteration=checkpoint.iteration,
            library=config.library,
            algorithm=config.algorithm,
            task=config.task,
            env=hide(dict(config.env)),
            seeds=tuple(seeds),
            episodes=tuple(found),
        )
        for checkpoint, found in zip(checkpoints, on_ranks(plan, work) or [], strict=False)
    ]


@dataclass(frozen=True)
class Result:
    """The evaluation of one checkpoint."""

    run: str | None
    """The run folder; None for a file that a library's own script wrote."""
    checkpoint: str
    iteration: int | None
    """After which it was saved, if that is known."""
    library: str
    algorithm: str
    task: str
    env: Mapping[str, Any]
    """The task's options, those with which it is played included."""
    seeds: tuple[int, ...]
    episodes: tuple[Episode, ...]
    digest: str = ""
    """The SHA-256 of the checkpoint's file."""

    @functools.cached_property
    def summaries(self) -> dict[str, Summary]:
        """Return the statistics of return, length, and success if the task reports it."""
        found = {
            "return": summarize([each.episode_return for each in self.episodes]),
            "length": summarize([each.length for each in self.episodes]),
        }
        judged = [each.success for each in self.episodes if each.success is not None]
        return found | ({"success": summarize(judged)} if judged else {})

    def as_json(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        return {
            **{each.name: getattr(self, each.name) for each in dataclasses.fields(self)},
            "episodes": len(self.episodes),
            **{name: dataclasses.asdict(each) for name, each in self.summaries.items()},
            "each": [dataclasses.asdict(each) for each in self.episodes],
        }

    def keep(self) -> str | None:
        """Add it to those in the run folder, if the checkpoint is in one.

        Returns:
            Why that failed; None if it did not.
        """
        checkpoint, run = Path(self.checkpoint).resolve(), Path(self.run or "").resolve()
        if self.run is None or not checkpoint.is_relative_to(run):
            return None
        found = self.summaries
        kept = Evaluated(
            time=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            checkpoint=str(checkpoint.relative_to(run)),
            digest=self.digest,
            iteration=self.iteration,
            episodes=len(self.episodes),
            seeds=self.seeds,
            returns=found["return"].mean,
            returns_interval=found["return"].mean_interval,
            iqm=found["return"].iqm,
            iqm_interval=found["return"].iqm_interval,
            length=found["length"].mean,
            success=found["success"].mean if "success" in found else None,
            task=self.task,
        )
        try:
            add_evaluation(run, kept, self.env)
        except OSError as error:
            return f"{run / EVALUATIONS} was not written: {error.strerror or error}"
        return None


def table(results: Sequence[Result]) -> str:
    """Return the results as aligned lines, one a checkpoint."""
    rows: list[tuple[str, ...]] = [
        ("checkpoint", "iteration", "episodes", "return, 95 %", "iqm, 95 %", "length", "success")
    ]
    for result in results:
        found, path = result.summaries, Path(result.checkpoint)
        where = Path(result.run).name if result.run else path.parent.name
        means = (
            f"{mean:.2f} [{low:.2f}, {high:.2f}]"
            for mean, (low, high) in (
                (found["return"].mean, found["return"].mean_interval),
                (found["return"].iqm, found["return"].iqm_interval),
            )
        )
        rows.append(
            (
                f"{where}/{path.name}",
                "-" if result.iteration is None else str(result.iteration),
                str(len(result.episodes)),
                *means,
                f"{found['length'].mean:.1f}",
                f"{found['success'].mean:.1%}" if "success" in found else "-",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
