"""Watch a policy: in a window, in the browser, as a video, or by its returns."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.errors import UsageError
from rltrain_play.agents import AGENTS
from rltrain_play.commands import flags as policy_flags
from rltrain_play.plugin import NO_ENCODER
from rltrain_play.video.observer import FOLDER as VIDEOS
from rltrain_play.viewers.choosing import VIEWERS

if TYPE_CHECKING:
    from rltrain.policies import PolicySession, Trained
    from rltrain_play.following import Follower
    from rltrain_play.video.recorder import Recorder


class PlayCommand:
    """Watch a policy: in a window, in the browser, as a video, or by its returns.

    Examples:
      rltrain play latest
      rltrain play RUN --checkpoint best --num-envs 4 --viewer viser
      rltrain play RUN --video --video-length 500        into RUN/videos, without a viewer
      rltrain play RUN --follow                          each new checkpoint of a run that trains
      rltrain play --task Hopper-v5 --agent random       no run is needed

    It plays until the window is closed, --steps are done, the video is complete, or Ctrl-C.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own flags, and those of a run that a policy has."""
        policy_flags.add_run(parser)
        parser.add_argument(
            "--agent",
            choices=AGENTS,
            default="trained",
            help="the trained policy, actions of zero, or random ones, which need no RUN (trained)",
        )
        parser.add_argument(
            "--viewer",
            choices=VIEWERS,
            default=None,
            help="a window, a page in the browser, or none; auto is a window where there is a "
            "display, else a page (auto; with --video, none)",
        )
        parser.add_argument(
            "--port",
            type=_count,
            default=8080,
            metavar="N",
            help="of the page in the browser (8080)",
        )
        parser.add_argument("--video", action="store_true", help="record a video")
        parser.add_argument(
            "--video-length",
            type=_count,
            default=200,
            metavar="N",
            help="of the video, in steps (200)",
        )
        parser.add_argument(
            "--real-time",
            action=argparse.BooleanOptionalAction,
            default=None,
            help="step at the pace of the simulation (where there is a viewer)",
        )
        parser.add_argument("--steps", type=_count, metavar="N", help="stop after so many steps")
        parser.add_argument(
            "--follow",
            action="store_true",
            help="take each new checkpoint of a run that still trains",
        )
        policy_flags.add_policy_flags(parser)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Play, and print a line for each episode."""
        from rltrain.policies import open_session, plan_environments, plan_policy, with_drawing
        from rltrain.specs import SuiteSpec
        from rltrain_play.viewers.choosing import choose_viewer

        _check(arguments)
        given = policy_flags.options_of(arguments, words)
        # It is one process, whatever has started it.
        options = {"num_envs": 1, **given, "cluster": "none"}
        cast = _find(arguments, options)
        plan = (
            plan_environments(cast.options) if cast.trained is None else plan_policy(cast.trained)
        )
        world = plan.world
        if world is None:
            raise UsageError("rltrain play is one process, on one device: give one of --gpu-ids.")
        suite = plan.registry.get(SuiteSpec, plan.config.suite)
        asked = arguments.viewer or ("none" if arguments.video else "auto")
        viewer, note = choose_viewer(asked, suite, os.environ)
        if arguments.video or (viewer != "none" and not suite.mujoco_scenes):
            plan = with_drawing(plan)
        if note:
            _tell(note)
        with open_session(plan.config, world, plan.registry) as session:
            done = _play(session, cast, viewer, arguments)
        return 0 if done else 128 + signal.SIGINT


@dataclass(frozen=True)
class _Cast:
    """Who plays."""

    options: Mapping[str, Any]
    """Fields of `RunOptions`."""
    trained: Trained | None = None
    """None if no policy is needed."""
    run: Path | None = None
    """The run folder, if there is one."""
    follower: Follower | None = None

    @property
    def videos(self) -> Path:
        """Where videos are put."""
        if self.run is not None:
            return self.run / VIDEOS
        return self.trained.checkpoint.path.parent / VIDEOS if self.trained else Path(VIDEOS)


def _check(arguments: argparse.Namespace) -> None:
    """Refuse flags that contradict each other; find RUN."""
    if arguments.agent != "trained":
        policy_flags.take_task(arguments)
        for name in ("checkpoint", "follow"):
            if getattr(arguments, name):
                raise UsageError(f"--{name} and --agent {arguments.agent} contradict each other.")
        if arguments.run is None and not hasattr(arguments, "task"):
            raise UsageError(f"--agent {arguments.agent}: name a RUN, or a task with --task.")
    else:
        policy_flags.find_run(arguments)
        if arguments.follow and arguments.checkpoint:
            raise UsageError(
                "--follow and --checkpoint contradict each other: it takes the newest."
            )
    if arguments.video and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise UsageError(f'--video: {NO_ENCODER.reason} Try `pip install "rltrain[video]"`.')


def _find(arguments: argparse.Namespace, options: Mapping[str, Any]) -> _Cast:
    """Find who plays; with --follow, wait for a first checkpoint."""
    from rltrain.policies import Trained, find_run, options_of_run
    from rltrain_play.following import Follower
    from rltrain_play.native import find

    if arguments.run is None:
        return _Cast(options)
    is_file = os.path.isfile(arguments.run)
    if arguments.agent == "trained" and not arguments.follow:
        trained = find(arguments.run, arguments.checkpoint, options)
        return _Cast(trained.options, trained, trained.run)
    if is_file and not arguments.follow:
        trained = find(arguments.run, None, options)
        return _Cast(trained.options, run=trained.run)
    if is_file:
        raise UsageError(f"--follow: {arguments.run} is a checkpoint. Name the run folder.")
    run = find_run(arguments.run, options)
    found = options_of_run(run.path, options)
    if not arguments.follow:
        return _Cast(found, run=run.path)
    found |= {"trust_checkpoint": True} if found.get("trust_run") else {}
    follower = Follower(run)
    first = follower.look()
    if first is None:
        _tell(f"waiting for the first checkpoint of {run.path}")
        first = follower.wait()
    return _Cast(found, Trained(first, found, run.path), run.path, follower)


def _play(session: PolicySession, cast: _Cast, viewer: str, arguments: argparse.Namespace) -> bool:
    """Play on a session's environments, print what was played, and return whether it was all."""
    from rltrain_play.agents import RandomAgent, ZeroAgent
    from rltrain_play.playing import Player, describe_checkpoint
    from rltrain_play.viewers.choosing import open_viewer
    from rltrain_play.viewers.controls import Controls

    config, env = session.config, session.env
    agent: Any
    if cast.trained is not None:
        agent, name = session.load_policy(), describe_checkpoint(cast.trained.checkpoint)
    elif arguments.agent == "zero":
        agent, name = ZeroAgent(session), "zero actions"
    else:
        agent, name = RandomAgent(session, session.seeds.seed("learner")), "random actions"
    who = f"{config.library} {config.algorithm}, {name}" if cast.trained else name
    _tell(f"playing {config.task}: {who}, {env.num_envs} environment(s)")
    if cast.run is not None:
        _tell(f"run folder {cast.run}")
    observations = session.reset(session.seeds.environment)
    real_time = viewer != "none" if arguments.real_time is None else arguments.real_time
    controls, shown = Controls(env.num_envs, real_time), None
    steps = arguments.steps
    if arguments.video and viewer == "none":
        steps = min(filter(None, (steps, arguments.video_length)))
    with contextlib.ExitStack() as stack:
        if viewer != "none":
            shown = open_viewer(
                viewer, env, title=config.task, port=arguments.port, real_time=real_time
            )
            stack.callback(shown.close)
            controls = shown.controls
            _tell(f"watch it in {shown.place}")
        recorder = _recorder(env, cast, arguments) if arguments.video else None
        if recorder is not None:
            stack.callback(recorder.close)
        player = Player(
            session,
            agent,
            name,
            tell=_tell,
            controls=controls,
            viewer=shown,
            recorder=recorder,
            follower=cast.follower,
        )
        done = player.play(observations, steps)
    _tell(player.played.summary())
    return done


def _recorder(env: Any, cast: _Cast, arguments: argparse.Namespace) -> Recorder:
    from rltrain.runs import check_inside
    from rltrain_play.video.recorder import Recorder, frames_per_second

    if cast.run is not None:
        check_inside(cast.run, cast.videos, bool(cast.options.get("trust_run")))
    of = cast.trained.checkpoint.path.stem if cast.trained else arguments.agent
    names = itertools.chain([f"play-{of}"], (f"play-{of}-{count}" for count in itertools.count(2)))
    name = next(name for name in names if not (cast.videos / f"{name}.mp4").exists())
    return Recorder(
        env.render,
        cast.videos,
        length=arguments.video_length,
        interval=sys.maxsize,
        fps=frames_per_second(env),
        finished=lambda path: _tell(f"video {path}"),
        name=name,
    )


def _tell(text: str) -> None:
    print(text, flush=True)


def _count(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


_count.__name__ = "positive number"  # As argparse names it: "invalid positive number value".
