"""The kit of gradient syncs: the template passes, each wrong one fails the matching test."""

from __future__ import annotations

import pytest

GIVEN = "given = torch.zeros_like(like) if gradient is None else gradient"
MEANS = "return [self._mean(gradient, like) if count else None for gradient, like, count in each]"
RETURN = 'return self._group.all_reduce(given.detach(), "mean")'


def then(last):
    """Return what returns something else than the means, `means`."""
    return f"{MEANS.replace('return', 'means =')}; return {last}"


WRONG = {
    "adds up gradients": (RETURN, RETURN.replace("mean", "sum"), "test_gradients_are_averaged"),
    "divides by two on every number of ranks": (
        RETURN,
        f"{RETURN.replace('mean', 'sum')} / 2",
        "test_gradients_are_averaged",
    ),
    "forgets the last parameter": (
        MEANS,
        then("[*means[:-1], gradients[-1]]"),
        "test_gradients_are_averaged",
    ),
    "forgets parameters of other dtypes": (
        MEANS,
        then(
            "[x if p.itemsize == 4 else g for x, g, p in zip(means, gradients, self._parameters)]"
        ),
        "test_gradients_are_averaged",
    ),
    "makes zeros of what is not finite": (
        GIVEN,
        f"{GIVEN}.nan_to_num(0, 0, 0)",
        "test_nan_and_infinity_reach_every_rank",
    ),
    "imports torch at the top": (
        "from collections.abc import Iterable",
        "import torch; from collections.abc import Iterable",
        "test_declaring_is_light",
    ),
    "returns float32 only": (RETURN, f"{RETURN}.float()", "test_the_structure_is_kept"),
    "loses the shape": (RETURN, f"{RETURN}.flatten()", "test_the_structure_is_kept"),
    "makes zeros of None": (" if count else None", "", "test_none_on_every_rank_stays_none"),
    "skips what is None on this rank": (
        'counts = self._group.all_reduce(self._parameters[0].new_tensor(given), "sum").tolist()',
        "counts = given",
        "test_none_on_some_ranks_counts_as_zeros",
    ),
    "averages over the ranks that have a gradient": (
        "self._mean(gradient, like) if",
        "self._mean(gradient, like) * self._group.world_size / count if",
        "test_none_on_some_ranks_counts_as_zeros",
    ),
    "leaves an old gradient in the buffer": (
        GIVEN,
        "given = vars(self).setdefault(str(id(like)), torch.zeros_like(like)); "
        "gradient is None or given.copy_(gradient)",
        "test_none_on_some_ranks_counts_as_zeros",
    ),
    "averages the first gradients for ever": (
        GIVEN,
        GIVEN.replace("else gradient", "else vars(self).setdefault(str(id(like)), gradient)"),
        "test_calls_do_not_disturb_each_other",
    ),
    "rounds differently on each rank": (
        RETURN,
        f"{RETURN}.mul_(1 + 1e-6 * self._group.rank)",
        "test_ranks_get_the_same_bytes",
    ),
    "adds in an order of the rank's own": (
        RETURN,
        "xs = [torch.tensor(x) for x in self._group.gather_objects(given.detach().numpy())]; "
        "r = self._group.rank; return sum(xs[r:] + xs[:r]) / len(xs)",
        "test_ranks_get_the_same_bytes",
    ),
    "halves gradients when alone": (
        "return list(gradients)",
        "return [None if gradient is None else gradient / 2 for gradient in gradients]",
        "test_one_rank_keeps_its_gradients",
    ),
    "shares buffers among optimizers": (
        MEANS,
        "shared = vars(self._group).setdefault('buffers', {}); "
        + then(
            "[x if x is None else shared.setdefault(i, torch.zeros_like(x)).copy_(x) "
            "for i, x in enumerate(means)]"
        ),
        "test_calls_do_not_disturb_each_other",
    ),
    "forgets what rounding loses": (
        GIVEN,
        f"{GIVEN}; given = given.half().to(given.dtype) if given.dim() else given",
        "test_rounding_errors_do_not_add_up",
    ),
    "rounds what is no gradient": (
        GIVEN,
        f"{GIVEN}; given = given if given.dim() else given.half().to(given.dtype)",
        "test_extras_are_exact",
    ),
}

TESTS = """
from rltrain_devkit import GradientSyncConformance


class TestJudged(GradientSyncConformance):
    grad_sync = "judged"
    tolerance = 1e-3
"""

RIGHT_JAX = """
from rltrain import hookimpl
from rltrain.specs import GradientSyncSpec


@hookimpl
def rltrain_provides():
    factory = f"{__name__}:Plugin"
    return [GradientSyncSpec(name="judged", factory=factory, frameworks=("jax",))]


class Plugin:
    @hookimpl
    def rltrain_gradient_sync(self, session, parameters):
        return Sync(session)


class Sync:
    def __init__(self, session):
        self.group = session.group

    def __call__(self, gradients):
        import jax

        if self.group.world_size == 1:
            return gradients
        return jax.tree.map(self.average, gradients)

    def average(self, gradient):
        return self.group.all_reduce(gradient, "mean")
"""

HALF = """

def half(gradient):
    return gradient.astype("float16").astype(gradient.dtype)
"""

MEAN = 'return self.group.all_reduce(gradient, "mean")'

WRONG_JAX = {
    "forgets the last parameter": (
        "return jax.tree.map(self.average, gradients)",
        "return [*map(self.average, gradients[:-1]), gradients[-1]]",
        "test_gradients_are_averaged",
    ),
    "returns float32 only": (MEAN, f"{MEAN}.astype('float32')", "test_the_structure_is_kept"),
    "loses the shape": (MEAN, f"{MEAN}.ravel()", "test_the_structure_is_kept"),
    "rounds differently on each rank": (
        MEAN,
        f"{MEAN} * (1 + 1e-6 * self.group.rank)",
        "test_ranks_get_the_same_bytes",
    ),
    "averages the first gradients for ever": (
        MEAN,
        MEAN.replace("gradient,", "vars(self).setdefault(str(gradient.shape), gradient),"),
        "test_calls_do_not_disturb_each_other",
    ),
    "forgets what rounding loses": (
        MEAN,
        MEAN.replace("gradient,", "half(gradient) if gradient.ndim else gradient,"),
        "test_rounding_errors_do_not_add_up",
    ),
    "rounds what is no gradient": (
        MEAN,
        MEAN.replace("gradient,", "gradient if gradient.ndim else half(gradient),"),
        "test_extras_are_exact",
    ),
}


pytestmark = pytest.mark.slow


def set_to(*lines):
    """Return a patch that sets attributes of the kit."""
    return "    grad_sync =", "".join(f"    {line}\n" for line in lines) + "    grad_sync ="


LOOSE = set_to("tolerance = 1e-3")


def test_a_correct_jax_plugin_passes(judge):
    assert judge.source(RIGHT_JAX, TESTS) == {}


@pytest.mark.parametrize("fault", WRONG_JAX)
def test_a_wrong_jax_plugin_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG_JAX[fault]
    assert RIGHT_JAX.count(old) == 1
    failed = judge.source(RIGHT_JAX.replace(old, new) + HALF, TESTS)
    assert list(failed) == [expected]


def test_a_correct_plugin_passes(judge):
    assert judge("gradient_sync") == {}


FEEDS_BACK = f"""{GIVEN}
        lost = vars(self).setdefault("lost", {{}})
        exact = given + lost.get(id(like), 0.0)
        SEND
        lost[id(like)] = torch.where(given.isfinite(), exact - given, 0.0)"""


def test_a_sync_that_compensates_rounding_passes(judge):
    sends = "given = exact.half().to(exact.dtype) if exact.dim() else exact"
    assert judge("gradient_sync", LOOSE, (GIVEN, FEEDS_BACK.replace("SEND", sends))) == {}


SPARSE = """
        size, kept = exact.abs().flatten().nan_to_num(torch.inf), torch.zeros(exact.numel())
        kept[size.topk((exact.numel() + 3) // 4).indices] = 1.0
        given = torch.where((kept.reshape(exact.shape) > 0) | ~exact.isfinite(), exact, 0.0)
"""


@pytest.mark.parametrize(("more", "passes"), [(["steps = 64"], True), ([], False)])
@pytest.mark.parametrize("feeds_back", [True, False])
def test_a_sync_that_sends_a_part_is_judged_over_many_steps(judge, more, passes, feeds_back):
    sparse = FEEDS_BACK.replace("SEND", SPARSE.strip())
    sparse = sparse if feeds_back else sparse.replace("lost[id", "{}[id")
    failed = judge("gradient_sync", set_to("tolerance = 0.2", *more), (GIVEN, sparse))
    assert ("test_gradients_are_averaged" not in failed) == (passes and feeds_back)
    assert (failed == {}) == (passes and feeds_back), failed


def test_a_sync_is_given_its_options(judge):
    patches = judge.with_options("    @hookimpl\n    def rltrain_gradient_sync(")
    assert judge("gradient_sync", *patches, set_to("options = {'by': 2}")) == {}


def test_a_sync_that_promises_less_is_tested_for_less(judge):
    old, rounds, _ = WRONG["forgets what rounding loses"]
    patches = (old, rounds), set_to("tolerance = 1e-3", "unbiased = False")
    assert judge("gradient_sync", *patches) == {}


def test_another_framework_is_skipped(judge):
    wrong = RETURN, RETURN.replace("mean", "sum")
    assert judge("gradient_sync", wrong, ('frameworks=("torch",)', 'frameworks=("mlx",)')) == {}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_plugin_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG[fault]
    failed = judge("gradient_sync", LOOSE, (old, new))
    assert list(failed) == [expected]
    assert "RULE: " in failed[expected]
