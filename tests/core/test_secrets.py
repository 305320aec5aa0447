"""Secrets in options, command lines and variables are in no file that a run writes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from rltrain import train
from rltrain.config import Placement
from rltrain.doctor.variables import variables
from rltrain.options import load_yaml
from rltrain.options.secrets import HIDDEN, hide, hide_words
from rltrain.plugins.registry import discover
from rltrain.testing import make_config

SECRET = "s3cr3t-of-mine"


@pytest.mark.parametrize(
    "name",
    [
        *("WANDB_API_KEY", "HF_TOKEN", "DB_PASSWORD", "MY_SECRET", "SIGNING_KEY", "SLURM_JWT"),
        *("api_key", "wandb.api_key", "agent.logger.api-key", "token", "access_token", "password"),
        *("AWS_SECRET_ACCESS_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "client_secret"),
    ],
)
def test_values_are_hidden_by_name(name):
    assert hide(SECRET, name) == HIDDEN
    assert hide({"a": [{name: SECRET}]}) == {"a": [{name: HIDDEN}]}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("seed", 7), ("key", "reward"), ("sort_key", "reward"), ("obs_keys", ["policy"])),
        *(("num_tokens", 5), ("token", 5), ("monkey", "x"), ("password", ""), ("api_key", None)),
        *(("repository", "ssh://git@host/x"), ("at", "http://host:80/a@b")),
    ],
)
def test_other_values_are_not(name, value):
    assert hide(value, name) == value


def test_a_number_may_be_a_password():
    assert hide(1234, "password") == HIDDEN


def test_passwords_in_urls_are_hidden():
    url = f"postgresql://me:{SECRET}@host:5432/runs"
    assert hide(url, "storage") == "postgresql://me:(hidden)@host:5432/runs"


def test_a_command_line_keeps_all_but_its_secrets():
    words = ["rltrain", "--seed", "1", f"+agent.api_key={SECRET}", f"--token={SECRET}"]
    more = ["--api-key", SECRET, "mlflow.uri=http://me:pw@host", "agent.key=a"]
    assert hide_words([*words, *more]) == [
        *("rltrain", "--seed", "1", "+agent.api_key=(hidden)", "--token=(hidden)"),
        *("--api-key", HIDDEN, "mlflow.uri=http://me:(hidden)@host", "agent.key=a"),
    ]


def test_no_file_of_a_run_has_a_secret(stub, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    monkeypatch.setattr(sys, "argv", ["rltrain", f"agent.api_key={SECRET}"])
    agent = {"+learn.api_key": SECRET, "+learn.url": f"http://me:{SECRET}@host"}
    given = {**stub.OPTIONS, "max_iterations": 1}
    result = train(**{**given, "agent": {**given.get("agent", {}), **agent}})
    files = [path for path in Path(result.run_dir).rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in str(stub.RECORDS[0])
    options = load_yaml(f"{result.run_dir}/agent.yaml", "agent")
    assert options["learn"]["url"] == "http://me:(hidden)@host"
    assert "api_key" not in options["learn"]  # A run from this file takes it from elsewhere.


def test_circumstances_have_no_secret():
    from rltrain.storage.resume import circumstances
    from rltrain.types import World

    config = make_config(env={"api_key": SECRET, "mass": np.float64(2.0)})
    found = circumstances(config, World())
    assert (found["env.api_key"], found["env.mass"]) == (HIDDEN, 2.0)


def test_the_doctor_shows_no_secret():
    environ = {"RLTRAIN_TOKEN": SECRET, "NCCL_DEBUG": "INFO"}
    placement = Placement(backend="gloo")
    text = str(list(variables(environ, discover(), placement, None)))
    assert "RLTRAIN_TOKEN=(hidden)" in text
    assert "NCCL_DEBUG=INFO" in text
    assert SECRET not in text
