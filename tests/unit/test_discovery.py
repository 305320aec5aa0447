"""Discovery never raises and selection always does; the plugins of a run are checked."""

from __future__ import annotations

import inspect
import shutil
import sys
import types

import pytest
from messages import check_said, says

from rltrain.errors import PluginError, UsageError
from rltrain.hookspecs import DeclarationHooks, RunHooks, hookimpl
from rltrain.plugins import registry as plugins_registry
from rltrain.plugins.installed import version_of
from rltrain.plugins.manager import RunPlugins
from rltrain.plugins.registry import Registry, discover
from rltrain.specs import (
    KINDS,
    BackendSpec,
    LauncherSpec,
    LibrarySpec,
    ObserverSpec,
    Spec,
    SuiteSpec,
    WriterSpec,
    load_object,
)

WRITER = """
from rltrain.hookspecs import hookimpl
from rltrain.specs import WriterSpec

@hookimpl
def rltrain_provides():
    return [WriterSpec(name="{name}", factory="nowhere:Nothing")]
"""


def writer(name: str, more: str = "") -> str:
    return WRITER.format(name=name).replace(':Nothing"', f':Nothing", {more}')


def record_of(registry: Registry, name: str):
    return next(record for record in registry.records if record.name == name)


def test_a_usable_plugin_is_ready(site):
    site.install("csv-writer", writer("csv"), point="csv", version="2.3")
    registry = discover()
    record = record_of(registry, "csv")
    assert (record.status, record.reason) == ("ready", "")
    assert record.origin == "csv-writer 2.3"
    spec = registry.get(WriterSpec, "csv")
    assert spec.name == "csv"


def test_what_is_installed_later_is_found_and_what_is_removed_is_not(site):
    assert "late" not in {record.name for record in discover().records}
    site.install("late-writer", writer("late"), point="late")
    assert record_of(discover(), "late").status == "ready"
    shutil.rmtree(site.path / "late_writer-1.0.dist-info")
    assert "late" not in {record.name for record in discover().records}


def test_what_is_found_is_asked_and_checked_once_in_a_process(site, monkeypatch):
    counts = "\nASKED = []\n@hookimpl\ndef rltrain_provides():\n    ASKED.append(1)\n"
    source = writer("{}").replace("\n@hookimpl\ndef rltrain_provides():\n", counts)
    site.install("library", version="1.5")
    requires = ("library>=1; extra == 'library'",)
    installed = site.install("csv-writer", source.format("csv"), requires=requires)
    monkeypatch.setenv("RLTRAIN_MODULES", "fixture_named")
    (site.path / "fixture_named.py").write_text(source.format("xml"))
    # A folder in which Python writes __pycache__ has changed, and is looked at again.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    looked_up: list[str] = []
    monkeypatch.setattr(
        plugins_registry, "version_of", lambda name: looked_up.append(name) or version_of(name)
    )
    assert {"csv", "xml"} <= set(discover().names(WriterSpec))
    assert looked_up.count("library") == 1
    assert "csv" not in discover(["csv-writer"]).names(WriterSpec)
    assert discover(environ={"RLTRAIN_PLUGINS": "csv-writer"}).get(WriterSpec, "csv")
    assert discover().get(WriterSpec, "xml")
    assert looked_up.count("library") == 1
    assert [len(sys.modules[each].ASKED) for each in (installed, "fixture_named")] == [1, 1]
    shutil.rmtree(site.path / "library-1.5.dist-info")
    assert record_of(discover(), "csv-writer").status == "unmet"


@pytest.mark.parametrize("blocked", ["csv", "csv-writer", "CSV_writer"])
def test_a_plugin_is_blocked_by_entry_point_or_by_distribution(site, blocked):
    module = site.install("csv-writer", writer("csv"), point="csv")
    registry = discover([blocked])
    assert record_of(registry, "csv").status == "blocked"
    assert "--no-plugin" in record_of(registry, "csv").reason
    assert "csv" not in registry.names(WriterSpec)
    assert not site.loaded(module)


def test_the_allow_list_blocks_everything_else_but_the_core(site):
    site.install("csv-writer", writer("csv"), point="csv")
    site.install("xml-writer", writer("xml"), point="xml")
    registry = discover(environ={"RLTRAIN_PLUGINS": "csv-writer, other"})
    ready = [record.name for record in registry.records if record.status == "ready"]
    assert ready == ["csv", "rltrain"]
    assert record_of(registry, "xml").reason == "not in RLTRAIN_PLUGINS"

    registry = discover(environ={"RLTRAIN_PLUGINS": ""})
    assert [each.name for each in registry.records if each.status == "ready"] == ["rltrain"]
    assert "blocked" not in {record.status for record in discover(environ={}).records}


@pytest.mark.parametrize(
    "requirement",
    ["no-such-library>=2; extra == 'library'", "old-library>=2,<3; extra == 'library'"],
)
def test_an_unmet_range_is_found_before_the_module_is_imported(site, requirement):
    site.install("old-library", version="1.5")
    module = site.install("adapter", "raise AssertionError('imported')", requires=(requirement,))
    record = record_of(discover(), "adapter")
    assert record.status == "unmet"
    check_said(record.reason)
    assert not site.loaded(module)


@pytest.mark.parametrize(
    "requirement",
    [
        "no-such-library>=2; extra == 'docs'",
        "no-such-library>=2",
        "no-such-library>=2; python_version < '3' and extra == 'library'",
        "new-library>=2; extra == 'library'",
    ],
)
def test_only_an_applicable_library_extra_is_a_range(site, requirement):
    site.install("new-library", version="2.1.dev3")
    site.install("adapter", writer("csv"), requires=(requirement,))
    assert record_of(discover(), "adapter").status == "ready"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise ValueError('half installed')", "ValueError: half installed"),
        ("raise SystemExit('not on this machine')", "SystemExit: not on this machine"),
        ("raise GeneratorExit('not now')", "GeneratorExit: not now"),
        (writer("x") + "\n@hookimpl\ndef rltrain_provide(): ...", "rltrain_provide"),
        (writer("x").replace("@hookimpl", ""), "which has no rltrain_provides: name the module"),
        (writer("x").replace("return [", "return ['a string', "), "got 'a string'"),
        (writer("x").replace("rltrain_provides()", "rltrain_provides(session)"), "session"),
        (writer("x").replace("return [", "yield from ["), None),
        (writer("x").replace("return [", "yield 1 / 0; yield from ["), "ZeroDivisionError"),
    ],
)
def test_a_plugin_that_is_not_ready_has_a_reason(site, source, message):
    site.install("broken-one", source)
    record = record_of(discover(), "broken-one")
    if message is None:
        assert record.status == "ready"
        assert [spec.name for spec in record.specs] == ["x"]
    else:
        assert record.status == "broken"
        assert message in record.reason


def test_a_broken_plugin_leaves_every_other_one_working(site):
    site.install("aaa", "raise RuntimeError")
    site.install("broken-one", writer("x"), requires=("not a requirement at all",))
    site.install("csv-writer", writer("csv"))
    site.install("zzz", "import no_such_module")
    registry = discover()
    assert record_of(registry, "broken-one").status == "broken"
    assert {"csv", "console"} <= set(registry.names(WriterSpec))


def test_strict_raises_what_the_plugin_raised_and_not_what_a_newer_rltrain_would_meet(site):
    site.install("later-one", writer("later"), requires=("rltrain>=7",))
    assert record_of(discover(environ={"RLTRAIN_STRICT": "1"}), "later-one").status == "unmet"
    site.install("broken-one", "raise KeyError('deep inside')")
    with pytest.raises(KeyError, match="deep inside"):
        discover(environ={"RLTRAIN_STRICT": "1"})
    assert record_of(discover(environ={"RLTRAIN_STRICT": "0"}), "broken-one").status == "broken"


def test_one_name_offered_twice_is_an_error_that_names_both(site):
    site.install("first-csv", writer("csv"), version="1.0")
    site.install("second-csv", writer("csv"), version="2.0")
    registry = discover()
    assert registry.names(WriterSpec).count("csv") == 1
    with says(UsageError):
        registry.get(WriterSpec, "csv")
    assert discover(["second-csv"]).get(WriterSpec, "csv")


def test_what_gives_way_is_used_where_nothing_else_has_its_name(site):
    site.install("plain-csv", writer("csv", "overridable=True"))
    assert discover().get(WriterSpec, "csv").overridable
    site.install("better-csv", writer("csv"))
    assert not discover().get(WriterSpec, "csv").overridable
    assert discover(["better-csv"]).get(WriterSpec, "csv").overridable
    site.install("other-csv", writer("csv"))
    with says(UsageError):
        discover().get(WriterSpec, "csv")


def test_an_unknown_name_reports_that_nothing_is_installed():
    with says(UsageError):
        Registry([]).get(LibrarySpec, "mine")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (LibrarySpec, "rl_games"),
        (WriterSpec, "wandb"),
        (SuiteSpec, "mjlab"),
        (LauncherSpec, "slurm"),
        (BackendSpec, "gloo"),
    ],
)
def test_what_a_plugin_of_ours_provides_says_how_to_install_it(kind, name):
    with says(UsageError):
        Registry(()).get(kind, name)


def test_each_plugin_of_a_distribution_needs_its_own_extra_alone(site):
    requires = ("no-such>=1; extra == 'csv'", "nor-this>=1; extra == 'arrow'")
    site.install("tables", writer("text"), point="csv", requires=requires)
    site.install("tables-2", writer("text"), point="text", requires=requires)
    statuses = {each.name: each.status for each in discover().records}
    assert (statuses["csv"], statuses["text"]) == ("unmet", "ready")


def test_an_unknown_name_lists_plugins_of_its_kind_that_are_not_ready(site):
    site.install("formats", writer("csv"), requires=("no-such>=1; extra == 'library'",))
    site.install("broken", "raise ValueError('half installed')")
    with says(UsageError):
        discover().get(WriterSpec, "csv")
    with pytest.raises(UsageError, match=r"Not ready: .*formats \(unmet: needs no-such>=1"):
        discover().get(WriterSpec, "tsv")
    with pytest.raises(UsageError, match=r"Not ready: broken") as refused:  # Nobody knows its kind.
        discover().get(LibrarySpec, "sb3")
    assert "formats" not in str(refused.value)
    site.install("xml", "raise ValueError('half installed')")
    with says(UsageError):
        discover().get(WriterSpec, "xml")


def spec_of(cls: type, kind: type[Spec] = WriterSpec, **more) -> Spec:
    module = f"fixture_factories_{cls.__name__}"
    sys.modules[module] = types.ModuleType(module)
    setattr(sys.modules[module], cls.__name__, cls)
    return kind(name="mine", factory=f"{module}:{cls.__name__}", **more)


class Good:
    @hookimpl
    def rltrain_write(self, record): ...


class Lacks:
    @hookimpl
    def rltrain_shutdown(self):
        raise AssertionError("called although it was refused")


class Unmarked:
    def rltrain_write(self, record): ...


class Misspelled:
    @hookimpl
    def rltrain_write(self, record): ...

    @hookimpl
    def rltrain_shut_down(self): ...


class WrongArguments:
    @hookimpl
    def rltrain_write(self, records): ...


class WrapsWithoutYield:
    @hookimpl(wrapper=True)
    def rltrain_write(self, record): ...


class CannotBeMade:
    def __init__(self):
        raise OSError("no disk")


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (Lacks, r"implement rltrain_write with @rltrain\.hookimpl"),
        (Unmarked, r"implement rltrain_write with @rltrain\.hookimpl"),
        (Misspelled, "rltrain_shut_down"),
        (WrongArguments, "records"),
        (WrapsWithoutYield, "but function is not a generator function"),
        (CannotBeMade, "OSError: no disk"),
    ],
)
def test_a_class_that_breaks_the_contract_is_refused_when_chosen(site, cls, message):
    plugins = RunPlugins()
    with pytest.raises(PluginError, match=message) as caught:
        plugins.choose(spec_of(cls))
    assert "writer 'mine'" in str(caught.value)
    # It is not kept.
    assert plugins.call_each("rltrain_shutdown", session=None, error=None) == {}
    assert type(plugins.choose(spec_of(Good))) is Good


class Answering:
    @hookimpl
    def rltrain_train(self): ...


def test_an_observer_answers_for_no_other_plugin(site):
    with says(PluginError):
        RunPlugins().choose(spec_of(Answering, ObserverSpec))


class Answers:
    def __init__(self, answer):
        self.answer = answer

    @hookimpl
    def rltrain_make_env(self):
        return self.answer


class Forgets:
    @hookimpl(wrapper=True)
    def rltrain_make_env(self):
        yield


def test_a_final_none_is_an_error_that_names_the_plugin_or_the_wrapper():
    plugins = RunPlugins()
    plugins.register(Answers(None), "suite")
    with says(PluginError):
        plugins.first("rltrain_make_env", "suite 'mine'", session=None)
    plugins = RunPlugins()
    plugins.register(Answers(3), "suite:mine")
    plugins.register(Forgets(), "observer:forgets")
    with says(PluginError):
        plugins.first("rltrain_make_env", "suite 'mine'", session=None)


class Doubles:
    @hookimpl(wrapper=True)
    def rltrain_make_env(self):
        return (yield) * 2


def test_an_observer_wraps_a_hook_and_the_first_answer_that_is_not_none_counts():
    plugins = RunPlugins()
    plugins.register(Doubles(), "observer")
    plugins.register(Answers(21), "suite")
    plugins.register(Answers(None), "another")
    assert plugins.first("rltrain_make_env", "suite", session=None) == 42


class Shuts:
    def __init__(self, log, error=None):
        self.log, self.error = log, error

    @hookimpl
    def rltrain_shutdown(self, error):
        self.log.append(error)
        if self.error:
            raise self.error


def test_each_plugin_is_called_even_if_one_raises():
    plugins, log = RunPlugins(), []
    failures = {"a": OSError("a"), "b": None, "c": KeyboardInterrupt("c"), "d": None}
    for name, failure in failures.items():
        plugins.register(Shuts(log, failure), name)
    assert plugins.call_each("rltrain_shutdown", session=None, error="why") == failures
    assert log == ["why"] * 4


def test_an_import_string_names_an_object_after_a_colon():
    for factory in ("no_such_module:Name", "rltrain.plugins.registry:NoSuchClass"):
        with says(PluginError):
            RunPlugins().choose(WriterSpec(name="mine", factory=factory))
    assert load_object("rltrain.specs:SuiteSpec") is SuiteSpec
    with says(PluginError):
        load_object("a.b.C")


HOOKS = {
    name: hook
    for hooks in (DeclarationHooks, RunHooks)
    for name, hook in vars(hooks).items()
    if name.startswith("rltrain_")
}


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_typed_documented_and_has_an_example(name):
    signature = inspect.signature(HOOKS[name])
    text = inspect.getdoc(HOOKS[name])
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in list(signature.parameters.values())[1:]:
        assert parameter.annotation is not inspect.Parameter.empty
        assert f"`{parameter.name}`" in text or parameter.name == "session"
    example = text.partition("Example:")[2]
    assert f"def {name}(" in example
    assert "@hookimpl" in example


def test_required_hooks_exist():
    known = set(HOOKS) | {"launch", "add_arguments", "run"}
    for kind in KINDS.values():
        assert set(kind.requires) <= known
        assert kind.requires or kind.kind in ("cluster", "observer")
