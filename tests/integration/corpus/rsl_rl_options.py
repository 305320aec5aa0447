"""Writes Isaac Lab's configurations of rsl_rl, which are classes, as options files.

python rsl_rl_options.py SOURCE FOLDER

Runs in a separate process: Isaac Lab's packages and the stand-in's have the same names.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import yaml
from wheel import Bare

from rltrain_isaaclab.answer import _plain


def evaluated(source: Path):
    """Yield the name of each configuration and its options, as the suite passes them on."""
    sys.path[:0] = [str(source / name) for name in ("isaaclab", "isaaclab_rl", "isaaclab_tasks")]
    sys.meta_path.insert(0, Bare(source))
    utils = importlib.import_module("isaaclab.utils")
    utils.configclass = importlib.import_module("isaaclab.utils.configclass").configclass
    shown = importlib.import_module("isaaclab_rl.rsl_rl")
    for name in ("rnd_cfg", "symmetry_cfg", "rl_cfg", "distillation_cfg"):
        module = importlib.import_module(f"isaaclab_rl.rsl_rl.{name}")
        vars(shown).update({key: x for key, x in vars(module).items() if key.startswith("RslRl")})
    root = source / "isaaclab_tasks"
    for path in sorted(root.rglob("agents/rsl_rl_*cfg.py")):
        module = importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))
        for name, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield f"{path.relative_to(root / 'isaaclab_tasks')}:{name}", _plain(value())


if __name__ == "__main__":
    for number, (name, options) in enumerate(evaluated(Path(sys.argv[1]))):
        target = Path(sys.argv[2]) / f"{number:03}.yaml"
        target.write_text(f"# {name}\n{yaml.safe_dump(options)}")
