"""Train a task with an RL library, on one process or many."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rltrain.builtin.plugin import TRAIN
from rltrain.cli import dialects
from rltrain.cli.flags import add_flags, value_flags
from rltrain.config.declare import Group
from rltrain.config.options import COMMAND
from rltrain.files.yaml import load_yaml
from rltrain.options.run import RunOptions
from rltrain.specs import CommandSpec

_OVERRIDE = re.compile(r"\+|[A-Za-z_][\w-]*\.[^=\s]*=")

THIS = Group("this command")


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """The command's own options."""

    config: str | None = THIS.option(
        None,
        COMMAND,
        "YAML file with any of these options, and sections agent: and env:",
        names="path",
    )
    dry_run: bool = THIS.switch(COMMAND, "print the plan and start nothing")


_TAKE_A_VALUE = value_flags(RunOptions) | value_flags(TrainOptions)
"""Flags that take the next word as their value, even if it looks like an override."""


def separate(words: list[str], spec: CommandSpec = TRAIN) -> tuple[list[str], list[str]]:
    """Return words without overrides, and the overrides.

    argparse would add them to lists such as `--gpu-ids 0 1`.
    """
    words = dialects.translate(words, spec)
    before = ["", *words]
    overrides = [
        word
        for word, previous in zip(words, before, strict=False)
        if _OVERRIDE.match(word) and previous.replace("_", "-") not in _TAKE_A_VALUE
    ]
    return [word for word in words if word not in overrides], overrides


class TrainCommand:
    """Train a task with an RL library, on one process or many.

    options of the library, of the task and of plugins:
      agent.KEY=VALUE      override an option of the library, such as agent.params.config.gamma=0.98
      env.KEY=VALUE        set an option of the task, such as env.pole_length=0.8
      +agent.KEY=VALUE     add an option that the library's file does not have
      NAME.KEY=VALUE       set an option of a plugin, such as tensorboard.flush=10; `rltrain plugins
                           NAME` lists them

    Examples:
      rltrain --library rl_games --distributed
      rltrain --library skrl --task Pendulum-v1 --num-envs 64 --max-iterations 100
      rltrain --library skrl --framework jax --distributed
      torchrun --nproc_per_node 2 -m rltrain --library rl_games --distributed
      rltrain Mjlab-Cartpole-Balance --library rsl_rl --gpu-ids all

    The task may come first, without its flag. Flags take dashes or underscores; switches may have a
    value, True or False.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags of a run, and those of the command itself."""
        add_flags(parser)
        add_flags(parser, of=TrainOptions)
        # That of a command of another program, if neither a flag nor a file names one.
        parser.add_argument("--default-library", default=argparse.SUPPRESS, help=argparse.SUPPRESS)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Train, or print the plan."""
        from rltrain.nodes.telling import telling_others
        from rltrain.plan.resolve import make_plan
        from rltrain.ranks.machine import available_cores
        from rltrain.run.start import start

        options = read_options(vars(arguments), words)
        if options.pop("dry_run", False):
            from rltrain.plan.table import plan_table

            print(plan_table(make_plan(options)))
            return 0
        with telling_others(lambda: options):
            plan = make_plan(options)
            if plan.world is None and not plan.starts_nodes:
                # Ranks print nothing for the seconds in which they import frameworks.
                config = plan.config
                count = int(config.nproc_per_node or 1)
                text = f"starting {count} rank(s) on this node, backend {config.backend}"
                if config.nnodes > 1:
                    text += f", once all {config.nnodes} nodes have met at {config.endpoint}"
                if count > (cores := available_cores()):
                    text += f"; {count} ranks share {cores} cores"
                print(text, flush=True)
            return start(plan).exit_code


def read_options(given: Mapping[str, Any], words: list[str]) -> dict[str, Any]:
    """Merge the --config file, the flags and the overrides. Later ones take precedence.

    Raises:
        UsageError: a section of the file or an override is wrong.
    """
    from rltrain.errors import UsageError
    from rltrain.options.agent import parse_override
    from rltrain.options.run import overlay

    flags = dict(given)
    path = flags.pop("config", None)
    usual = {"library": flags.pop("default_library", None)}
    if "resume" in flags:
        usual = {}  # The run has a library.
    typed: dict[str, dict[str, Any]] = {"agent": {}, "env": {}}
    of_plugins: dict[str, Any] = {}
    for word in words:
        override = parse_override(word)
        added = word.startswith("+")
        if override is None or (added and override[0] not in typed):
            raise UsageError(
                f"{word}: write an override as agent.key=value or env.key=value"
                f"{' with or without +' if added else ', or NAME.key=value for a plugin'}."
            )
        where, key, value = override
        if where in typed:
            typed[where][key] = value
        else:
            of_plugins[f"{where}.{key}"] = value
    given = {**flags, **of_plugins, **typed}
    options = {**usual, **(_options_in(path, given) if path else {})}
    for where in typed:
        if not isinstance(section := options.get(where) or {}, Mapping):
            raise UsageError(f"--config {path}: {where}: must be a mapping, not {section!r}.")
    return overlay(options, given)


def _options_in(path: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in a --config file; of a run folder's, those that are taken."""
    from rltrain.config import checks
    from rltrain.errors import UsageError
    from rltrain.options.agent import libraries_of
    from rltrain.plugins.registry import discover
    from rltrain.storage.run_options import read_file, run_folder_of, take

    run = run_folder_of(path)
    if run is None:
        # Names of sections are kept, because names of plugins may have dashes.
        options = load_yaml(path, "--config")
        if found := libraries_of(options, discover()):
            raise UsageError(
                f"--config {path}: is a file of {found}, not of a run. Give --agent-config {path}."
            )
        return {
            name if isinstance(value, Mapping) else name.replace("-", "_"): value
            for name, value in options.items()
        }
    saved = read_file(run, path, "--config", bool(given.get("trust")))
    options = take(run, saved, given, discover(checks.names("", given.get("no_plugins", ()))))
    if os.path.lexists(run / "agent.yaml"):
        options["agent_config"] = str(run / "agent.yaml")  # The run folder may have been moved.
    return options
