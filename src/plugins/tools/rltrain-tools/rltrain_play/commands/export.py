"""Write a policy as a file that runs without rltrain, as on a robot."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from rltrain.commands import add_flags, read_flags
from rltrain.options import Scope
from rltrain_play.commands import flags as policy_flags
from rltrain_play.commands.flags import OWN

_ENVIRONMENTS = 8
"""The default number of environments. Those of a simulator on a GPU are thousands."""


@dataclass(frozen=True, kw_only=True)
class ExportOptions(policy_flags.Chosen):
    """The command's own options."""

    format: tuple[str, ...] = OWN.option(
        (),
        Scope.COMMAND,
        "of torch: onnx, jit, pt2 (onnx); of jax: stablehlo (stablehlo)",
        kind="values",
        metavar="F",
    )
    output: str | None = OWN.option(
        None,
        Scope.COMMAND,
        "the file",
        names="path",
        default_text="exported/policy.SUFFIX in the run folder",
    )
    opset: int | None = OWN.number(
        None, Scope.COMMAND, "ONNX's set of operators", 1, default_text="18"
    )
    verify: int | None = OWN.number(
        None,
        Scope.COMMAND,
        "play the policy, and compare what each file does with N observations",
        1,
    )


class ExportCommand:
    """Write a policy as a file that runs without rltrain, as on a robot.

    Examples:
      rltrain export latest
      rltrain export RUN --checkpoint best --format onnx jit --verify 1000
      rltrain export RUN --output policy.onnx --opset 20
      rltrain export model_1499.pt --library rsl_rl --task T --agent-config agent.yaml

    Next to the files, a JSON file describes their inputs and outputs, and what they were made of.
    With --verify, the exit status is 1 if a file does not act as the policy does.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own flags, and those of a run that a policy has."""
        add_flags(parser, of=ExportOptions)
        policy_flags.add_policy_flags(parser, "hang_timeout")

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Export, and verify."""
        from rltrain.errors import UsageError
        from rltrain.policies import find_trained, plan_policy
        from rltrain.terminal import note
        from rltrain.work import on_ranks
        from rltrain_play.exporting import Export, choose_files

        options = policy_flags.options_of(arguments, words, "hang_timeout")
        own = policy_flags.find_run(read_flags(ExportOptions, arguments), options)
        options.setdefault("num_envs", _ENVIRONMENTS)
        trained = find_trained(str(own.run), own.checkpoint, options)
        plan = plan_policy(trained)
        config = plan.config
        files = choose_files(trained, plan, own.format, own.output)
        if own.opset is not None and "onnx" not in files:
            raise UsageError(f"--opset {own.opset}: is an option of --format onnx. Leave it out.")
        if plan.world is None or plan.world.is_root:
            # Importing the framework, and writing, may take a while without a line.
            text = f"{config.library} {config.algorithm} on {config.task}: {trained.checkpoint}"
            note(f"exporting {text} as {', '.join(files)}")
        return on_ranks(plan, Export(files, own.opset, own.verify)) or 0
