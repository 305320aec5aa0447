from __future__ import annotations

import copy
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from rsl_rl_stubs import small_agent

from rltrain.errors import UsageError
from rltrain.options import get_dotted, set_dotted
from rltrain.specs import load_object
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


def test_the_plugin_is_light():
    code = (
        "import sys, rltrain_rsl_rl.plugin as plugin; from rltrain.types import TaskInfo; "
        "[spec] = plugin.rltrain_provides(); "
        "spec.default_agent(TaskInfo('x', 'continuous'), 'ppo'); "
        "print(sorted({'torch', 'rsl_rl', 'tensordict', 'jax', 'gymnasium'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.check_output(
        [sys.executable, "-c", code], text=True, timeout=60, env=environment
    )
    assert output.strip() == "[]"


def test_what_the_spec_names_exists():
    assert load_object(SPEC.factory)
    assert load_object(SPEC.checkpoint.read)


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


@pytest.mark.parametrize(
    "other",
    [
        {"params": {"algo": {"name": "a2c_continuous"}, "config": {}}},
        {"models": {}, "agent": {"class": "PPO"}, "trainer": {}},
    ],
)
def test_files_of_other_libraries_lack_a_required_key(other):
    assert any(get_dotted(other, key, None) is None for key in SPEC.schema.required)


def refused(agent, task=POINT, **config) -> list[str]:
    resolved = make_config(library="rsl_rl", agent=agent, **config)
    return [refusal.name for refusal in SPEC.refuses if refusal.applies(resolved, task)]


@pytest.mark.parametrize("ranks", [{}, {"distributed": True}])
def test_the_defaults_are_not_refused(ranks):
    assert refused(small_agent(), **ranks) == []


@pytest.mark.parametrize("action", ["discrete", "multi_discrete"])
def test_discrete_tasks_are_refused(action):
    assert refused(small_agent(), TaskInfo("Point-v0", action)) == ["discrete actions"]


def distillation(**config) -> list[str]:
    agent = SPEC.default_agent(POINT, "distillation")
    return refused(agent, **{"algorithm": "distillation", "checkpoint": "teacher.pt", **config})


def test_distillation_is_not_refused():
    assert distillation(distributed=True) == []


def test_distillation_without_a_teacher_is_refused():
    assert distillation(checkpoint=None) == ["distillation without a teacher"]


def test_a_student_whose_actions_have_no_distribution_is_refused():
    agent = SPEC.default_agent(POINT, "distillation")
    agent["student"]["distribution_cfg"] = None
    names = refused(agent, algorithm="distillation", checkpoint="teacher.pt")
    assert names == ["options without the algorithm's models"]


def test_the_teacher_is_the_actor_of_ppos_defaults():
    task = TaskInfo("rltrain/CartPoleContinuous-v1", "continuous")
    agent = SPEC.default_agent(task, "distillation")
    assert agent["teacher"] == SPEC.default_agent(task, "ppo")["actor"]


def test_options_of_another_algorithm_are_refused():
    assert refused(small_agent(), algorithm="distillation") == ["the options of another algorithm"]
    assert distillation(algorithm="ppo") == ["the options of another algorithm"]


def test_a_custom_algorithm_is_refused():
    agent = small_agent()
    agent["algorithm"]["class_name"] = "my_code:MyPPO"
    assert refused(agent) == ["an algorithm of one's own"]


@pytest.mark.parametrize("name", ["own_nets:Wide", "own_nets.inner.Wide"])
def test_the_module_of_a_model_must_be_found(monkeypatch, tmp_path, name):
    agent = small_agent()
    agent["critic"]["class_name"] = name
    assert refused(agent) == ["a class of the critic that is not found"]
    (tmp_path / "own_nets.py").write_text("raise SystemExit('is not imported before ranks start')")
    monkeypatch.syspath_prepend(tmp_path)
    assert refused(agent) == []


@pytest.mark.parametrize("cnn", [{"norm": "batch"}, {"camera": {"norm": ["layer", "batch"]}}])
def test_batch_normalization_is_refused_on_several_ranks(cnn):
    agent = small_agent()
    agent["critic"]["cnn_cfg"] = cnn
    assert refused(agent) == []
    assert refused(agent, distributed=True, nproc_per_node=1) == []
    assert refused(agent, distributed=True) == ["batch normalization on several ranks"]


SIGHT = {"policy": ArrayInfo((8, 8, 3), "uint8"), "critic": ArrayInfo((4,))}
CNN = {"class_name": "CNNModel", "cnn_cfg": {"output_channels": [4], "kernel_size": 3}}


def seeing(task=SIGHT, **options):
    """Return the refusals of an actor and a critic with a CNN, changed by dotted options."""
    agent = small_agent()
    agent["obs_groups"] = {}
    for model in ("actor", "critic"):
        agent[model] |= {**CNN, "obs_normalization": False}
    for key, value in options.items():
        set_dotted(agent, key.replace("__", "."), value)
    return refused(agent, TaskInfo("any", "continuous", observations=task))


def test_models_that_cannot_read_their_observations_are_refused():
    vectors = {"critic__class_name": "MLPModel"}
    assert seeing(**vectors) == []
    assert seeing(None, actor__class_name="MLPModel") == [], "only the environments will tell"
    both = {"obs_groups__critic": ["policy", "critic"]}
    assert seeing(**both) == []
    assert seeing(**both, **vectors) == ["images for a model of vectors"]


def test_shared_encoders_symmetry_and_rnd_need_suitable_models():
    vectors = {"critic__class_name": "MLPModel"}
    shared = {"algorithm__share_cnn_encoders": True}
    assert seeing(**vectors, **shared) == ["share_cnn_encoders without encoders"]
    assert seeing(**shared, obs_groups__critic=["policy"]) == []
    assert seeing(**vectors, algorithm__rnd_cfg={"weight": 0.1}) == [
        "random network distillation of images"
    ]
    mirrored = {"algorithm__symmetry_cfg": {"use_mirror_loss": True}}
    assert seeing(**vectors, **mirrored) == []
    recurrent = {"actor__class_name": "RNNModel", "critic__class_name": "RNNModel"}
    assert seeing(None, **mirrored, **recurrent) == ["symmetry with recurrent models"]
    assert seeing(None, critic__class_name="RNNModel") == ["CNNModel with a recurrent model"]


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


def test_files_of_older_versions_are_refused():
    agent = copy.deepcopy(small_agent())
    agent["policy"] = agent.pop("actor")
    assert refused(agent) == ["options without the algorithm's models"]


def test_the_plan_knows_what_an_iteration_is():
    config = make_config(library="rsl_rl", agent=small_agent(), num_envs=4)
    assert SPEC.iteration(config) == Iteration(steps=8, iterations=3, mini_batches=2)
    assert SPEC.iteration(replace(config, max_iterations=7)).iterations == 7


def test_mini_batches_that_do_not_divide_the_batch_are_refused():
    agent = small_agent()
    agent["algorithm"]["num_mini_batches"] = 3
    SPEC.iteration(make_config(library="rsl_rl", agent=agent, num_envs=3))
    with pytest.raises(UsageError, match=r"4 environments x 8 steps = 32 rows: 32 / 3 leaves 2"):
        SPEC.iteration(make_config(library="rsl_rl", agent=agent, num_envs=4))


def test_a_recurrent_mini_batch_has_more_than_one_environment():
    agent = small_agent()
    agent["critic"]["class_name"] = "RNNModel"
    with pytest.raises(UsageError, match=r"num_mini_batches=2: .* would have one environment"):
        SPEC.iteration(make_config(library="rsl_rl", agent=agent, num_envs=2))


def test_recurrent_mini_batches_divide_the_environments():
    agent = small_agent()
    agent["actor"]["class_name"] = "rsl_rl.models:RNNModel"
    SPEC.iteration(make_config(library="rsl_rl", agent=agent, num_envs=4))
    with pytest.raises(UsageError, match=r"num_mini_batches=2: .* 5 environments, whose whole"):
        SPEC.iteration(make_config(library="rsl_rl", agent=agent, num_envs=5))


def test_a_number_of_steps_is_needed():
    agent = {**small_agent(), "num_steps_per_env": "many"}
    with pytest.raises(UsageError, match=r"agent\.num_steps_per_env='many'"):
        SPEC.iteration(make_config(library="rsl_rl", agent=agent, num_envs=4))


def test_distillation_has_no_mini_batches():
    agent = SPEC.default_agent(POINT, "distillation")
    config = make_config(library="rsl_rl", agent=agent, num_envs=3)
    assert SPEC.iteration(config) == Iteration(steps=32, iterations=100)


def test_reasons_are_sentences():
    assert all(item.reason.endswith(".") and item.instead.endswith(".") for item in SPEC.refuses)


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


ASYMMETRIC = {"policy": ArrayInfo((3,)), "critic": ArrayInfo((6,))}


def test_a_critic_reads_the_tasks_group_for_critics():
    task = TaskInfo("any", "continuous", observations=ASYMMETRIC)
    groups = SPEC.default_agent(task, "ppo")["obs_groups"]
    assert groups == {"actor": ["policy"], "critic": ["critic"]}
    taught = replace(task, observations={**ASYMMETRIC, "teacher": ArrayInfo((9,))})
    groups = SPEC.default_agent(taught, "distillation")["obs_groups"]
    assert groups == {"student": ["policy"], "teacher": ["teacher"]}


@pytest.mark.parametrize("groups", [None, {}, {"critic": ["critic"]}, {"actor": ["actor"]}])
def test_groups_that_the_task_has_are_fine(groups):
    agent = {**small_agent(), "obs_groups": groups}
    assert refused(agent, TaskInfo("any", "continuous", observations=ASYMMETRIC)) == []


def test_groups_that_the_task_lacks_are_refused():
    agent = {**small_agent(), "obs_groups": {"critic": ["policy", "height"]}}
    message = r"critic=\['policy', 'height'\]: must name .* of the task, which are critic, policy\."
    with pytest.raises(UsageError, match=message):
        refused(agent, TaskInfo("any", "continuous", observations=ASYMMETRIC))
    assert refused(agent, TaskInfo("any", "continuous")) == []
