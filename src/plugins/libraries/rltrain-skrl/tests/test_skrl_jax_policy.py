"""Loaded policies of jax act as the training agents act, bit for bit, and as what is exported."""

from __future__ import annotations

import copy
import functools
import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from skrl_fakes import FakeSession
from skrl_policies import (
    CASES,
    FOR_JAX,
    NETWORK,
    SIZE,
    Case,
    in_groups,
    most_likely,
    without_exploration,
)

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
import torch

from rltrain.errors import UsageError
from rltrain_jax.exporter import JaxExporter
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.library import SkrlLibrary

skrl = bootstrap.import_skrl()

from skrl.resources.preprocessors.jax import RunningStandardScaler  # noqa: E402
from skrl.utils.runner.jax import Runner  # noqa: E402

from rltrain_skrl.run.jax.env import SkrlEnv  # noqa: E402
from rltrain_skrl.run.jax.runner import SessionRunner  # noqa: E402

pytestmark = pytest.mark.slow  # Each case compiles programs of its own.


class InJax:
    """The environments of a task for torch, with arrays of jax."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.actions: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def reset(self, **options: Any) -> Any:
        observations, info = self.env.reset(**options)
        return to_jax(observations), info

    def step(self, actions: Any) -> Any:
        self.actions.append(actions)
        return tuple(map(to_jax, self.env.step(torch.from_numpy(np.array(actions)))))


def to_jax(tree: Any) -> Any:
    """Return tensors as arrays of jax."""
    if isinstance(tree, dict):
        return {name: to_jax(x) for name, x in tree.items()}
    return jnp.asarray(tree.numpy()) if isinstance(tree, torch.Tensor) else tree


class JaxSession(FakeSession):
    """A fake session whose environments and models are jax's."""

    def __init__(self, env: Any, agent: Any, **options: Any) -> None:
        super().__init__(env, agent, framework="jax", **options)
        self.env = InJax(env)
        self.env.episodes = SimpleNamespace(steps=0)  # type: ignore[attr-defined]


every_case = pytest.mark.parametrize("name", FOR_JAX)


@functools.cache
def trained(name: str) -> Any:
    """Return a session, its training agent, and a checkpoint.

    Only the scalers have learned: compiling the updates would take most of the time.
    """
    case = CASES[name]
    session = JaxSession(case.make_env(8), case.agent("jax"), max_iterations=2)
    with bootstrap.configured(session.world, "jax"):
        agent = SessionRunner(session).agent
        agent.init()
        for part in agent.checkpoint_modules.values():
            if isinstance(part, RunningStandardScaler) and part.running_mean.size:
                shape = 64, part.running_mean.size
                part(jax.random.normal(jax.random.PRNGKey(2), shape) * 0.3 + 0.2, train=True)
    path = session.run_folder.path / f"agent_8.{agent.suffix}"
    agent.write(path)
    return session, without_exploration(agent), path


def load(case: Case, checkpoint: Any, agent: Any = None) -> Any:
    """Return a policy and its environments."""
    options = {"checkpoint": str(checkpoint), "num_envs": SIZE}
    session = JaxSession(case.make_env(), agent or case.agent("jax"), **options)
    return SkrlLibrary().rltrain_load_policy(session), session.env  # type: ignore[arg-type]


@every_case
def test_it_its_module_and_the_exported_file_choose_what_the_training_agent_does(name, tmp_path):
    case, (session, agent, checkpoint) = CASES[name], trained(name)
    policy, env = load(case, checkpoint)
    assert policy.groups == case.groups
    observations, _ = env.reset()
    module, path = policy.module(), tmp_path / "policy.stablehlo"
    chosen = policy.act(observations)
    with bootstrap.configured(session.world, "jax"):
        flat = policy._actor._flat(observations)
        if "q_network" in agent.models:
            # The training agent samples whom to let explore, none of them in this case.
            inputs = dict(zip(("observations", "states"), flat, strict=True))
            values, _ = agent.q_network.act(inputs, role="q_network")
            actions = jnp.argmax(values, axis=1, keepdims=True)
        else:
            actions = most_likely(case, *agent.act(*flat, timestep=99, timesteps=99))
        expected = policy._actor._native(jnp.asarray(actions))
    assert chosen.dtype == expected.dtype
    assert np.array_equal(chosen, expected)
    arrays = in_groups(observations, module)
    assert np.allclose(jax.jit(module.function)(*arrays)[0], chosen, atol=1e-6)
    assert (module.output.shape, module.output.dtype) == (chosen.shape[1:], str(chosen.dtype))
    assert "random" not in str(jax.make_jaxpr(module.function)(*arrays)), "RPO's noise is left out"
    JaxExporter().export(module, "stablehlo", path, {})
    run = JaxExporter().load(path, "stablehlo")
    for rows in (SIZE, 1, 3):
        given = [np.asarray(array[:rows]) for array in arrays]
        assert np.allclose(run(given)[0], chosen[:rows], atol=1e-6)


def test_it_draws_with_the_key_of_the_stream_learner():
    path = trained("ppo")[2]
    policies = [load(CASES["ppo"], path)[0] for _ in range(2)]
    observations, _ = load(CASES["ppo"], path)[1].reset()
    first, second = (policy.act(observations, deterministic=False) for policy in policies)
    assert np.array_equal(first, second)
    assert not np.array_equal(first, policies[0].act(observations, deterministic=False))


def test_skrls_own_configuration_is_not_used_while_it_acts():
    """skrl's models read a key from it when they are compiled, which would be a tracer there."""
    own = type(skrl.config.jax)()
    policy, env = load(CASES["ppo"], trained("ppo")[2])
    with bootstrap.using(own, "jax"):
        policy.act(env.reset()[0], deterministic=False)
        policy.module().function(env.reset()[0])
    assert isinstance(own._key, np.ndarray), "it was never asked for"


def test_what_was_learned_is_not_shared_and_does_not_change():
    policy, env = load(CASES["ppo"], trained("ppo")[2])
    parts = policy._actor.parts
    before = {name: jax.device_get(part.state_dict.params) for name, part in parts.items()}
    observations, _ = env.reset()
    policy.act(observations, deterministic=False)
    after = {name: jax.device_get(part.state_dict.params) for name, part in parts.items()}
    assert jax.tree.all(jax.tree.map(np.array_equal, before, after))
    with jax.default_device(jax.devices("cpu")[0]):
        ours, theirs = (
            jax.tree.leaves(x.state_dict.params)
            for x in (policy._actor.model, policy.module().function.model)
        )
    pointers = [{x.unsafe_buffer_pointer() for x in leaves} for leaves in (ours, theirs)]
    assert not pointers[0] & pointers[1]


def test_checkpoints_of_skrls_own_runner_load(tmp_path):
    case = CASES["ppo"]
    options = case.agent("jax")
    options["agent"]["experiment"] = {
        "directory": str(tmp_path),
        "experiment_name": "own",
        "write_interval": 0,
        "checkpoint_interval": 4,
    }
    options["agent"]["rollouts"] = 16  # Updates, which are slow to compile, would come later.
    options["trainer"] |= {"timesteps": 8, "headless": True, "disable_progressbar": True}
    options["trainer"]["close_environment_at_exit"] = False
    options["seed"] = 1
    world = trained("ppo")[0].world
    with bootstrap.configured(world, "jax"):
        wrapper = SkrlEnv(InJax(case.make_env(4)), jax.devices()[0], "episode")
        runner = Runner(wrapper, copy.deepcopy(options))
        runner.run("train")
        policy, env = load(case, tmp_path / "own/checkpoints/agent_8.pickle", options)
        observations, _ = env.reset()
        _, outputs = runner.agent.act(observations, None, timestep=9, timesteps=9)
        assert np.array_equal(policy.act(observations), outputs["mean_actions"].clip(-1, 1))


def test_a_checkpoint_that_does_not_fit_is_named(tmp_path):
    def refusal(case, path):
        with pytest.raises(UsageError) as caught:
            load(case, path)
        assert str(caught.value).startswith(f"--checkpoint {path}: ")
        return str(caught.value)

    path = trained("ppo")[2]
    # The same layers in another size: flax does not compare shapes.
    wider = refusal(Case(options={f"{NETWORK}.layers": [9]}), path)
    assert "policy['params']" in wider
    assert "has the shape (8,), and here (9,)" in wider
    assert "it has value and lacks critic_1" in refusal(Case("sac"), path)
    mine = tmp_path / "agent_8.pickle"
    mine.write_bytes(pickle.dumps({"policy": functools.partial(print)}, protocol=4))
    assert "would run code (functools.partial)" in refusal(CASES["ppo"], mine)
    mine.write_bytes(pickle.dumps({"policy": b""}, protocol=4)[:-3])
    assert "it cannot be read as a checkpoint" in refusal(CASES["ppo"], mine)
    torch.save({"policy": {}}, mine)
    assert "Add --framework torch." in refusal(CASES["ppo"], mine)
