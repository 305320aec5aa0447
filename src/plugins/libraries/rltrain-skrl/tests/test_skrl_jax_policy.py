"""Loaded policies of jax act as the training agents act, bit for bit, and as what is exported."""

from __future__ import annotations

import copy
import functools
import pickle
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from skrl_fakes import Corridor, FakeSession, Pictured

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
import torch

from rltrain.errors import UsageError
from rltrain.options import set_dotted
from rltrain.types import ArrayInfo, TaskInfo
from rltrain_jax.exporter import JaxExporter
from rltrain_skrl.declare.options import ON_POLICY, default_agent, in_jax
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.library import SkrlLibrary

skrl = bootstrap.import_skrl()

from skrl.resources.preprocessors.jax import RunningStandardScaler  # noqa: E402
from skrl.utils.runner.jax import Runner  # noqa: E402

from rltrain_skrl.run.jax.env import SkrlEnv  # noqa: E402
from rltrain_skrl.run.jax.keys import get_keys, load_keys  # noqa: E402
from rltrain_skrl.run.jax.runner import SessionRunner  # noqa: E402

pytestmark = pytest.mark.slow  # Each case compiles programs of its own.

SIZE, STEPS = 5, 7


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


@dataclass
class Case:
    """What is trained."""

    algorithm: str = "ppo"
    action: str = "continuous"
    env: Any = Corridor
    options: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, ArrayInfo] | None = None
    groups: tuple[str, ...] = ("policy",)

    def agent(self) -> dict[str, Any]:
        """Return small options."""
        task = TaskInfo("none", self.action, num_envs=64, observations=self.seen)  # type: ignore[arg-type]
        options: Any = in_jax(default_agent(task, self.algorithm))
        for model in options["models"].values():
            for network in model["network"] if isinstance(model, dict) and not self.seen else []:
                network["layers"] = [8]
        small = {"random_timesteps": 1, "learning_starts": 2, "batch_size": 8}
        if self.algorithm in ON_POLICY:
            small = {"rollouts": 4, "mini_batches": 2}
        options["agent"] |= small | {"experiment": {"write_interval": 4}}
        for key, value in self.options.items():
            set_dotted(options, key, value)
        return options  # type: ignore[no-any-return]


CASES = {
    **{name: Case(name) for name in ("ppo", "a2c", "rpo", "sac", "td3", "ddpg")},
    **{name: Case(name, "discrete") for name in ("dqn", "ddqn")},
    **{f"ppo {action}": Case(action=action) for action in ("discrete", "multi_discrete")},
    "ppo states": Case(
        env=functools.partial(Corridor, grouped=True),
        options={"models.policy.network.0.input": "concatenate([OBSERVATIONS, STATES])"},
        groups=("policy", "critic"),
    ),
    "ppo image": Case(
        env=Pictured,
        seen={"policy": ArrayInfo((6, 8, 3), "uint8")},
        options={"models.separate": True},
    ),
}
every_case = pytest.mark.parametrize("name", CASES)


@functools.cache
def trained(name: str) -> Any:
    """Return a session, its training agent, and a checkpoint.

    Only the scalers have learned: compiling the updates would take most of the time.
    """
    case = CASES[name]
    session = JaxSession(case.env(8, case.action), case.agent(), max_iterations=2)
    with bootstrap.configured(session.world, "jax"):
        agent = SessionRunner(session).agent
        agent.init()
        for part in agent.checkpoint_modules.values():
            if isinstance(part, RunningStandardScaler) and part.running_mean.size:
                shape = 64, part.running_mean.size
                part(jax.random.normal(jax.random.PRNGKey(2), shape) * 0.3 + 0.2, train=True)
    path = session.run_folder.path / f"agent_8.{agent.suffix}"
    agent.write(path)
    return session, agent, path


def load(case: Case, checkpoint: Any, agent: Any = None) -> Any:
    """Return a policy and its environments."""
    env = case.env(SIZE, case.action)
    session = JaxSession(env, agent or case.agent(), checkpoint=str(checkpoint), num_envs=SIZE)
    return SkrlLibrary().rltrain_load_policy(session), session.env  # type: ignore[arg-type]


def reference(name, deterministic, keys):
    """Return the actions that a task gets from the training agent, and from skrl's wrapper."""
    case, (session, agent, _) = CASES[name], trained(name)
    env = InJax(case.env(SIZE, case.action))
    wrapper = SkrlEnv(env, jax.devices()[0], "episode")
    env.env.random.manual_seed(3)
    if hasattr(agent, "_exploration_noise"):
        agent._exploration_noise = None
    if name == "rpo":
        agent.cfg.alpha = 0.0 if deterministic else 0.1
    load_keys([agent.models["policy"]] if "policy" in agent.models else [], keys, jax.devices()[0])
    with bootstrap.configured(session.world, "jax"):
        observations, _ = wrapper.reset()
        for _ in range(STEPS):
            if "q_network" in agent.models:
                # The training agent samples whom to let explore, none of them in this case.
                inputs = {"observations": observations, "states": None}
                values, _ = agent.q_network.act(inputs, role="q_network")
                actions = jnp.argmax(values, axis=1, keepdims=True)
            else:
                actions, outputs = agent.act(
                    observations, wrapper.state(), timestep=99, timesteps=99
                )
                if deterministic:
                    actions = most_likely(case, actions, outputs)
            observations, *_ = wrapper.step(actions)
    return env.actions


def most_likely(case, actions, outputs):
    """Return what skrl's evaluation takes; of choices, those with the highest probability."""
    if "net_output" not in outputs:
        return outputs.get("mean_actions", actions)
    parts = jnp.split(outputs["net_output"], [2], -1)[: 1 if case.action == "discrete" else 2]
    return jnp.stack([part.argmax(-1) for part in parts], axis=-1)


@every_case
@pytest.mark.parametrize("deterministic", [True, False], ids=["mode", "sampled"])
def test_it_acts_as_the_training_agent(name, deterministic):
    policy, env = load(CASES[name], trained(name)[2])
    assert policy.groups == CASES[name].groups
    keys = get_keys([policy._actor.model])
    env.env.random.manual_seed(3)
    observations, _ = env.reset()
    for _ in range(STEPS):
        observations, *_ = env.step(policy.act(observations, deterministic))
    expected = reference(name, deterministic, keys)
    for ours, theirs in zip(env.actions, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)


@every_case
def test_its_module_and_the_exported_file_act_as_it_does(name, tmp_path):
    policy, env = load(CASES[name], trained(name)[2])
    observations, _ = env.reset()
    module, path = policy.module(), tmp_path / "policy.stablehlo"
    chosen = np.asarray(policy.act(observations))
    arrays = [
        observations[group] if isinstance(observations, dict) else observations
        for group in module.inputs
    ]
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
    options = case.agent()
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
        wrapper = SkrlEnv(InJax(case.env(4)), jax.devices()[0], "episode")
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
    wider = refusal(Case(options={"models.policy.network.0.layers": [9]}), path)
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
