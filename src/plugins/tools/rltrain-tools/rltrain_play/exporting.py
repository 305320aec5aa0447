"""Exporting a policy: files that run without rltrain, and what must be known to run them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltrain.commands import Plan
from rltrain.config import RunConfig
from rltrain.errors import RltrainError, UsageError, suggest
from rltrain.launch import RankLog, say
from rltrain.plugins import discover, exporters
from rltrain.policies import Trained, open_session
from rltrain.policy import Exporter, PolicyModule
from rltrain.runs import PARTIAL, NotWritten, RunFolder, check_inside, check_writable
from rltrain.types import World
from rltrain_play.metadata import as_text, describe, plain
from rltrain_play.verifying import Comparison, try_out, verify


@dataclass(frozen=True)
class Export:
    """The work: writes the files of a policy, compares them with it, and describes them."""

    files: Mapping[str, Path]
    """By format."""
    opset: int | None = None
    """That of ONNX; None for the exporter's own."""
    verify: int | None = None
    """On how many observations to compare; None for none."""

    def __call__(self, config: RunConfig, world: World, log: RankLog) -> int:
        """Return the exit status: 1 if a file does not act as the policy does."""
        registry = discover(config.no_plugins)
        exporter = exporters(registry, config.backend)[config.framework]
        with open_session(config, world, registry, log) as session:
            policy = session.load_policy()
            module = policy.module()
            facts = describe(session, module)
            about = {format: self._write(exporter, module, format, facts) for format in self.files}
            results: dict[str, Comparison] = {}
            if self.verify:
                runs = {format: exporter.load(path, format) for format, path in self.files.items()}
                results = verify(session, policy, module, runs, self.verify, say)
        for format, result in results.items():
            verdict = "acts as the policy" if result.passed else "DOES NOT ACT AS THE POLICY"
            say(f"{self.files[format].name} {verdict}: {result}.")
            about[format]["verified"] = plain({**vars(result), "passed": result.passed})
        # Last: a reader who finds it finds the files.
        text = json.dumps({**facts, "files": about}, indent=1) + "\n"
        for path in {path.with_suffix(".json") for path in self.files.values()}:
            _write(path, lambda partial: partial.write_text(text))
        return 0 if all(result.passed for result in results.values()) else 1

    def _write(
        self, exporter: Exporter, module: PolicyModule, format: str, facts: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Write one file, and return what there is to know about it."""
        path, about = self.files[format], dict[str, Any]()

        def write(partial: Path) -> None:
            about.update(exporter.export(module, format, partial, as_text(facts), self.opset))
            try_out(exporter.load(partial, format), module)

        try:
            _write(path, write)
        except RltrainError:
            raise
        except Exception as error:  # Compilers raise many; the log has the traceback.
            raise UsageError(
                f"--format {format}: this policy cannot be exported so "
                f"({type(error).__name__}: {' '.join(str(error).split())[:300]}). Choose another "
                "format, or a newer version of what writes this one."
            ) from error
        more = "".join(f", {name} {value}" for name, value in about.items() if name == "opset")
        say(f"wrote {path} ({format}{more})")
        return {"name": path.name, **about}


def choose_files(
    trained: Trained, plan: Plan, formats: Sequence[str], output: str | None
) -> dict[str, Path]:
    """Return which files to write, by format; of no format, that of the framework's default.

    Without an output, files are in the folder `exported`: of the run folder, or next to a
    checkpoint that a library's own script wrote.
    """
    framework = plan.config.framework
    able = exporters(plan.registry, plan.config.backend)
    if framework not in able:
        raise UsageError(f"Policies of {framework} cannot be exported: no backend has an exporter.")
    exporter = able[framework]
    chosen = list(dict.fromkeys(formats)) or [next(iter(exporter.formats))]
    for format in chosen:
        if format not in exporter.formats:
            raise UsageError(
                f"--format {format}: is no format of {framework}, the policy's framework."
                f"{suggest(format, exporter.formats)} Choose from {', '.join(exporter.formats)}."
            )
        exporter.check(format)
    if output is None:
        folder = (trained.run or trained.checkpoint.path.parent) / "exported"
        if trained.run is not None:
            check_inside(trained.run, folder, bool(trained.options.get("trust")))
        files = {format: folder / f"policy{exporter.formats[format]}" for format in chosen}
    else:
        suffix, path = exporter.formats[chosen[0]], Path(output).expanduser().resolve()
        if len(chosen) > 1:
            raise UsageError(
                f"--output {output}: names one file, but --format names {len(chosen)}."
            )
        if path.is_dir():
            raise UsageError(f"--output {output}: is a folder. Name a file.")
        if path.suffix != suffix:
            raise UsageError(
                f"--output {output}: a file of the format {chosen[0]} ends in {suffix}. Name it "
                f"so, or give another --format: {', '.join(exporter.formats)}."
            )
        files = {chosen[0]: path}
    check_writable("output", str(next(iter(files.values())).parent))
    return files


def _write(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file that is complete or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f"{PARTIAL}*-{path.name}"):  # By one that was killed.
        shutil.rmtree(left, ignore_errors=True)
    try:
        RunFolder(path.parent).write_atomically(path.name, write)
    except NotWritten as error:
        raise UsageError(
            f"--output {path}: the disk did not take it ({error.strerror}). Name another place."
        ) from error
