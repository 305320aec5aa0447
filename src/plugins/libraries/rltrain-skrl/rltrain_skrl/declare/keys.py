"""The keys that the installed skrl takes, and those without effect here. Does not import skrl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.options import get_dotted
from rltrain.specs import Ignored, Keys
from rltrain_adapters.sources import parameters
from rltrain_skrl.declare.options import ALGORITHMS, ON_POLICY

_OF_RUNNER = frozenset(
    {
        *("class", "rewards_shaper_scale", "random_timesteps", "learning_starts"),
        *("lambda", "clip_predicted_values"),
        *(f"{x}state_preprocessor{y}" for x in ("", "shared_") for y in ("", "_kwargs")),
    }
)
"""Options of an agent that skrl's Runner turns into others, or leaves out: those of skrl 1, too."""

_MODELS = ("categorical", "deterministic", "gaussian", "multicategorical", "multivariate_gaussian")

_FOLDER = "The folder of a run is --log-root, and part of its name --run-name."
_UNREAD = {
    "agent.experiment.directory": Ignored(_FOLDER, if_typed=True),
    "agent.experiment.experiment_name": Ignored(_FOLDER, if_typed=True),
    "agent.experiment.store_separately": Ignored("A checkpoint is one file."),
    "agent.experiment.wandb_kwargs": Ignored("Give --writer wandb and wandb.KEY=VALUE.", ({},)),
    "trainer.class": Ignored("The loop is rltrain's own.", ("SequentialTrainer",)),
    "trainer.headless": Ignored("Give --headless.", if_typed=True),
    "trainer.disable_progressbar": Ignored("Progress is the console's.", if_typed=True),
    "trainer.close_environment_at_exit": Ignored("The run closes it.", if_typed=True),
    "trainer.stochastic_evaluation": Ignored("A policy is evaluated without noise.", if_typed=True),
}


def keys(options: Mapping[str, Any]) -> dict[str, Keys]:
    """Return skrl's keys by section; see `OptionSchema.keys`."""
    name = str(get_dotted(options, "agent.class", "")).lower()
    if name not in ALGORITHMS:
        return {}
    agent = _taken(f"agents.{{}}.{name}:{name.upper()}_CFG", "agents.{}.base:AgentCfg")
    trainer = _taken("trainers.{}.base:TrainerCfg", "trainers.{}.sequential:SequentialTrainerCfg")
    memory = _taken("memories.{}.random:RandomMemory")
    model = _taken(*(f"utils.model_instantiators.{{}}.{x}:{x}_model" for x in _MODELS))
    models = options.get("models")
    found = {
        "": {"models", "memory", "agent", "trainer", "seed"},
        "agent": agent and {*agent, *_OF_RUNNER},
        "agent.experiment": _taken("agents.{}.base:ExperimentCfg"),
        "trainer": trainer and {*trainer, "class"},
        "memory": memory and {*memory, "class", "save_replay_buffer"},
        **{f"models.{role}": model and {*model, "class"} for role in models or () if model},
    }
    return {section: Keys(each, open=not section) for section, each in found.items() if each}


def _taken(*made: str) -> set[str]:
    """Return the parameters of classes of skrl, for torch and for jax."""
    each = (f"skrl.{where}".format(x).split(":") for where in made for x in ("torch", "jax"))
    return {key for module, name in each for key in parameters(module, name)}


def ignored(options: Mapping[str, Any]) -> dict[str, Ignored]:
    """Return options without effect; see `OptionSchema.ignored`."""
    interval = Ignored("Metrics are recorded in every iteration.", if_typed=True)
    on_policy = str(get_dotted(options, "agent.class", "")).lower() in ON_POLICY
    return _UNREAD | ({"agent.experiment.write_interval": interval} if on_policy else {})
