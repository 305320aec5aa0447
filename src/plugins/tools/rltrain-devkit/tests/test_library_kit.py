from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from rltrain_devkit import LibraryConformance
from rltrain_devkit.kits.library_probe import differing, leaves

CORRECT = Path(__file__).with_name("reinforce_library.py").read_text()

TESTS = """
from rltrain.testing import FakeWorld
from rltrain_devkit import LibraryConformance

class TestReinforce(LibraryConformance):
    library = "reinforce"
    algorithm = "reinforce"
    agent = {"reinforce.steps": 4}
    num_envs = 4
"""

LONG_ROLLOUTS = """
    variants = {"long rollouts": {"agent": {"reinforce.steps": 6}}}
"""

LEARNS = """
    def test_it_learns(self, tmp_path):
        names = {"library": "reinforce", "algorithm": "reinforce", "log_root": str(tmp_path)}
        runs = FakeWorld(2).train(**names, num_envs=8, max_iterations=40)
        assert runs[0].result.episode_return > 60
"""


class Wrong(NamedTuple):
    old: str
    """A line of the correct library."""
    new: str
    """What stands there instead."""
    test: str
    """The one test that fails."""
    says: str
    """In its message."""


WRONG = {
    "imports torch at the top": Wrong(
        "import pickle",
        "import pickle, torch",
        "test_declaring_is_light",
        "imports numpy, torch when plugins are listed",
    ),
    "its defaults lack a required key": Wrong(
        'required=("reinforce.steps",)',
        'required=("reinforce.steps", "reinforce.name")',
        "test_the_spec_is_complete",
        "lacks reinforce.name",
    ),
    "refuses without saying what else works": Wrong(
        'instead="Take a task with continuous actions.",',
        'instead="",',
        "test_the_spec_is_complete",
        "instead is empty",
    ),
    "averages on rank 0 only": Wrong(
        "synchronize(self.sync, self.synchronized)",
        "self.session.world.rank or synchronize(self.sync, self.synchronized)",
        "test_every_rank_trains_to_the_end",
        "different collectives",
    ),
    "makes no gradient sync": Wrong(
        "self.sync = session.gradient_sync(self.synchronized)",
        "self.sync = list",
        "test_every_optimizer_averages_its_gradients",
        "No gradient sync was made",
    ),
    "does not average in one iteration": Wrong(
        "synchronize(self.sync, self.synchronized)",
        "self.iteration == 2 or synchronize(self.sync, self.synchronized)",
        "test_every_optimizer_averages_its_gradients",
        "not called in iteration 2",
    ),
    "averages twice": Wrong(
        "synchronize(self.sync, self.synchronized)",
        "[synchronize(self.sync, self.synchronized) for _ in range(2)]",
        "test_a_step_costs_one_average",
        "was called 6 times, and its optimizer made 3 steps",
    ),
    "learns from rank 0's data": Wrong(
        "self.sync = session.gradient_sync(self.synchronized)",
        "sync = session.gradient_sync(self.synchronized); "
        "self.sync = lambda given: sync([session.group.broadcast(x) for x in given])",
        "test_every_rank_learns_from_its_own_data",
        "first gradients of ranks 0 and 1 are the same",
    ),
    "forgets one parameter": Wrong(
        "self.synchronized = [p for model in models for p in model.parameters()]",
        "self.synchronized = [p for model in models for p in model.parameters()][:-1]",
        "test_every_rank_ends_with_the_same_state",
        "value.2.bias: in no gradient sync",
    ),
    "forgets to wrap a model": Wrong(
        'self.value = session.wrap_model(network(size, 1), "value")',
        "self.value = network(size, 1)",
        "test_every_rank_trains_to_the_end",
        "session.wrap_model",
    ),
    "has a learning rate for each rank": Wrong(
        'self.optimizer = torch.optim.Adam(parameters, lr=self.options["learning_rate"])',
        "self.optimizer = torch.optim.Adam(parameters, lr=0.01 + 0.001 * session.world.rank)",
        "test_every_rank_ends_with_the_same_state",
        "value.2.bias: different between ranks",
    ),
    "measures its own environments only": Wrong(
        "self.normalizer.moments += self.session.group.all_reduce(moments)",
        "self.normalizer.moments += moments",
        "test_every_rank_ends_with_the_same_state",
        "normalizer.moments: different between ranks",
    ),
    "normalizes advantages on each rank": Wrong(
        "advantages = (returns - values).detach()",
        "a = (returns - values).detach(); advantages = (a - a.mean()) / a.std()",
        "test_ranks_learn_as_one",
        "Pool over ranks what is normalized",
    ),
    "seeds environments by the local rank": Wrong(
        "observations, _ = session.env.reset()",
        "observations, _ = session.env.reset(seed=session.world.local_rank)",
        "test_environments_are_seeded_by_the_global_rank",
        "ranks 0 and 2 are the same",
    ),
    "seeds environments alike": Wrong(
        "observations, _ = session.env.reset()",
        "observations, _ = session.env.reset(seed=session.seeds.base)",
        "test_environments_are_seeded_by_the_global_rank",
        "ranks 0 and 1 are the same",
    ),
    "does not seed the learner": Wrong(
        'session.seed("learner")',
        "pass",
        "test_the_learner_is_seeded_by_the_global_rank",
        "on rank(s) 0, 1, 2, 3 it was not",
    ),
    "seeds the learner by the local rank": Wrong(
        'session.seed("learner")',
        'session.seed("learner"); __import__("torch").manual_seed(session.world.local_rank)',
        "test_the_learner_is_seeded_by_the_global_rank",
        "torch is in the same state on ranks 0, 2",
    ),
    "makes its models with a seed of its own": Wrong(
        "self.session, self.iteration = session, 0",
        "self.session, self.iteration = session, 0; torch.manual_seed(1)",
        "test_the_seed_determines_the_run",
        "A different seed gave models with the same parameters",
    ),
    "draws from the operating system": Wrong(
        "rewards.append(reward)",
        'rewards.append(reward + __import__("random").SystemRandom().random())',
        "test_the_seed_determines_the_run",
        "when the run was repeated",
    ),
    "records from 0": Wrong(
        'session.record(Scalars(self.iteration, {"loss": loss}, last))',
        'session.record(Scalars(self.iteration - 1, {"loss": loss}, last))',
        "test_iterations_are_recorded_one_by_one",
        "[0, 1, 2]",
    ),
    "records every other iteration": Wrong(
        'session.record(Scalars(self.iteration, {"loss": loss}, last))',
        'self.iteration % 2 and session.record(Scalars(self.iteration, {"loss": loss}, last))',
        "test_iterations_are_recorded_one_by_one",
        "[1, 3]",
    ),
    "writes on every rank": Wrong(
        "observations, _ = session.env.reset()",
        'observations, _ = session.env.reset(); Path(f"rank{session.world.rank}.csv").touch()',
        "test_only_rank_0_writes_and_only_through_the_session",
        "rank0.csv, rank1.csv, rank2.csv, rank3.csv",
    ),
    "writes past the session": Wrong(
        "return session.result()",
        'agent.save(session.run_folder.path / "agent.pkl"); return session.result()',
        "test_only_rank_0_writes_and_only_through_the_session",
        "agent.pkl in the run folder",
    ),
    "stops early on one rank": Wrong(
        "if session.should_stop:",
        "if session.should_stop and session.world.is_root:",
        "test_every_rank_stops_early",
        "collectives",
    ),
    "does not stop early": Wrong(
        "if session.should_stop:",
        "if self.iteration == last:",
        "test_every_rank_stops_early",
        "by rank: [3, 3]",
    ),
    "saves no checkpoint that is due": Wrong(
        "if session.should_save:",
        "if False:",
        "test_a_checkpoint_is_saved_when_it_is_due",
        "after iteration 1, 2:",
    ),
    "swallows the environment's errors": Wrong(
        "observations, reward, end, cut, _ = env.step(actions)",
        "with contextlib.suppress(Exception): "
        "observations, reward, end, cut, _ = env.step(actions)",
        "test_an_error_of_the_environment_ends_the_run",
        "ended the training was None",
    ),
    "takes a lost peer for the end": Wrong(
        "agent.run(left)",
        "with contextlib.suppress(RuntimeError): agent.run(left)",
        "test_a_lost_peer_ends_the_rank",
        "returned, as if training had ended",
    ),
    "loads a checkpoint on rank 0 only": Wrong(
        "if session.checkpoint is not None:",
        "if session.checkpoint is not None and session.world.is_root:",
        "test_every_rank_resumes_from_a_checkpoint",
        "on rank 1 differed from the checkpoint",
    ),
    "loads a checkpoint's optimizer on rank 0 only": Wrong(
        "for part, state in zip(self.parts(), states, strict=True):",
        "for part, state in list(zip(self.parts(), states))[: 3 + self.session.world.is_root]:",
        "test_every_rank_resumes_from_a_checkpoint",
        "diverged",
    ),
    "forgets its optimizer in checkpoints": Wrong(
        "return self.policy, self.value, self.normalizer, self.optimizer",
        "return self.policy, self.value, self.normalizer",
        "test_a_resumed_run_ends_as_if_it_had_never_stopped",
        "ended different when the run was stopped",
    ),
    "counts iterations anew after a checkpoint": Wrong(
        "session.iterations_left(session.config.max_iterations, agent.iteration)",
        "session.config.max_iterations",
        "test_a_resumed_run_ends_as_if_it_had_never_stopped",
        "which includes iterations before the checkpoint",
    ),
    "does not know when it is done": Wrong(
        "session.iterations_left(session.config.max_iterations, agent.iteration)",
        "session.config.max_iterations - agent.iteration",
        "test_a_finished_run_has_nothing_left_to_do",
        "resumed after the last one, and trained on",
    ),
    "saves no checkpoint": Wrong(
        'self.session.save_checkpoint("last.pkl", self.save, self.iteration)',
        "pass",
        "test_every_rank_resumes_from_a_checkpoint",
        "No checkpoint was saved",
    ),
    "saves what it does not recognize": Wrong(
        'frozenset({"reinforce", "iteration"})',
        'frozenset({"reinforce", "name"})',
        "test_every_rank_resumes_from_a_checkpoint",
        "lacks name",
    ),
    "loads a policy without its normalizer": Wrong(
        "self.normalizer.load_state_dict(states[2])",
        "pass",
        "test_a_loaded_policy_acts_as_in_training",
        "In step 0 after the checkpoint the agent has chosen",
    ),
    "draws where it is to act deterministically": Wrong(
        "return means if deterministic else torch.normal(means, self.std)",
        "return torch.normal(means, 1e-7 if deterministic else self.std)",
        "test_a_deterministic_policy_repeats_itself",
        "after reset(), the policy has chosen",
    ),
    "exports a policy without its normalizer": Wrong(
        "return (self.policy(normal(observations, self.moments)),)",
        "return (self.policy(observations),)",
        "test_a_policys_module_chooses_the_same",
        "the module holds everything from the suite's observations",
    ),
    "needs a process group when alone": Wrong(
        "self.normalizer.moments += self.session.group.all_reduce(moments)",
        "torch.distributed.all_reduce(moments); self.normalizer.moments += moments",
        "test_one_process_trains_alone",
        "process group",
    ),
}


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """Import once what each inner test run would otherwise import and forget again."""
    parameter = torch.ones(1, requires_grad=True)
    parameter.sum().backward()
    torch.optim.Adam([parameter]).step()


def rule(test):
    return getattr(LibraryConformance, test).__doc__


@pytest.mark.long
def test_the_correct_library_fails_nothing_and_learns(judge):
    assert judge.source(CORRECT, TESTS + LEARNS) == {}


@pytest.mark.long
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_library_fails_the_test_that_names_its_fault(judge, wrong):
    failed = judge.source(CORRECT.replace(wrong.old, wrong.new), TESTS)
    assert list(failed) == [wrong.test]
    assert rule(wrong.test) in failed[wrong.test]
    assert wrong.says in failed[wrong.test]


@pytest.mark.long
@pytest.mark.parametrize(("steps", "where"), [(4, "[long rollouts]"), (0, "")])
def test_a_fault_is_reported_once_and_in_a_variant_if_only_that_shows_it(judge, steps, where):
    wrong = WRONG["forgets its optimizer in checkpoints"]
    new = wrong.old.replace("return ", "return (")
    new += f")[: 4 - (self.options['steps'] > {steps})]"
    failed = judge(CORRECT.replace(wrong.old, new), TESTS + LONG_ROLLOUTS)
    assert list(failed) == [wrong.test + where]
    assert rule(wrong.test) in failed[wrong.test + where]


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_library_is_one_line_off(wrong):
    assert CORRECT.count(wrong.old) == 1
    assert "\n" not in wrong.old + wrong.new


@pytest.mark.long
def test_a_library_may_do_without_checkpoints(judge):
    wrong = WRONG["saves no checkpoint"]
    without = TESTS + "    saves_checkpoints = False\n"
    assert judge.source(CORRECT.replace(wrong.old, wrong.new), without) == {}


def test_leaves_are_named_by_their_place():
    tree = {"policy": torch.nn.Linear(1, 1), "tree": [1, {"a": 2}]}
    assert [*leaves(tree)] == ["policy.weight", "policy.bias", "tree.0", "tree.1.a"]


def test_arrays_differ_in_one_bit_or_by_absence():
    one = {"x": np.ones(2), "nan": np.array(np.nan)}
    assert differing(one, {**one, "nan": np.array(np.nan)}) == []
    assert differing(one, {**one, "x": np.nextafter(one["x"], 2)}) == ["x"]
    assert differing(one, {"x": one["x"]}) == ["nan"]


def test_every_test_of_the_kit_has_a_wrong_library():
    tests = {name for name in dir(LibraryConformance) if name.startswith("test_")}
    assert tests == {wrong.test for wrong in WRONG.values()}
