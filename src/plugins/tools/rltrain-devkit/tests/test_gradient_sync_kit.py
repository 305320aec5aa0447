"""The kit of gradient syncs: a correct one passes, each wrong one fails the matching test."""

from __future__ import annotations

import pytest

RIGHT = """
from rltrain import hookimpl
from rltrain.specs import GradientSyncSpec


@hookimpl
def rltrain_provides():
    factory = f"{__name__}:Plugin"
    return [GradientSyncSpec(name="judged", factory=factory, frameworks=("torch",))]


class Plugin:
    @hookimpl
    def rltrain_gradient_sync(self, session, parameters):
        return Sync(session, parameters)


class Sync:
    def __init__(self, session, parameters):
        self.group = session.group
        self.parameters = parameters
        self.buffers = {}

    def __call__(self, gradients):
        if self.group.world_size == 1:
            return list(gradients)
        ranks = self.group.gather_objects([gradient is not None for gradient in gradients])
        counts = [sum(flags) for flags in zip(*ranks)]
        averages = []
        for index, gradient in enumerate(gradients):
            average = self.average(index, gradient) if counts[index] else None
            averages.append(average)
        return averages

    def average(self, index, gradient):
        import torch

        buffer = self.buffers.setdefault(index, torch.zeros_like(self.parameters[index].data))
        if gradient is None:
            buffer.zero_()
        else:
            buffer.copy_(gradient)
        buffer.copy_(self.group.all_reduce(buffer, "sum"))
        return buffer.div_(self.group.world_size)
"""

TESTS = """
from rltrain_devkit import GradientSyncConformance


class TestJudged(GradientSyncConformance):
    grad_sync = "judged"
    tolerance = 1e-3
"""

AVERAGE = "average = self.average(index, gradient) if counts[index] else None"
RETURN = "return buffer.div_(self.group.world_size)"

WRONG = {
    "adds up gradients": (
        RETURN,
        "return buffer",
        "test_gradients_are_averaged",
    ),
    "divides by two on every number of ranks": (
        RETURN,
        "return buffer.div_(2)",
        "test_gradients_are_averaged",
    ),
    "forgets the last parameter": (
        AVERAGE,
        AVERAGE.replace("else None", "and index + 1 < len(gradients) else gradient"),
        "test_gradients_are_averaged",
    ),
    "forgets parameters of other dtypes": (
        AVERAGE,
        AVERAGE.replace("else None", "and self.parameters[index].itemsize == 4 else gradient"),
        "test_gradients_are_averaged",
    ),
    "makes zeros of what is not finite": (
        "buffer.copy_(gradient)",
        "buffer.copy_(gradient.nan_to_num(0, 0, 0))",
        "test_nan_and_infinity_reach_every_rank",
    ),
    "imports torch at the top": (
        "from rltrain.specs import GradientSyncSpec",
        "from rltrain.specs import GradientSyncSpec; import torch",
        "test_declaring_is_light",
    ),
    "returns float32 only": (
        RETURN,
        f"{RETURN}.float()",
        "test_the_structure_is_kept",
    ),
    "loses the shape": (
        RETURN,
        f"{RETURN}.flatten()",
        "test_the_structure_is_kept",
    ),
    "makes zeros of None": (
        AVERAGE,
        "average = self.average(index, gradient)",
        "test_none_on_every_rank_stays_none",
    ),
    "skips what is None on this rank": (
        "counts = [sum(flags) for flags in zip(*ranks)]",
        "counts = ranks[self.group.rank]",
        "test_none_on_some_ranks_counts_as_zeros",
    ),
    "averages over the ranks that have a gradient": (
        AVERAGE,
        AVERAGE.replace("gradient)", "gradient) * self.group.world_size / counts[index]"),
        "test_none_on_some_ranks_counts_as_zeros",
    ),
    "leaves an old gradient in the buffer": (
        "buffer.zero_()",
        "pass",
        "test_none_on_some_ranks_counts_as_zeros",
    ),
    "averages the first gradients for ever": (
        "buffer.copy_(gradient)",
        "buffer.copy_(vars(self).setdefault(str(index), gradient))",
        "test_calls_do_not_disturb_each_other",
    ),
    "rounds differently on each rank": (
        RETURN,
        f"{RETURN}.mul_(1 + 1e-6 * self.group.rank)",
        "test_ranks_get_the_same_bytes",
    ),
    "adds in an order of the rank's own": (
        'buffer.copy_(self.group.all_reduce(buffer, "sum"))',
        "xs = [torch.tensor(x) for x in self.group.gather_objects(buffer.numpy())]; "
        "r = self.group.rank; "
        "buffer.copy_(sum(xs[r:] + xs[:r]))",
        "test_ranks_get_the_same_bytes",
    ),
    "halves gradients when alone": (
        "return list(gradients)",
        "return [None if gradient is None else gradient / 2 for gradient in gradients]",
        "test_one_rank_keeps_its_gradients",
    ),
    "shares buffers among optimizers": (
        "self.buffers = {}",
        'self.buffers = vars(session).setdefault("buffers", {})',
        "test_calls_do_not_disturb_each_other",
    ),
    "forgets what rounding loses": (
        "buffer.copy_(gradient)",
        "buffer.copy_(gradient.half() if gradient.dim() else gradient)",
        "test_rounding_errors_do_not_add_up",
    ),
    "rounds what is no gradient": (
        "buffer.copy_(gradient)",
        "buffer.copy_(gradient if gradient.dim() else gradient.half())",
        "test_extras_are_exact",
    ),
}

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
    "imports jax at the top": (
        "from rltrain.specs import GradientSyncSpec",
        "from rltrain.specs import GradientSyncSpec; import jax",
        "test_declaring_is_light",
    ),
    "adds up gradients": (
        MEAN,
        MEAN.replace("mean", "sum"),
        "test_gradients_are_averaged",
    ),
    "forgets the last parameter": (
        "return jax.tree.map(self.average, gradients)",
        "return [*map(self.average, gradients[:-1]), gradients[-1]]",
        "test_gradients_are_averaged",
    ),
    "returns float32 only": (
        MEAN,
        f"{MEAN}.astype('float32')",
        "test_the_structure_is_kept",
    ),
    "loses the shape": (
        MEAN,
        f"{MEAN}.ravel()",
        "test_the_structure_is_kept",
    ),
    "rounds differently on each rank": (
        MEAN,
        f"{MEAN} * (1 + 1e-6 * self.group.rank)",
        "test_ranks_get_the_same_bytes",
    ),
    "halves gradients when alone": (
        "return gradients",
        "return jax.tree.map(lambda gradient: gradient / 2, gradients)",
        "test_one_rank_keeps_its_gradients",
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


pytestmark = pytest.mark.long


def test_a_correct_jax_plugin_passes(judge):
    assert judge(RIGHT_JAX, TESTS) == {}


@pytest.mark.parametrize("fault", WRONG_JAX)
def test_a_wrong_jax_plugin_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG_JAX[fault]
    assert RIGHT_JAX.count(old) == 1
    failed = judge(RIGHT_JAX.replace(old, new) + HALF, TESTS)
    assert list(failed) == [expected]


def test_a_correct_plugin_passes(judge):
    assert judge(RIGHT, TESTS) == {}


def test_a_sync_that_compensates_rounding_passes(judge):
    keeps = """
            exact = gradient + self.buffers.get(("lost", index), 0.0)
            buffer.copy_(exact.half() if gradient.dim() else exact)
            self.buffers["lost", index] = exact - buffer
"""
    [line] = [line for line in RIGHT.splitlines() if "buffer.copy_(gradient)" in line]
    assert judge(RIGHT.replace(line, keeps), TESTS) == {}


SPARSE = """
            exact = gradient + self.buffers.get(("lost", index), 0.0)
            size, kept = exact.abs().flatten().nan_to_num(torch.inf), torch.zeros(exact.numel())
            kept[size.topk((exact.numel() + 3) // 4).indices] = 1.0
            sent = (kept.reshape(exact.shape) > 0) | ~exact.isfinite()
            buffer.copy_(torch.where(sent, exact, 0.0))
            self.buffers["lost", index] = torch.where(sent, 0.0, exact)
"""


@pytest.mark.parametrize(("more", "passes"), [("    steps = 64\n", True), ("", False)])
@pytest.mark.parametrize("feeds_back", [True, False])
def test_a_sync_that_sends_a_part_is_judged_over_many_steps(judge, more, passes, feeds_back):
    [line] = [line for line in RIGHT.splitlines() if "buffer.copy_(gradient)" in line]
    sparse = SPARSE if feeds_back else SPARSE.replace("self.buffers[", "{}[")
    failed = judge(RIGHT.replace(line, sparse), TESTS.replace("1e-3", "0.2") + more)
    assert ("test_gradients_are_averaged" not in failed) == (passes and feeds_back)
    assert (failed == {}) == (passes and feeds_back), failed


def test_a_sync_is_given_its_options(judge):
    options = "\n\n@dataclass(frozen=True)\nclass Options:\n    by: int = 1\n"
    plugin = RIGHT.replace(
        "from rltrain.specs", "from dataclasses import dataclass\nfrom rltrain.specs"
    )
    plugin = plugin.replace(
        'frameworks=("torch",)', 'frameworks=("torch",), options=f"{__name__}:Options"'
    )
    takes = "class Plugin:\n    def __init__(self, options):\n        assert options.by == 2\n"
    plugin = plugin.replace("class Plugin:\n", takes) + options
    assert judge(plugin, TESTS + "    options = {'by': 2}\n") == {}


def test_a_sync_that_promises_less_is_tested_for_less(judge):
    rounded = "copy_(gradient.half() if gradient.dim() else gradient)"
    plugin = RIGHT.replace("copy_(gradient)", rounded)
    assert judge(plugin, TESTS + "    unbiased = False\n") == {}


def test_another_framework_is_skipped(judge):
    wrong = RIGHT.replace(RETURN, "return buffer")
    assert judge(wrong.replace('"torch"', '"mlx"'), TESTS) == {}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_plugin_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG[fault]
    assert RIGHT.count(old) == 1
    assert "\n" not in old + new
    failed = judge(RIGHT.replace(old, new), TESTS)
    assert list(failed) == [expected]
    assert "RULE: " in failed[expected]
