"""What others have written for their searches: W&B's sweeps, Hydra's sweeper, `pbt:` sections."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from rltrain.commands import make_plan
from rltrain.errors import UsageError
from rltrain.options import get_dotted, load_yaml
from rltrain.terminal import note
from rltrain_sweep.space import as_choice, first_of, flat, space_in, with_values, written_out

Found = tuple[dict[str, Any], dict[str, Any]]
"""What varies, by dotted key, such as {"agent.gamma": "choice(0.98,0.99)"}; and the study's own."""


def take_space(arguments: argparse.Namespace, run: dict[str, Any]) -> dict[str, Any]:
    """Return a run's options with what `--multirun` and the file of `--space` let vary.

    What the file says of the study is added to the arguments. What is typed wins.

    Raises:
        UsageError: the file is none that is known, or has what rltrain has not.
    """
    typed = written_out(run) if getattr(arguments, "multirun", False) else run
    path = getattr(arguments, "space", None)
    if path is None:
        return typed
    varied, own = _read(path, typed)
    for name, value in own.items():
        if value and not hasattr(arguments, name):
            setattr(arguments, name, value)
    known = dict(flat(typed))
    return with_values(typed, {key: x for key, x in varied.items() if key not in known})


def _read(path: str, options: Mapping[str, Any]) -> Found:
    given = load_yaml(path, "--space")
    try:
        if "parameters" in given:
            return _of_wandb(given)
        if (sweeper := get_dotted(given, "hydra.sweeper", None)) is not None:
            return _of_hydra(sweeper)
        if "pbt" in given:
            return _of_pbt(given["pbt"], options)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"--space {path}: {type(error).__name__}: {error}.") from error
    raise UsageError(
        f"--space {path}: is no sweep of W&B (`parameters:`), no `hydra.sweeper:` and no `pbt:`."
    )


def _of_wandb(given: Mapping[str, Any]) -> Found:
    """Read a sweep as docs.wandb.ai/guides/sweeps/sweep-config-keys describes it."""

    def each_of(parameters: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
        for name, each in parameters.items():
            if "parameters" in each:
                yield from each_of(each["parameters"], f"{prefix}{name}.")
            else:
                yield prefix + name, _wandb_text(each)

    metric, early = given.get("metric", {}), given.get("early_terminate", {})
    return dict(each_of(given["parameters"])), {
        "sampler": {"bayes": "tpe"}.get(given["method"], given["method"]),
        "objective": metric.get("name"),
        "minimize": metric.get("goal") == "minimize",
        "trials": given.get("run_cap"),
        "pruner": early and f"hyperband(reduction_factor={early.get('eta', 3)})",
    }


def _wandb_text(each: Mapping[str, Any]) -> Any:
    if "value" in each:
        return each["value"]
    if "values" in each:
        return _choice(each["values"])
    low, high, q = each["min"], each["max"], each.get("q", 1)
    whole = isinstance(low, int) and isinstance(high, int)
    kind = each.get("distribution", "int_uniform" if whole else "uniform")
    if kind == "log_uniform":  # Its bounds are exponents of e.
        return f"log({math.exp(low)},{math.exp(high)})"
    texts = {
        "int_uniform": f"int(interval({low},{high}))",
        "uniform": f"interval({low},{high})",
        "q_uniform": f"range({low},{high + q / 2},{q})",
        "log_uniform_values": f"log({low},{high})",
    }
    if kind not in texts:
        raise ValueError(f"{kind} is not known here; write one of {', '.join(texts)}")
    return texts[kind]


def _of_hydra(sweeper: Mapping[str, Any]) -> Found:
    """Read the section of hydra-optuna-sweeper, or `params` of Hydra's own."""
    found = {key: as_choice(each) for key, each in (sweeper.get("params") or {}).items()}
    for key, each in (sweeper.get("search_space") or {}).items():
        if each["type"] == "categorical":
            found[key] = _choice(each["choices"])
            continue
        low, high, step = each["low"], each["high"], each.get("step")
        text = f"range({low},{high + step / 2},{step})" if step else f"interval({low},{high})"
        tags = ["log,"] * bool(each.get("log")) + ["int,"] * (each["type"] == "int")
        found[key] = f"tag({''.join(tags)}{text})" if tags else text
    sampler = dict(sweeper.get("sampler") or {})
    name = str(sampler.pop("_target_", "")).rpartition(".")[2]
    if "seed" in sampler:
        found["seed"] = sampler.pop("seed")
    words = ",".join(f"{key}={json.dumps(value)}" for key, value in sampler.items())
    return found, {
        "sampler": name and f"{name}({words})",
        "minimize": sweeper.get("direction") == "minimize",
        "trials": sweeper.get("n_trials"),
        "storage": sweeper.get("storage"),
    }


def _of_pbt(pbt: Mapping[str, Any], options: Mapping[str, Any]) -> Found:
    """Read a section of Isaac Lab or rl_games. Its mutations have no bounds; here: ten times."""
    plan, found = make_plan(with_values(options, first_of(space_in(options)))), {}
    for key, how in pbt["mutation"].items():
        value = get_dotted({"agent": plan.config.agent, "env": plan.config.env}, key)
        if not isinstance(value, (int, float)):
            raise ValueError(f"pbt.mutation: {key} is no number of {plan.options_from}")
        if how == "mutate_discount":  # 1 - value is what is multiplied.
            found[key] = f"interval({max(1 - (1 - value) * 10, 0.0)},{1 - (1 - value) / 10})"
        else:
            found[key] = f"log({value / 10},{value * 10})"
    steps = plan.iteration.steps if plan.iteration else 1
    frames = steps * plan.config.num_envs * int(plan.config.nproc_per_node or 1)
    taken = {"enabled", "mutation", "num_policies", "interval_steps", "objective"}
    if left := sorted(set(pbt) - taken):
        note(f"--space: of pbt, without effect: {', '.join(left)}")
    return found, {
        "population": pbt["num_policies"],
        "generation": max(1, int(pbt["interval_steps"]) // frames),
        "objective": pbt.get("objective"),
    }


def _choice(values: Any) -> str:
    return f"choice({','.join(map(json.dumps, values))})"
