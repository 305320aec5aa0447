"""Watch a policy: in a window, in the browser, as a video, or by its returns."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.commands import add_flags, read_flags
from rltrain.errors import UsageError
from rltrain.options import Scope
from rltrain_play.commands import flags as policy_flags
from rltrain_play.commands.flags import OWN
from rltrain_play.plugin import NO_ENCODER
from rltrain_play.video.observer import FOLDER as VIDEOS
from rltrain_play.viewers.controls import INSTALL, VIEWERS, open_viewer, usable_viewers

if TYPE_CHECKING:
    from rltrain.policies import PolicySession, Trained
    from rltrain_play.video.recorder import Recorder

COMMAND = Scope.COMMAND


@dataclass(frozen=True, kw_only=True)
class PlayOptions(policy_flags.Chosen):
    """The command's own options."""

    agent: str = OWN.choice(
        "trained",
        COMMAND,
        "the trained policy; or of a --task actions of zero, or random ones",
        ("trained", "zero", "random"),
    )
    viewer: str | None = OWN.choice(
        None,
        COMMAND,
        "MuJoCo's window, a page in the browser, or none; auto is the best that works here",
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


class PlayCommand:
    """Watch a policy: in a window, in the browser, as a video, or by its returns.

    Examples:
      rltrain play latest
      rltrain play RUN --checkpoint best --num-envs 4 --viewer viser
      rltrain play RUN --video --video-length 500        into RUN/videos, without a viewer
      rltrain play --task Hopper-v5 --agent random       no run is needed

    It plays until the window is closed, --steps are done, the video is complete, or Ctrl-C.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own flags, and those of a run that a policy has."""
        add_flags(parser, of=PlayOptions)
        policy_flags.add_policy_flags(parser)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Play, and print a line for each episode."""
        from rltrain import policies
        from rltrain.specs import SuiteSpec

        given = policy_flags.options_of(arguments, words)
        own = _checked(read_flags(PlayOptions, arguments), given)
        # It is one process, whatever has started it.
        options = {"num_envs": 1, **given, "cluster": "none"}
        trained: Trained | None = None
        if own.run is None:
            plan = policies.plan_environments(options)
        else:
            trained = policies.find_trained(own.run, own.checkpoint, options)
            plan = policies.plan_policy(trained)
        world = plan.world
        if world is None:
            raise UsageError("rltrain play is one process, on one device: give one of --gpu-ids.")
        suite = plan.registry.get(SuiteSpec, plan.config.suite)
        asked = own.viewer or ("none" if own.video else "auto")
        viewers, note = usable_viewers(asked, suite, os.environ)
        if own.video or (viewers and not suite.mujoco_scenes):
            plan = policies.with_drawing(plan)
        if note:
            _say(note)
        with policies.open_session(plan.config, world, plan.registry) as session:
            done = _play(session, trained, viewers, own)
        return 0 if done else 128 + signal.SIGINT


def _checked(own: PlayOptions, given: dict[str, Any]) -> PlayOptions:
    """Refuse flags that contradict each other; find RUN."""
    if own.agent == "trained":
        own = policy_flags.find_run(own, given)
    else:
        own = policy_flags.take_task(own, given)
        if own.checkpoint or own.run:
            raise UsageError(f"--agent {own.agent} needs no RUN and no --checkpoint. Leave it out.")
        if "task" not in given:
            raise UsageError(f"--agent {own.agent}: give the task with --task.")
    if own.video and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise UsageError(f'--video: {NO_ENCODER.reason} Try `pip install "rltrain[video]"`.')
    return own


def _play(
    session: PolicySession, trained: Trained | None, viewers: list[str], own: PlayOptions
) -> bool:
    """Play on a session's environments, print what was played, and return whether it was all."""
    from rltrain_play.playing import Player, Untrained, describe_checkpoint

    config, env = session.config, session.env
    agent: Any
    if trained is not None:
        agent, name = session.load_policy(), describe_checkpoint(trained.checkpoint)
        who = f"{config.library} {config.algorithm}, {name}"
    else:
        agent = Untrained(session, random=own.agent == "random")
        who = name = f"{own.agent} actions"
    _say(f"playing {config.task}: {who}, {env.num_envs} environment(s)")
    if trained is not None and trained.run is not None:
        _say(f"run folder {trained.run}")
    observations = session.reset(session.seeds.environment)
    with contextlib.ExitStack() as stack:
        viewer = open_viewer(viewers, env, config.task, own.port)
        if viewers and viewer is None:
            text = f"frames are shown by the page in the browser alone: --viewer viser ({INSTALL})"
            if own.viewer is not None and own.viewer != "auto":
                raise UsageError(f"--viewer {own.viewer}: {text}. Or give --viewer none.")
            _say(f"no viewer: {text}.")
        if viewer is not None:
            stack.callback(viewer.close)
            _say(f"watch it in {viewer.place}")
        recorder = _recorder(env, trained, own) if own.video else None
        if recorder is not None:
            stack.callback(recorder.close)
        player = Player(
            session,
            agent,
            name,
            report=_say,
            viewer=viewer,
            real_time=viewer is not None if own.real_time is None else own.real_time,
            recorder=recorder,
        )
        steps = own.steps
        if own.video and viewer is None:
            steps = min(filter(None, (steps, own.video_length)))
        done = player.play(observations, steps)
    _say(player.summary())
    return done


def _recorder(env: Any, trained: Trained | None, own: PlayOptions) -> Recorder:
    from rltrain.runs import check_inside
    from rltrain_play.video.recorder import Recorder, frames_per_second

    folder, of = Path(VIDEOS), own.agent
    if trained is not None:
        of = trained.checkpoint.path.stem
        folder = (trained.run or trained.checkpoint.path.parent) / VIDEOS
        if trained.run is not None:
            check_inside(trained.run, folder, bool(trained.options.get("trust")))
    names = itertools.chain([f"play-{of}"], (f"play-{of}-{count}" for count in itertools.count(2)))
    return Recorder(
        env.render,
        folder,
        length=own.video_length,
        interval=sys.maxsize,
        fps=frames_per_second(env),
        finished=lambda path: _say(f"video {path}"),
        name=next(name for name in names if not (folder / f"{name}.mp4").exists()),
    )


def _say(text: str) -> None:
    print(text, flush=True)
