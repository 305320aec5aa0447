"""The kit of gradient syncs: the template passes, each wrong one fails the matching test."""

from __future__ import annotations

import pytest

GIVEN = "given = torch.zeros_like(like) if gradient is None else gradient"
MEANS = "return [self._mean(gradient, like) if count else None for gradient, like, count in each]"
RETURN = 'return self._group.all_reduce(given.detach(), "mean")'


def then(last):
    """Return what returns something else than the means, `means`."""
    return f"{MEANS.replace('return', 'means =')}; return {last}"


IMPORT = "from collections.abc import Iterable"
SUM = RETURN.replace("mean", "sum")
SINGLE = "[x if p.itemsize == 4 else g for x, g, p in zip(means, gradients, self._parameters)]"
COUNTS = 'counts = self._group.all_reduce(self._parameters[0].new_tensor(given), "sum").tolist()'
MEAN_IF = "self._mean(gradient, like) if"
OF_SOME = "self._mean(gradient, like) * self._group.world_size / count if"
OLD = (
    "given = vars(self).setdefault(str(id(like)), torch.zeros_like(like)); "
    "gradient is None or given.copy_(gradient)"
)
KEPT = GIVEN.replace("else gradient", "else vars(self).setdefault(str(id(like)), gradient)")
OWN_ORDER = (
    "xs = [torch.tensor(x) for x in self._group.gather_objects(given.detach().numpy())]; "
    "r = self._group.rank; return sum(xs[r:] + xs[:r]) / len(xs)"
)
HALVED = "return [None if gradient is None else gradient / 2 for gradient in gradients]"
SHARED = "shared = vars(self._group).setdefault('buffers', {}); " + then(
    "[x if x is None else shared.setdefault(i, torch.zeros_like(x)).copy_(x) "
    "for i, x in enumerate(means)]"
)
ROUNDED = "given = given.half().to(given.dtype) if given.dim() else given"
EXTRAS = "given = given if given.dim() else given.half().to(given.dtype)"

WRONG = {
    "gradients_are_averaged": [
        ("added up", RETURN, SUM),
        ("always divided by two", RETURN, f"{SUM} / 2"),
        ("the last forgotten", MEANS, then("[*means[:-1], gradients[-1]]")),
        ("other dtypes forgotten", MEANS, then(SINGLE)),
    ],
    "nan_and_infinity_reach_every_rank": [("zeros", GIVEN, f"{GIVEN}.nan_to_num(0, 0, 0)")],
    "declaring_is_light": [("torch", IMPORT, f"import torch; {IMPORT}")],
    "the_structure_is_kept": [
        ("float32 only", RETURN, f"{RETURN}.float()"),
        ("no shape", RETURN, f"{RETURN}.flatten()"),
    ],
    "none_on_every_rank_stays_none": [("zeros", " if count else None", "")],
    "none_on_some_ranks_counts_as_zeros": [
        ("skipped", COUNTS, "counts = given"),
        ("left out", MEAN_IF, OF_SOME),
        ("an old gradient", GIVEN, OLD),
    ],
    "calls_do_not_disturb_each_other": [
        ("the first for ever", GIVEN, KEPT),
        ("buffers of all optimizers", MEANS, SHARED),
    ],
    "ranks_get_the_same_bytes": [
        ("rounded", RETURN, f"{RETURN}.mul_(1 + 1e-6 * self._group.rank)"),
        ("in an own order", RETURN, OWN_ORDER),
    ],
    "one_rank_keeps_its_gradients": [("halved", "return list(gradients)", HALVED)],
    "rounding_errors_do_not_add_up": [("forgotten", GIVEN, f"{GIVEN}; {ROUNDED}")],
    "extras_are_exact": [("rounded", GIVEN, f"{GIVEN}; {EXTRAS}")],
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

ALL = "return jax.tree.map(self.average, gradients)"
FEW = "return [*map(self.average, gradients[:-1]), gradients[-1]]"
MEAN = 'return self.group.all_reduce(gradient, "mean")'

# What jax's trees need; the rest is judged by torch's faults.
WRONG_JAX = {
    "gradients_are_averaged": [("the last forgotten", ALL, FEW)],
    "the_structure_is_kept": [
        ("float32 only", MEAN, f"{MEAN}.astype('float32')"),
        ("no shape", MEAN, f"{MEAN}.ravel()"),
    ],
    "ranks_get_the_same_bytes": [("rounded", MEAN, f"{MEAN} * (1 + 1e-6 * self.group.rank)")],
}


pytestmark = pytest.mark.slow


def set_to(*lines):
    """Return a patch that sets attributes of the kit."""
    return "    grad_sync =", "".join(f"    {line}\n" for line in lines) + "    grad_sync ="


LOOSE = set_to("tolerance = 1e-3")


def test_a_wrong_jax_plugin_fails_the_test_that_names_its_fault(judge, jax_fault):
    jax_fault.check(judge.source(RIGHT_JAX, TESTS, jax_fault))


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
    patches = (GIVEN, f"{GIVEN}; {ROUNDED}"), set_to("tolerance = 1e-3", "unbiased = False")
    assert judge("gradient_sync", *patches) == {}


def test_another_framework_is_skipped(judge):
    assert (
        judge("gradient_sync", (RETURN, SUM), ('frameworks=("torch",)', 'frameworks=("mlx",)'))
        == {}
    )


def test_a_wrong_plugin_fails_the_test_that_names_its_fault(judge, fault):
    fault.check(judge("gradient_sync", LOOSE, (fault.old, fault.new)))
