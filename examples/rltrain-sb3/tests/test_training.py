"""Short real runs on the ranks of a fake world."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import torch
from gymnasium.vector import VectorWrapper
from stable_baselines3 import PPO

from rltrain import hookimpl
from rltrain.errors import UsageError
from rltrain.records import Scalars
from rltrain.testing import FakeWorld

SMALL = {"n_steps": 16, "batch_size": 32, "n_epochs": 2}


class Watcher:
    """Records the gradients that a rank's optimizer applies, and what the writers receive."""

    def __init__(self):
        self.norms, self.rates, self.records = [], [], []

    @hookimpl(wrapper=True)
    def rltrain_wrap_model(self, model):
        self.device = next(model.parameters()).device
        model.optimizer.register_step_post_hook(self.after_step)
        return (yield)

    @hookimpl
    def rltrain_write(self, record):
        if isinstance(record, Scalars):
            self.records.append(record)

    def after_step(self, optimizer, *_):
        (group,) = optimizer.param_groups
        self.norms.append(torch.cat([p.grad.flatten() for p in group["params"]]).norm().item())
        self.rates.append(group["lr"])


class Logging(VectorWrapper):
    """Adds a logged metric to a task."""

    def step(self, actions):
        *step, info = self.env.step(actions)
        return *step, info | {"log": {"height": torch.ones(self.num_envs)}}


class LogsMore:
    """Wraps the environments in `Logging`."""

    @hookimpl(wrapper=True)
    def rltrain_make_env(self):
        return Logging((yield))


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Train briefly, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(ranks=2, agent=(), **options):
        settings = {"num_envs": 8, "max_iterations": 2, "agent": SMALL | dict(agent), **options}
        return FakeWorld(ranks).train(library="sb3", **{"observers": [Watcher], **settings})

    return run


def states(runs):
    return [run.models["policy"].state_dict() for run in runs]


def test_ranks_end_equal_with_discrete_actions_too(train):
    ours, others = train(task="rltrain/CartPole-v1")
    first, second = states([ours, others])
    assert all(torch.equal(second[name], x) for name, x in first.items())
    assert ours.result.frames == 2 * 16 * 8 * 2


def test_what_is_clipped_is_the_average(train):
    # If each rank clipped its own gradient to this norm, the average would be shorter.
    runs = train(agent={"max_grad_norm": 0.01})
    for run in runs:
        (watcher,) = run.observers
        assert len(watcher.norms) == 2 * 2 * 4
        assert watcher.norms == pytest.approx([0.01] * 16, rel=1e-3)


def test_advantages_are_normalized_where_the_options_say_so(train):
    # That ranks do it together is the kit's rule that they learn as one.
    on, off = (train(1, {"normalize_advantage": given}) for given in (True, False))
    assert not torch.equal(*(states(runs)[0]["action_net.weight"] for runs in (on, off)))


def test_with_a_huge_bound_nothing_is_clipped(train):
    norms = train(agent={"max_grad_norm": 1e9})[0].observers[0].norms
    assert max(norms) > 0.5
    assert len({round(norm, 6) for norm in norms}) > 1


def test_a_schedule_is_equal_on_all_ranks(train):
    runs = train(agent={"learning_rate": "lin_1e-3"}, max_iterations=4)
    rates = [run.observers[0].rates for run in runs]
    assert rates[0] == rates[1]
    # SB3 counts the rollout before its update, so the rate of the last update is 0.
    assert list(dict.fromkeys(rates[0])) == pytest.approx([7.5e-4, 5e-4, 2.5e-4, 0])


def test_every_iteration_is_recorded_once_with_its_own_metrics(train):
    runs = train(max_iterations=3)
    records = runs[0].observers[0].records
    assert [(r.iterations, r.frames) for r in records] == [(3, n * 2 * 16 * 8) for n in (1, 2, 3)]
    assert {"train/value_loss", "train/approx_kl", "train/std"} <= set(records[0].values)
    assert [record.values["train/n_updates"] for record in records] == [2, 4, 6]
    assert runs[1].observers[0].records == []


def test_what_the_task_logs_is_recorded(train):
    runs = train(observers=[LogsMore, Watcher])
    records = runs[0].observers[1].records
    assert [record.values["height"] for record in records] == [1.0, 1.0]


def test_the_length_is_counted_over_all_ranks(train):
    runs = train(agent={"total_timesteps": 600}, max_iterations=None)
    assert runs[0].result.iterations == 3  # 256 frames each.


def test_only_the_run_folder_is_written(train, tmp_path, monkeypatch):
    # SB3's default logger would create a folder in the temporary directory.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (run_dir,) = {Path(run.result.run_dir) for run in train()}
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    assert [path.name for path in run_dir.rglob("*.zip")] == ["ppo_2.zip"]


def test_checkpoints_are_saved_on_the_way_and_at_the_end(train, monkeypatch):
    monkeypatch.setattr("rltrain_sb3.agent.CHECKPOINT_INTERVAL", 2)
    last = Path(train(max_iterations=4)[0].result.checkpoint)
    assert last.name == "ppo_4.zip"
    assert {path.name for path in last.parent.glob("*.zip")} == {"ppo_2.zip", "ppo_4.zip"}


def test_sb3_itself_loads_the_checkpoint(train):
    runs = train()
    loaded = PPO.load(runs[0].result.checkpoint, device="cpu")
    ours = states(runs)[0]
    assert all(torch.equal(x, ours[name]) for name, x in loaded.policy.state_dict().items())
    assert loaded.max_grad_norm == 0.5


def test_iterations_and_frames_are_counted_on_after_a_checkpoint(train):
    second = train(checkpoint=train()[0].result.checkpoint, max_iterations=3)
    assert second[0].observers[0].records[0].iteration == 3
    assert PPO.load(second[0].result.checkpoint, device="cpu").num_timesteps == 3 * 16 * 8


def test_a_checkpoint_of_another_kind_is_refused(train, tmp_path):
    torch.save({"model": 1}, tmp_path / "other.pth")
    with pytest.raises(UsageError, match=r"not a checkpoint of sb3: it lacks data, policy\.opt"):
        train(checkpoint="other.pth")
    (tmp_path / "text.zip").write_text("no archive")
    with pytest.raises(UsageError, match="it is not a zip archive"):
        train(checkpoint="text.zip")
