"""Packages' sources are read without importing them; modules that users name are imported."""

from __future__ import annotations

import sys

import pytest

from rltrain.errors import UsageError
from rltrain_adapters.sources import (
    compared_with,
    first_arguments,
    import_for,
    mentions,
    parameters,
    registered_names,
    texts_in,
)

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
    message = rf"the module 'no_display' cannot be imported: {raised}"
    with pytest.raises(UsageError, match=rf"^The task 'no_display:Pole-v0': {message}$"):
        import_for("no_display:Pole-v0")


def test_a_module_that_cannot_be_imported_is_named_with_its_task():
    assert import_for("CartPole") == "CartPole"
    assert import_for("json.tool:CartPole") == "CartPole"
    for task, module in (("no_such:CartPole", None), ("CartPole", "no_such")):
        with pytest.raises(UsageError) as refused:
            import_for(task, module)
        assert str(refused.value) == (
            f"The task {task!r}: the module 'no_such' cannot be imported: No module named 'no_such'"
        )
