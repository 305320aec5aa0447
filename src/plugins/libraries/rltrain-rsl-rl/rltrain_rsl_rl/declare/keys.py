"""The keys that the installed rsl_rl takes, read from its sources. Does not import rsl_rl.

rsl_rl passes sections of a file to its classes, which fail with an unexpected keyword on every
rank. What this plugin knows of other versions and classes is left to `older` and `options`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.options import get_dotted
from rltrain.specs import Keys
from rltrain_adapters.sources import parameters
from rltrain_rsl_rl.declare.choices import is_of_rsl_rl
from rltrain_rsl_rl.declare.older import ADDED_IN, MODELS_OF, NOISE_KEYS, POLICY_KEYS
from rltrain_rsl_rl.declare.options import DISTILLATION_NAMES, MODELS, PPO_NAMES, class_of, ignored

_STD = "distribution.std_param.data", "distribution.log_std_param.data"
RESTORED = {
    "algorithm.learning_rate": ("optimizer.lr", "learning_rate"),
    # One of another class has no state to continue from.
    "algorithm.optimizer": ("optimizer", "learning_rate"),
    # Before 5.1, the algorithm has the optimizer of random network distillation.
    "algorithm.rnd_cfg.learning_rate": ("rnd.optimizer.lr", "rnd_optimizer.lr"),
    "actor.distribution_cfg.init_std": tuple(f"actor.{place}" for place in _STD),
    "student.distribution_cfg.init_std": tuple(f"student.{place}" for place in _STD),
}
"""Options that a checkpoint holds too, and where the algorithm has them; see `as_given`."""

_FROM_RUNNER = frozenset(
    {
        *("actor", "critic", "student", "teacher", "storage", "device", "multi_gpu_cfg"),
        *("obs", "obs_groups", "obs_set", "output_dim", "cnns", "input_dim", "input_channels"),
        *("num_states", "env"),
    }
)
"""Parameters that rsl_rl's runner gives, and no file."""

_OF_ALGORITHM = ("class_name", "share_cnn_encoders", "rnd_cfg", "symmetry_cfg", *ADDED_IN)

_MIRRORS = ("data_augmentation_func", "use_data_augmentation", "use_mirror_loss")
_SYMMETRY = {"algorithm.symmetry_cfg": Keys((*_MIRRORS, "mirror_loss_coeff"))}
"""Of rsl_rl 5.0, whose PPO reads them itself."""

_OF_FILE = frozenset(
    {
        *("num_steps_per_env", "save_interval", "check_for_nan", "torch_compile_mode"),
        *("algorithm", "obs_groups", "policy", "empirical_normalization", *MODELS),
        # Read by the script that calls rsl_rl's runner.
        *("seed", "max_iterations", "clip_actions", "init_at_random_ep_len", *ignored({})),
    }
)
"""Those of a whole file."""


def keys(options: Mapping[str, Any]) -> dict[str, Keys]:
    """Return rsl_rl's keys by section; see `OptionSchema.keys`."""
    # Other programs have theirs in the same file.
    found = {"": Keys(_OF_FILE, required=("save_interval",), open=True)} | _of_algorithm(options)
    found["obs_groups"] = Keys((*MODELS, "rnd_state"), open=True)
    policy = options.get("policy")
    if isinstance(policy, Mapping) and policy.get("class_name", "ActorCritic") in [*MODELS_OF]:
        found["policy"] = Keys(POLICY_KEYS)
    for model in MODELS:
        if isinstance(options.get(model), Mapping):
            found |= _of_model(options[model], model)
    return found


def _of_algorithm(options: Mapping[str, Any]) -> dict[str, Keys]:
    name = get_dotted(options, "algorithm.class_name", None)
    if name not in (*PPO_NAMES, *DISTILLATION_NAMES):
        return {}
    rnd, symmetry = "algorithm.rnd_cfg", "algorithm.symmetry_cfg"
    if name in PPO_NAMES:
        found = _taken("algorithm", "rsl_rl.algorithms:PPO", _OF_ALGORITHM)
    else:  # It passes over those of PPO.
        own = (*_OF_ALGORITHM, *parameters("rsl_rl.algorithms", "PPO"))
        found = _taken("algorithm", "rsl_rl.algorithms:Distillation", own)
    found |= _taken(rnd, "rsl_rl.extensions:RandomNetworkDistillation", ("learning_rate",))
    schedule = ("mode", "initial_step", "final_step", "final_value")
    found[f"{rnd}.weight_schedule"] = Keys(schedule, open=True)
    return found | (_taken(symmetry, "rsl_rl.extensions:Symmetry", ()) or _SYMMETRY)


def _of_model(options: Mapping[str, Any], model: str) -> dict[str, Keys]:
    """Return the keys of a model and of what is in it, as far as they are rsl_rl's own."""
    # Of all classes: mjlab writes all options, and an override may change the class.
    models = _parameters("rsl_rl.models", "MLPModel", "RNNModel", "CNNModel")
    found = _of_class(options, model, "rsl_rl.models", ("class_name", *models, *NOISE_KEYS))
    noise, images = options.get("distribution_cfg"), options.get("cnn_cfg") or {}
    if isinstance(noise, Mapping) and noise:
        kinds = (f"{x}Distribution" for x in ("Gaussian", "HeteroscedasticGaussian", "Beta"))
        own = ("class_name", *_parameters("rsl_rl.modules", *kinds), *ADDED_IN)
        found |= _of_class(noise, f"{model}.distribution_cfg", "rsl_rl.modules", own)
    if isinstance(images, Mapping) and class_of(options) == "CNNModel":
        by_group = images and all(isinstance(each, Mapping) for each in images.values())
        for part in [f".{group}" for group in images] if by_group else [""]:
            found |= _taken(f"{model}.cnn_cfg{part}", "rsl_rl.modules:CNN", ())
    return found


def _of_class(
    options: Mapping[str, Any], section: str, module: str, own: tuple[str, ...]
) -> dict[str, Keys]:
    """Return the keys of a section that names its class."""
    if "class_name" not in options:
        return {section: Keys(set(map(str, options)), required=("class_name",))}
    if not is_of_rsl_rl(options["class_name"]):
        return {}
    return _taken(section, f"{module}:{class_of(options)}", own)


def _parameters(module: str, *names: str) -> dict[str, bool]:
    """Return the parameters of classes, without those that the runner gives."""
    found = {key: each for name in names for key, each in parameters(module, name).items()}
    return {key: each for key, each in found.items() if key not in _FROM_RUNNER}


def _taken(section: str, made: str, own: tuple[str, ...]) -> dict[str, Keys]:
    """Return the keys of a section that a class of rsl_rl, `made`, takes; none if it is not found.

    This plugin, or rsl_rl before it makes the class, handles the keys `own`.
    """
    module, _, name = made.partition(":")
    taken = _parameters(module, name)
    required = [key for key, has_default in taken.items() if not has_default]
    return {section: Keys({*taken, *own}, required)} if taken else {}
