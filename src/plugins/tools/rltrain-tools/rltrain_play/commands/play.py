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

from rltrain.commands import add_flags, read_flags
from rltrain.errors import UsageError
from rltrain.options import Scope
from rltrain_play.agents import AGENTS
from rltrain_play.commands import flags as policy_flags
from rltrain_play.commands.flags import OWN
from rltrain_play.plugin import NO_ENCODER
from rltrain_play.video.observer import FOLDER as VIDEOS
from rltrain_play.viewers.choosing import VIEWERS

COMMAND = Scope.COMMAND

if TYPE_CHECKING:
    from rltrain.policies import PolicySession, Trained
    from rltrain_play.following import Follower
    from rltrain_play.video.recorder import Recorder


@dataclass(frozen=True, kw_only=True)
class PlayOptions(policy_flags.Chosen):
    """The command's own options."""

    agent: str = OWN.choice(
        "trained",
        COMMAND,
        "the trained policy, actions of zero, or random ones, which need no RUN",
        AGENTS,
    )
    viewer: str | None = OWN.choice(
        None,
        COMMAND,
        "a window, a page in the browser, or none; auto is a window where there is a display, else "
        "a page",
        VIEWERS,
        default_text="auto; with --video, none",
    )
    port: int = OWN.number(8080, COMMAND, "of the page in the browser", 1)
    video: bool = OWN.switch(COMMAND, "record a video")
    video_length: int = OWN.number(200, COMMAND, "of the video, in steps", 1)
    real_time: bool | None = OWN.switch(
        COMMAND,
        "step at the pace of the simulation",
        None,
        default_text="where there is a viewer",
    )
    steps: int | None = OWN.number(None, COMMAND, "stop after so many steps", 1)
    follow: bool = OWN.switch(COMMAND, "take each new checkpoint of a run that still trains")


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
        add_flags(parser, of=PlayOptions)
        policy_flags.add_policy_flags(parser)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Play, and print a line for each episode."""
        from rltrain.policies import open_session, plan_environments, plan_policy, with_drawing
        from rltrain.specs import SuiteSpec
        from rltrain_play.viewers.choosing import choose_viewer

        given = policy_flags.options_of(arguments, words)
        own = _checked(read_flags(PlayOptions, arguments), given)
        # It is one process, whatever has started it.
        options = {"num_envs": 1, **given, "cluster": "none"}
        cast = _find(own, options)
        plan = (
            plan_environments(cast.options) if cast.trained is None else plan_policy(cast.trained)
        )
        world = plan.world
        if world is None:
            raise UsageError("rltrain play is one process, on one device: give one of --gpu-ids.")
        suite = plan.registry.get(SuiteSpec, plan.config.suite)
        asked = own.viewer or ("none" if own.video else "auto")
        viewer, note = choose_viewer(asked, suite, os.environ)
        if own.video or (viewer != "none" and not suite.mujoco_scenes):
            plan = with_drawing(plan)
        if note:
            _tell(note)
        with open_session(plan.config, world, plan.registry) as session:
            done = _play(session, cast, viewer, own)
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


def _checked(own: PlayOptions, given: dict[str, Any]) -> PlayOptions:
    """Refuse flags that contradict each other; find RUN."""
    if own.agent != "trained":
        own = policy_flags.take_task(own, given)
        for name in ("checkpoint", "follow"):
            if getattr(own, name):
                raise UsageError(f"--{name} and --agent {own.agent} contradict each other.")
        if own.run is None and "task" not in given:
            raise UsageError(f"--agent {own.agent}: name a RUN, or a task with --task.")
    else:
        own = policy_flags.find_run(own, given)
        if own.follow and own.checkpoint:
            raise UsageError(
                "--follow and --checkpoint contradict each other: it takes the newest."
            )
    if own.video and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise UsageError(f'--video: {NO_ENCODER.reason} Try `pip install "rltrain[video]"`.')
    return own


def _find(own: PlayOptions, options: Mapping[str, Any]) -> _Cast:
    """Find who plays; with --follow, wait for a first checkpoint."""
    from rltrain.policies import Trained, find_run, options_of_run
    from rltrain_play.following import Follower
    from rltrain_play.native import find

    if own.run is None:
        return _Cast(options)
    is_file = os.path.isfile(own.run)
    if own.agent == "trained" and not own.follow:
        trained = find(own.run, own.checkpoint, options)
        return _Cast(trained.options, trained, trained.run)
    if is_file and not own.follow:
        trained = find(own.run, None, options)
        return _Cast(trained.options, run=trained.run)
    if is_file:
        raise UsageError(f"--follow: {own.run} is a checkpoint. Name the run folder.")
    run = find_run(own.run, options)
    found = options_of_run(run.path, options)
    if not own.follow:
        return _Cast(found, run=run.path)
    follower = Follower(run)
    first = follower.look()
    if first is None:
        _tell(f"waiting for the first checkpoint of {run.path}")
        first = follower.wait()
    return _Cast(found, Trained(first, found, run.path), run.path, follower)


def _play(session: PolicySession, cast: _Cast, viewer: str, own: PlayOptions) -> bool:
    """Play on a session's environments, print what was played, and return whether it was all."""
    from rltrain_play.agents import RandomAgent, ZeroAgent
    from rltrain_play.playing import Player, describe_checkpoint
    from rltrain_play.viewers.choosing import open_viewer
    from rltrain_play.viewers.controls import Controls

    config, env = session.config, session.env
    agent: Any
    if cast.trained is not None:
        agent, name = session.load_policy(), describe_checkpoint(cast.trained.checkpoint)
    elif own.agent == "zero":
        agent, name = ZeroAgent(session), "zero actions"
    else:
        agent, name = RandomAgent(session, session.seeds.seed("learner")), "random actions"
    who = f"{config.library} {config.algorithm}, {name}" if cast.trained else name
    _tell(f"playing {config.task}: {who}, {env.num_envs} environment(s)")
    if cast.run is not None:
        _tell(f"run folder {cast.run}")
    observations = session.reset(session.seeds.environment)
    real_time = viewer != "none" if own.real_time is None else own.real_time
    controls, shown = Controls(env.num_envs, real_time), None
    steps = own.steps
    if own.video and viewer == "none":
        steps = min(filter(None, (steps, own.video_length)))
    with contextlib.ExitStack() as stack:
        if viewer != "none":
            shown = open_viewer(viewer, env, title=config.task, port=own.port, real_time=real_time)
            stack.callback(shown.close)
            controls = shown.controls
            _tell(f"watch it in {shown.place}")
        recorder = _recorder(env, cast, own) if own.video else None
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


def _recorder(env: Any, cast: _Cast, own: PlayOptions) -> Recorder:
    from rltrain.runs import check_inside
    from rltrain_play.video.recorder import Recorder, frames_per_second

    if cast.run is not None:
        check_inside(cast.run, cast.videos, bool(cast.options.get("trust")))
    of = cast.trained.checkpoint.path.stem if cast.trained else own.agent
    names = itertools.chain([f"play-{of}"], (f"play-{of}-{count}" for count in itertools.count(2)))
    name = next(name for name in names if not (cast.videos / f"{name}.mp4").exists())
    return Recorder(
        env.render,
        cast.videos,
        length=own.video_length,
        interval=sys.maxsize,
        fps=frames_per_second(env),
        finished=lambda path: _tell(f"video {path}"),
        name=name,
    )


def _tell(text: str) -> None:
    print(text, flush=True)
