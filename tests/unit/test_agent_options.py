"""A library's options: its file or its defaults, and dotted overrides, never restructured."""

from __future__ import annotations

import pytest
import stub_plugin
from helpers import refusal
from messages import check_said, says

from rltrain.errors import UsageError
from rltrain.files.dotted import flatten, get_dotted, leaves, overlaid, set_dotted
from rltrain.options.agent import load_agent, override_agent, parse_override, resolve_env
from rltrain.plugins.registry import PluginRecord, Registry
from rltrain.specs import Choices, Keys, LibrarySpec, OptionSchema, SuiteSpec
from rltrain.types import TaskInfo

TASK = TaskInfo("Stub-v0", "continuous", options={"gravity": 9.8, "mass": 1.0})


def library(name: str, *required: str, read_file=dict, **schema) -> LibrarySpec:
    facts = {"factory": "nowhere:Nothing", "frameworks": ("numpy",), "algorithms": ("ppo",)}
    facts |= {"default_agent": stub_plugin.default_agent, "read_file": read_file}
    return LibrarySpec(name=name, schema=OptionSchema(required=required, **schema), **facts)


STUB = library("stub", "learn.iterations", "model", also=frozenset({"learn.clip"}))
OTHER = library("other", "runner.steps", "runner.rate")
SUITE = SuiteSpec(
    name="some",
    factory="nowhere:Nothing",
    frameworks=("torch", "jax"),
    describe=lambda task, env: None,
    tasks=list,
)
REGISTRY = Registry([PluginRecord("p", "p", "1", "ready", specs=(STUB, OTHER))])


def resolve(overrides, path=None):
    options, source = load_agent(path, STUB, "ppo", "torch", SUITE, TASK, REGISTRY)
    override_agent(options, overrides, STUB, source, {})
    return options


def refused(overrides, path=None) -> str:
    return refusal(resolve, overrides, path)


@pytest.mark.parametrize(
    ("token", "read"),
    [
        *(("agent.rate=3e-4", ("agent", "rate", 3e-4)), ("agent.a.b.c=1", ("agent", "a.b.c", 1))),
        *(("env.on=true", ("env", "on", True)), ("env.name=a=b", ("env", "name", "a=b"))),
        ("agent.units=[64, 32]", ("agent", "units", [64, 32])),
        ("agent.map={a: 1, b: [2]}", ("agent", "map", {"a": 1, "b": [2]})),
        *(("agent.x=null", ("agent", "x", None)), ("agent.x=", ("agent", "x", None))),
        *(("agent.x='1'", ("agent", "x", "1")), ("agent.x=None", ("agent", "x", "None"))),
        ("agent.layers.0.size=7", ("agent", "layers.0.size", 7)),
        *(("+agent.new=1", ("agent", "+new", 1)), ("+env.new=1", ("env", "+new", 1))),
        ("csv.flush=1", ("csv", "flush", 1)),
        ("slurm.time=4:00:00", ("slurm", "time", "4:00:00")),
        ("slurm.time=30:00", ("slurm", "time", "30:00")),
    ],
)
def test_an_override_is_read_as_yaml(token, read):
    assert parse_override(token) == read
    assert type(parse_override(token)[2]) is type(read[2])


@pytest.mark.parametrize("token", ["agent=1", "--seed=1", "agent.x", "+x=1"])
def test_other_arguments_are_not_read_as_overrides(token):
    assert parse_override(token) is None


@pytest.mark.parametrize(
    ("token", "message"),
    [
        *(
            (token, "the key is not complete")
            for token in ("agent.=1", "agent.a..b=1", "env.a.=1", "+agent.=1")
        ),
        *(
            (token, "the value does not parse as YAML")
            for token in ("agent.x=[1", "agent.x={a: 1", "agent.x=a: b")
        ),
    ],
)
def test_an_override_without_a_whole_key_or_value_is_refused(token, message):
    told = refusal(parse_override, token)
    assert message in told
    assert told.startswith(token.partition("=")[0])


def test_without_overrides_the_defaults_are_copied_and_nothing_of_the_callers_is_changed():
    options = resolve({})
    assert options == stub_plugin.DEFAULTS
    options["learn"]["rate"] = 0
    assert stub_plugin.DEFAULTS["learn"]["rate"] == 1e-3
    envs = {"number": 1}
    assert resolve({"learn.envs": envs, "learn.envs.number": 2})["learn"]["envs"] == {"number": 2}
    assert envs == {"number": 1}


@pytest.mark.parametrize(
    "overrides",
    [
        {"learn.rate": 0.5, "learn.steps": 9},
        {"learn": {"rate": 0.5, "steps": 9}},
        {"learn": {"rate": 0.5}, "learn.steps": 9},
    ],
)
def test_overrides_may_be_dotted_or_nested_and_keep_the_rest(overrides):
    learn = resolve(overrides)["learn"]
    assert (learn["rate"], learn["steps"], learn["iterations"]) == (0.5, 9, 3)


def test_lists_are_reached_by_index_and_replaced_whole_and_a_mapping_may_replace_a_value():
    assert resolve({"layers.1.size": 5})["layers"] == [{"size": 1}, {"size": 5}]
    assert resolve({"model.units.0": 5})["model"]["units"] == [5, 4]
    assert resolve({"model.units": [1]})["model"]["units"] == [1]
    assert resolve({"model.activation": {"name": "elu"}})["model"]["activation"] == {"name": "elu"}
    assert resolve({"learn.clip": 0.2})["learn"]["clip"] == 0.2  # A declared key may be new.


def test_an_unknown_option_is_refused_with_the_closest_and_how_to_add_it():
    check_said(refused({"learn.ratte": 1}))
    check_said(refused({"activation": "relu"}))
    assert "no such option" in refused({"layers.2.size": 1})


@pytest.mark.parametrize("value", ["x", True, [1, 2], float("inf")])
@pytest.mark.parametrize("plus", ["", "+"])
def test_a_section_of_options_is_a_mapping_or_missing(plus, value):
    check_said(refused({f"{plus}learn": value}))
    assert resolve({"learn": {"clip": 0.1}})["learn"]["clip"] == 0.1


STRICT = library("strict", "a", check_types=True)
USUAL = {"a": {"rate": 1e-3, "clip": False, "units": [64, 64], "name": "elu", "steps": 16}}


def of_kind(key, value):
    options = {"a": dict(USUAL["a"])}
    override_agent(options, {key: value}, STRICT, "a file", USUAL)
    return get_dotted(options, key.removeprefix("+"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("a.rate", "fast"),
        ("a.steps", "16"),
        ("a.clip", "maybe"),
        ("a.clip", [True]),
        ("a.units", 64),
        ("a.units", "64 64"),
    ],
)
def test_a_value_of_another_kind_is_refused_unless_a_plus_says_that_it_is_meant(key, value):
    with says(UsageError):
        of_kind(key, value)
    assert of_kind(f"+{key}", value) == value


def test_a_library_may_take_text_for_a_number_and_what_has_trained_is_not_judged_again():
    options = {"a": {"rate": "fast"}}
    override_agent(options, {}, STRICT, "a run", USUAL, trained_before=True)
    options = {"a": dict(USUAL["a"])}
    override_agent(options, {"a.rate": "lin_1e-3"}, STUB, "a file", USUAL)
    assert options["a"]["rate"] == "lin_1e-3"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("a.rate", value) for value in (1, 0.5, "auto", None)),
        *(("a.clip", value) for value in (True, 0.2, None)),
        *(("a.units", value) for value in ([], ["a"], None)),
        *(("a.name", value) for value in ("relu", 3, ["x"], None)),
    ],
)
def test_values_that_a_library_may_take_pass(key, value):
    assert of_kind(key, value) == value


def with_words(overrides, known=("adam", "sgd"), name="wordy", file="ADAM", **more):
    optimizers = Choices("optimizer", known, ignore_case=True)
    choices = dict.fromkeys(("a.by", "a.all.0", "a.gone"), optimizers)
    spec = library(name, "a", choices=lambda options: choices)
    options = {"a": {"by": file, "all": ["sgd"]}}
    override_agent(options, overrides, spec, "a file", {}, **more)
    return options["a"]


def test_a_word_that_the_library_lacks_is_refused_from_an_override_and_from_a_file():
    told = (
        "wordy has no such optimizer. Did you mean 'sgd'? It has adam, sgd. To give it anyway: "
        "+agent.a.by="
    )
    for arguments in ({"overrides": {"a.by": "sgdd"}}, {"overrides": {}, "file": "sgdd"}):
        assert refusal(with_words, **arguments) == f"agent.a.by=sgdd: {told}"

    told = refusal(with_words, {"a.by": "sgdd"}, name="pytest")
    assert f"=sgdd: pytest {pytest.__version__} has no" in told


def test_words_are_not_judged_after_a_plus_where_none_are_known_or_a_run_has_trained_with_them():
    for overrides in ({"+a.by": "mine"}, {"+a": {"by": "mine"}}):
        assert with_words(overrides)["by"] == "mine"
    assert with_words({"+a.all": ["mine"]})["all"] == ["mine"]
    assert with_words({"a.by": "mine"}, known=())["by"] == "mine"
    assert with_words({}, file="mine", trained_before=True)["by"] == "mine"
    assert with_words({"a.by": None})["by"] is None


def with_keys(overrides, file, **more):
    sections = {
        "": Keys({"a", "b", "steps"}, required=("steps",)),
        "a": Keys({"clip"}),
        "b.none": Keys(()),
    }
    spec = library("keyed", "a", keys=lambda options: sections)
    override_agent(file, overrides, spec, "a file", {}, **more)
    return file


def test_other_programs_may_keep_options_in_an_open_section():
    spec = library("keyed", "a", keys=lambda options: {"a": Keys({"clip", "rate"}, open=True)})
    given = {"a": {"mine": 1, "rate": 2, "ratee": 3}}
    told = override_agent(given, {"+a.clpi": 0, "+b": 1}, spec, "a file", {})
    check_said("\n".join(told))
    with says(UsageError):
        override_agent({"a": {"clipp": 1}}, {}, spec, "a file", {})
    assert override_agent(given, {}, spec, "a run", {}, trained_before=True) == []


@pytest.mark.parametrize(
    "file", [{"steps": 1, "a": {"clpi": 0.2}}, {"steps": 1, "zz": {}}, {"a": {"clip": 0.2}}]
)
def test_a_file_with_other_keys_than_the_librarys_is_refused(file):
    check_said(refusal(with_keys, {}, file))
    with_keys({}, file, trained_before=True)


def test_a_plus_gives_any_key_and_what_is_missing():
    given = with_keys({"+steps": 1, "+a.clpi": 0.2}, {"a": {"clip": 1}})
    assert given == {"a": {"clip": 1, "clpi": 0.2}, "steps": 1}
    assert with_keys({"+a": {"clpi": 0.2}}, {"steps": 1})["a"] == {"clpi": 0.2}
    # It adds an option's parent mappings, too.
    assert resolve({"+new.deep.key": 1})["new"] == {"deep": {"key": 1}}
    assert resolve({"+learn.more": 2})["learn"]["more"] == 2

    assert resolve({"+fail.x": 1})["fail"] == {"x": 1}  # A null may be filled.


@pytest.mark.parametrize("key", ["layers.x", "layers.7.size", "model.units.5", "learn.rate.x"])
def test_a_plus_that_does_not_fit_a_list_or_a_value_is_refused(key):
    check_said(refused({f"+{key}": 1}))


@pytest.fixture
def file(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "agent.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_a_file_replaces_the_defaults_unchanged(file):
    path = file("learn: {iterations: 9, rate: 3e-4}\nmodel: x\nown: [1, {a: null}]\n")
    assert resolve({}, path) == {
        "learn": {"iterations": 9, "rate": 3e-4},
        "model": "x",
        "own": [1, {"a": None}],
    }
    assert resolve({"own.1.a": 2}, path)["own"] == [1, {"a": 2}]
    assert "agent.yaml" in refused({"learn.steps": 1}, path)


def test_another_librarys_file_is_refused_and_named(file):
    check_said(refused({}, file("runner: {steps: 4, rate: 1}\n")))


def test_a_file_with_sections_is_read_as_its_library_says(file):
    def lifted(options):
        return {key: x for key, x in options.items() if key != "outer"} | options.get("outer", {})

    reading = library("reading", "learn.rate", "model", read_file=lifted)
    registry = Registry([PluginRecord("p", "p", "1", "ready", specs=(STUB, reading))])
    path = file("outer: {learn: {rate: 1}}\nmodel: x\n")
    read, source = load_agent(path, reading, "ppo", "torch", SUITE, TASK, registry)
    assert read == {"learn": {"rate": 1}, "model": "x"}
    assert source == path
    with says(UsageError):
        load_agent(path, STUB, "ppo", "torch", SUITE, TASK, registry)


def test_a_file_of_no_library_is_refused_and_options_of_other_files_are_missed(file):
    message = refused({}, file("runner: {steps: 4}\n"))  # Half of what the other one needs.
    check_said(message)
    message = refused({}, file("{defaults: [base], learn: {iterations: 9}}"))
    check_said(message)


def test_env_options_are_checked_if_the_suite_declared_them():
    assert resolve_env(TASK, {"mass": 2}) == {"mass": 2}
    with says(UsageError):
        resolve_env(TASK, {"mas": 2})
    assert resolve_env(TASK, {"+wind": 2}) == {"wind": 2}
    task = TaskInfo("Open-v0", "discrete")  # It declares none.
    assert resolve_env(task, {"a.b": 1, "c": {"d": 2}}) == {"a": {"b": 1}, "c": {"d": 2}}


def test_dotted_access():
    options = {"a": {"b": [{"c": 1}]}, "d.e": 2}
    assert get_dotted(options, "a.b.0.c") == 1
    assert get_dotted(options, "a.b.1.c", "none") == "none"
    assert get_dotted(options, "a.x", None) is None
    set_dotted(options, "a.b.0.c", 5)
    set_dotted(options, "f.g", 6)
    assert options["a"] == {"b": [{"c": 5}]}
    assert options["f"] == {"g": 6}
    options = {"a": {"b": 1, "c": {}}, "d": [{"e": 2}], "f": None}
    assert dict(flatten(options)) == {"a.b": 1, "a.c": {}, "d": [{"e": 2}], "d.0.e": 2, "f": None}
    assert dict(leaves(options)) == {"a.b": 1, "d": [{"e": 2}], "f": None}


def test_merging_options_replaces_leaves_and_whole_lists():
    options = {"a": {"b": 1, "c": [1, 2]}, "d": {"e": 1}, "f": {"g": 1}}
    over = {"a": {"c": [3]}, "d": 2, "h": {"i": [4]}}
    result = overlaid(options, over)
    assert result == {"a": {"b": 1, "c": [3]}, "d": 2, "f": {"g": 1}, "h": {"i": [4]}}
    result["a"]["c"].append(5)
    result["h"]["i"].append(5)
    assert over == {"a": {"c": [3]}, "d": 2, "h": {"i": [4]}}
    assert options["a"]["c"] == [1, 2]
