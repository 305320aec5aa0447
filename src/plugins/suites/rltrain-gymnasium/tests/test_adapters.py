"""What adapters share: options of libraries and tasks, sources that are read, tuned options."""

from __future__ import annotations

import dataclasses
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from messages import check_said, says

from rltrain.errors import UsageError
from rltrain.options.agent import default_options
from rltrain.specs import LibrarySpec, OptionSchema, SuiteSpec
from rltrain.types import ArrayInfo, TaskInfo
from rltrain_adapters import (
    get_positive_int,
    is_image,
    set_child,
    tuned_options_from,
    unknown_env_option,
)
from rltrain_adapters.sources import (
    compared_with,
    first_arguments,
    import_for,
    mentions,
    parameters,
    registered_names,
    texts_in,
)


def test_a_positive_int_is_read_or_refused():
    agent = {"learn": {"steps": 8, "rate": 0.5, "none": 0}}
    assert get_positive_int(agent, "learn.steps") == 8
    assert get_positive_int(agent, "learn.epochs", 3) == 3
    for key in ("learn.rate", "learn.none"):
        with says(UsageError):
            get_positive_int(agent, key)


def test_children_are_set_by_key_index_or_name():
    node = SimpleNamespace(terms={3: "old"}, items=[1, 2])
    set_child(node.terms, "3", "new")
    set_child(node.items, "1", 5)
    set_child(node, "scale", 0.5)
    assert (node.terms, node.items, node.scale) == ({3: "new"}, [1, 5], 0.5)


def test_an_unknown_task_option_lists_the_known_ones():
    check_said(str(unknown_env_option("Point-v0", "sim.dtt", ["sim.dt", "sim.gravity"])))
    assert str(unknown_env_option("Point-v0", "x", [])).endswith("Its options: none.")


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (Box(0, 255, (8, 8, 3), np.uint8), True),
        (Box(0, 1, (8, 8, 3), np.float32), True),
        (Box(0, 1, (8, 8, 3), np.float64), False),
        (Box(0, 1, (8,)), False),
        (Discrete(3), False),
    ],
)
def test_images_are_boxes_of_height_width_and_channels(space, expected):
    assert is_image(space) is expected


# Packages' sources are read without importing them; modules that users name are imported

WORDS = """
raise SystemExit
__all__ = ["Bot", "Arm"]
known = {"walk": 1, "run": 2}.get(gait.lower())
self.gaits.register("walk", lambda: 1)
# self.gaits.register("swim", 1)
self.arms.register("grab", 1)
fast = config["gait"] == "run" or self.gait not in ("walk", "crawl") or gait.lower() == "trot"
class Bot:
    def __init__(self, legs, arms=2, *others, name, speed: float = 1.0, **more):
        def __init__(self, inner): ...
class Arm(Bot): ...
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that must not be imported."""
    inner = tmp_path / "bots_of_ours" / "tasks"
    inner.mkdir(parents=True)
    (tmp_path / "bots_of_ours" / "__init__.py").write_text("raise SystemExit")
    (inner / "__init__.py").write_text("import gymnasium as gym\ngym.register(id='Bot-v0')")
    (inner / "more.py").write_text('register(\n    "Other", 1\n)\nregister(f"{x}-v0")  # simulator')
    (tmp_path / "bot_alone.py").write_text("import simulator")
    (tmp_path / "bot_words.py").write_text(WORDS)
    (tmp_path / "bot_broken.py").write_text("known = {")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return tmp_path


def test_sources_are_read_without_importing_them(package):
    assert mentions("bots_of_ours.tasks", "simulator")
    assert mentions("bots_of_ours.tasks.more", "simulator")
    assert mentions("bot_alone", "nothing", "simulator")
    assert not mentions("bots_of_ours.tasks", "other words")
    for module in ("no_such_module", "bots_of_ours.nothing", "bots/../of", "", ".x", "a..b"):
        assert not mentions(module, "i")
    assert registered_names("bots_of_ours", "register", "id") == ["Bot-v0", "Other"]
    assert not any(name.startswith("bot") for name in sys.modules)


def test_words_are_read_without_importing_what_has_them(package):
    assert texts_in("bot_words", "__all__") == {"Bot", "Arm"}
    assert texts_in("bot_words", "known") == {"walk", "run"}
    assert first_arguments("bot_words", "gaits.register") == {"walk"}
    assert first_arguments("bot_words", "register") == {"walk", "grab"}
    assert compared_with("bot_words", "gait") == {"run", "walk", "crawl", "trot"}
    given = {"legs": False, "arms": True, "name": False, "speed": True}
    assert parameters("bot_words", "Bot") == given
    assert parameters("bot_words", "Arm") == parameters("no_such_module", "Bot") == {}
    for module in ("bot_words", "bot_broken", "no_such_module"):
        assert texts_in(module, "nothing") == frozenset()
    assert texts_in("bot_broken", "known") == frozenset()


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        ("raise RuntimeError('no display\\n:0')", "RuntimeError: no display :0 (FILE:1)"),
        ("import sys\nsys.exit('no license')", "SystemExit: no license (FILE:2)"),
        ("import json\njson.loads('')", "JSONDecodeError: Expecting .* (FILE:2)"),
        ("x = (", r"SyntaxError: '\(' was never closed \(no_display.py, line 1\)"),
    ],
)
def test_a_module_whose_import_fails_is_named_with_its_task(code, raised, monkeypatch, tmp_path):
    path = tmp_path / "no_display.py"
    path.write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    raised = raised.replace("(FILE", rf"\({path}").replace(":1)", r":1\)").replace(":2)", r":2\)")
    with says(UsageError):
        import_for("no_display:Pole-v0")


def test_a_module_that_cannot_be_imported_is_named_with_its_task():
    assert import_for("CartPole") == "CartPole"
    assert import_for("json.tool:CartPole") == "CartPole"
    for task, module in (("no_such:CartPole", None), ("CartPole", "no_such")):
        with pytest.raises(UsageError) as refused:
            import_for(task, module)
        check_said(str(refused.value))


# Tuned options of a suite take precedence over a library's defaults

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
