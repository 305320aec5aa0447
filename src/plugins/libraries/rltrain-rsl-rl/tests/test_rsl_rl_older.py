"""Options and checkpoints of rsl_rl 1 to 4 mean what they did, and which options came after 5.0."""

from __future__ import annotations

import copy
import functools

import pytest
import torch
from rsl_rl_stubs import VERSION, LocalSession, recurrent, small_agent

from rltrain.errors import UsageError
from rltrain.options import get_dotted, set_dotted
from rltrain.types import TaskInfo
from rltrain_rsl_rl.declare import older as migrations
from rltrain_rsl_rl.declare.older import upgrade_options, without_sections
from rltrain_rsl_rl.declare.options import default_agent
from rltrain_rsl_rl.run.library import RslRlLibrary

CASES = {
    "plain": {},
    "log": {"actor.distribution_cfg.std_type": "log"},
    "recurrent": recurrent("lstm"),
}
RATE = 1e-3
ROLES = {"ppo": ("actor", "critic"), "distillation": ("student", "teacher")}


SMALL = {
    f"{role}.{key}": setting
    for roles in ROLES.values()
    for role in roles
    for key, setting in {"hidden_dims": [8], "obs_normalization": True}.items()
}


def as_written_by(saved, version, roles):
    """Return a checkpoint as an older version wrote it.

    The parts, their names and their order are those of `OnPolicyRunner.save`, `ActorCritic`,
    `ActorCriticRecurrent`, `StudentTeacher` and `MLPModel` of rsl_rl 1.0.2, 2.3.3, 3.1.2 and 4.0.1.

    Args:
        saved: what rsl_rl 5 saved.
        version: the first number of its version.
        roles: the models' names.
    """
    old = {key: saved[key] for key in ("iter", "infos", "optimizer_state_dict")}
    parts = {role: dict(saved[f"{role}_state_dict"]) for role in roles}
    noises = {
        role: {
            key.removeprefix("distribution.").removesuffix("_param"): part.pop(key)
            for key in list(part)
            if key.startswith("distribution.")
        }
        for role, part in parts.items()
    }
    if version == 4:
        parts = {role: noises[role] | parts[role] for role in roles}
        old |= {f"{role}_state_dict": part for role, part in parts.items()}
    else:
        flat = dict(noises[roles[0]])
        # Recurrent layers came last up to version 2, and before those of their model since then.
        for role in roles:
            for key in sorted(parts[role], key=lambda key: version > 2 and "rnn" not in key):
                flat[_in_one_module(role, key)] = parts[role][key]
        if version < 3:
            for role, place in zip(roles, _places(version), strict=True):
                prefix = f"{role}_obs_normalizer."
                here = [key for key in flat if key.startswith(prefix)]
                old[place] = {key.removeprefix(prefix): flat.pop(key) for key in here}
                if version == 1:
                    old[place].pop("count", None)
        old["model_state_dict"] = flat
    return old


def _in_one_module(role, key):
    for now, before in (("mlp.", f"{role}."), ("rnn.rnn.", f"memory_{role[0]}.rnn.")):
        if key.startswith(now):
            return before + key.removeprefix(now)
    return f"{role}_{key}"


def _places(version):
    first = "critic" if version == 1 else "privileged"
    return "obs_norm_state_dict", f"{first}_obs_norm_state_dict"


def run(folder, case, algorithm, checkpoint=None, **options):
    """Train, and return the session."""
    agent = small_agent(learning_rate=RATE)
    if algorithm == "distillation":
        agent = default_agent(TaskInfo("Point-v0", "continuous"), "distillation")
        agent.update(num_steps_per_env=8, max_iterations=3, save_interval=2)
        agent["algorithm"]["learning_rate"] = RATE
    for key, value in {**SMALL, **CASES[case]}.items():
        if key.partition(".")[0] in agent:
            set_dotted(agent, key, value)
    session = LocalSession(folder, agent, checkpoint=checkpoint, **options)
    RslRlLibrary().rltrain_train(session)
    return session


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train a case once, and return its checkpoint."""

    @functools.cache
    def of(case, algorithm="ppo"):
        teacher = of(case) if algorithm == "distillation" else None
        folder = tmp_path_factory.mktemp("trained")
        run(folder, case, algorithm, teacher)
        return folder / "checkpoints/model_2.pt"

    return of


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("case", "algorithm"), [*((case, "ppo") for case in CASES), ("plain", "distillation")]
)
def test_it_acts_and_training_continues_with_a_fresh_optimizer(
    case, algorithm, version, trained, tmp_path
):
    saved = torch.load(trained(case, algorithm))
    if version == 1:  # It did not save how much its normalizers had seen.
        for role in ROLES[algorithm]:
            for key, value in saved[f"{role}_state_dict"].items():
                if key.endswith(".count"):
                    value.fill_(10**8)
    (group,) = saved["optimizer_state_dict"]["param_groups"]
    saved["optimizer_state_dict"] = {"state": {}, "param_groups": [{**group, "lr": RATE}]}
    files = {"today": saved, "old": as_written_by(saved, version, ROLES[algorithm])}
    actions, states = [], []
    for name, file in files.items():
        torch.save(file, tmp_path / f"{name}.pt")
        torch.manual_seed(1)
        session = run(tmp_path / name, case, algorithm, tmp_path / f"{name}.pt", max_iterations=5)
        assert list(session.iterations()) == [4, 5]
        states.append({role: model.state_dict() for role, model in session.models.items()})
        policy = RslRlLibrary().rltrain_load_policy(session)
        actions.append(policy.act(session.env.reset(seed=1)[0]))
    assert torch.equal(*actions)
    for role, today in states[0].items():
        for name, tensor in today.items():
            if (role, name.partition(".")[0]) != ("teacher", "distribution"):  # It has no noise.
                assert torch.equal(tensor, states[1][role][name]), (role, name)


POLICY = {
    "class_name": "ActorCritic",
    "init_noise_std": 0.8,
    "noise_std_type": "log",
    "state_dependent_std": False,
    "actor_obs_normalization": True,
    "critic_obs_normalization": False,
    "actor_hidden_dims": [32, 16],
    "critic_hidden_dims": [64],
    "activation": "elu",
}
GAUSSIAN = {"class_name": "GaussianDistribution", "init_std": 0.8, "std_type": "log"}
ACTOR = {
    "class_name": "MLPModel",
    "hidden_dims": [32, 16],
    "activation": "elu",
    "obs_normalization": True,
    "distribution_cfg": GAUSSIAN,
}
CRITIC = {
    "class_name": "MLPModel",
    "hidden_dims": [64],
    "activation": "elu",
    "obs_normalization": False,
}


def test_one_policy_becomes_two_models():
    given = {"policy": POLICY, "obs_groups": {"policy": ["policy"], "critic": ["critic"]}}
    before = copy.deepcopy(given)
    assert upgrade_options(given) == {
        "actor": ACTOR,
        "critic": CRITIC,
        "obs_groups": {"actor": ["policy"], "critic": ["critic"]},
    }
    assert given == before


RNN = {"rnn_type": "lstm", "rnn_hidden_dim": 8, "rnn_num_layers": 1}
BARE = {name: value for name, value in POLICY.items() if "normal" not in name}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"policy": BARE, "empirical_normalization": True}, {"obs_normalization": True}),
        (
            {"policy": POLICY | {"class_name": "ActorCriticRecurrent"} | RNN},
            {"class_name": "RNNModel", **RNN},
        ),
    ],
)
def test_what_is_said_of_both_models(given, found):
    made = upgrade_options(given)
    assert all(found.items() <= made[model].items() for model in ("actor", "critic"))
    assert "empirical_normalization" not in made


def test_a_policy_that_is_distilled_becomes_a_student_and_its_teacher():
    policy = {
        key.replace("actor", "student").replace("critic", "teacher"): value
        for key, value in POLICY.items()
    }
    policy["class_name"] = "StudentTeacher"
    given = {"policy": policy, "obs_groups": {"policy": ["policy"], "teacher": ["more"]}}
    made = upgrade_options(given)
    assert made["student"] == ACTOR
    # The PPO checkpoint that provides its weights has the noise.
    assert made["teacher"] == CRITIC | {"distribution_cfg": GAUSSIAN}
    assert made["obs_groups"] == {"student": ["policy"], "teacher": ["more"]}
    assert "actor" not in made


@pytest.mark.parametrize("whose", [True, False])
def test_recurrent_students_may_have_feedforward_teachers(whose):
    sizes = {"student_hidden_dims": [8], "teacher_hidden_dims": [8], "activation": "elu"}
    rnn = {"rnn_type": "gru", "rnn_hidden_dim": 8, "rnn_num_layers": 1}
    policy = {"class_name": "StudentTeacherRecurrent", "teacher_recurrent": whose, **sizes, **rnn}
    made = upgrade_options({"policy": policy})
    assert made["student"]["class_name"] == "RNNModel"
    assert made["teacher"]["class_name"] == ("RNNModel" if whose else "MLPModel")
    assert (rnn.items() <= made["teacher"].items()) == whose


def test_models_that_say_whether_they_are_stochastic():
    noise = {"stochastic": True, "init_noise_std": 0.8, "noise_std_type": "log"}
    bare = {name: value for name, value in ACTOR.items() if name != "distribution_cfg"}
    given = {"actor": bare | noise, "critic": CRITIC | {"stochastic": False}}
    assert upgrade_options(given) == {"actor": ACTOR, "critic": CRITIC}
    given["actor"]["state_dependent_std"] = True
    kind = upgrade_options(given)["actor"]["distribution_cfg"]["class_name"]
    assert kind == "HeteroscedasticGaussianDistribution"


@pytest.mark.parametrize(
    "given",
    [
        {"actor": ACTOR, "critic": CRITIC, "obs_groups": {"actor": ["policy"]}},
        {"policy": {**POLICY, "class_name": "MyActorCritic"}},
        {"policy": ACTOR},
        {"policy": "mine"},
    ],
)
def test_options_of_version_5_and_what_cannot_be_split_are_unchanged(given):
    assert upgrade_options(given) == given


NEWER = {
    "torch_compile_mode": ("default", "5.1"),
    "actor.distribution_cfg.std_range": ([0.1, 1.0], "5.2"),
    "actor.distribution_cfg.learn_std": (False, "5.2"),
    "student.distribution_cfg.class_name": ("rsl_rl.modules:BetaDistribution", "5.3"),
    "actor.distribution_cfg.action_range": ([-2, 2], "5.3"),
    "algorithm.use_mixed_precision": (True, "5.5"),
}


@pytest.mark.parametrize("key", NEWER)
def test_an_option_is_refused_before_its_version(key, monkeypatch):
    value, first = NEWER[key]
    agent = small_agent()
    agent["student"] = {"distribution_cfg": {}}
    set_dotted(agent, key, value)
    monkeypatch.setattr(migrations, "version", lambda name: first)
    migrations.check_supported(agent)
    monkeypatch.setattr(migrations, "version", lambda name: "5.0.1")
    with pytest.raises(UsageError, match=rf"agent\.{key}.*pip install 'rsl-rl-lib>={first},<6'"):
        migrations.check_supported(agent)


OFF = {
    "torch_compile_mode": (None, "5.0.1"),
    "algorithm.use_mixed_precision": (False, "5.4.2"),
    "actor.distribution_cfg.std_range": ([1e-6, 1e6], "5.1.1"),
    "actor.distribution_cfg.learn_std": (True, "5.1.1"),
}
"""What Isaac Lab 3 writes although it changes nothing, and an rsl_rl that does not know it."""


@pytest.mark.parametrize("key", OFF)
def test_a_newer_option_that_is_off_anyway_is_dropped(key, monkeypatch):
    (value, older), agent = OFF[key], small_agent()
    set_dotted(agent, key, value)
    monkeypatch.setattr(migrations, "version", lambda name: "5.5.1")
    assert get_dotted(upgrade_options(agent), key) == value
    monkeypatch.setattr(migrations, "version", lambda name: older)
    upgraded = upgrade_options(agent)
    migrations.check_supported(upgraded)
    assert get_dotted(upgraded, key, "absent") == "absent"
    assert get_dotted(agent, key) == value
    parent = key.rpartition(".")[0]
    assert not parent or get_dotted(upgraded, parent), "what is beside it stays"


def test_the_defaults_need_nothing_newer(monkeypatch):
    monkeypatch.setattr(migrations, "version", lambda name: "5.0.1")
    migrations.check_supported(small_agent())
    assert str(VERSION) >= "5.0.1"


RUNNER = {"num_steps_per_env": 8, "max_iterations": 3, "save_interval": 5}
ALGORITHM = {"learning_rate": 1e-3, "clip_param": 0.2}
NAMES = {"policy_class_name": "ActorCriticRecurrent", "algorithm_class_name": "PPO"}
OLD_RNN = {"rnn_type": "gru", "rnn_hidden_size": 16, "rnn_num_layers": 1}
FLAT = {"seed": 1, **RUNNER, "policy": POLICY, "algorithm": {"class_name": "PPO", **ALGORITHM}}


@pytest.mark.parametrize(
    "file",
    [
        # legged_gym's, with the names of the classes in the runner's section, or without.
        {
            "seed": 1,
            "runner_class_name": "OnPolicyRunner",
            "policy": POLICY,
            "algorithm": ALGORITHM,
            "runner": {**RUNNER, "algorithm_class_name": "PPO"},
        },
        {"seed": 1, "policy": POLICY, "algorithm": ALGORITHM, "runner": RUNNER},
        # Genesis' examples': a part of the runner's options are at the top level.
        {
            "seed": 1,
            "num_steps_per_env": 8,
            "save_interval": 5,
            "policy": POLICY,
            "algorithm": {"class_name": "PPO", **ALGORITHM},
            "runner": {"max_iterations": 3},
        },
        # Of Hydra's users, with their own options beside it.
        {"algo": {"algo": "ppo", **FLAT}, "training": {"device": None}},
        FLAT,
    ],
)
def test_options_in_sections_are_read_as_the_top_level(file):
    read = without_sections(file)
    assert not read.keys() & {"runner", "algo", *NAMES}
    made = {key: upgrade_options(read)[key] for key in ("seed", *RUNNER, "actor", "critic")}
    assert made == {"seed": 1, **RUNNER, "actor": ACTOR, "critic": CRITIC}
    assert read["algorithm"] == {"class_name": "PPO", **ALGORITHM}


def test_legged_gyms_recurrent_policies():
    policy = {key: value for key, value in POLICY.items() if key != "class_name"} | OLD_RNN
    read = without_sections({"policy": policy, "runner": {**RUNNER, **NAMES}})
    actor = upgrade_options(read)["actor"]
    assert (actor["class_name"], actor["rnn_hidden_dim"]) == ("RNNModel", 16)
