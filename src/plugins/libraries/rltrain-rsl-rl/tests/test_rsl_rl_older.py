"""Checkpoints of rsl_rl 1 to 4 are trained on, and act, as the same models of rsl_rl 5 do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from rsl_rl_stubs import LocalSession, PointEnv, recurrent, small_agent

from rltrain.options import set_dotted
from rltrain.testing import FakeWorld, differing
from rltrain_rsl_rl.run.library import RslRlLibrary

TASK = "rltrain/CartPoleContinuous-v1"
SHORT = {
    "num_steps_per_env": 16,
    "algorithm.num_learning_epochs": 2,
    "algorithm.num_mini_batches": 2,
    "actor.obs_normalization": True,
    "critic.obs_normalization": True,
}
CASES = {
    "plain": {},
    "log": {"actor.distribution_cfg.std_type": "log"},
    "recurrent": recurrent("lstm"),
}
RATE = 1e-3
ROLES = {"ppo": ("actor", "critic"), "distillation": ("student", "teacher")}


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


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train a case once, and return its checkpoint without the ranks' states beside it."""
    found = {}

    def of(case, algorithm="ppo"):
        if (case, algorithm) not in found:
            folder = tmp_path_factory.mktemp("trained")
            teacher = of(case)[0] if algorithm == "distillation" else None
            options = CASES[case] if algorithm == "ppo" else {}
            agent = (SHORT | options) if algorithm == "ppo" else {"num_steps_per_env": 16}
            agent |= {"algorithm.learning_rate": RATE}
            [run] = FakeWorld(1).train(
                library="rsl_rl",
                task=TASK,
                algorithm=algorithm,
                agent=agent,
                num_envs=8,
                max_iterations=2,
                log_root=str(folder),
                checkpoint=str(teacher) if teacher else None,
            )
            file = Path(shutil.copy(run.result.checkpoint, folder / "model_1.pt"))
            found[case, algorithm] = file, agent
        return found[case, algorithm]

    return of


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("case", "algorithm"), [*((case, "ppo") for case in CASES), ("plain", "distillation")]
)
def test_training_continues_with_a_fresh_optimizer(case, algorithm, version, trained, tmp_path):
    file, agent = trained(case, algorithm)
    saved = torch.load(file)
    old = tmp_path / "old.pt"
    if version == 1:  # It did not save how much its normalizers had seen.
        for role in ROLES[algorithm]:
            for key, value in saved[f"{role}_state_dict"].items():
                if key.endswith(".count"):
                    value.fill_(10**8)
    (group,) = saved["optimizer_state_dict"]["param_groups"]
    saved["optimizer_state_dict"] = {"state": {}, "param_groups": [{**group, "lr": RATE}]}
    file = tmp_path / "model_1.pt"
    torch.save(saved, file)
    torch.save(older(saved, version, ROLES[algorithm]), old)
    (today,), (before,) = (
        FakeWorld(1).train(
            library="rsl_rl",
            task=TASK,
            algorithm=algorithm,
            agent=agent,
            num_envs=8,
            max_iterations=4,
            log_root=str(tmp_path / str(index)),
            checkpoint=str(path),
        )
        for index, path in enumerate((file, old))
    )
    assert today.result.iterations == before.result.iterations == 2
    # A teacher acts without noise.
    apart = [name for name in differing([today, before]) if "teacher.distribution" not in name]
    assert not apart


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_it_acts_as_a_file_of_today(version, tmp_path):
    agent = small_agent()
    for key, value in SHORT.items():
        set_dotted(agent, key, value)
    session = LocalSession(tmp_path, agent, PointEnv())
    RslRlLibrary().rltrain_train(session)
    file = tmp_path / "checkpoints/model_2.pt"
    saved, old = torch.load(file), tmp_path / "old.pt"
    torch.save(older(saved, version, ROLES["ppo"]), old)
    actions = []
    for path in (file, old):
        loaded = LocalSession(tmp_path, agent, PointEnv(), checkpoint=path)
        policy = RslRlLibrary().rltrain_load_policy(loaded)
        actions.append(policy.act(loaded.env.reset(seed=1)[0]))
    assert torch.equal(*actions)
