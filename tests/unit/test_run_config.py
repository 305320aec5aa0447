"""Every option of a run is checked, and a wrong one is named as the user wrote it."""

from __future__ import annotations

import dataclasses

import pytest
from helpers import refusal
from messages import check_said

from rltrain.config.checks import flag
from rltrain.errors import UsageError
from rltrain.files.yaml import load_yaml
from rltrain.options import RunOptions
from rltrain.options.run import overlay
from rltrain.testing import make_config


def checked(**options):
    (name,) = options
    return getattr(RunOptions.from_mapping(options), name)


def refused(**options) -> str:
    return refusal(RunOptions.from_mapping, options)


def test_no_options_are_a_run_with_defaults():
    config = RunOptions.from_mapping({})
    assert config == RunOptions()
    assert (config.seed, config.grad_sync, config.distributed) == (42, None, False)


@pytest.mark.parametrize("field", dataclasses.fields(RunOptions), ids=lambda field: field.name)
def test_none_leaves_any_option_to_its_default(field):
    assert RunOptions.from_mapping({field.name: None}) == RunOptions()


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        *((v, (0, 1)) for v in (["0", "1"], [0, 1], "[0, 1]", ["[0,", "1]"], "0,1", ["0,1"])),
        *((3, (3,)), ("0", (0,)), ((2, 0), (2, 0)), (None, None)),
        *(("all", "all"), (["All"], "all"), ("None", "none"), (["none"], "none")),
    ],
)
def test_gpu_ids_are_read_in_every_notation(value, ids):
    assert checked(gpu_ids=value) == ids


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([0, 0], "--gpu-ids 0 0: must be indices from 0, without repeats"),
        ("1,1", "without repeats"),
        ([], "must be indices"),
        ("-1", "indices from 0"),
        ([0, -2], "indices from 0"),
        ("one", "indices such as"),
        (["0", "all"], "indices such as"),
        (True, "indices such as"),
        (1.5, "indices such as"),
    ],
)
def test_wrong_gpu_ids_are_refused(value, message):
    assert message in refused(gpu_ids=value)


@pytest.mark.parametrize(
    ("name", "minimum"),
    [
        *(("node_rank", 0), ("master_port", 1), ("max_restarts", 0), ("num_envs", 1)),
        *(("total_envs", 1), ("max_iterations", 1), ("seed", -1)),
    ],
)
def test_whole_numbers_are_read_and_have_a_minimum(name, minimum):
    assert checked(**{name: str(minimum)}) == minimum
    assert checked(**{name: minimum + 1}) == minimum + 1
    check_said(refused(**{name: minimum - 1}))
    for value in ("many", 1.5, True, [1]):
        check_said(refused(**{name: value}))


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("master_port", "65535", 65535),
        ("master_addr", "[fe80::1]", "fe80::1"),
        ("master_addr", "fe80::1", "fe80::1"),
        *(("nproc_per_node", word, word) for word in ("gpu", "cpu")),
        ("nproc_per_node", "auto", None),
        ("nproc_per_node", 2, 2),
        ("nproc_per_node", "3", 3),
        *(("target_return", value, float(value)) for value in ("-200", 1, "3e2")),
        ("distributed", True, True),
        ("headless", True, True),
        ("hang_timeout", {"start": 5, "end": 3.5}, {"start": 5.0, "end": 3.5}),
        ("hang_timeout", "start=5, end=3.5", {"start": 5.0, "end": 3.5}),
        ("hang_timeout", "3", {"step": 3.0}),
    ],
)
def test_a_value_is_read_in_each_notation(name, value, read):
    assert checked(**{name: value}) == read


NOT_RANKS = (0, "-1", "two", 1.5, True)
NOT_NUMBERS = ("high", [1], "nan", "inf", "-inf", "1e999", 10**400)
NOT_SECTIONS = ("step", "step=", "stop=3", "step=-1", "step=3,", "a=b", "step=1e308", 1e308)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        *(("master_port", port, "must be at most 65535.") for port in (65536, "100000")),
        *(("nproc_per_node", x, "must be a number from 1, gpu, cpu or auto.") for x in NOT_RANKS),
        *((name, 10**40, "") for name in ("num_envs", "max_iterations", "nnodes", "seed")),
        *(("target_return", value, "must be a number.") for value in NOT_NUMBERS),
        *(("distributed", value, "must be true or false.") for value in ("true", 1, "yes")),
        *(("headless", value, "must be true or false.") for value in ("true", 1, "yes")),
        *(("hang_timeout", value, "") for value in (*NOT_SECTIONS, "9" * 40)),
    ],
)
def test_any_other_value_is_refused_and_not_guessed(name, value, message):
    told = refused(**{name: value})
    assert told.startswith(flag(name))
    assert not message or told == f"{flag(name)} {value}: {message}"


@pytest.mark.parametrize("name", ["library", "task", "log_root", "run_name", "device"])
def test_texts_are_texts(name, tmp_path):
    assert checked(**{name: "x"}) == "x"
    assert checked(**{name: tmp_path}) == str(tmp_path)
    assert "must be text" in refused(**{name: 3})
    check_said(refused(**{name: ""}))


@pytest.mark.parametrize("name", ["task", "env"])
def test_an_environment_in_place_of_its_name_is_answered(name):
    class Env:
        def step(self): ...

    for given in (Env, Env()):
        check_said(refused(**{name: given}))


@pytest.mark.parametrize("name", ["writers", "observers"])
def test_names_are_a_list_or_one(name):
    assert checked(**{name: "a"}) == ("a",)
    assert checked(**{name: ["a", "b"]}) == ("a", "b")
    assert checked(**{name: []}) == ()


@pytest.mark.parametrize("name", ["agent", "env"])
def test_options_of_other_parts_are_mappings_of_their_own(name):
    given = {"a": {"b": 1}, "c": 1}
    options = RunOptions.from_mapping({name: given})
    given["c"] = 2
    assert getattr(options, name) == {"a": {"b": 1}, "c": 1}
    check_said(refused(**{name: "a=1"}))


def test_a_message_names_the_flag():
    flags = {"num_envs": "--num-envs", "writers": "--writer", "no_plugins": "--no-plugin"}
    assert {name: flag(name) for name in flags} == flags


@pytest.mark.parametrize(
    ("several", "options"),
    [
        (False, {}),
        (False, {"nproc_per_node": 2}),
        (False, {"distributed": True, "nproc_per_node": 1}),
        (True, {"distributed": True, "nproc_per_node": 2}),
        (True, {"distributed": True}),
        (True, {"distributed": True, "nproc_per_node": 1, "nnodes": 2}),
    ],
)
def test_on_several_ranks_is_whether_there_may_be_more_than_one(several, options):
    assert make_config(**options).on_several_ranks is several


@pytest.fixture
def yaml(tmp_path):
    def load(text: str):
        path = tmp_path / "options.yaml"
        path.write_text(text)
        return load_yaml(str(path), "--config")

    return load


def test_yaml_is_read_as_users_of_these_libraries_expect(yaml):
    loaded = yaml("rate: 3e-4\nflag: true\nname: none\nlist: [1, 2.5]\nempty: null\n8: eight\n")
    others = {"list": [1, 2.5], "empty": None, "8": "eight"}
    assert loaded == {"rate": 3e-4, "flag": True, "name": "none", **others}


def test_a_tuple_in_a_simulators_own_file_is_a_list(yaml):
    text = (
        "dims: !!python/tuple\n- 8\n- 4\nsets: {actor: !!python/tuple [a], b: '!!python/tuple'}\n"
    )
    assert yaml(text) == {"dims": [8, 4], "sets": {"actor": ["a"], "b": "!!python/tuple"}}
    with pytest.raises(UsageError, match="could not determine a constructor for the tag"):
        yaml("a: !!python/object/apply:os.getcwd []\n")


def test_interpolations_are_resolved(yaml, monkeypatch):
    monkeypatch.setenv("STUB_RATE", "0.5")
    loaded = yaml("a: {b: 3}\nc: ${a.b}\nd: ${oc.decode:${oc.env:STUB_RATE}}\n")
    assert (loaded["c"], loaded["d"]) == (3, 0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [1\nc: 2\n", "line 3"),
        ("a:\n  b: ${no.such}\n", "no.such"),
        ("a: 1\na: 2\n", "duplicate key"),
        ("- 1\n- 2\n", "must hold a mapping of options"),
        ("", "must hold a mapping of options"),
        ("a: ${a}\n", "options.yaml"),
    ],
)
def test_an_error_in_a_file_names_the_file_and_the_position(yaml, text, message):
    with pytest.raises(UsageError, match=r"--config .*options\.yaml") as caught:
        yaml(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing.yaml", "there is no such file"),
        (".", "is a folder"),
        ("policy.pth", r"policy\.pth: does not parse"),
    ],
)
def test_what_is_no_file_of_text_is_refused(tmp_path, name, why):
    (tmp_path / "policy.pth").write_bytes(bytes(range(256)))
    with pytest.raises(UsageError, match=why):
        load_yaml(str(tmp_path / name), "--config")


@pytest.mark.parametrize(
    ("file", "given", "left"),
    [
        ({"total_envs": 64, "seed": 1}, {"num_envs": 8}, {"seed": 1}),
        ({"num_envs": 64}, {"total_envs": 8}, {}),
    ],
)
def test_what_is_typed_replaces_what_a_file_says_otherwise(file, given, left):
    found = overlay(file, given)
    assert found == {**left, **given, "agent": {}, "env": {}}
