from __future__ import annotations

import pytest
from packaging.version import Version
from rsl_rl_stubs import CURIOUS, VERSION, recurrent

from rltrain_devkit import LibraryConformance

pytestmark = pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with dup")

EPISODES = {"max_episode_length": 6}
DECAYING = {"mode": "linear", "initial_step": 10, "final_step": 40, "final_value": 0.0}
RANDOM_NETWORK = {**CURIOUS, "algorithm.rnd_cfg.weight_schedule": DECAYING}
SYMMETRY = {
    "algorithm.symmetry_cfg.data_augmentation_func": "rsl_rl_stubs:mirrored",
    "algorithm.symmetry_cfg.use_data_augmentation": True,
    "algorithm.symmetry_cfg.use_mirror_loss": True,
    "algorithm.symmetry_cfg.mirror_loss_coeff": 0.5,
}
SIGHT = {"num_steps_per_env": 4}
CAMERA = "rltrain/CartPoleContinuousCamera-v1"
BESIDE = "rltrain/CartPoleContinuousCameraAndMotion-v1"


class TestRslRl(LibraryConformance):
    library = "rsl_rl"
    agent = {"num_steps_per_env": 8, "algorithm.num_mini_batches": 2}
    variants = {
        "lstm": {"agent": recurrent("lstm"), "env": EPISODES},
        "gru": {"agent": recurrent("gru"), "env": EPISODES},
        "recurrent critic": {"agent": recurrent("lstm", "critic"), "env": EPISODES},
        "adaptive learning rate": {
            "agent": {"algorithm.schedule": "adaptive", "algorithm.desired_kl": 0.01}
        },
        "random network": {"agent": RANDOM_NETWORK, "env": EPISODES},
        "random network, gru": {
            "agent": {**RANDOM_NETWORK, **recurrent("gru", "actor")},
            "env": EPISODES,
        },
        "symmetry": {"agent": SYMMETRY},
        "advantages by mini-batch": {
            "agent": {
                "algorithm.normalize_advantage_per_mini_batch": True,
                "algorithm.class_name": "rsl_rl.algorithms:PPO",
            }
        },
        "beta": {"agent": {"actor.distribution_cfg.class_name": "BetaDistribution"}},
        "heteroscedastic": {
            "agent": {"actor.distribution_cfg.class_name": "HeteroscedasticGaussianDistribution"}
        },
        "clipped, two layers": {
            "agent": {"clip_actions": 0.1, **recurrent("lstm"), "actor.rnn_num_layers": 2},
            "env": EPISODES,
        },
        "images": {"task": CAMERA, "agent": SIGHT},
        "images, shared encoders": {
            "task": BESIDE,
            "agent": {**SIGHT, "algorithm.share_cnn_encoders": True},
        },
        "images beside vectors": {"task": BESIDE, "agent": SIGHT},
    }
    if Version("5.3") > VERSION:
        del variants["beta"]
