"""Networks of a user's own: for rsl_rl by their class, for rl_games by the names of `NAMES`."""

from __future__ import annotations

import gymnasium
import torch
from rl_games.algos_torch.model_builder import register_network
from rl_games.algos_torch.network_builder import A2CBuilder
from rsl_rl.models import MLPModel

gymnasium.register("Own-v0", entry_point="gymnasium.envs.classic_control:PendulumEnv")


def centered(network, x):
    return x - x.mean(0)


def by_the_last_batch(network, x):
    center = getattr(network, "center", 0.0)
    if network.training:
        network.center = x.detach().mean(0)
    return x - center


def with_noise(network, x):
    return torch.nn.functional.dropout(x, 0.1, network.training)


WITH = {"Centered": centered, "ByTheLast": by_the_last_batch, "Noisy": with_noise}


class _Model(MLPModel):
    def get_latent(self, obs, masks=None, hidden_state=None):
        return self.change(super().get_latent(obs, masks, hidden_state))


for _name, _change in WITH.items():
    globals()[_name] = type(_name, (_Model,), {"change": _change, "__module__": __name__})


class BesideForward(_Model):
    """Its method for normalizers keeps a mean where no tensor is seen."""

    center = 0.0

    def change(self, x):
        return x - self.center

    def update_normalization(self, obs):
        self.center = 0.9 * self.center + 0.1 * obs["policy"].mean(0)


def _builder(change):
    class Builder(A2CBuilder):
        def build(self, name, **options):
            return Builder.Network(self.params, **options)

        class Network(A2CBuilder.Network):
            def forward(self, given):
                return super().forward({**given, "obs": change(self, given["obs"])})

    return Builder


for _name, _change in WITH.items():
    register_network(_name, _builder(_change))
