"""Wrong suites fail exactly the kit's test that names their fault; a correct one fails none."""

from __future__ import annotations

import pytest

POINTS = '''
from rltrain import hookimpl
from rltrain.errors import UsageError
from rltrain.specs import SuiteSpec
from rltrain.types import TaskInfo

OPTIONS = {"speed": 1.0, "max_episode_length": 9}
POLICY = "policy"
FLOAT = "float32"

def describe(task, env):
    if task != "Point-v0":
        return None
    length = env.get("max_episode_length", 9)
    return TaskInfo(task, "continuous", max_episode_length=length, options=OPTIONS)

@hookimpl
def rltrain_provides():
    return [
        SuiteSpec(
            name="points",
            factory=f"{__name__}:Points",
            frameworks=("torch",),
            describe=describe,
            tasks=lambda: ["Point-v0"],
            knows=lambda task: task.startswith("Point"),
            renders=True,
        )
    ]

class Points:
    @hookimpl
    def rltrain_make_env(self, session):
        for option in session.config.env:
            if option not in OPTIONS:
                raise UsageError(f"env.{option}: the task Point-v0 has no such option.")
        options = {**OPTIONS, **session.config.env}
        return point_env(session.config.num_envs, options["speed"], options["max_episode_length"])

def point_env(num_envs, speed, max_episode_length):
    import torch
    from gymnasium.spaces import Box, Dict
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space

    class PointEnv(VectorEnv):
        """A point on a line, to be kept from its ends."""

        metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

        def __init__(self):
            self.num_envs = num_envs
            self.max_episode_length = max_episode_length
            self.step_dt = 0.1
            self.single_observation_space = Dict(
                {POLICY: Box(-1, 1, (1,)), "critic": Box(-4, 4, (2,), dtype=FLOAT)}
            )
            self.single_action_space = Box(-1, 1, (1,))
            self.observation_space = batch_space(self.single_observation_space, num_envs)
            self.action_space = batch_space(self.single_action_space, num_envs)
            self.generator = torch.Generator()
            self.stage = 0

        def reset(self, *, seed=None, options=None):
            if seed is not None:
                self.generator.manual_seed(seed)
            self.x, self.v = self.begin(), torch.zeros(num_envs)
            self.stage = self.stage
            self.episode_length_buf = torch.zeros(num_envs, dtype=torch.int64)
            return self.observe(), {}

        def begin(self):
            drawn = torch.rand(num_envs, generator=self.generator)
            return drawn - 0.5

        def observe(self):
            critic = torch.stack((self.x, self.v), -1)
            critic = critic.to(getattr(torch, FLOAT))
            return {POLICY: self.x[:, None].clone(), "critic": critic}

        def step(self, actions):
            force = actions.reshape(num_envs).clamp(-1, 1)
            self.stage = self.stage + 1
            self.v = 0.5 * self.v + speed * force
            self.x = self.x + 0.2 * self.v
            self.episode_length_buf = self.episode_length_buf + 1
            rewards = 1.0 - self.x.abs()
            terminations = self.x.abs() > 0.8
            truncations = (self.episode_length_buf >= max_episode_length) & ~terminations
            done = terminations | truncations
            self.x = self.x.clamp(-1, 1)
            final = self.observe()
            self.x = torch.where(done, self.begin(), self.x)
            self.v = torch.where(done, 0.0, self.v)
            self.episode_length_buf = self.episode_length_buf * ~done
            observations = self.observe()
            info = {"final_obs": final, "_final_obs": done, "log": {"x": self.x.mean()}}
            return observations, rewards, terminations, truncations, info

        def render(self):
            return (torch.zeros(4, 6, 3, dtype=torch.uint8).numpy(),)

        def get_state(self):
            state = self.x, self.v, self.episode_length_buf
            return state, self.generator.get_state()

        def set_state(self, state):
            (self.x, self.v, self.episode_length_buf), generator = state
            self.generator.set_state(generator)

        def get_curricula(self):
            return {"stage": self.stage}

        def set_curricula(self, state):
            self.stage = state["stage"]

        def close(self, **kwargs):
            self.closed = True

    return PointEnv()
'''

JAX_POINTS = '''
import functools

from rltrain import hookimpl
from rltrain.errors import UsageError
from rltrain.specs import SuiteSpec
from rltrain.types import TaskInfo

def describe(task, env):
    if task == "Point-v0":
        return TaskInfo(task, "continuous", max_episode_length=9, options={})

@hookimpl
def rltrain_provides():
    return [
        SuiteSpec(
            name="points",
            factory=f"{__name__}:Points",
            frameworks=("torch",),
            describe=describe,
            tasks=lambda: ["Point-v0"],
        )
    ]

class Points:
    @hookimpl
    def rltrain_make_env(self, session):
        for option in session.config.env:
            raise UsageError(f"env.{option}: the task Point-v0 has no such option.")
        return point_env(session.config.num_envs)

@functools.cache
def programs(num_envs):
    import jax
    import jax.numpy as jnp

    def begin(key):
        key, drawn = jax.random.split(key)
        return key, jax.random.uniform(drawn, (num_envs,)) - 0.5

    def advance(state, actions):
        key, x, lengths = state
        x = x + 0.2 * jnp.clip(actions[:, 0], -1, 1)
        rewards = 1.0 - abs(x)
        terminations = abs(x) > 0.8
        lengths = lengths + 1
        truncations = (lengths >= 9) & ~terminations
        done = terminations | truncations
        final = jnp.clip(x, -1, 1)[:, None]
        key, begun = begin(key)
        x = jnp.where(done, begun, x)
        info = {"final_obs": final, "_final_obs": done}
        result = x[:, None], rewards, terminations, truncations, info
        return (key, x, lengths * ~done), result

    return jax.jit(begin), jax.jit(advance)

def point_env(num_envs):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from gymnasium.spaces import Box
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space

    first, step = programs(num_envs)

    class PointEnv(VectorEnv):
        """A point on a line, to be kept from its ends."""

        metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

        def __init__(self):
            self.num_envs = num_envs
            self.max_episode_length = 9
            self.single_observation_space = self.single_action_space = Box(-1, 1, (1,))
            self.observation_space = batch_space(self.single_observation_space, num_envs)
            self.action_space = batch_space(self.single_action_space, num_envs)
            self.key = jax.random.PRNGKey(0)

        def reset(self, *, seed=None, options=None):
            if seed is not None:
                self.key = jax.random.PRNGKey(seed)
            self.key, x = first(self.key)
            self.state = self.key, x, jnp.zeros(num_envs, jnp.int32)
            return x[:, None], {}

        def step(self, actions):
            self.state, result = step(self.state, actions)
            observations, rewards, terminations, truncations, info = result
            return observations, rewards, terminations, truncations, info

        @property
        def episode_length_buf(self):
            return self.state[2]

        @episode_length_buf.setter
        def episode_length_buf(self, lengths):
            self.state = *self.state[:2], lengths

        def get_state(self):
            return self.state

        def set_state(self, state):
            self.state = state

    return PointEnv()
'''

TESTS = """
from rltrain_devkit import SuiteConformance

class TestPoints(SuiteConformance):
    suite = "points"
    task = "Point-v0"
"""

SHORTER = '    env = {"max_episode_length": 7}'
"""Shortens the episodes of points."""

WRONG = {
    "imports torch at the top": (
        "from rltrain import hookimpl",
        "import torch; from rltrain import hookimpl",
        "test_declaring_is_light",
        "imports numpy, torch when plugins are listed",
    ),
    "describes another name": (
        'return TaskInfo(task, "continuous",',
        'return TaskInfo("Point", "continuous",',
        "test_the_task_is_described",
        "name is 'Point'; must be 'Point-v0'",
    ),
    "knows every task": (
        'if task != "Point-v0":',
        "if not task:",
        "test_other_tasks_are_not_described",
        "returned TaskInfo(name='no_such_thing'",
    ),
    "does not list its task": (
        'tasks=lambda: ["Point-v0"],',
        "tasks=lambda: [],",
        "test_the_task_is_described",
        "'Point-v0' is not among 0 names",
    ),
    "claims every name": (
        'task.startswith("Point")',
        "True",
        "test_other_tasks_are_not_described",
        "knows('no_such_thing') is true",
    ),
    "says discrete": (
        'return TaskInfo(task, "continuous",',
        'return TaskInfo(task, "discrete",',
        "test_spaces_are_as_described",
        "describe says 'discrete'; the space Box",
    ),
    "describes other actions": (
        "options=OPTIONS)",
        "options=OPTIONS, actions=(2,))",
        "test_spaces_are_as_described",
        "describe has actions (2,); the space has (1,)",
    ),
    "describes other observations": (
        "options=OPTIONS)",
        "options=OPTIONS, observations={})",
        "test_spaces_are_as_described",
        "describe has observations {}; the space has {'critic': ArrayInfo(shape=(2,)",
    ),
    "has no policy": (
        'POLICY = "policy"',
        'POLICY = "state"',
        "test_spaces",
        "its groups are ['critic', 'state']: no 'policy'.",
    ),
    "gives numbers of double precision": (
        'FLOAT = "float32"',
        'FLOAT = "float64"',
        "test_spaces",
        "must be a vector of float32, or an image with height, width and channels, of uint8",
    ),
    "has actions with two axes": (
        "self.single_action_space = Box(-1, 1, (1,))",
        "self.single_action_space = Box(-1, 1, (1, 1))",
        "test_spaces",
        "of shape (1, 1); must have one axis.",
    ),
    "takes any action": (
        "force = actions.reshape(num_envs).clamp(-1, 1)",
        "force = actions.reshape(num_envs)",
        "test_actions_beyond_the_bounds",
        "at the bounds, and three times as far out: step 1, environment 0",
    ),
    "tells another length": (
        "max_episode_length=length, options=OPTIONS",
        "max_episode_length=length + 1, options=OPTIONS",
        "test_episode_length_is_as_described",
        "with {}, describe says 10; max_episode_length is 9",
    ),
    "describes without the options": (
        'env.get("max_episode_length", 9)',
        "9",
        "test_episode_length_is_as_described",
        "with {'max_episode_length': 7}, describe says 9; max_episode_length is 7",
    ),
    "declares what it does not accept": (
        "options=OPTIONS)",
        'options={"pace": 1.0})',
        "test_options_are_checked",
        "env.pace: the task Point-v0 has no such option",
    ),
    "accepts unknown options": (
        "if option not in OPTIONS:",
        "if option in () and option:",
        "test_options_are_checked",
        "env.no_such_thing=1 was accepted",
    ),
    "makes one environment too few": (
        "return point_env(session.config.num_envs,",
        "return point_env(session.config.num_envs - 1,",
        "test_it_is_a_vector_env",
        "num_envs is 7; it should be 8",
    ),
    "has no batched spaces": (
        "self.observation_space = batch_space(self.single_observation_space, num_envs)",
        "self.observation_space = self.single_observation_space",
        "test_it_is_a_vector_env",
        "observation_space is Dict(",
    ),
    "declares NEXT_STEP": (
        "AutoresetMode.SAME_STEP",
        "AutoresetMode.NEXT_STEP",
        "test_it_is_a_vector_env",
        "metadata['autoreset_mode'] is <AutoresetMode.NEXT_STEP",
    ),
    "gives float64 observations": (
        '"critic": critic}',
        '"critic": critic.double()}',
        "test_observations",
        "after reset, observations['critic']: has dtype float64; must be float32.",
    ),
    "leaves its space": (
        "POLICY: self.x[:, None].clone()",
        "POLICY: self.x[:, None] * 4",
        "test_observations",
        "observations['policy']: environment ",
    ),
    "gives rewards in double precision": (
        "rewards = 1.0 - self.x.abs()",
        "rewards = (1.0 - self.x.abs()).double()",
        "test_step_results",
        "rewards: has dtype float64; must be float32.",
    ),
    "gives rewards in a column": (
        "rewards = 1.0 - self.x.abs()",
        "rewards = 1.0 - self.x.abs()[:, None]",
        "test_step_results",
        "rewards: has shape (8, 1); must be (8,).",
    ),
    "keeps the gradients": (
        "rewards = 1.0 - self.x.abs()",
        "rewards = 1.0 - self.x.abs().requires_grad_()",
        "test_step_results",
        "rewards: has a gradient history",
    ),
    "gives whole numbers for bools": (
        "return observations, rewards, terminations, truncations, info",
        "return observations, rewards, terminations.long(), truncations, info",
        "test_step_results",
        "terminations: has dtype int64; must be bool.",
    ),
    "clips the given actions": (
        "force = actions.reshape(num_envs).clamp(-1, 1)",
        "force = actions.clamp_(-1, 1).mul_(0.5)[:, 0]",
        "test_actions_are_not_modified",
        "step 1 changed the actions",
    ),
    "closes once": (
        "self.closed = True",
        'self.closed = self.__dict__.pop("generator")',
        "test_closing_twice",
        "KeyError",
    ),
    "reports terminations as truncations": (
        "return observations, rewards, terminations, truncations, info",
        "return observations, rewards, terminations & False, done, info",
        "test_episodes_end",
        "no episode was terminated within max_steps = 600 steps of 8 environments",
    ),
    "reports truncations as terminations": (
        "return observations, rewards, terminations, truncations, info",
        "return observations, rewards, done, truncations & False, info",
        "test_episodes_end",
        "no episode was truncated without also being terminated",
    ),
    "cuts later episodes off late": (
        "self.episode_length_buf = self.episode_length_buf * ~done",
        "self.episode_length_buf = self.episode_length_buf * ~done - done.long()",
        "test_lengths_restart",
        "was not truncated in its step 9 (max_episode_length)",
    ),
    "begins no count anew": (
        "self.episode_length_buf = self.episode_length_buf * ~done",
        "pass",
        "test_lengths_restart",
        "after the first end no episode lasted 9 steps (max_episode_length); lengths were [7, 1,",
    ),
    "marks no ends": (
        '"_final_obs": done,',
        '"_final_obs": done & False,',
        "test_final_observations_are_dense",
        "info['_final_obs'] is [False, ",
    ),
    "gives final observations one by one": (
        'info = {"final_obs": final,',
        'info = {"final_obs": {name: list(part) for name, part in final.items()},',
        "test_final_observations_are_dense",
        "info['final_obs']['critic']: is a list of builtins",
    ),
    "never resets": (
        "observations = self.observe()",
        "observations = final",
        "test_observations_when_an_episode_ends",
        "ends the two are equal",
    ),
    "gives the new observation as the final one": (
        "observations = self.observe()",
        "observations = final = self.observe()",
        "test_observations_when_an_episode_ends",
        "ends the two are equal",
    ),
    "scales final observations": (
        "final = self.observe()",
        "final = {name: 0.5 * part for name, part in self.observe().items()}",
        "test_observations_when_an_episode_ends",
        "without truncation, the observations would have been",
    ),
    "ignores the seed": (
        "self.generator.manual_seed(seed)",
        "self.generator.seed()",
        "test_a_seed_repeats_episodes",
        "after reset(seed=1), a second time: step 0, environment 0",
    ),
    "gives every rank the same": (
        "self.generator.manual_seed(seed)",
        "self.generator.manual_seed(7)",
        "test_ranks_differ",
        "environment 0 of rank 0 and environment 0 of rank 1 are the same",
    ),
    "gives every environment the same": (
        "drawn = torch.rand(num_envs, generator=self.generator)",
        "drawn = torch.rand(1, generator=self.generator).expand(num_envs)",
        "test_environments_differ",
        "environments 0 and 1 are the same",
    ),
    "begins to count with one": (
        "torch.zeros(num_envs, dtype=torch.int64)",
        "torch.ones(num_envs, dtype=torch.int64)",
        "test_episode_length_buf",
        "0 steps after a reset it is [1 1 ",
    ),
    "forgets the generator": (
        "self.generator.set_state(generator)",
        "pass",
        "test_state_can_be_set",
        "after set_state, counted from 0: step",
    ),
    "begins its curriculum with a reset": (
        "self.stage = self.stage\n",
        "self.stage = 0\n",
        "test_curricula_can_be_set",
        "stage is 0; it was ",
    ),
    "has no time step": (
        "self.step_dt = 0.1",
        "self.step_dt = 0",
        "test_step_results",
        "step_dt is 0.0; must be positive",
    ),
    "logs a column": (
        '"log": {"x": self.x.mean()}',
        '"log": {"x": self.x}',
        "test_step_results",
        "'x' has shape (8,); must be a scalar",
    ),
    "draws floats": (
        "torch.zeros(4, 6, 3, dtype=torch.uint8)",
        "torch.zeros(4, 6, 3)",
        "test_environments_are_rendered",
        "a frame has dtype float32",
    ),
    "draws random numbers to draw": (
        "torch.zeros(4, 6, 3, dtype=torch.uint8)",
        "torch.randint(9, (4, 6, 3), dtype=torch.uint8, generator=self.generator)",
        "test_environments_are_rendered",
        "without rendering and with it, step ",
    ),
}

RETURNED = "return observations, rewards, terminations, truncations, info"

JAX_WRONG = {
    "imports jax at the top": (
        "from rltrain import hookimpl",
        "import jax; from rltrain import hookimpl",
        "test_declaring_is_light",
        "imports jax, numpy when plugins are listed",
    ),
    "gives rewards of numpy": (
        RETURNED,
        "return observations, np.array(rewards), terminations, truncations, info",
        "test_step_results",
        "rewards: is a ndarray of numpy; must be an array of jax.",
    ),
    "gives rewards in a column": (
        RETURNED,
        "return observations, rewards[:, None], terminations, truncations, info",
        "test_step_results",
        "rewards: has shape (8, 1); must be (8,).",
    ),
    "gives whole numbers for bools": (
        RETURNED,
        "return observations, rewards, terminations.astype(int), truncations, info",
        "test_step_results",
        "terminations: has dtype int32; must be bool.",
    ),
    "gives final observations of numpy": (
        "observations, rewards, terminations, truncations, info = result",
        "*_, info = observations, rewards, terminations, truncations, info = result; "
        'info["final_obs"] = np.array(info["final_obs"])',
        "test_final_observations_are_dense",
        "info['final_obs']: is a ndarray of numpy; must be an array of jax.",
    ),
    "ignores the seed": (
        "self.key = jax.random.PRNGKey(seed)",
        "pass",
        "test_a_seed_repeats_episodes",
        "after reset(seed=1), a second time: step 0, environment 0",
    ),
    "draws once for all environments": (
        "jax.random.uniform(drawn, (num_envs,)) - 0.5",
        "jnp.repeat(jax.random.uniform(drawn, (1,)), num_envs) - 0.5",
        "test_environments_differ",
        "environments 0 and 1 are the same",
    ),
    "keeps the key out of its state": (
        "self.state = state",
        "self.state = jax.random.PRNGKey(5), *state[1:]",
        "test_state_can_be_set",
        "after set_state, counted from 0: step",
    ),
}


def judged(judge, old="", new="", settings=""):
    assert not old or POINTS.count(old) == 1, old
    return judge.source(POINTS.replace(old, new) if old else POINTS, TESTS + settings)


def judged_jax(judge, old="", new=""):
    assert not old or JAX_POINTS.count(old) == 1, old
    return judge.source(
        JAX_POINTS.replace(old, new) if old else JAX_POINTS, f"{TESTS}    framework='jax'"
    )


@pytest.mark.parametrize("settings", ["", SHORTER])
def test_a_correct_suite_passes(judge, settings):
    assert judged(judge, settings=settings) == {}


@pytest.mark.long
@pytest.mark.parametrize("fault", WRONG)
def test_a_fault_fails_the_test_that_names_it(judge, fault):
    old, new, test, message = WRONG[fault]
    failed = judged(judge, old, new, SHORTER if "without the options" in fault else "")
    assert list(failed) == [test], failed
    assert message in failed[test]


@pytest.mark.long
def test_a_correct_jax_suite_passes(judge):
    assert judged_jax(judge) == {}


@pytest.mark.long
@pytest.mark.parametrize("fault", JAX_WRONG)
def test_a_jax_fault_fails_the_test_that_names_it(judge, fault):
    old, new, test, message = JAX_WRONG[fault]
    failed = judged_jax(judge, old, new)
    assert list(failed) == [test], failed
    assert message in failed[test]
