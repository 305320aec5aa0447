"""Models and mini-batches of other kinds on the ranks of a fake world."""

from __future__ import annotations

import itertools

import pytest
import torch
from gymnasium.spaces import Box
from rsl_rl_stubs import PointEnv, recurrent

from rltrain import hookimpl
from rltrain.errors import UsageError
from rltrain.testing import FakeWorld, differing

SHORT = {
    "num_steps_per_env": 16,
    "algorithm.num_learning_epochs": 2,
    "algorithm.num_mini_batches": 2,
    "algorithm.schedule": "adaptive",
}
SYMMETRY = {
    "algorithm.symmetry_cfg.data_augmentation_func": "rsl_rl_stubs:mirrored",
    "algorithm.symmetry_cfg.use_data_augmentation": True,
    "algorithm.symmetry_cfg.use_mirror_loss": True,
    "algorithm.symmetry_cfg.mirror_loss_coeff": 0.5,
}
IMAGES = {
    f"{model}.{key}": value
    for model in ("actor", "critic")
    for key, value in {
        "class_name": "CNNModel",
        "cnn_cfg": {"output_channels": [2], "kernel_size": [3], "norm": "layer"},
        "obs_normalization": False,
    }.items()
}


class ImageEnv(PointEnv):
    """The point, as an image of one bright column."""

    def __init__(self, num_envs):
        super().__init__(num_envs)
        self.single_observation_space = Box(0, 1, (8, 8, 1))

    def _observe(self):
        column = torch.linspace(-4, 4, 8)
        bright = (-((self.position[:, None] - column) ** 2)).exp()
        return bright[:, None, :, None].expand(-1, 8, 8, 1)


class Images:
    """An observer that makes image environments instead of the suite."""

    @hookimpl(tryfirst=True)
    def rltrain_make_env(self, session):
        return ImageEnv(session.config.num_envs)


CASES = {
    "LSTM": (recurrent("lstm"), []),
    "GRU": (recurrent("gru"), []),
    "recurrent critic": (recurrent("lstm", "critic"), []),
    "symmetry": (SYMMETRY, []),
    "images": (IMAGES, [Images]),
    "images, shared encoders": ({**IMAGES, "algorithm.share_cnn_encoders": True}, [Images]),
    "advantages by mini-batch": ({"algorithm.normalize_advantage_per_mini_batch": True}, []),
}


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
@pytest.mark.parametrize(("options", "observers"), CASES.values(), ids=CASES)
def test_ranks_learn_from_their_own_data_and_end_equal(
    train_ranks, local_gradients, options, observers
):
    world = FakeWorld(4)
    runs = train_ranks(world, agent={**SHORT, **options}, observers=[local_gradients, *observers])
    first = [run.observers[0].given[0] for run in runs]
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(first, 2))
    # The run itself compared learning rates and moments at its end.
    assert not differing(runs)
    # A mini-batch costs one collective, in which the KL divergence rides along.
    here = [item.callers[0].rpartition(" in ")[2] for item in world.trace]
    assert here.count("reduce") == 2 * 2 * 2
    assert not any("ppo.py" in item.callers[0] for item in world.trace)


def test_rsl_rl_calls_no_collective_by_itself(train_ranks):
    world = FakeWorld(2)
    train_ranks(world, agent={**SHORT, "algorithm.desired_kl": 0.01})
    assert not [item for item in world.trace if "/rsl_rl/" in item.callers[0]]


def test_environments_that_do_not_divide_into_recurrent_mini_batches_are_refused(train_ranks):
    with pytest.raises(UsageError, match=r"num_mini_batches=2: does not divide a rank's 3 env"):
        train_ranks(FakeWorld(2), agent={**SHORT, **recurrent("gru")}, num_envs=3)


def test_normalizing_images_is_refused(train_ranks):
    options = {**SHORT, **IMAGES, "actor.obs_normalization": True}
    with pytest.raises(UsageError, match=r"agent\.actor\.obs_normalization=false"):
        train_ranks(FakeWorld(2), agent=options, observers=[Images])
