"""The kit of libraries: the template passes, each wrong one fails the matching test alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rltrain_devkit import LibraryConformance
from rltrain_devkit.kits.library_probe import differing, leaves

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


def seeded(by):
    return RESET.replace("()", f"(seed=session.{by})")


OWN_SEED = "torch.manual_seed(session.world.local_rank)"
AGENT = 'torch.save(1, session.run_folder.path / "agent.pkl")'
DRAWN = "Normal(policy.mean, 1e-7).sample()"
ALONE = "torch.distributed.all_reduce(sums.clone())"
FORGIVES = """        try:
            return self.train(session)
        except RuntimeError:
            return session.result()

    def train(self, session: Session) -> TrainResult:
"""

IMPORT = "from collections.abc import Iterable"
ADVICE = '"take a task with continuous actions, such as rltrain/CartPoleContinuous-v1."'
MAKES = "sync = session.gradient_sync(parameters)"
BROADCASTS = (
    "own = session.gradient_sync(parameters); "
    "sync = lambda given: own([session.group.broadcast(x) for x in given])"
)
OWN_RATE = "lr=0.01 + 0.001 * session.world.rank)"
LOSS = "(log_probs * errors.detach()).mean()"
NORMALIZED = "(log_probs * (errors - errors.mean()).detach() / errors.detach().std()).mean()"
OPTIONS = "options = session.config.agent\n"
SYSTEM = "rewards + __import__('random').SystemRandom().random()"
FIRST = "session.record(Scalars(iteration - 1, {}, iterations=last))"
WRITES = 'open(f"rank{session.world.rank}.csv", "w").close()'
SUPPRESSES = "with __import__('contextlib').suppress(Exception)"
LOADS = 'optimizer.load_state_dict(saved["optimizer"])'
GROWS = "parameters[0].data.mul_(1 + session.world.rank)"
LEFT = 'session.iterations_left(options["iterations"], done)'
SAVED = 'frozenset({"model", "optimizer", "iteration"})'
MODEL = 'model.load_state_dict(load(session)["model"])'
BARE = 'model.load_state_dict({**load(session)["model"], "moments": model.moments})'

WRONG = {
    "declaring_is_light": [
        ("torch", IMPORT, f"import torch; {IMPORT}", "imports numpy, torch when plugins are"),
    ],
    "the_spec_is_complete": [
        ("defaults", 'required=("steps", "gamma")', 'required=("steps", "name")', "lacks name"),
        ("a refusal without advice", ADVICE, '""', "instead is empty"),
    ],
    "every_rank_trains_to_the_end": [
        ("rank 0 alone averages", SYNC, f"session.world.rank or {SYNC}", "different collectives"),
        ("a model is not wrapped", WRAP, "pass", "session.wrap_model"),
    ],
    "every_optimizer_averages_its_gradients": [
        ("no sync", MAKES, "sync = list", "No gradient sync was made"),
        ("not once", SYNC, f"iteration == 2 or {SYNC}", "not called in iteration 2"),
    ],
    "a_step_costs_one_average": [
        ("twice", SYNC, f"[{SYNC} for _ in range(2)]", "called 6 times, and its optimizer made 3"),
    ],
    "every_rank_learns_from_its_own_data": [
        ("rank 0's", MAKES, BROADCASTS, "first gradients of ranks 0 and 1 are the same"),
    ],
    "every_rank_ends_with_the_same_state": [
        ("one is left", WRAP, f"{WRAP}; parameters = parameters[:-1]", "bias: in no gradient sync"),
        ("rates", 'lr=options["learning_rate"])', OWN_RATE, "value.2.bias: different between"),
        ("own moments", POOL, "self.moments += sums", "moments: different between ranks"),
    ],
    "ranks_learn_as_one": [("own", LOSS, NORMALIZED, "Pool over ranks what is normalized")],
    "environments_are_seeded_by_the_global_rank": [
        ("local", RESET, seeded("world.local_rank"), "ranks 0 and 2 are the same"),
        ("alike", RESET, seeded("seeds.base"), "ranks 0 and 1 are the same"),
    ],
    "the_learner_is_seeded_by_the_global_rank": [
        ("not", SEED, "pass", "on rank(s) 0, 1, 2, 3 it was not"),
        ("local", SEED, f"{SEED}; {OWN_SEED}", "torch is in the same state on ranks 0, 2"),
    ],
    "the_seed_determines_the_run": [
        ("one", OPTIONS, f"{OPTIONS[:-1]}; torch.manual_seed(1)\n", "models with the same para"),
        ("none", STEP, f"{STEP}; rewards = {SYSTEM}", "when the run was repeated"),
    ],
    "iterations_are_recorded_one_by_one": [
        ("from 0", END, ends(FIRST), "[0, 1, 2]"),
        ("every other", END, ends("iteration % 2 and session.record(scalars)"), "[1, 3]"),
    ],
    "only_rank_0_writes_and_only_through_the_session": [
        ("all", RESET, f"{WRITES}; {RESET}", "rank0.csv, rank1.csv, rank2.csv, rank3.csv"),
        ("past it", RESULT, f"{AGENT}; {RESULT}", "agent.pkl in the run folder"),
    ],
    "every_rank_stops_early": [
        ("one", "if over:", "if over and session.world.is_root:", "collectives"),
        ("none", "if over:", "if iteration == last:", "by rank: [3, 3]"),
    ],
    "a_checkpoint_is_saved_when_it_is_due": [("no", END, ends(saves=LAST), "iteration 1, 2:")],
    "an_error_of_the_environment_ends_the_run": [
        ("swallowed", STEP, f"{SUPPRESSES}: {STEP}", "ended the training was None"),
    ],
    "a_lost_peer_ends_the_rank": [
        ("the end", TRAIN, TRAIN + FORGIVES, "returned, as if training had ended"),
    ],
    "every_rank_resumes_from_a_checkpoint": [
        ("rank 0", WRAP, f"{WRAP}; session.checkpoint is None or {GROWS}", "on rank 1 differed"),
        ("optimizer of rank 0", LOADS, f"session.world.rank or {LOADS}", "diverged"),
        ("none", END, ends(saves="session.should_save"), "No checkpoint was saved"),
        ("unknown", SAVED, 'frozenset({"model", "name"})', "lacks name"),
    ],
    "a_resumed_run_ends_as_if_it_had_never_stopped": [
        ("its optimizer", LOADS, "pass", "ended different when the run was stopped"),
        ("counted anew", LEFT, 'options["iterations"]', "includes iterations before the checkp"),
    ],
    "a_finished_run_has_nothing_left_to_do": [
        ("goes on", LEFT, 'options["iterations"] - done', "after the last one, and trained on"),
    ],
    "a_loaded_policy_acts_as_in_training": [
        ("no normalizer", MODEL, BARE, "In step 0 after the checkpoint the agent has chosen"),
    ],
    "a_deterministic_policy_repeats_itself": [
        ("draws", "return policy.mean if", f"return {DRAWN} if", "after reset(), the policy has"),
    ],
    "a_policys_module_chooses_the_same": [
        ("bare", "(self.model.normal(observations))", "(observations)", "the module holds"),
    ],
    "one_process_trains_alone": [("group", POOL, f"{ALONE}; {POOL}", "process group")],
}


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """Import once what each inner test run would otherwise import and forget again."""
    parameter = torch.ones(1, requires_grad=True)
    parameter.sum().backward()
    torch.optim.Adam([parameter]).step()


LEARNS = """    def test_it_learns(self, fake_world):
        options = {"library": self.library, "agent": {"learning_rate": 0.01}}
        runs = fake_world(2).train(**options, num_envs=8, max_iterations=40)
        assert runs[0].result.episode_return > 60

    library ="""


@pytest.mark.slow
def test_the_correct_library_fails_nothing_and_learns(judge):
    assert judge("library", ("    library =", LEARNS)) == {}


@pytest.mark.slow
def test_a_wrong_library_fails_the_test_that_names_its_fault(judge, fault):
    failed = judge("library", (fault.old, fault.new))
    fault.check(failed)
    rule = f"test_{fault.rule}"
    assert getattr(LibraryConformance, rule).__doc__ in failed[rule]


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "where"), [(8, "[long rollouts]"), (0, "")])
def test_a_fault_is_reported_once_and_in_a_variant_if_only_that_shows_it(judge, steps, where):
    longer = '    variants = {"long rollouts": {"agent": {"steps": 12}}}\n    library ='
    forgets = LOADS, f'options["steps"] > {steps} or {LOADS}'
    failed = judge("library", ("    library =", longer), forgets)
    assert list(failed) == [f"test_a_resumed_run_ends_as_if_it_had_never_stopped{where}"]


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
    assert tests == {f"test_{rule}" for rule in WRONG}
