from __future__ import annotations

import copy

import pytest
import torch
from gymnasium.spaces import Box
from rsl_rl.runners import OnPolicyRunner
from rsl_rl_stubs import LocalSession, PointEnv, small_agent

from rltrain.errors import UsageError
from rltrain.records import Scalars
from rltrain.testing import FakeWorld
from rltrain.types import World
from rltrain_rsl_rl.run.env import RslRlEnv
from rltrain_rsl_rl.run.library import RslRlLibrary
from rltrain_rsl_rl.run.runner import SessionRunner


def train(session: LocalSession):
    return RslRlLibrary().rltrain_train(session)


def test_each_iteration_is_recorded(tmp_path, capsys):
    session = LocalSession(tmp_path)
    assert train(session).iterations == 3
    scalars = [item for item in session.records if isinstance(item, Scalars)]
    assert [(item.iteration, item.iterations) for item in scalars] == [(1, 3), (2, 3), (3, 3)]
    values = scalars[-1].values
    assert {"Loss/value", "Loss/surrogate", "Loss/learning_rate", "Policy/mean_std"} <= set(values)
    assert values["Episode/distance"] == 1.5
    assert scalars[0].values["Episode/later"] > 2.0  # The first step has not logged it.
    assert all(type(value) is float for value in values.values())
    assert {"time/rollout", "time/update"} <= set(values)
    assert not [name for name in values if name.startswith(("Train/", "Perf/"))]
    assert "Learning iteration" not in capsys.readouterr().out


def test_the_session_is_called_in_order_and_before_the_first_record(tmp_path):
    session = LocalSession(tmp_path)
    train(session)
    assert session.calls == [
        "wrap actor",
        "wrap critic",
        "gradient_sync",
        "watch optimizer",
        "seed learner",
    ]
    wanted = [p for model in session.models.values() for p in model.parameters()]
    assert [id(p) for p in session.parameters] == [id(p) for p in wanted]


def test_max_iterations_of_the_run_win_over_the_files(tmp_path):
    session = LocalSession(tmp_path, max_iterations=1)
    train(session)
    assert list(session.iterations()) == [1]


def test_a_missing_number_of_iterations_is_reported(tmp_path):
    agent = small_agent()
    del agent["max_iterations"]
    with pytest.raises(UsageError, match="--max-iterations"):
        train(LocalSession(tmp_path, agent))


def test_the_options_of_the_run_are_not_changed(tmp_path):
    agent = small_agent()
    before = copy.deepcopy(agent)
    train(LocalSession(tmp_path, agent))
    assert agent == before


def test_only_checkpoints_are_written_and_each_once(tmp_path):
    session = LocalSession(tmp_path)
    train(session)
    # save_interval is 2, and the last iteration has index 2.
    assert session.saved() == [("model_0.pt", 1), ("model_2.pt", 3)]
    files = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert files == ["model_0.pt", "model_2.pt"]


def test_a_rank_that_is_not_the_root_writes_nothing(tmp_path):
    session = LocalSession(tmp_path, world=World(rank=1, local_rank=1))
    train(session)
    assert list(session.iterations()) == [1, 2, 3]
    assert not list(tmp_path.iterdir())


def test_rsl_rls_own_runner_loads_the_checkpoint(tmp_path):
    session = LocalSession(tmp_path)
    train(session)
    stock = OnPolicyRunner(RslRlEnv(PointEnv(), "cpu"), small_agent())
    stock.load(str(tmp_path / "checkpoints/model_2.pt"))
    assert stock.current_learning_iteration == 2
    trained = session.models["actor"].state_dict()
    loaded = stock.alg.get_policy().state_dict()
    assert all(torch.equal(loaded[name], trained[name]) for name in trained)


def test_a_resumed_run_continues_the_iteration_count(tmp_path):
    train(LocalSession(tmp_path / "first"))
    checkpoint = tmp_path / "first/checkpoints/model_2.pt"
    session = LocalSession(tmp_path / "second", checkpoint=checkpoint, max_iterations=5)
    train(session)
    scalars = [item for item in session.records if isinstance(item, Scalars)]
    assert [(item.iteration, item.iterations) for item in scalars] == [(4, 5), (5, 5)]
    assert session.saved()[-1] == ("model_4.pt", 5)


@pytest.mark.parametrize("model", ["actor", "critic"])
def test_a_resumed_run_goes_on_with_recurrent_states(tmp_path, model):
    agent = small_agent()
    for name in ("actor", "critic"):
        agent[name] |= {"class_name": "RNNModel", "rnn_type": "gru", "rnn_hidden_dim": 8}
    first = LocalSession(tmp_path / "first", agent)
    train(first)
    state = first.rank_states["model_2.pt"]
    session = LocalSession(
        *(tmp_path / "second", agent),
        checkpoint=tmp_path / "first/checkpoints/model_2.pt",
        rank_state=state,
    )
    resumed = SessionRunner(RslRlEnv(session.env, "cpu"), copy.deepcopy(agent), session)
    resumed.connect()
    saved = state["algorithm"][model]
    assert saved.abs().sum() > 0
    assert torch.equal(getattr(resumed.alg, model).get_hidden_state(), saved)


def test_a_resumed_run_has_models_learning_rate_and_normalizer(tmp_path, monkeypatch):
    train(LocalSession(tmp_path / "first", small_agent(learning_rate=0.0123, schedule="fixed")))
    path = tmp_path / "first/checkpoints/model_2.pt"
    session = LocalSession(tmp_path / "second", checkpoint=path, max_iterations=4)
    learned = {}

    def learn(made, *_):
        learned.update(state=made.alg.save(), learning_rate=made.alg.learning_rate)

    monkeypatch.setattr(OnPolicyRunner, "learn", learn)
    train(session)
    saved = torch.load(path, weights_only=False)
    for name in ("actor_state_dict", "critic_state_dict"):
        assert all(
            torch.equal(learned["state"][name][key], saved[name][key]) for key in saved[name]
        )
    assert saved["actor_state_dict"]["obs_normalizer.count"] > 0
    assert learned["learning_rate"] == 0.0123


@pytest.mark.parametrize("content", [{"model": 1}, None])
def test_a_checkpoint_that_does_not_fit_is_a_usage_error(tmp_path, content):
    path = tmp_path / "wrong.pt"
    path.write_text("no checkpoint") if content is None else torch.save(content, path)
    reason = "does not fit this run" if content is not None else "it cannot be read"
    with pytest.raises(UsageError, match=rf"wrong\.pt: {reason}"):
        train(LocalSession(tmp_path, checkpoint=path))


def test_an_early_stop_saves_what_was_learned(tmp_path):
    session = LocalSession(tmp_path, stop_at=2, max_iterations=50)
    train(session)
    assert list(session.iterations()) == [1, 2]
    assert session.saved() == [("model_0.pt", 1), ("model_1.pt", 2)]


def test_stray_variables_of_another_launcher_are_not_read(tmp_path, monkeypatch):
    for name, value in {"WORLD_SIZE": "8", "RANK": "3", "LOCAL_RANK": "3"}.items():
        monkeypatch.setenv(name, value)
    session = LocalSession(tmp_path)
    train(session)
    assert list(session.iterations()) == [1, 2, 3]
    assert not torch.distributed.is_initialized()


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
def test_parameters_that_actor_and_critic_share_are_synchronized_once(tmp_path):
    class ImageEnv(PointEnv):
        def __init__(self):
            super().__init__()
            self.single_observation_space = Box(-10, 10, (8, 8, 1))

        def _observe(self):
            return self.position.reshape(-1, 1, 1, 1).expand(-1, 8, 8, 1)

    agent = small_agent(share_cnn_encoders=True)
    cnn = {"output_channels": [2], "kernel_size": [3]}
    for model in ("actor", "critic"):
        agent[model].update(class_name="CNNModel", cnn_cfg=cnn, obs_normalization=False)
    session = LocalSession(tmp_path, agent, ImageEnv(), max_iterations=1)
    train(session)
    each = [p for model in session.models.values() for p in model.parameters()]
    assert len({id(p) for p in session.parameters}) == len(session.parameters) < len(each)


@pytest.mark.parametrize("name", ["PPO", "rsl_rl.algorithms:PPO"])
def test_gradients_pass_the_gradient_sync_when_the_run_is_distributed(tmp_path, name):
    synchronized = []

    class Observed(LocalSession):
        def gradient_sync(self, parameters, **options):
            sync = super().gradient_sync(parameters, **options)
            return lambda gradients: synchronized.append(len(gradients)) or sync(gradients)

    agent = small_agent()
    agent["algorithm"]["class_name"] = name
    session = Observed(tmp_path, agent, distributed=True, nproc_per_node=1)
    # One rank of a distributed run: PPO's own collectives need a default group.
    FakeWorld(1, torch=True).run(lambda group: train(session))
    assert synchronized == [len(session.parameters)] * 3 * 2 * 2
