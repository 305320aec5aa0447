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

IMPORT = "from collections.abc import Iterable, Mapping"
TAKES = "actions.reshape(self.num_envs, 2).clamp(-1.0, 1.0)"
REWARDS = ", -distances, "
RESULT = ", terminations, truncations, info\n"
FINAL, DENSE = "final = self._observed(reached)", '"final_obs": final,'
COUNT = "self.episode_length_buf = self.episode_length_buf * ~ends"
PIXELS = "torch.zeros(4, 6, 3, dtype=torch.uint8)"
BEGIN = "return self._observed(self._positions), {}"
SEED = "self._generator.manual_seed(seed)"
SPACE = "self.single_action_space = Box(-1.0, 1.0, (2,))"
OPTIONS = "options=OPTIONS,"
SAMPLE = "return 2.0 * sample - 1.0"
REPEATED = "return (2.0 * sample - 1.0)[:1].repeat(self.num_envs, 1)"
DRAWN = "torch.randint(9, (4, 6, 3), dtype=torch.uint8, generator=self._generator)"
PARTS = '"final_obs": {name: list(part) for name, part in final.items()},'
HALVED = "final = {name: 0.5 * part for name, part in self._observed(reached).items()}"
KNOWN = "{k: x for k, x in config.env.items() if 'such' not in k}"

WRONG = {
    "declaring_is_light": [
        ("torch", IMPORT, f"import torch; {IMPORT}", "imports numpy, torch when plugins are"),
    ],
    "the_task_is_described": [
        ("another name", "name=task,", 'name="Point",', "name is 'Point'; must be 'judged"),
        ("not in its list", "tasks=lambda: [TASK],", "tasks=lambda: [],", "not among 0 names"),
    ],
    "other_tasks_are_not_described": [
        ("every task", "if task != TASK:", "if not task:", "TaskInfo(name='no_such_thing'"),
        ("every name", 'task.startswith("$name")', "True", "knows('no_such_thing') is true"),
    ],
    "spaces_are_as_described": [
        ("discrete", 'action="continuous"', 'action="discrete"', "'discrete'; the space Box"),
        ("actions", OPTIONS, f"{OPTIONS} actions=(3,),", "actions (3,); the space has (2,)"),
        ("observations", OPTIONS, f"{OPTIONS} observations={{}},", "observations {}; the space"),
    ],
    "spaces": [
        ("no policy", '= "policy",', '= "state",', "groups are ['critic', 'state']: no 'policy'."),
        ("double precision", '"float32", 0.1', '"float64", 0.1', "must be a vector of float32, or"),
        ("two axes", SPACE, SPACE.replace("2", "1, 2"), "of shape (1, 2); must have one axis."),
    ],
    "actions_beyond_the_bounds": [
        ("any", TAKES, TAKES.replace(".clamp(-1.0, 1.0)", ""), "three times as far out: step 1"),
    ],
    "episode_length_is_as_described": [
        ("another", 'max_episode_length"]),', 'max_episode_length"]) + 1,', "with {}, describe"),
        ("without options", "with_defaults(env)[", "OPTIONS[", "describe says 50; max_episode_le"),
    ],
    "options_are_checked": [
        ("declared only", OPTIONS, 'options={**OPTIONS, "pace": 1.0},', "env.pace: no such option"),
        ("any", "with_defaults(config.env)", f"with_defaults({KNOWN})", "1 was accepted"),
    ],
    "it_is_a_vector_env": [
        ("too few", "config.num_envs or 1", "config.num_envs - 1", "num_envs is 7; it should be 8"),
        (
            "no batched spaces",
            "self.observation_space = batch_space(self.single_observation_space, num_envs)",
            "self.observation_space = self.single_observation_space",
            "observation_space is Dict(",
        ),
        ("reset", "AutoresetMode.SAME_STEP", "AutoresetMode.NEXT_STEP", "metadata['autoreset_mode"),
    ],
    "observations": [
        ("float64", '"critic": critic}\n\n', '"critic": critic.double()}\n\n', "has dtype float64"),
        ("beyond the space", "x.clone()", "x * 4", "observations['policy']: environment "),
    ],
    "step_results": [
        ("double precision", REWARDS, ", -distances.double(), ", "rewards: has dtype float64"),
        ("a column", REWARDS, ", -distances[:, None], ", "rewards: has shape (8, 1); must be (8,)"),
        ("gradients", REWARDS, ", -distances.clone().requires_grad_(), ", "a gradient history"),
        ("whole numbers", RESULT, RESULT.replace("ions,", "ions.long(),", 1), "has dtype int64"),
        ("no time step", '"float32", 0.1', '"float32", 0', "step_dt is 0.0; must be positive"),
        ("a logged column", "distances.mean()", "distances", "shape (8,); must be a scalar"),
    ],
    "actions_are_not_modified": [
        ("clipped in place", TAKES, "actions.clamp_(-1.0, 1.0).mul_(0.5)", "step 1 changed the"),
    ],
    "closing_twice": [
        ("once", "self.closed = True", 'self.closed = self.__dict__.pop("_generator")', "KeyError"),
    ],
    "episodes_end": [
        ("by truncation", RESULT, ", terminations & False, ends, info\n", "was terminated within"),
        ("by termination", RESULT, ", ends, truncations & False, info\n", "was truncated without"),
    ],
    "lengths_restart": [
        ("late", COUNT, f"{COUNT} - ends.long()", "was not truncated in its step 9 (max_episode_"),
        ("never", COUNT, "pass", "after the first end no episode lasted 9 steps (max_episode_leng"),
    ],
    "final_observations_are_dense": [
        ("unmarked", '"_final_obs": ends,', '"_final_obs": ends & False,', "['_final_obs'] is [Fa"),
        ("one by one", DENSE, PARTS, "info['final_obs']['critic']: is a list of builtins"),
    ],
    "observations_when_an_episode_ends": [
        ("never reset", f"{BEGIN[:-2]}-dist", "return final, -dist", "ends the two are equal"),
        ("new", DENSE, '"final_obs": self._observed(self._positions),', "ends the two are equal"),
        ("scaled", FINAL, HALVED, "without truncation, the observations would have been"),
    ],
    "a_seed_repeats_episodes": [
        ("ignored", SEED, "self._generator.seed()", "after reset(seed=1), a second time: step 0"),
    ],
    "ranks_differ": [("one seed", SEED, SEED.replace("seed)", "7)"), "of rank 1 are the same")],
    "environments_differ": [("alike", SAMPLE, REPEATED, "environments 0 and 1 are the same")],
    "episode_length_buf": [
        ("from 1", "torch.zeros(self.num_envs, dtype", "torch.ones(self.num_envs, dtype", "[1 1 "),
    ],
    "state_can_be_set": [
        ("generator", "self._generator.set_state(generator)", "pass", "after set_state, counted"),
    ],
    "curricula_can_be_set": [
        ("begun anew", BEGIN, f"self.stage = 0; {BEGIN}", "stage is 0; it was "),
    ],
    "environments_are_rendered": [
        ("floats", PIXELS, "torch.zeros(4, 6, 3)", "a frame has dtype float32"),
        ("random numbers", PIXELS, DRAWN, "without rendering and with it, step "),
    ],
}

JAX = {
    'frameworks=("torch",)': 'frameworks=("jax",)',
    "    suite =": '    framework = "jax"\n    suite =',
    "import torch\n": "import jax.numpy as jnp, numpy as np, torch\n",
    "return PointEnv(config.num_envs or 1, session.world.device, **with_defaults(config.env))": (
        'return Jaxed(PointEnv(config.num_envs, "cpu", **with_defaults(config.env)))'
    ),
    "class PointEnv(": """
def jaxed(x):
    return jnp.asarray(x.numpy())

class Jaxed(VectorEnv):
    def __init__(self, env):
        vars(self).update(vars(env), inner=env, get_state=env.get_state, set_state=env.set_state)

    def reset(self, **given):
        return jaxed(self.inner.reset(**given)[0]), {}

    def step(self, actions):
        *results, info = self.inner.step(torch.tensor(np.asarray(actions)))
        observations, rewards, terminations, truncations = map(jaxed, results)
        info = {name: jaxed(x) for name, x in info.items()}
        return observations, rewards, terminations, truncations, info

    @property
    def episode_length_buf(self):
        return jaxed(self.inner.episode_length_buf)

    @episode_length_buf.setter
    def episode_length_buf(self, lengths):
        self.inner.episode_length_buf = torch.tensor(np.asarray(lengths))

class PointEnv(""",
}
"""Patches of the template: its environments' arrays are jax's."""

RETURNED = "return observations, rewards, terminations, truncations, info"
ARRAYS = "{name: jaxed(x) for name, x in info.items()}"

WRONG_JAX = {
    "declaring_is_light": [("jax", IMPORT, f"import jax; {IMPORT}", "imports jax, numpy when")],
    "step_results": [
        ("numpy", RETURNED, RETURNED.replace("ds,", "ds.__array__(),"), "is a ndarray of numpy"),
        (
            "a column",
            RETURNED,
            RETURNED.replace("ds,", "ds[:, None],"),
            "rewards: has shape (8, 1)",
        ),
        (
            "whole numbers",
            RETURNED,
            RETURNED.replace("terminations,", "terminations.astype(int),"),
            "terminations: has dtype int32; must be bool.",
        ),
    ],
    "final_observations_are_dense": [
        ("numpy", ARRAYS, ARRAYS.replace("jaxed(x)", "x.numpy()"), "is a ndarray of numpy"),
    ],
    "a_seed_repeats_episodes": [
        ("ignored", SEED, "self._generator.seed()", "after reset(seed=1), a second time: step 0"),
    ],
}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("more", [{}, MORE])
def test_a_correct_suite_passes(judge, more):
    assert judge("suite", *more.items()) == {}


def test_a_fault_fails_the_test_that_names_it(judge, fault):
    fault.check(judge("suite", *MORE.items(), (fault.old, fault.new)))


def test_a_jax_fault_fails_the_test_that_names_it(judge, jax_fault):
    jax_fault.check(judge("suite", *JAX.items(), (jax_fault.old, jax_fault.new)))
