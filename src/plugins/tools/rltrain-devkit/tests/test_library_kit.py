from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch

from rltrain_devkit import LibraryConformance
from rltrain_devkit.kits.library_probe import differing, leaves


class Wrong(NamedTuple):
    old: str
    """A text of the template."""
    new: str
    """What stands there instead."""
    test: str
    """The one test that fails."""
    says: str
    """In its message."""


SYNC = "synchronize(sync, parameters)"
WRAP = 'session.wrap_model(model, "policy")'
SEED = 'session.seed("learner")'
RESET = "observations, _ = session.env.reset()"
STEP = "following, rewards, terminations, truncations, _ = env.step(actions)"
END = "over = session.end_iteration("
RESULT = "return session.result()"
POOL = "self.moments += group.all_reduce(sums)"
TRAIN = "    def rltrain_train(self, session: Session) -> TrainResult:\n"

OWN_END = """over = (
                lambda scalars, name, save, **_: (
                    RECORD,
                    (SAVES) and session.save_checkpoint(name, save, iteration),
                    session.should_stop,
                )[-1]
            )("""
LAST = "iteration == last or session.should_stop"


def ends(record="session.record(scalars)", saves=f"{LAST} or session.should_save"):
    """Return the end of an iteration, as a library may have it without `end_iteration`."""
    return OWN_END.replace("RECORD", record).replace("SAVES", saves)


FORGIVES = """        try:
            return self.train(session)
        except RuntimeError:
            return session.result()

    def train(self, session: Session) -> TrainResult:
"""

WRONG = {
    "imports torch at the top": Wrong(
        "from collections.abc import Iterable",
        "import torch; from collections.abc import Iterable",
        "test_declaring_is_light",
        "imports numpy, torch when plugins are listed",
    ),
    "its defaults lack a required key": Wrong(
        'required=("steps", "gamma")',
        'required=("steps", "name")',
        "test_the_spec_is_complete",
        "lacks name",
    ),
    "refuses without saying what else works": Wrong(
        '"take a task with continuous actions, such as rltrain/CartPoleContinuous-v1."',
        '""',
        "test_the_spec_is_complete",
        "instead is empty",
    ),
    "averages on rank 0 only": Wrong(
        SYNC,
        f"session.world.rank or {SYNC}",
        "test_every_rank_trains_to_the_end",
        "different collectives",
    ),
    "makes no gradient sync": Wrong(
        "sync = session.gradient_sync(parameters)",
        "sync = list",
        "test_every_optimizer_averages_its_gradients",
        "No gradient sync was made",
    ),
    "does not average in one iteration": Wrong(
        SYNC,
        f"iteration == 2 or {SYNC}",
        "test_every_optimizer_averages_its_gradients",
        "not called in iteration 2",
    ),
    "averages twice": Wrong(
        SYNC,
        f"[{SYNC} for _ in range(2)]",
        "test_a_step_costs_one_average",
        "was called 6 times, and its optimizer made 3 steps",
    ),
    "learns from rank 0's data": Wrong(
        "sync = session.gradient_sync(parameters)",
        "own = session.gradient_sync(parameters); "
        "sync = lambda given: own([session.group.broadcast(x) for x in given])",
        "test_every_rank_learns_from_its_own_data",
        "first gradients of ranks 0 and 1 are the same",
    ),
    "forgets one parameter": Wrong(
        WRAP,
        f"{WRAP}; parameters = parameters[:-1]",
        "test_every_rank_ends_with_the_same_state",
        "value.2.bias: in no gradient sync",
    ),
    "forgets to wrap a model": Wrong(
        WRAP, "pass", "test_every_rank_trains_to_the_end", "session.wrap_model"
    ),
    "has a learning rate for each rank": Wrong(
        'lr=options["learning_rate"])',
        "lr=0.01 + 0.001 * session.world.rank)",
        "test_every_rank_ends_with_the_same_state",
        "value.2.bias: different between ranks",
    ),
    "measures its own environments only": Wrong(
        POOL,
        "self.moments += sums",
        "test_every_rank_ends_with_the_same_state",
        "moments: different between ranks",
    ),
    "normalizes advantages on each rank": Wrong(
        "(log_probs * errors.detach()).mean()",
        "(log_probs * (errors - errors.mean()).detach() / errors.detach().std()).mean()",
        "test_ranks_learn_as_one",
        "Pool over ranks what is normalized",
    ),
    "seeds environments by the local rank": Wrong(
        RESET,
        RESET.replace("()", "(seed=session.world.local_rank)"),
        "test_environments_are_seeded_by_the_global_rank",
        "ranks 0 and 2 are the same",
    ),
    "seeds environments alike": Wrong(
        RESET,
        RESET.replace("()", "(seed=session.seeds.base)"),
        "test_environments_are_seeded_by_the_global_rank",
        "ranks 0 and 1 are the same",
    ),
    "does not seed the learner": Wrong(
        SEED,
        "pass",
        "test_the_learner_is_seeded_by_the_global_rank",
        "on rank(s) 0, 1, 2, 3 it was not",
    ),
    "seeds the learner by the local rank": Wrong(
        SEED,
        f"{SEED}; torch.manual_seed(session.world.local_rank)",
        "test_the_learner_is_seeded_by_the_global_rank",
        "torch is in the same state on ranks 0, 2",
    ),
    "makes its models with a seed of its own": Wrong(
        "options = session.config.agent\n",
        "options = session.config.agent; torch.manual_seed(1)\n",
        "test_the_seed_determines_the_run",
        "A different seed gave models with the same parameters",
    ),
    "draws from the operating system": Wrong(
        STEP,
        f"{STEP}; rewards = rewards + __import__('random').SystemRandom().random()",
        "test_the_seed_determines_the_run",
        "when the run was repeated",
    ),
    "records from 0": Wrong(
        END,
        ends("session.record(Scalars(iteration - 1, {}, iterations=last))"),
        "test_iterations_are_recorded_one_by_one",
        "[0, 1, 2]",
    ),
    "records every other iteration": Wrong(
        END,
        ends("iteration % 2 and session.record(scalars)"),
        "test_iterations_are_recorded_one_by_one",
        "[1, 3]",
    ),
    "writes on every rank": Wrong(
        RESET,
        f'open(f"rank{{session.world.rank}}.csv", "w").close(); {RESET}',
        "test_only_rank_0_writes_and_only_through_the_session",
        "rank0.csv, rank1.csv, rank2.csv, rank3.csv",
    ),
    "writes past the session": Wrong(
        RESULT,
        f'torch.save(1, session.run_folder.path / "agent.pkl"); {RESULT}',
        "test_only_rank_0_writes_and_only_through_the_session",
        "agent.pkl in the run folder",
    ),
    "stops early on one rank": Wrong(
        "if over:",
        "if over and session.world.is_root:",
        "test_every_rank_stops_early",
        "collectives",
    ),
    "does not stop early": Wrong(
        "if over:", "if iteration == last:", "test_every_rank_stops_early", "by rank: [3, 3]"
    ),
    "saves no checkpoint that is due": Wrong(
        END, ends(saves=LAST), "test_a_checkpoint_is_saved_when_it_is_due", "after iteration 1, 2:"
    ),
    "swallows the environment's errors": Wrong(
        STEP,
        f"with __import__('contextlib').suppress(Exception): {STEP}",
        "test_an_error_of_the_environment_ends_the_run",
        "ended the training was None",
    ),
    "takes a lost peer for the end": Wrong(
        TRAIN,
        TRAIN + FORGIVES,
        "test_a_lost_peer_ends_the_rank",
        "returned, as if training had ended",
    ),
    "loads a checkpoint on rank 0 only": Wrong(
        WRAP,
        f"{WRAP}; session.checkpoint is None or parameters[0].data.mul_(1 + session.world.rank)",
        "test_every_rank_resumes_from_a_checkpoint",
        "on rank 1 differed from the checkpoint",
    ),
    "loads a checkpoint's optimizer on rank 0 only": Wrong(
        "optimizer.load_state_dict(saved",
        "session.world.rank or optimizer.load_state_dict(saved",
        "test_every_rank_resumes_from_a_checkpoint",
        "diverged",
    ),
    "forgets its optimizer in checkpoints": Wrong(
        'optimizer.load_state_dict(saved["optimizer"])',
        "pass",
        "test_a_resumed_run_ends_as_if_it_had_never_stopped",
        "ended different when the run was stopped",
    ),
    "counts iterations anew after a checkpoint": Wrong(
        'session.iterations_left(options["iterations"], done)',
        'options["iterations"]',
        "test_a_resumed_run_ends_as_if_it_had_never_stopped",
        "which includes iterations before the checkpoint",
    ),
    "does not know when it is done": Wrong(
        'session.iterations_left(options["iterations"], done)',
        'options["iterations"] - done',
        "test_a_finished_run_has_nothing_left_to_do",
        "resumed after the last one, and trained on",
    ),
    "saves no checkpoint": Wrong(
        END,
        ends(saves="session.should_save"),
        "test_every_rank_resumes_from_a_checkpoint",
        "No checkpoint was saved",
    ),
    "saves what it does not recognize": Wrong(
        'frozenset({"model", "optimizer", "iteration"})',
        'frozenset({"model", "name"})',
        "test_every_rank_resumes_from_a_checkpoint",
        "lacks name",
    ),
    "loads a policy without its normalizer": Wrong(
        'model.load_state_dict(load(session)["model"])',
        'model.load_state_dict({**load(session)["model"], "moments": model.moments})',
        "test_a_loaded_policy_acts_as_in_training",
        "In step 0 after the checkpoint the agent has chosen",
    ),
    "draws where it is to act deterministically": Wrong(
        "return policy.mean if",
        "return Normal(policy.mean, 1e-7).sample() if",
        "test_a_deterministic_policy_repeats_itself",
        "after reset(), the policy has chosen",
    ),
    "exports a policy without its normalizer": Wrong(
        "self.model.mean(self.model.normal(observations))",
        "self.model.mean(observations)",
        "test_a_policys_module_chooses_the_same",
        "the module holds everything from the suite's observations",
    ),
    "needs a process group when alone": Wrong(
        POOL,
        f"torch.distributed.all_reduce(sums.clone()); {POOL}",
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


LEARNS = """    def test_it_learns(self, fake_world):
        options = {"library": self.library, "agent": {"learning_rate": 0.01}}
        runs = fake_world(2).train(**options, num_envs=8, max_iterations=40)
        assert runs[0].result.episode_return > 60

    library ="""


@pytest.mark.slow
def test_the_correct_library_fails_nothing_and_learns(judge):
    assert judge("library", ("    library =", LEARNS)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_library_fails_the_test_that_names_its_fault(judge, wrong):
    failed = judge("library", (wrong.old, wrong.new))
    assert list(failed) == [wrong.test]
    assert rule(wrong.test) in failed[wrong.test]
    assert wrong.says in failed[wrong.test]


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "where"), [(8, "[long rollouts]"), (0, "")])
def test_a_fault_is_reported_once_and_in_a_variant_if_only_that_shows_it(judge, steps, where):
    wrong = WRONG["forgets its optimizer in checkpoints"]
    longer = '    variants = {"long rollouts": {"agent": {"steps": 12}}}\n    library ='
    forgets = wrong.old, f'options["steps"] > {steps} or {wrong.old}'
    failed = judge("library", ("    library =", longer), forgets)
    assert list(failed) == [wrong.test + where]
    assert rule(wrong.test) in failed[wrong.test + where]


@pytest.mark.slow
def test_a_library_may_do_without_checkpoints(judge):
    without = "    library =", "    saves_checkpoints = False\n    library ="
    assert judge("library", (END, ends(saves="False")), without) == {}


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
