"""The options of rl_games, to be combined."""

from __future__ import annotations

from typing import Any

from claim import Claim
from pairs import STEPS, Change, Clash, Table, change, choices, shown, taken
from shard_envs import BOTH

LAYERS = {"mlp": {"units": [32], "activation": "elu", "initializer": {"name": "default"}}}
CENTRAL = "+params.config.central_value_config"


def config(**options: Any) -> Change:
    return change({f"params.config.{name}": value for name, value in options.items()})


def network(**options: Any) -> Change:
    return change({f"+params.network.{name}": value for name, value in options.items()})


def switch(change_if_on: Change, change_if_off: Change | None = None) -> dict[str, Change]:
    """Return the two values of a switch; the first is off."""
    return {"no": change_if_off or change(), "yes": change_if_on}


def booleans(*names: str) -> dict[str, dict[str, Change]]:
    """Return options under `params.config` with two values; the first is on."""
    return choices("params.config.", **dict.fromkeys(names, (True, False)))


D2RL = change({"+params.network.mlp.d2rl": True, "params.network.mlp.units": [16, 16]})


def size(num_envs: int, mini_batches: int) -> Change:
    rows = config(minibatch_size_per_env=STEPS // mini_batches)
    return change(rows.agent, num_envs=num_envs, mini_batches=mini_batches)


def central(mini_batches: int = 1, network: Any = (), **options: Any) -> Change:
    made = {"name": "actor_critic", "central_value": True, **LAYERS, **dict(network)}
    options = {
        "minibatch_size_per_env": STEPS // mini_batches,
        "mini_epochs": 2,
        "learning_rate": 3e-4,
        "clip_value": True,
        "normalize_input": True,
        "truncate_grads": True,
        "network": made,
        **options,
    }
    # One rank's order of environments serves mini-batches of one number; one is the union of all.
    cut = {"mini_batches": mini_batches} if mini_batches > 1 else {}
    return change({CENTRAL: options}, **cut)


IMAGES = ("images of floats", "images of bytes", BOTH, "images with a vector")
GRU, LSTM = ({"name": name, "units": 8, "layers": 1} for name in ("gru", "lstm"))
ADAPTIVE = {"lr_schedule": "adaptive", "kl_threshold": 0.008}
AROUND = {"layer_norm": True, "concat_input": True, "concat_output": True}

COMMON: dict[str, dict[str, Change]] = {
    "environments and mini-batches": {
        **{f"{n}, {cut}": size(n, cut) for n, cut in ((8, 4), (8, 1), (1, 1), (1, 4), (2, 4))},
        "4, 2 by rows": change(
            {"params.config.minibatch_size": 2 * STEPS},
            num_envs=4,
            mini_batches=2,
            scaled=("params.config.minibatch_size",),
        ),
    },
    **shown("vector", "policy and critic", *IMAGES),
    "recurrent": {
        "no": change(),
        "gru": network(rnn=GRU),
        "lstm": network(rnn={**LSTM, "layers": 2}),
        "before the layers": network(rnn={**LSTM, "before_mlp": True, **AROUND}),
        "gru, concatenated": network(rnn={**GRU, **AROUND}),
    },
    "central value": {
        "no": change(),
        "yes": central(),
        "4 mini-batches, nothing normalized": central(
            4, normalize_input=False, truncate_grads=False, clip_value=False, weight_decay=1e-3
        ),
        "recurrent": central(network={"rnn": GRU}),
        "linear learning rate": central(lr_schedule="linear"),
    },
    **booleans("normalize_input", "normalize_value", "normalize_advantage"),
    "learning rate": {
        "adaptive": config(**ADAPTIVE),
        "adaptive, standard": config(**ADAPTIVE, schedule_type="standard"),
        "linear": config(lr_schedule="linear"),
        "linear in frames": change(
            config(lr_schedule="linear", max_epochs=-1, max_frames=32 * STEPS).agent,
            max_iterations=None,
        ),
        "constant": config(lr_schedule="None"),
        "adaptive to nothing": config(**{**ADAPTIVE, "kl_threshold": None}),
    },
    "entropy": {
        "none": config(entropy_coef=0.0),
        "constant": config(entropy_coef=0.01),
        "scheduled": config(entropy_coef=0.01, schedule_entropy=True),
    },
    "separate networks": switch(network(separate=True), network(separate=False)),
    "layers": {
        "plain": change(),
        "d2rl": D2RL,
        **{norm: network(normalization=norm) for norm in ("layer_norm", "batch_norm")},
        **{
            f"d2rl, {norm}": network(**{"mlp.d2rl": True, "normalization": norm})
            for norm in ("layer_norm", "batch_norm")
        },
    },
    **booleans("clip_value", "truncate_grads", "value_bootstrap"),
    "use_smooth_clamp": switch(config(use_smooth_clamp=True)),
    **booleans("ppo"),
    "weight decay": switch(config(weight_decay=1e-3)),
    **booleans("zero_rnn_on_done"),
    "use_diagnostics": switch(config(use_diagnostics=True)),
    "mixed_precision": switch(config(mixed_precision=True)),
    "reward_shaper": {
        "scaled": config(reward_shaper={"scale_value": 0.1}),
        "shifted, bounded": change(
            {
                "params.config.reward_shaper.scale_value": 2.0,
                "+params.config.reward_shaper.shift_value": -0.5,
                "+params.config.reward_shaper.min_val": -1,
                "+params.config.reward_shaper.max_val": 1,
            }
        ),
    },
}

CONTINUOUS: dict[str, dict[str, Change]] = {
    "observations": {
        **COMMON["observations"],
        # Its own file has a critic beside the policy, in four mini-batches.
        BOTH: change(
            {"params.config.central_value_config.minibatch_size_per_env": STEPS}, observations=BOTH
        ),
    },
    **taken("continuous", "of other bounds", "without bounds"),
    "model": {
        name: change({"params.model.name": name})
        for name in ("continuous_a2c_logstd", "continuous_a2c", "continuous_a2c_tanh")
    },
    "bounds loss": {
        "bound": config(bounds_loss_coef=1e-4),
        "regularization": config(bounds_loss_coef=1e-3, bound_loss_type="regularization"),
        "of another type": config(bounds_loss_coef=1e-3, bound_loss_type="none"),
        "no coefficient": config(bounds_loss_coef=None),
    },
    **choices("params.network.space.continuous.", fixed_sigma=(True, False)),
    **booleans("clip_actions"),
    "env.clip_actions": switch(
        change({"params.env.clip_actions": 0.5, "params.env.clip_observations": 0.8})
    ),
}

DISCRETE: dict[str, dict[str, Change]] = {
    **taken("discrete", "multi-discrete"),
    "env.clip_observations": switch(change({"params.env.clip_observations": 0.8})),
}

BASE = Claim(
    library="rl_games",
    algorithm="ppo",
    features="",
    cut="environments",
    agent={
        **config(horizon_length=STEPS, mini_epochs=2, learning_rate=3e-4, seq_length=2).agent,
        "params.network.mlp.units": [16],
    },
)

CLASHES = (
    Clash(
        {
            "observations": (BOTH,),
            "actions": ("of other bounds", "without bounds", "multi-discrete"),
        },
        "",
    ),
    Clash(
        {"recurrent": ("no",), "central value": ("recurrent",)},
        "rl_games keeps the critic's recurrent states only where the actor has some",
    ),
    Clash(
        {"learning rate": ("linear in frames",), "central value": ("linear learning rate",)},
        "its schedule depends on the last epoch",
    ),
    Clash({"learning rate": ("adaptive to nothing",)}, "for which rl_games has no default"),
    Clash(
        {"layers": ("layer_norm", "d2rl, layer_norm", "batch_norm"), "observations": IMAGES},
        "normalize by one rank's mini-batch",
    ),
    Clash({"layers": ("d2rl, batch_norm",)}, "normalize by one rank's mini-batch"),
    Clash({"model": ("continuous_a2c",)}, "returns an entropy that it did not compute"),
)

SAC = Claim(
    library="rl_games",
    algorithm="sac",
    features="",
    agent={
        **config(num_steps_per_episode=8, num_updates_per_step=2, num_warmup_frames=96).agent,
        **config(batch_size=16, replay_buffer_size=96).agent,
        "params.network.mlp.units": [16],
    },
    scaled=("params.config.batch_size", "params.config.replay_buffer_size"),
    batch_size=16,
)

REPLAYED: dict[str, dict[str, Change]] = {
    "environments": {
        "8": change(),
        # The ranks' warm-up ends in the same epoch: its frames are counted over all ranks.
        "1": change({"params.config.num_warmup_frames": 12}, num_envs=1),
    },
    **shown("vector", "policy and critic"),
    "actions": CONTINUOUS["actions"],
    "updates and rows of each": {
        "2, 16": change(),
        "1, 16": config(num_updates_per_step=1),
        "3, 2": change(
            {"params.config.num_updates_per_step": 3, "params.config.batch_size": 2}, batch_size=2
        ),
    },
    "replay buffer": {"written over": change(), "not full": config(replay_buffer_size=1000)},
    "warm-up": {"some frames": change(), "none": config(num_warmup_frames=0)},
    **booleans("normalize_input", "learnable_temperature"),
    **choices("params.config.", policy_frequency=(2, 1)),
    "critic_grad_clip": {
        "5": change(),
        "0.1": config(critic_grad_clip=0.1),
        "0": config(critic_grad_clip=0),
    },
    "target_entropy_coef": {"1": change(), "0.5": config(target_entropy_coef=0.5)},
    **booleans("value_bootstrap"),
    "init_alpha": {"1": change(), "0.1": config(init_alpha=0.1)},
    "mixed_precision": switch(config(mixed_precision=True)),
    "layers": {"plain": change(), "d2rl": D2RL, "layer_norm": network(normalization="layer_norm")},
    "separate networks": {"yes": network(separate=True), "no": network(separate=False)},
    "env.clip_actions": CONTINUOUS["env.clip_actions"],
}

SAC_CLASHES = (
    Clash({"layers": ("d2rl",)}, "cannot build such a network"),
    Clash({"separate networks": ("no",)}, "then has no critic"),
)

RL_GAMES = (
    Table(BASE, {**COMMON, **CONTINUOUS}, CLASHES, "(continuous)"),
    Table(BASE, {**COMMON, **DISCRETE}, CLASHES, "(discrete)"),
    Table(SAC, REPLAYED, SAC_CLASHES),
)
