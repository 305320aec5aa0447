"""Checkpoints of rsl_rl 1 to 4 are trained on, and act, as the same models of rsl_rl 5 do."""

from __future__ import annotations

import functools

import pytest
import torch
from rsl_rl_stubs import LocalSession, recurrent, small_agent

from rltrain.options import set_dotted
from rltrain.types import TaskInfo
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
    f"{role}.{key}": value
    for roles in ROLES.values()
    for role in roles
    for key, value in {"hidden_dims": [8], "obs_normalization": True}.items()
}


def older(saved, version, roles):
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
    files = {"today": saved, "old": older(saved, version, ROLES[algorithm])}
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
