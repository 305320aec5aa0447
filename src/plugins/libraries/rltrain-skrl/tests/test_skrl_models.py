"""What `rltrain_skrl.run.runner.extend` relies on in the installed skrl and flax."""

from __future__ import annotations

import importlib

import pytest
import torch
from gymnasium import spaces

from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.runner import extend
from rltrain_skrl.run.torch.runner import SessionModel

bootstrap.import_skrl()

OPTIONS = {
    "observation_space": spaces.Box(-1.0, 1.0, (3,)),
    "action_space": spaces.Box(-1.0, 1.0, (2,)),
    "network": [{"name": "net", "input": "OBSERVATIONS", "layers": [4], "activations": "tanh"}],
    "output": "ACTIONS",
}


def made(framework):
    """Return a Gaussian policy with parameters."""
    module = importlib.import_module(f"skrl.utils.model_instantiators.{framework}")
    model = module.gaussian_model(**OPTIONS)
    model.init_state_dict(role="policy")
    return model


def test_a_torch_model_keeps_its_parameters_and_gets_the_methods():
    model = made("torch")
    stock, before = type(model), dict(model.named_parameters())
    extend(model, SessionModel)
    assert isinstance(model, stock)
    assert isinstance(model, SessionModel)
    assert all(x is before[name] for name, x in model.named_parameters())
    assert not {"reduce_parameters", "broadcast_parameters", "random_act"} & vars(model).keys()
    called = []
    model.reduce_parameters()
    model.average_gradients = lambda: called.append(True)
    model.reduce_parameters()
    assert called == [True]
    assert model.act({"observations": torch.zeros(5, 3)}, role="policy")[0].shape == (5, 2)
    assert model.random_act({"observations": torch.zeros(5, 3)})[0].shape == (5, 2)


@pytest.mark.slow
def test_flax_clones_an_extended_model_with_the_models_own_constructor():
    pytest.importorskip("flax")
    import jax
    import jax.numpy as jnp

    from rltrain_skrl.run.jax.runner import extend_model

    model = made("jax")
    stock = type(model)
    params, inputs = model.state_dict.params, {"observations": jnp.ones((5, 3))}
    before, _ = model.apply(params, inputs, "policy")
    extend_model(model)
    after, _ = model.apply(params, inputs, "policy")
    assert isinstance(model, stock)
    assert type(model) is not stock
    assert type(model).__init__ is stock.__init__
    assert isinstance(model.clone(), type(model))
    assert jax.numpy.array_equal(before, after)
    # skrl passes this method to jit as a static argument.
    assert model.act == model.act
    assert hash(model.act) == hash(model.act)
