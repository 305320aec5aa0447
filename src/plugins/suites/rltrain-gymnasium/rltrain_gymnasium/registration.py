"""Registers the embedded tasks with Gymnasium, for use without rltrain.

Importing this module registers them:

    gymnasium.make_vec("rltrain_gymnasium.registration:rltrain/CartPole-v1", num_envs=4)
"""

from __future__ import annotations

import gymnasium

from rltrain_gymnasium.tasks import EMBEDDED

for name, task in EMBEDDED.items():
    if name not in gymnasium.registry:
        gymnasium.register(
            name,
            vector_entry_point="rltrain_gymnasium.batched:make_batched",
            reward_threshold=task.reward_threshold,
            kwargs={"task": name},
        )
