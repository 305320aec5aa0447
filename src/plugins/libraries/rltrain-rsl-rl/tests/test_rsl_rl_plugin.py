from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from messages import says
from rsl_rl_stubs import small_agent

from rltrain.errors import UsageError
from rltrain.options import get_dotted, set_dotted
from rltrain.testing import make_config
from rltrain.types import ArrayInfo, Iteration, TaskInfo
from rltrain_rsl_rl.declare.options import (
    DEFAULTS,
    set_observation_groups,
    without_options_of_other_classes,
)
from rltrain_rsl_rl.plugin import rltrain_provides

(SPEC,) = rltrain_provides()
POINT = TaskInfo("Point-v0", "continuous")


@pytest.mark.parametrize(
    ("num_envs", "file"), [(8, "ppo_few_envs.yaml"), (64, "ppo.yaml"), (4096, "ppo.yaml")]
)
def test_defaults_are_for_many_environments_or_few(num_envs, file):
    from rltrain.options import load_yaml

    agent = SPEC.default_agent(TaskInfo("any", "continuous", num_envs=num_envs), "ppo")
    assert agent == load_yaml(str(DEFAULTS / file), "")


WHOLE = sorted(path for path in DEFAULTS.glob("*.yaml") if path.stem != "images")


@pytest.mark.parametrize("file", WHOLE, ids=lambda path: path.stem)
def test_defaults_are_complete(file):
    from rltrain.options import load_yaml
    from rltrain.options.agent import override_agent

    agent = load_yaml(str(file), "")
    needed = (*SPEC.schema.required, *SPEC.schema.run_keys.values())
    assert all(get_dotted(agent, key, None) is not None for key in needed)
    assert override_agent(agent, {}, SPEC, str(file), agent) == []


SIGHT = {"policy": ArrayInfo((8, 8, 3), "uint8"), "critic": ArrayInfo((4,))}
ASYMMETRIC = {"policy": ArrayInfo((3,)), "critic": ArrayInfo((6,))}
SEEING = {"obs_groups": {}} | {
    f"{model}.{key}": value
    for model in ("actor", "critic")
    for key, value in {
        "class_name": "CNNModel",
        "cnn_cfg": {"output_channels": [4], "kernel_size": 3},
        "obs_normalization": False,
    }.items()
}
VECTORS = {**SEEING, "critic.class_name": "MLPModel"}
BOTH = {"obs_groups.critic": ["policy", "critic"]}
SHARED = {"algorithm.share_cnn_encoders": True}
MIRRORED = {"algorithm.symmetry_cfg": {"use_mirror_loss": True}}
RECURRENT = {"actor.class_name": "RNNModel", "critic.class_name": "RNNModel"}
RANKS = {"distributed": True}
TAUGHT = {"algorithm": "distillation", "checkpoint": "teacher.pt"}
BATCH = ({"norm": "batch"}, {"camera": {"norm": ["layer", "batch"]}})
ANOTHER = "the options of another algorithm"


def refused(agent, task=POINT, **config) -> list[str]:
    resolved = make_config(library="rsl_rl", agent=agent, **config)
    return [refusal.name for refusal in SPEC.refuses if refusal.applies(resolved, task)]


@pytest.mark.parametrize(
    ("changes", "seen", "config", "name"),
    [
        ({}, None, {}, None),
        ({}, None, RANKS, None),
        ({"algorithm.class_name": "my_code:MyPPO"}, None, {}, "an algorithm of one's own"),
        ({}, None, {"algorithm": "distillation"}, ANOTHER),
        ({"actor": None}, None, {}, "options without the algorithm's models"),
        *(({"critic.cnn_cfg": cnn}, None, {}, None) for cnn in BATCH),
        *(({"critic.cnn_cfg": cnn}, None, {**RANKS, "nproc_per_node": 1}, None) for cnn in BATCH),
        *(
            ({"critic.cnn_cfg": cnn}, None, RANKS, "batch normalization on several ranks")
            for cnn in BATCH
        ),
        (VECTORS, SIGHT, {}, None),
        # Only the environments will tell.
        ({**SEEING, "actor.class_name": "MLPModel"}, None, {}, None),
        ({**SEEING, **BOTH}, SIGHT, {}, None),
        ({**VECTORS, **BOTH}, SIGHT, {}, "images for a model of vectors"),
        ({**VECTORS, **SHARED}, SIGHT, {}, "share_cnn_encoders without encoders"),
        ({**SEEING, **SHARED, "obs_groups.critic": ["policy"]}, SIGHT, {}, None),
        (
            {**VECTORS, "algorithm.rnd_cfg": {"weight": 0.1}},
            *(SIGHT, {}, "random network distillation of images"),
        ),
        ({**VECTORS, **MIRRORED}, SIGHT, {}, None),
        ({**MIRRORED, **RECURRENT}, None, {}, "symmetry with recurrent models"),
        (
            {**SEEING, "critic.class_name": "RNNModel"},
            *(None, {}, "CNNModel with a recurrent model"),
        ),
        # Groups that the task has.
        *(
            ({"obs_groups": groups}, ASYMMETRIC, {}, None)
            for groups in (None, {}, {"critic": ["critic"]}, {"actor": ["actor"]})
        ),
        ({"obs_groups": {"critic": ["policy", "height"]}}, None, {}, None),
    ],
)
def test_combinations_that_cannot_be_trained_are_refused(changes, seen, config, name):
    agent = small_agent()
    for key, value in copy.deepcopy(changes).items():
        set_dotted(agent, key, value)
    task = TaskInfo("any", "continuous", observations=seen)
    assert refused(agent, task, **config) == ([name] if name else [])


@pytest.mark.parametrize("action", ["discrete", "multi_discrete"])
def test_discrete_tasks_are_refused(action):
    assert refused(small_agent(), TaskInfo("Point-v0", action)) == ["discrete actions"]


def test_groups_that_the_task_lacks_are_refused():
    agent = {**small_agent(), "obs_groups": {"critic": ["policy", "height"]}}
    with says(UsageError):
        refused(agent, TaskInfo("any", "continuous", observations=ASYMMETRIC))


@pytest.mark.parametrize(
    ("changes", "config", "name"),
    [
        ({}, RANKS, None),
        ({}, {"checkpoint": None}, "distillation without a teacher"),
        ({"student.distribution_cfg": None}, {}, "options without the algorithm's models"),
        ({}, {"algorithm": "ppo"}, ANOTHER),
    ],
)
def test_what_is_refused_of_distillation(changes, config, name):
    agent = SPEC.default_agent(POINT, "distillation")
    assert agent["teacher"] == SPEC.default_agent(POINT, "ppo")["actor"]
    for key, value in changes.items():
        set_dotted(agent, key, value)
    assert refused(agent, **TAUGHT | config) == ([name] if name else [])


@pytest.mark.parametrize("name", ["own_nets:Wide", "own_nets.inner.Wide"])
def test_the_module_of_a_model_must_be_found(monkeypatch, tmp_path, name):
    agent = small_agent()
    agent["critic"]["class_name"] = name
    assert refused(agent) == ["a class of the critic that is not found"]
    (tmp_path / "own_nets.py").write_text("raise SystemExit('is not imported before ranks start')")
    monkeypatch.syspath_prepend(tmp_path)
    assert refused(agent) == []


def test_options_of_a_replaced_class_are_omitted():
    agent = small_agent()
    agent["actor"] |= {"class_name": "MLPModel", "rnn_type": "gru", "cnn_cfg": {}}
    agent["actor"]["distribution_cfg"] = {"class_name": "BetaDistribution", "init_std": 1.0}
    fitting = without_options_of_other_classes(agent)
    assert not {"rnn_type", "cnn_cfg"} & fitting["actor"].keys()
    assert fitting["actor"]["distribution_cfg"] == {"class_name": "BetaDistribution"}
    assert fitting["critic"] == agent["critic"]
    own = {"class_name": "my_code.MyModel", "rnn_type": "gru"}
    assert without_options_of_other_classes({"actor": own})["actor"] == own


def test_what_mjlab_leaves_unset_is_left_out_for_models_of_its_own_too():
    mjlabs = {"class_name": "mjlab.rl.spatial_softmax:SpatialSoftmaxCNNModel", "cnn_cfg": {}}
    unset = {"rnn_type": None, "rnn_hidden_dim": 256, "rnn_num_layers": 1, "distribution_cfg": None}
    assert without_options_of_other_classes({"actor": mjlabs | unset})["actor"] == mjlabs


def test_the_plan_knows_what_an_iteration_is():
    config = make_config(library="rsl_rl", agent=small_agent(), num_envs=4)
    assert SPEC.iteration(config) == Iteration(steps=8, iterations=3, mini_batches=2)
    assert SPEC.iteration(replace(config, max_iterations=7)).iterations == 7
    distils = SPEC.default_agent(POINT, "distillation")
    config = make_config(library="rsl_rl", agent=distils, num_envs=3)
    assert SPEC.iteration(config) == Iteration(steps=32, iterations=100)


@pytest.mark.parametrize(
    ("changes", "fits", "fails"),
    [
        ({"algorithm.num_mini_batches": 3}, 3, 4),
        ({"critic.class_name": "RNNModel"}, 4, 2),
        ({"actor.class_name": "rsl_rl.models:RNNModel"}, 4, 5),
        ({"num_steps_per_env": "many"}, None, 4),
    ],
)
def test_mini_batches_that_do_not_divide_the_batch_are_refused(changes, fits, fails):
    agent = small_agent()
    for key, value in changes.items():
        set_dotted(agent, key, value)
    if fits:
        SPEC.iteration(make_config(library="rsl_rl", agent=agent, num_envs=fits))
    with says(UsageError):
        SPEC.iteration(make_config(library="rsl_rl", agent=agent, num_envs=fails))


@pytest.mark.parametrize(
    ("available", "given", "found"),
    [
        (("policy", "critic"), "actor", "policy"),  # As mjlab's files have it.
        (("policy", "actor"), "actor", "actor"),
        (("policy", "critic"), "state", "policy"),  # As MuJoCo Playground's.
        (("policy", "critic"), "privileged_state", "critic"),
    ],
)
def test_groups_of_other_names_are_those_of_the_task(available, given, found):
    options = {"algorithm": {}, "obs_groups": {"actor": [given], "critic": ["policy", given]}}
    set_observation_groups(options, ("actor", "critic"), available)
    assert options["obs_groups"] == {"actor": [found], "critic": ["policy", found]}


def test_a_critic_reads_the_tasks_group_for_critics():
    task = TaskInfo("any", "continuous", observations=ASYMMETRIC)
    groups = SPEC.default_agent(task, "ppo")["obs_groups"]
    assert groups == {"actor": ["policy"], "critic": ["critic"]}
    taught = replace(task, observations={**ASYMMETRIC, "teacher": ArrayInfo((9,))})
    groups = SPEC.default_agent(taught, "distillation")["obs_groups"]
    assert groups == {"student": ["policy"], "teacher": ["teacher"]}
