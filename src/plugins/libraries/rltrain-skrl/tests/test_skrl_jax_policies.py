"""skrl's jax policies: discrete actions have an entropy, and compiled updates sample new noise."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from rltrain_skrl.run import bootstrap

bootstrap.import_skrl()

from skrl.utils.model_instantiators.jax import (  # noqa: E402
    categorical_model,
    gaussian_model,
    multicategorical_model,
)

from rltrain_skrl.run.jax.keys import get_keys, set_keys  # noqa: E402
from rltrain_skrl.run.jax.runner import extend_model  # noqa: E402
from rltrain_skrl.run.jax.workarounds import RandomActions  # noqa: E402

NETWORK = [{"name": "net", "input": "OBSERVATIONS", "layers": [8], "activations": "tanh"}]
SPACE = spaces.Box(-1.0, 1.0, (3,))
DATA = jnp.linspace(-1.0, 1.0, 12).reshape(4, 3)


def made(make, action, extended=True, **options):
    model = make(
        observation_space=SPACE, action_space=action, network=NETWORK, output="ACTIONS", **options
    )
    model.init_state_dict(role="policy")
    if extended:
        extend_model(model)
    return model


def entropy(model, params):
    taken = jnp.zeros((4, len(getattr(model.action_space, "nvec", [0]))))
    inputs = {"observations": DATA, "taken_actions": taken}
    _, outputs = model.act(inputs, role="policy", params=params)
    return model.get_entropy(outputs["stddev"], role="policy").mean()


@pytest.mark.parametrize(
    ("make", "action", "most"),
    [
        (categorical_model, spaces.Discrete(4), np.log(4)),
        (multicategorical_model, spaces.MultiDiscrete([2, 3]), np.log(2) + np.log(3)),
    ],
    ids=["categorical", "multi-categorical"],
)
@pytest.mark.slow
def test_an_entropy_bonus_has_an_effect(make, action, most):
    stock, ours = made(make, action, extended=False), made(make, action)
    params = ours.state_dict.params
    assert np.isnan(entropy(stock, params))
    value, gradient = jax.value_and_grad(lambda params: entropy(ours, params))(params)
    assert 0.5 * most < value < most + 1e-6
    assert max(float(jnp.abs(x).max()) for x in jax.tree.leaves(gradient)) > 1e-4
    level = jax.tree.map(jnp.zeros_like, params)
    assert np.isclose(entropy(ours, level), most)


@pytest.mark.slow
@pytest.mark.parametrize("extended", [False, True], ids=["stock", "ours"])
def test_a_compiled_update_samples_new_noise(extended):
    model = made(gaussian_model, spaces.Box(-9.0, 9.0, (2,)), extended)

    @jax.jit
    def noise(params, observations):
        actions, outputs = model.act({"observations": observations}, role="policy", params=params)
        return actions - outputs["mean_actions"]

    params = model.state_dict.params
    first, again, other = (noise(params, data) for data in (DATA, DATA, DATA + 0.5))
    assert np.allclose(first, again)
    assert np.allclose(first, other, atol=1e-6) is not extended


def test_each_part_of_a_rank_draws_numbers_of_its_own():
    parts = [SimpleNamespace(_key=None, _i=0), SimpleNamespace(_g_key=None, _g_i=0)]
    set_keys(parts, jax.random.PRNGKey(0))
    (one, _), (other, _) = get_keys(parts)
    assert not np.array_equal(one, other)


def test_random_choices_are_all_that_there_are(monkeypatch):
    monkeypatch.setattr(jax.random, "randint", lambda _, rows, *ends: jnp.arange(*ends))
    assert RandomActions(spaces.Discrete(3))(64).tolist() == [0, 1, 2]
