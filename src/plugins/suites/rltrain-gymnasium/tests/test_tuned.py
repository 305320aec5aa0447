"""Tuned options of a suite take precedence over a library's defaults."""

from __future__ import annotations

import dataclasses

import pytest

from rltrain.errors import UsageError
from rltrain.options.agent import default_options
from rltrain.specs import LibrarySpec, OptionSchema, SuiteSpec
from rltrain.types import ArrayInfo, TaskInfo
from rltrain_adapters import tuned_options_from

TASK = TaskInfo("Robots/Walk-v0", "continuous")
LIBRARY = LibrarySpec(
    name="some",
    factory="nowhere:Nothing",
    frameworks=("torch", "jax"),
    algorithms=("ppo", "sac"),
    default_agent=lambda task, algorithm: {"rate": 1, "words": "of torch"},
    schema=OptionSchema(required=("rate",)),
    convert_defaults={"jax": lambda options: {**options, "words": "of jax"}},
)
SUITE = SuiteSpec(
    name="robots",
    factory="nowhere:N",
    frameworks=("torch", "jax"),
    describe=lambda task, env: None,
    tasks=list,
)


@pytest.fixture
def suite(tmp_path):
    """Return a suite with tuned options of one library and algorithm for one task."""
    file = tmp_path / "Robots-Walk-v0" / "some_ppo.yaml"
    file.parent.mkdir()
    file.write_text("rate: 3e-4\nwords: of torch\n")
    return dataclasses.replace(SUITE, tuned=tuned_options_from(tmp_path))


def test_the_suites_options_win_over_the_librarys(suite):
    options, whose = default_options(LIBRARY, suite, TASK, "ppo", "torch")
    assert options == {"rate": 3e-4, "words": "of torch"}
    assert whose == "those of the suite robots for Robots/Walk-v0"


@pytest.mark.parametrize(
    ("task", "algorithm"), [(TASK, "sac"), (TaskInfo("Robots/Run-v0", "continuous"), "ppo")]
)
def test_without_suite_options_the_librarys_apply(suite, task, algorithm):
    for where in (suite, SUITE):
        options, whose = default_options(LIBRARY, where, task, algorithm, "torch")
        assert options == {"rate": 1, "words": "of torch"}
        assert whose == f"some's defaults for {task.name}"


def test_both_use_the_terms_of_the_framework(suite):
    for where in (suite, SUITE):
        assert default_options(LIBRARY, where, TASK, "ppo", "jax")[0]["words"] == "of jax"


def test_a_file_that_does_not_parse_is_named(suite, tmp_path):
    file = tmp_path / "Robots-Walk-v0" / "some_ppo.yaml"
    file.write_text("rate: [")
    with pytest.raises(UsageError, match=str(file)):
        default_options(LIBRARY, suite, TASK, "ppo", "torch")


def test_changing_a_copy_does_not_affect_the_next_run(suite):
    default_options(LIBRARY, SUITE, TASK, "ppo", "torch")[0]["rate"] = 7
    assert default_options(LIBRARY, SUITE, TASK, "ppo", "torch")[0]["rate"] == 1


def test_images_are_recognized_by_their_three_axes():
    image = ArrayInfo((48, 64, 3), "uint8")
    camera = {"camera": image, "policy": ArrayInfo((4,)), "critic": image}
    assert dataclasses.replace(TASK, observations=camera).images == ("camera",)
    assert dataclasses.replace(TASK, observations=camera).has_images
    assert not dataclasses.replace(TASK, observations={"critic": image}).has_images
    assert ArrayInfo((48, 64, 3)).is_image
    assert not ArrayInfo((48, 64, 3), "int64").is_image
    assert not dataclasses.replace(TASK, observations={"policy": ArrayInfo((4,))}).has_images
    assert not TASK.has_images
