"""Write a policy as a file that runs without rltrain, as on a robot."""

from __future__ import annotations

import argparse
from pathlib import Path

from rltrain_play.commands import flags as policy_flags

_ENVIRONMENTS = 8
"""The default number of environments. Those of a simulator on a GPU are thousands."""


class ExportCommand:
    """Write a policy as a file that runs without rltrain, as on a robot.

    Examples:
      rltrain export latest
      rltrain export RUN --checkpoint best --format onnx jit --verify 1000
      rltrain export RUN --output policy.onnx --opset 20
      rltrain export model_1499.pt --library rsl_rl --task T --agent-config agent.yaml

    Beside the files, a JSON file describes their inputs and outputs, and what they were made of.
    With --verify, the exit status is 1 if a file does not act as the policy does.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own flags, and those of a run that a policy has."""
        policy_flags.add_run(parser)
        parser.add_argument(
            "--format",
            nargs="+",
            default=[],
            metavar="F",
            help="of torch: onnx, jit, pt2 (onnx); of jax: stablehlo (stablehlo)",
        )
        parser.add_argument(
            "--output", metavar="FILE", help="the file (exported/policy.SUFFIX in the run folder)"
        )
        parser.add_argument("--opset", type=int, metavar="N", help="ONNX's set of operators (18)")
        parser.add_argument(
            "--verify",
            type=_count,
            metavar="N",
            help="play the policy, and compare what each file does with N observations",
        )
        policy_flags.add_policy_flags(parser, ("hang_timeout",))

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Export, and verify."""
        from rltrain.errors import UsageError
        from rltrain.policies import plan_policy
        from rltrain.terminal import note
        from rltrain.work import on_ranks
        from rltrain_play.exporting import Export, choose_files
        from rltrain_play.native import find

        policy_flags.find_run(arguments)
        if arguments.output and Path(arguments.output).expanduser().is_dir():
            raise UsageError(f"--output {arguments.output}: is a folder. Name a file.")
        options = policy_flags.options_of(arguments, words, ["hang_timeout"])
        options.setdefault("num_envs", _ENVIRONMENTS)
        trained = find(arguments.run, arguments.checkpoint, options)
        plan = plan_policy(trained)
        config = plan.config
        files = choose_files(
            *(trained, config.framework, config.backend, plan.registry),
            *(arguments.format, arguments.output),
        )
        if arguments.opset is not None and "onnx" not in files:
            raise UsageError(f"--opset {arguments.opset}: is one of --format onnx. Leave it out.")
        if plan.world is None or plan.world.is_root:
            # Importing the framework, and writing, may take a while without a line.
            text = f"{config.library} {config.algorithm} on {config.task}: {trained.checkpoint}"
            note(f"exporting {text} as {', '.join(files)}")
        return on_ranks(plan, Export(files, arguments.opset, arguments.verify)) or 0


def _count(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


_count.__name__ = "number of observations"  # As argparse names it.
