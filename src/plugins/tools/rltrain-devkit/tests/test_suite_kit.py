"""Wrong suites fail exactly the kit's test that names their fault; the template fails none."""

from __future__ import annotations

import pytest

MORE = {
    'env = {"max_episode_length": 20}': 'env = {"max_episode_length": 9}',
    "tasks=lambda: [TASK],": "tasks=lambda: [TASK], renders=True, "
    'probably_has=lambda task: task.startswith("$name"),',
    "from gymnasium.spaces import Box": "from gymnasium.spaces import Box, Dict",
    "self.single_observation_space = self.single_action_space = Box(-1.0, 1.0, (2,))": """
        self.single_action_space = Box(-1.0, 1.0, (2,))
        critic = Box(-4.0, 4.0, (4,), self.dtype)
        self.single_observation_space = Dict({self.group: Box(-1.0, 1.0, (2,)), "critic": critic})
""",
    "actions.clamp(-1.0, 1.0)": "actions.reshape(self.num_envs, 2).clamp(-1.0, 1.0)",
    "return self._positions, {}": "return self._observed(self._positions), {}",
    "return self._positions, -distances": "return self._observed(self._positions), -distances",
    'info = {"final_obs": reached, "_final_obs": ends}': 'info = {"final_obs": final, '
    '"_final_obs": ends, "log": {"x": distances.mean()}}',
    "        ends = terminations | truncations\n": """
        ends = terminations | truncations
        final = self._observed(reached)
        self.stage += 1
""",
    "    def _sample_positions": """
    group, dtype, step_dt, stage = "policy", "float32", 0.1, 0

    def _observed(self, x):
        critic = torch.cat((x, x), 1).to(getattr(torch, self.dtype))
        return {self.group: x.clone(), "critic": critic}

    def render(self):
        return (torch.zeros(4, 6, 3, dtype=torch.uint8).numpy(),)

    def get_curricula(self):
        return {"stage": self.stage}

    def set_curricula(self, state):
        self.stage = state["stage"]

    def close(self, **kwargs):
        self.closed = True

    def _sample_positions""",
}
"""Patches of the template: what else a suite may have, and shorter episodes."""

TAKES = "actions.reshape(self.num_envs, 2).clamp(-1.0, 1.0)"
REWARDS = ", -distances, "
RESULT = ", terminations, truncations, info\n"
FINAL = "final = self._observed(reached)"
COUNT = "self.episode_length_buf = self.episode_length_buf * ~ends"
PIXELS = "torch.zeros(4, 6, 3, dtype=torch.uint8)"
BEGIN = "return self._observed(self._positions), {}"

WRONG = {
    "imports torch at the top": (
        "from collections.abc import Iterable, Mapping",
        "import torch; from collections.abc import Iterable, Mapping",
        "test_declaring_is_light",
        "imports numpy, torch when plugins are listed",
    ),
    "describes another name": (
        "name=task,",
        'name="Point",',
        "test_the_task_is_described",
        "name is 'Point'; must be 'judged",
    ),
    "knows every task": (
        "if task != TASK:",
        "if not task:",
        "test_other_tasks_are_not_described",
        "returned TaskInfo(name='no_such_thing'",
    ),
    "does not list its task": (
        "tasks=lambda: [TASK],",
        "tasks=lambda: [],",
        "test_the_task_is_described",
        "is not among 0 names",
    ),
    "claims every name": (
        'task.startswith("$name")',
        "True",
        "test_other_tasks_are_not_described",
        "knows('no_such_thing') is true",
    ),
    "says discrete": (
        'action="continuous"',
        'action="discrete"',
        "test_spaces_are_as_described",
        "describe says 'discrete'; the space Box",
    ),
    "describes other actions": (
        "options=OPTIONS,",
        "options=OPTIONS, actions=(3,),",
        "test_spaces_are_as_described",
        "describe has actions (3,); the space has (2,)",
    ),
    "describes other observations": (
        "options=OPTIONS,",
        "options=OPTIONS, observations={},",
        "test_spaces_are_as_described",
        "describe has observations {}; the space has {'critic': ArrayInfo(shape=(4,)",
    ),
    "has no policy": (
        '= "policy",',
        '= "state",',
        "test_spaces",
        "its groups are ['critic', 'state']: no 'policy'.",
    ),
    "gives numbers of double precision": (
        '"float32", 0.1',
        '"float64", 0.1',
        "test_spaces",
        "must be a vector of float32, or an image with height, width and channels, of uint8",
    ),
    "has actions with two axes": (
        "self.single_action_space = Box(-1.0, 1.0, (2,))",
        "self.single_action_space = Box(-1.0, 1.0, (1, 2))",
        "test_spaces",
        "of shape (1, 2); must have one axis.",
    ),
    "takes any action": (
        TAKES,
        TAKES.replace(".clamp(-1.0, 1.0)", ""),
        "test_actions_beyond_the_bounds",
        "at the bounds, and three times as far out: step 1, environment 0",
    ),
    "tells another length": (
        'max_episode_length"]),',
        'max_episode_length"]) + 1,',
        "test_episode_length_is_as_described",
        "with {}, describe says 51; max_episode_length is 50",
    ),
    "describes without the options": (
        "with_defaults(env)[",
        "OPTIONS[",
        "test_episode_length_is_as_described",
        "with {'max_episode_length': 9}, describe says 50; max_episode_length is 9",
    ),
    "declares what it does not accept": (
        "options=OPTIONS,",
        'options={**OPTIONS, "pace": 1.0},',
        "test_options_are_checked",
        "env.pace: no such option",
    ),
    "accepts unknown options": (
        "**with_defaults(config.env)",
        "**with_defaults({k: x for k, x in config.env.items() if 'such' not in k})",
        "test_options_are_checked",
        "env.no_such_thing=1 was accepted",
    ),
    "makes one environment too few": (
        "config.num_envs or 1",
        "config.num_envs - 1",
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
        '"critic": critic}\n\n',
        '"critic": critic.double()}\n\n',
        "test_observations",
        "after reset, observations['critic']: has dtype float64; must be float32.",
    ),
    "leaves its space": (
        "x.clone()",
        "x * 4",
        "test_observations",
        "observations['policy']: environment ",
    ),
    "gives rewards in double precision": (
        REWARDS,
        ", -distances.double(), ",
        "test_step_results",
        "rewards: has dtype float64; must be float32.",
    ),
    "gives rewards in a column": (
        REWARDS,
        ", -distances[:, None], ",
        "test_step_results",
        "rewards: has shape (8, 1); must be (8,).",
    ),
    "keeps the gradients": (
        REWARDS,
        ", -distances.clone().requires_grad_(), ",
        "test_step_results",
        "rewards: has a gradient history",
    ),
    "gives whole numbers for bools": (
        RESULT,
        RESULT.replace("terminations", "terminations.long()"),
        "test_step_results",
        "terminations: has dtype int64; must be bool.",
    ),
    "clips the given actions": (
        TAKES,
        "actions.clamp_(-1.0, 1.0).mul_(0.5)",
        "test_actions_are_not_modified",
        "step 1 changed the actions",
    ),
    "closes once": (
        "self.closed = True",
        'self.closed = self.__dict__.pop("_generator")',
        "test_closing_twice",
        "KeyError",
    ),
    "reports terminations as truncations": (
        RESULT,
        ", terminations & False, ends, info\n",
        "test_episodes_end",
        "no episode was terminated within max_steps = 600 steps of 8 environments",
    ),
    "reports truncations as terminations": (
        RESULT,
        ", ends, truncations & False, info\n",
        "test_episodes_end",
        "no episode was truncated without also being terminated",
    ),
    "cuts later episodes off late": (
        COUNT,
        f"{COUNT} - ends.long()",
        "test_lengths_restart",
        "was not truncated in its step 9 (max_episode_length)",
    ),
    "begins no count anew": (
        COUNT,
        "pass",
        "test_lengths_restart",
        "after the first end no episode lasted 9 steps (max_episode_length); lengths were [",
    ),
    "marks no ends": (
        '"_final_obs": ends,',
        '"_final_obs": ends & False,',
        "test_final_observations_are_dense",
        "info['_final_obs'] is [False, ",
    ),
    "gives final observations one by one": (
        '"final_obs": final,',
        '"final_obs": {name: list(part) for name, part in final.items()},',
        "test_final_observations_are_dense",
        "info['final_obs']['critic']: is a list of builtins",
    ),
    "never resets": (
        "return self._observed(self._positions), -distances",
        "return final, -distances",
        "test_observations_when_an_episode_ends",
        "ends the two are equal",
    ),
    "gives the new observation as the final one": (
        '"final_obs": final,',
        '"final_obs": self._observed(self._positions),',
        "test_observations_when_an_episode_ends",
        "ends the two are equal",
    ),
    "scales final observations": (
        FINAL,
        "final = {name: 0.5 * part for name, part in self._observed(reached).items()}",
        "test_observations_when_an_episode_ends",
        "without truncation, the observations would have been",
    ),
    "ignores the seed": (
        "self._generator.manual_seed(seed)",
        "self._generator.seed()",
        "test_a_seed_repeats_episodes",
        "after reset(seed=1), a second time: step 0, environment 0",
    ),
    "gives every rank the same": (
        "self._generator.manual_seed(seed)",
        "self._generator.manual_seed(7)",
        "test_ranks_differ",
        "environment 0 of rank 0 and environment 0 of rank 1 are the same",
    ),
    "gives every environment the same": (
        "return 2.0 * sample - 1.0",
        "return (2.0 * sample - 1.0)[:1].repeat(self.num_envs, 1)",
        "test_environments_differ",
        "environments 0 and 1 are the same",
    ),
    "begins to count with one": (
        "torch.zeros(self.num_envs, dtype",
        "torch.ones(self.num_envs, dtype",
        "test_episode_length_buf",
        "0 steps after a reset it is [1 1 ",
    ),
    "forgets the generator": (
        "self._generator.set_state(generator)",
        "pass",
        "test_state_can_be_set",
        "after set_state, counted from 0: step",
    ),
    "begins its curriculum with a reset": (
        BEGIN,
        f"self.stage = 0; {BEGIN}",
        "test_curricula_can_be_set",
        "stage is 0; it was ",
    ),
    "has no time step": (
        '"float32", 0.1',
        '"float32", 0',
        "test_step_results",
        "step_dt is 0.0; must be positive",
    ),
    "logs a column": (
        "distances.mean()",
        "distances",
        "test_step_results",
        "'x' has shape (8,); must be a scalar",
    ),
    "draws floats": (
        PIXELS,
        "torch.zeros(4, 6, 3)",
        "test_environments_are_rendered",
        "a frame has dtype float32",
    ),
    "draws random numbers to draw": (
        PIXELS,
        "torch.randint(9, (4, 6, 3), dtype=torch.uint8, generator=self._generator)",
        "test_environments_are_rendered",
        "without rendering and with it, step ",
    ),
}

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

JAX_TESTS = """
from rltrain_devkit import SuiteConformance

class TestPoints(SuiteConformance):
    suite = "points"
    task = "Point-v0"
    framework = "jax"
"""

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


def judged_jax(judge, old="", new=""):
    assert not old or JAX_POINTS.count(old) == 1, old
    return judge.source(JAX_POINTS.replace(old, new) if old else JAX_POINTS, JAX_TESTS)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, MORE])
def test_a_correct_suite_passes(judge, more):
    assert judge("suite", *more.items()) == {}


@pytest.mark.slow
@pytest.mark.parametrize("fault", WRONG)
def test_a_fault_fails_the_test_that_names_it(judge, fault):
    old, new, test, message = WRONG[fault]
    failed = judge("suite", *MORE.items(), (old, new))
    assert list(failed) == [test], failed
    assert message in failed[test]


@pytest.mark.slow
def test_a_correct_jax_suite_passes(judge):
    assert judged_jax(judge) == {}


@pytest.mark.slow
@pytest.mark.parametrize("fault", JAX_WRONG)
def test_a_jax_fault_fails_the_test_that_names_it(judge, fault):
    old, new, test, message = JAX_WRONG[fault]
    failed = judged_jax(judge, old, new)
    assert list(failed) == [test], failed
    assert message in failed[test]
