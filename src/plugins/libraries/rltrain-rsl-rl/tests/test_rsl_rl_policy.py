"""Loaded policies act as the training agents act, bit for bit, and as what is exported of them."""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from messages import says
from packaging.version import Version
from rsl_rl.models import MLPModel
from rsl_rl.runners import OnPolicyRunner
from rsl_rl_stubs import CURIOUS, VERSION, LocalSession, PointEnv, recurrent, small_agent

from rltrain.errors import UsageError
from rltrain.options import set_dotted
from rltrain.types import ArrayInfo, TaskInfo
from rltrain_rsl_rl.declare.options import default_agent, without_options_of_other_classes
from rltrain_rsl_rl.run.env import RslRlEnv
from rltrain_rsl_rl.run.library import RslRlLibrary
from rltrain_rsl_rl.run.runner import SessionRunner

SIZE = 5
"""Environments of the loaded policy: not as many as in training."""
NOISE = "actor.distribution_cfg"
DISTRIBUTIONS = {
    "Gaussian": {f"{NOISE}.std_type": "scalar"},
    "heteroscedastic": {f"{NOISE}.class_name": "HeteroscedasticGaussianDistribution"},
    "beta": {f"{NOISE}.class_name": "BetaDistribution"},
}
IMAGES = {
    f"{model}.{key}": value
    for model in ("actor", "critic")
    for key, value in {
        "class_name": "CNNModel",
        "cnn_cfg": {"output_channels": [2], "kernel_size": 3, "norm": "layer"},
    }.items()
}


class GroupedEnv(PointEnv):
    """The point, in groups: as vectors, and as an image of bytes."""

    step_dt = 0.02

    def __init__(self, num_envs=8, action=None):
        super().__init__(num_envs, action)
        self.single_observation_space = Dict(
            policy=Box(-np.inf, np.inf, (2,), np.float64),
            eye=Box(0, 255, (8, 6, 2), np.uint8),
            speed=Box(-np.inf, np.inf, ()),
            critic=Box(-np.inf, np.inf, (3,)),
        )

    def _observe(self):
        x, shade = self.position, (self.position * 30 + 120).to(torch.uint8)
        ramp = torch.arange(8 * 6 * 2, dtype=torch.uint8).reshape(8, 6, 2)
        return {
            "policy": torch.stack([x, x.sign()], -1).double(),
            "eye": shade[:, None, None, None] + ramp,
            "speed": x.cos(),
            "critic": torch.stack([x, x.sin(), x.cos()], -1),
        }


def reading(*groups: str) -> dict[str, Any]:
    return {"obs_groups.actor": list(groups), "obs_groups.critic": ["policy", "critic"]}


@dataclass
class Case:
    """What is trained."""

    options: dict[str, Any]
    env: Any = PointEnv
    action: Box = field(default_factory=lambda: Box(-2, 3, (1,)))
    algorithm: str = "ppo"

    @property
    def agent(self):
        agent = small_agent()
        if self.algorithm == "distillation":
            agent = default_agent(TaskInfo("Point-v0", "continuous"), "distillation")
            agent.update(num_steps_per_env=8, max_iterations=2)
        for key, value in self.options.items():
            set_dotted(agent, key, value)
        return without_options_of_other_classes(agent)


CASES = {
    **{f"MLP, {name}": Case(options) for name, options in DISTRIBUTIONS.items()},
    "clipped, unbounded": Case({"clip_actions": 0.1}, action=Box(-np.inf, np.inf, (2, 1))),
    "curious": Case(CURIOUS, GroupedEnv),
    "LSTM": Case(recurrent("lstm") | {"actor.rnn_num_layers": 2}),
    "GRU": Case(recurrent("gru")),
    "asymmetric, groups": Case(reading("speed", "policy"), GroupedEnv),
    "mjlab's name of a group": Case(
        reading("speed", "actor") | {"obs_groups.critic": ["actor", "critic"]}, GroupedEnv
    ),
    "images and vectors": Case(
        {**IMAGES, **reading("eye", "speed", "policy"), "critic.class_name": "MLPModel"},
        GroupedEnv,
    ),
    "images": Case(
        {**IMAGES, "actor.obs_normalization": False, "obs_groups.actor": ["eye"]}
        | {"obs_groups.critic": ["eye", "policy"], "algorithm.share_cnn_encoders": True},
        GroupedEnv,
    ),
    "student": Case(recurrent("lstm", "student"), algorithm="distillation"),
}
if Version("5.3") > VERSION:
    del CASES["MLP, beta"]


def load(checkpoint, agent, env):
    session = LocalSession(checkpoint.parent, agent, env, checkpoint=checkpoint)
    return RslRlLibrary().rltrain_load_policy(session)


class Trained:
    """A runner whose models are not as they were made, and what it has saved."""

    def __init__(self, case, folder, runner=None):
        self.case = case
        session = LocalSession(folder, case.agent, self.env(8))
        env = self.adapted(session.env)
        arguments = (env, case.agent) if runner else (env, case.agent, session)
        self.runner = (runner or SessionRunner)(*arguments)
        model = self.runner.alg.get_policy()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        for _ in range(3):
            model.update_normalization(env.step(torch.randn(8, env.num_actions))[0])
        self.runner.logger.init_logging_writer()  # Before 5.4, saving needs it.
        self.checkpoint = (folder if runner else session.run_folder.checkpoints) / "model_0.pt"
        self.runner.save(str(self.checkpoint))

    def env(self, num_envs=SIZE):
        return self.case.env(num_envs, self.case.action)

    def adapted(self, env):
        agent = self.case.agent
        return RslRlEnv(env, "cpu", agent.get("clip_actions"), agent.get("obs_groups"))

    def load(self):
        return load(self.checkpoint, self.case.agent, self.env())


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    return functools.cache(lambda name: Trained(CASES[name], tmp_path_factory.mktemp("made")))


@pytest.fixture
def plain(make):
    return make("asymmetric, groups")


def test_rsl_rl_sees_the_names_of_its_options_and_the_suite_its_own(make):
    """Models and functions of a user's own, written for mjlab, read obs["actor"]."""
    trained = make("mjlab's name of a group")
    seen = set(trained.runner.env.get_observations().keys())
    assert seen == {"actor", "eye", "speed", "critic"}
    policy = trained.load()
    assert policy.groups == tuple(policy.module().inputs) == ("speed", "policy")
    assert set(make("asymmetric, groups").runner.env.get_observations().keys()) == set(
        GroupedEnv(1)._observe()
    )


@pytest.mark.parametrize(
    ("name", "runner"), [*((name, None) for name in CASES), ("LSTM", OnPolicyRunner)]
)
def test_it_acts_as_rsl_rls_own_play(name, runner, make, tmp_path):
    trained = Trained(CASES[name], tmp_path, runner) if runner else make(name)
    own, policy = trained.runner.get_inference_policy(), trained.load()
    suite = trained.env()
    env = trained.adapted(suite)
    low, high = (torch.as_tensor(x) for x in (trained.case.action.low, trained.case.action.high))
    ended = inside = 0
    module = policy.module()
    states = [torch.zeros(SIZE, *info.shape) for info in module.states.values()]
    own.reset()
    for _ in range(14):
        seen = copy.deepcopy(suite._observe())
        with torch.no_grad():
            _, _, dones, _ = env.step(own(env.get_observations()))
        taken = suite.actions[-1]
        assert torch.equal(policy.act(seen), taken)
        inputs = [seen[x] if isinstance(seen, dict) else seen for x in module.inputs]
        found, *states = module.function(*inputs, *states)
        torch.testing.assert_close(found, taken, rtol=0, atol=1e-6)
        inside += int(((taken != low) & (taken != high)).sum())
        ended += int(dones.sum())
        own.reset(dones)
        policy.reset(dones.bool())
        states = [state * ~dones.bool()[:, None, None] for state in states]
    assert ended >= SIZE
    assert inside >= 14, "clamped actions are equal whatever the model outputs"


def test_loading_changes_and_writes_nothing(plain, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    env = plain.env(1000)
    session = LocalSession(tmp_path, plain.case.agent, env, checkpoint=plain.checkpoint)
    policy = RslRlLibrary().rltrain_load_policy(session)
    env.reset()
    actions = policy.act(env._observe(), deterministic=False)
    assert not actions.requires_grad
    saved = torch.load(plain.checkpoint)["actor_state_dict"]
    assert all(torch.equal(x, saved[name]) for name, x in policy.model.state_dict().items())
    assert (session.calls, env.actions, sorted(tmp_path.rglob("*"))) == ([], [], before)


def test_what_is_exported_is_described(plain):
    policy = plain.load()
    exported, normalizer = policy.module(), policy.model.obs_normalizer
    assert policy.groups == ("speed", "policy")
    assert exported.inputs == {"speed": ArrayInfo(()), "policy": ArrayInfo((2,), "float64")}
    assert exported.output == ArrayInfo((1,))
    told = exported.normalization
    assert told["speed"]["mean"] + told["policy"]["mean"] == normalizer.mean.tolist()
    divisors = normalizer.std + normalizer.eps
    assert told["speed"]["std"] + told["policy"]["std"] == divisors.tolist()
    assert exported.actions == {"scale": [2.5], "offset": [0.5], "low": [-2], "high": [3]}
    for parameter in policy.model.parameters():
        parameter.data.zero_()
    assert any(x.any() for x in exported.function.parameters())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's own, of tracing and of recurrent layers.
@pytest.mark.parametrize("name", ["LSTM", "images and vectors", "clipped, unbounded"])
def test_it_can_be_exported_with_any_batch(make, name):
    trained = make(name)
    env, policy = trained.env(), trained.load()
    env.reset()
    exported, seen = policy.module(), copy.deepcopy(env._observe())
    groups = seen if isinstance(seen, dict) else {"policy": seen}
    arrays = [groups[name] for name in exported.inputs]
    arrays += [torch.zeros(SIZE, *info.shape) for info in exported.states.values()]
    batch = torch.export.Dim("batch")
    program = torch.export.export(
        exported.function, tuple(arrays), dynamic_shapes=(tuple({0: batch} for _ in arrays),)
    )
    traced = torch.jit.trace(exported.function, tuple(arrays))
    more = [torch.cat([array, array[:2]]) for array in arrays]
    wanted = exported.function(*more)[0]
    for function in (program.module(), traced):
        torch.testing.assert_close(function(*more)[0], wanted, rtol=0, atol=1e-6)


class Unexportable(MLPModel):
    as_onnx = None


WRONG = {
    "other sizes": ({"actor.hidden_dims": [9]}, r"does not fit this run .*size mismatch"),
    "another algorithm": (
        {"algorithm.class_name": "Distillation", "student.class_name": "MLPModel"},
        r"holds .*actor_state_dict.*, but no student_state_dict",
    ),
    "another model": (recurrent("gru"), r"does not fit this run .*Missing key"),
    "a group of another task": ({"obs_groups.actor": ["feet"]}, "must name observation groups"),
    "no model": ({"actor": None}, r"agent\.actor: the agent options do not have the model"),
}


@pytest.mark.parametrize(("options", "message"), WRONG.values(), ids=WRONG)
def test_options_that_do_not_fit_are_named(plain, options, message):
    agent = plain.case.agent
    for key, value in options.items():
        set_dotted(agent, key, value)
    with pytest.raises(UsageError, match=message):
        load(plain.checkpoint, agent, plain.env())


@pytest.mark.parametrize(
    "state",
    [
        {"model": {}, "epoch": 1},
        {"model_state_dict": {"student.0.weight": 0}},
        {"student_state_dict": {}},
        {"actor_state_dict": Case},
    ],
)
def test_another_checkpoint_is_named(tmp_path, state):
    path = tmp_path / "model.pt"
    torch.save(state, path)
    with says(UsageError):
        load(path, small_agent(), PointEnv(SIZE))


def test_a_model_that_cannot_be_exported_is_named(plain):
    policy = plain.load()
    policy.model.__class__ = Unexportable
    with says(UsageError):
        policy.module()
