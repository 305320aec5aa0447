"""Secrets in options, command lines and variables are in no file that a run writes."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import stub_parts

from rltrain.cli.main import main
from rltrain.files.secrets import HIDDEN, hide, hide_in_text, hide_words
from rltrain.options import load_yaml
from rltrain.storage.resume import circumstances
from rltrain.testing import make_config
from rltrain.types import World

SECRET = "s3cr3t-of-mine"


@pytest.mark.parametrize(
    "name",
    [
        *("WANDB_API_KEY", "HF_TOKEN", "DB_PASSWORD", "MY_SECRET", "SIGNING_KEY", "SLURM_JWT"),
        *("api_key", "wandb.api_key", "agent.logger.api-key", "token", "access_token", "password"),
        *("AWS_SECRET_ACCESS_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "client_secret"),
        *("WANDB_KEY", "wandb_key", "agent.wandbKey", "API-KEY", "APIKey", "apikeys"),
        *("auth", "oauth", "bearer", "apiToken", "authToken", "dbPassword", "PGPASSWORD"),
        *("MYSQL_PWD", "cookie", "Set-Cookie", "Authorization", "connection_string"),
        *(
            "SENTRY_DSN",
            "session_id",
            "csrftoken",
            "jwt",
            "comet_ml_key",
            "wandb.key",
            "agent.api.key",
        ),
    ],
)
def test_values_are_hidden_by_name(name):
    assert hide(SECRET, name) == HIDDEN
    assert hide({"a": [{name: SECRET}]}) == {"a": [{name: HIDDEN}]}


@pytest.mark.parametrize("name", ["password", "db_pwd", "agent.dbPassword", "token", "auth"])
def test_a_number_may_be_a_password(name):
    assert hide_words([f"{name}=246813"]) == [f"{name}=(hidden)"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("seed", 7), ("key", "reward"), ("sort_key", "reward"), ("obs_keys", ["policy"])),
        *(("num_tokens", 5), ("monkey", "x"), ("password", ""), ("api_key", None)),
        *(("repository", "ssh://git@host/x"), ("at", "http://host:80/a@b")),
        *(("token_dim", 64), ("num_tokens", 8), ("max_tokens", 4_000_000), ("tokenizer", "bpe")),
        *(("auth_hidden_size", 3), ("key_dim", 16), ("keyframe", "first"), ("keys", ["a", "b"])),
        *(("password_length", 12), ("password_file", "/x/y"), ("secret_sauce", True)),
        *(("jwt", False), ("cookie_cutter", "round"), ("forward_pass", "fused"), ("auth", "")),
        *(("obs_key", "policy_state_12345678"), ("rng_key", 123456789), ("author", "me")),
        *(("git_commit", "0" * 40), ("PWD", "/home/me/runs"), ("token", "none"), ("lr", 1e-3)),
        *(("note", "two: words"), ("file", "a=b.yaml"), ("basic", "training of walkers")),
    ],
)
def test_other_values_are_not(name, value):
    assert hide(value, name) == value
    assert hide_words([f"agent.{name}={value}"]) == [f"agent.{name}={value}"]


@pytest.mark.parametrize(
    "secret",
    [
        *("AKIAIOSFODNN7EXAMPLE", "ghp_" + "aB3" * 12, "github_pat_" + "a1_" * 12),
        "hf_" + "aBc" * 12,
        *("glpat-" + "x1-y" * 5, "sk-proj-" + "aB3-" * 10, "sk-ant-api03-" + "aB3" * 10),
        *("xoxb-123456789012-abcdefABCDEF", "AIza" + "aB3-_" * 7, "npm_" + "aB3" * 12),
        *("pypi-AgEIcHlwaS5vcmc" + "x" * 20, "wandb_v1_" + "aB3" * 12, "local-" + "0af1" * 10),
        *("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_123", "eyJ" + "abcd" * 30 + "=="),
        "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
    ],
)
def test_tokens_of_services_are_hidden_whatever_their_name(secret):
    assert hide(secret, "agent.x") == HIDDEN
    assert hide_words([f"+agent.x={secret}", secret]) == ["+agent.x=(hidden)", HIDDEN]
    assert secret not in str(hide({"a": [f"--x {secret}", {"b": f"see {secret}"}]}))


@pytest.mark.parametrize(
    ("url", "hidden"),
    [
        ("https://{}@host/x", "https://(hidden)@host/x"),
        ("https://{}:x-oauth-basic@host/x", "https://(hidden)@host/x"),
        ("https://host/x?a=1&token={}&b=2", "https://host/x?a=1&token=(hidden)&b=2"),
        ("https://host/x?X-Amz-Signature={}", "https://host/x?X-Amz-Signature=(hidden)"),
        ("https://host/x#access_token={}", "https://host/x#access_token=(hidden)"),
        ("https://hooks.slack.com/services/{}", "https://hooks.slack.com/services/(hidden)"),
        ("redis://:{}@host:6379/0", "redis://(hidden)@host:6379/0"),
    ],
)
def test_what_opens_a_url_is_hidden(url, hidden):
    url = url.format("s3cr3t-0f-m1ne-alone")
    assert hide(url, "agent.url") == hidden
    assert hide_words([f"agent.url={url}", "--at", url]) == [f"agent.url={hidden}", "--at", hidden]


@pytest.mark.parametrize(
    ("word", "hidden"),
    [
        ("+agent.cfg={password: S, a: 1}", "+agent.cfg={password: (hidden), a: 1}"),
        (
            "+agent.cfg={a: {dbPassword: S}, l: [1]}",
            "+agent.cfg={a: {dbPassword: (hidden)}, l: [1]}",
        ),
        ('agent.cfg={"api_key": "S"}', 'agent.cfg={"api_key": (hidden)}'),
        ("agent.cfg=a:\n  password: S\n", "agent.cfg=a:\n  password: (hidden)\n"),
        ("agent.args=[--token, S]", "agent.args=[--token, (hidden)]"),
        ('agent.args=["--token", "S"]', 'agent.args=["--token", (hidden)]'),
        ("agent.cfg={secrets: {wandb: S, hf: S}, a: 1}", "agent.cfg={secrets: (hidden), a: 1}"),
        ("agent.cfg={passwords: [S, S]}", "agent.cfg={passwords: (hidden)}"),
        ("agent.env=WANDB_API_KEY=S", "agent.env=WANDB_API_KEY=(hidden)"),
        ("mpi.args=[-x, WANDB_API_KEY=S]", "mpi.args=[-x, WANDB_API_KEY=(hidden)]"),
        ("agent.headers={Authorization: Bearer S}", "agent.headers={Authorization: (hidden)}"),
        ("agent.header=Authorization: Bearer S", "agent.header=Authorization: (hidden)"),
        ("agent.text='{password: S}'", "agent.text='{password: (hidden)}'"),
        ("agent.odbc=Server=x;Password=S;Port=1", "agent.odbc=Server=x;Password=(hidden);Port=1"),
        ("agent.args=run --token S --x 1", "agent.args=run --token (hidden) --x 1"),
        ("agent.text='{a: \"{password: S}\"}'", "agent.text='{a: \"{password: (hidden)}\"}'"),
        ("-p=1", "-p=1"),
        ("agent.cfg={size: 1,   rate: 2}", "agent.cfg={size: 1,   rate: 2}"),
        ("agent.x=${oc.env:HOME}", "agent.x=${oc.env:HOME}"),
    ],
)
def test_secrets_are_found_in_what_a_word_holds(word, hidden):
    assert hide_words([word.replace("S", SECRET) if "Server" not in word else word]) == [hidden]


PARTS = ("[", "{a: ", "a=", "a: ", "a: [", "--a ", "a:\n", "'", "a: 'b", "password: x ", "token=[")


@pytest.mark.parametrize("part", [*PARTS, " ", "://"])
def test_looking_for_secrets_takes_no_longer_than_the_text(part):
    began = time.process_time()
    hide(part * (100_000 // len(part)), "note")
    assert time.process_time() - began < 2.0


def test_aliases_are_not_expanded():
    """Where a text is read as YAML, a few hundred letters are as long as their writer likes."""
    levels = [
        f"{x}: &{x} [{', '.join([f'*{y}'] * 9)}]" for y, x in itertools.pairwise("abcdefghij")
    ]
    text = f"{{a: &a [{', '.join('x' * 9)}], {', '.join(levels)}}}"
    assert hide({"rdzv_id": text}) == {"rdzv_id": text}


def test_a_message_has_none_of_the_secrets_that_were_given(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["rltrain", f"+agent.cfg={{password: {SECRET}}}", "--x=1"])
    monkeypatch.setenv("HF_TOKEN", "another-of-mine")
    text = f"{SECRET} and another-of-mine and a-third at http://me:pw@host are wrong: x=1"
    assert hide_in_text(text, {"auth": "a-third"}) == (
        "(hidden) and (hidden) and (hidden) at http://(hidden)@host are wrong: x=1"
    )


def test_a_command_line_keeps_all_but_its_secrets():
    words = ["rltrain", "--seed", "1", f"+agent.api_key={SECRET}", f"--token={SECRET}"]
    more = ["--api-key", SECRET, "mlflow.uri=http://me:pw@host", "agent.key=a"]
    assert hide_words([*words, *more]) == [
        *("rltrain", "--seed", "1", "+agent.api_key=(hidden)", "--token=(hidden)"),
        *("--api-key", HIDDEN, "mlflow.uri=http://(hidden)@host", "agent.key=a"),
    ]


FLAGS = (
    *("--library", "stub", "--task", "StubOpen-v0", "--framework", "numpy", "--backend", "stub"),
    *("--grad-sync", "plain", "--max-iterations", "1"),
)

WAYS = (
    "+agent.learn.api_key={}",
    "+agent.learn.cfg={{password: {}, deep: [{{token: {}}}]}}",
    "+agent.learn.WANDB_KEY={}",
    "+agent.learn.url=https://{}@host/x?token={}",
    '+agent.learn.header="Authorization: Bearer {}"',
    "+agent.learn.odbc='Server=x;Password={}'",
    "+agent.learn.args=[--token, {}]",
    "+env.auth={}",
    "+env.connectionString={}",
    "+env.storage=postgresql://me:{}@host/db",
)
"""Each way to type a secret in a command line."""


def files_with(folder: Path, secret: str) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 5
    return [path for path in files if secret.encode() in path.read_bytes()]


def run_command(monkeypatch, capfd, *words: str) -> tuple[int, str]:
    capfd.readouterr()
    monkeypatch.setattr(sys, "argv", ["rltrain", *words])
    status = main([*words])
    return status, "".join(capfd.readouterr())


def test_no_file_and_no_output_of_a_run_has_a_secret(stub, monkeypatch, capfd):
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    words = [word.format(*[SECRET] * 2) for word in WAYS]
    words += ["--writer", "notes", "--writer", "console"]
    for more in (["--dry-run"], []):
        status, printed = run_command(monkeypatch, capfd, *FLAGS, *words, *more)
        assert (status, SECRET in printed) == (0, False), printed
    (run,) = Path("logs").glob("*/*/*")
    assert files_with(Path("logs"), SECRET) == []
    assert SECRET not in str(stub.RECORDS)
    assert "StubOpen-v0" in (run / "manifest.json").read_text()
    options = load_yaml(str(run / "agent.yaml"), "agent")
    assert options["learn"]["url"] == "https://(hidden)@host/x?token=(hidden)"
    assert "api_key" not in options["learn"]  # A run from this file takes it from elsewhere.
    # Whoever goes on from the run gives its secrets again.
    again = ["--resume", str(run), "--trust", "--max-iterations", "2"]
    again.append("+agent.learn.api_key=" + SECRET)
    for more in (["--dry-run"], []):
        status, printed = run_command(monkeypatch, capfd, *again, *more)
        assert (status, SECRET in printed) == (0, False), printed
    assert files_with(Path("logs"), SECRET) == []


def test_a_failure_tells_no_secret(stub, monkeypatch, capfd):
    def refused(text: str) -> Exception:
        return ValueError(f"{text}: {SECRET} and http://me:{SECRET[::-1]}@host are refused")

    monkeypatch.setattr(stub_parts, "ValueError", refused, raising=False)
    for word in (f"agent.no.token={SECRET}", f"agent.fail=[{{x: {SECRET}", "agent.fail=ValueError"):
        words = [*FLAGS, f"+agent.learn.password={SECRET}", word]
        status, printed = run_command(monkeypatch, capfd, *words)
        assert status, printed
        assert SECRET not in printed
    assert "as asked: (hidden) and http://(hidden)@host are refused" in printed
    assert files_with(Path("logs"), SECRET) == files_with(Path("logs"), SECRET[::-1]) == []


def test_circumstances_have_no_secret():
    config = make_config(env={"api_key": SECRET, "mass": np.float64(2.0)})
    found = circumstances(config, World())
    assert (found["env.api_key"], found["env.mass"]) == (HIDDEN, 2.0)


@pytest.mark.parametrize("text", ["x", "http://a:", "a1", "--a ", "key: ", "eyJ", "a.b@", "://"])
def test_a_long_text_takes_no_long_time(text):
    begun = time.monotonic()
    hide_in_text(text * (200_000 // len(text)))
    assert time.monotonic() - begun < 20  # Where time grew with the square, it took minutes.
