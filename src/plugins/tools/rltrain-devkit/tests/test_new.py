"""`rltrain new`: a distribution that can be installed, or one line that says why not."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from helpers import run as printed_by
from messages import check_said

from rltrain.cli.main import main
from rltrain.specs import KINDS as SPECS
from rltrain_devkit.new import KINDS, TEMPLATES

ROOT = Path(__file__).parents[5]


@pytest.fixture
def new(tmp_path, monkeypatch, capsys):
    """Run `rltrain new` in an empty folder; return its status, and what it printed."""
    folder = tmp_path / "new"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(*words: str):
        status = main(["new", *words])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def texts(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def named_for(kind: str, name: str) -> str:
    return name.replace("_", "-") if kind == "command" else name


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_is_written_with_the_names_filled_in(new, kind):
    name = named_for(kind, "my-own_thing")
    assert new(name, "--kind", kind)[0] == 0
    files = texts(Path("rltrain-my-own-thing"))
    package = "rltrain_my_own_thing"
    expected = {"pyproject.toml", "README.md", "tests/test_conformance.py"}
    expected |= {f"{package}/__init__.py", f"{package}/plugin.py"}
    expected |= {"LICENSE", ".gitignore", ".github/workflows/test.yml"}
    module = "adapter" if kind == "library" else kind
    if kind == "writer":
        expected.add(f"{package}/options.py")
    assert set(files) == expected | {f"{package}/{module}.py"}
    for file, text in files.items():
        assert "$" not in text.replace("${{ matrix.", ""), file
        if file.endswith(".py"):
            compile(text, file, "exec")
    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert project["name"] == "rltrain-my-own-thing"
    assert project["entry-points"]["rltrain"] == {name: f"{package}.plugin"}
    assert {"library", "test"} <= set(project["optional-dependencies"])
    assert all("<" not in each for each in project["dependencies"])  # Later releases will do.
    named = "".join(map(str.title, kind.split("_")))
    named = f"{package}.{module}:MyOwnThing{named}" if kind != "cluster" else "find=find"
    assert named in files[f"{package}/plugin.py"]


@pytest.mark.parametrize("name", ["a", "a-name_of-some-length"])
def test_written_files_pass_our_own_linter(new, tmp_path, name):
    pytest.importorskip("ruff")
    # As if it were one of our plugins: with their exceptions, and no others.
    plugins = tmp_path / "src" / "plugins" / "kind"
    plugins.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    for kind in KINDS:
        of_kind = named_for(kind, f"{name}-{kind}")
        assert new(of_kind, "--kind", kind, "--into", str(plugins))[0] == 0
    for command in (["check"], ["format", "--diff"]):
        command = (sys.executable, "-m", "ruff", *command, "--no-cache", "src")
        printed_by(*command, cwd=tmp_path, timeout=60)


def test_every_kind_with_a_template_is_a_kind(new):
    assert {path.name for path in TEMPLATES.iterdir() if path.is_dir()} == {*KINDS, "common"}
    assert set(KINDS) == set(SPECS)


def wheel(folder: Path, name: str, version: str) -> None:
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nProvides-Extra: all\n"
    tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for file, text in {"METADATA": metadata, "WHEEL": tag, "RECORD": ""}.items():
            archive.writestr(f"{info}/{file}", text)


def test_its_ci_installs_the_oldest_and_the_newest_rltrain_that_it_admits(new, tmp_path):
    pytest.importorskip("uv")
    new("demo", "--kind", "writer")
    for name, version in [("rltrain", "0.1.9"), ("rltrain", "0.2.0"), ("rltrain", "0.2.7")]:
        wheel(tmp_path, name, version)
    wheel(tmp_path, "rltrain", "0.3.0")
    wheel(tmp_path, "pytest", "8.1")
    ci = yaml.safe_load(Path("rltrain-demo/.github/workflows/test.yml").read_text())
    job = ci["jobs"]["test"]
    (install,) = (s["run"] for s in job["steps"] if s.get("run", "").startswith("uv pip install"))
    found = []
    for case in job["strategy"]["matrix"]["include"]:
        words = shlex.split(install.replace("${{ matrix.resolution }}", case["resolution"]))
        words.remove("--system")
        words += ["--dry-run", "--no-index", "--no-build-isolation", "--find-links", str(tmp_path)]
        words += ["--target", str(tmp_path / "nowhere"), "--python", sys.executable]
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd="rltrain-demo",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found += [line.split("==")[1] for line in done.stderr.split("\n") if "+ rltrain==" in line]
    assert found == ["0.2.0", "0.3.0"]
    assert {"rltrain plugins --check demo", "python -m pytest", "uv build"} < {
        step.get("run") for step in job["steps"]
    }


def test_it_prints_what_it_wrote_and_what_comes_next(new):
    Path("my plugins").mkdir()
    status, out, err = new("demo", "--kind", "suite", "--into", "my plugins")
    assert (status, err) == (0, "")
    written, _, following = out.partition("Next:\n")
    assert written.startswith("Wrote my plugins/rltrain-demo:\n")
    assert set(written.split()[3:]) == set(texts(Path("my plugins/rltrain-demo")))
    assert [line.strip() for line in following.splitlines()] == [
        "pip install -e 'my plugins/rltrain-demo[test]'",
        "rltrain plugins --check demo",
        "python -m pytest 'my plugins/rltrain-demo'",
        "rltrain --task demo/Point-v0 --distributed --nproc-per-node 2 --max-iterations 2",
    ]


def test_the_folder_has_the_usual_permissions(new):
    new("demo", "--kind", "writer")
    Path("plain").mkdir()
    assert Path("rltrain-demo").stat().st_mode == Path("plain").stat().st_mode


WRONG = [
    ("", "the following arguments are required: NAME, --kind"),
    ("demo", "the following arguments are required: --kind"),
    ("demo --kind libary", "--kind libary: must be one of library, backend, suite, writer,"),
    ("demo --kind libary", "Did you mean 'library'?"),
    ("demo_1 --kind command", "NAME 'demo_1': a command has small letters and dashes only."),
    ("demo --kind reward", "--kind reward: must be one of"),
    ("1st --kind writer", "NAME '1st': must begin with a letter"),
    ("my/own --kind writer", "NAME 'my/own': must begin with"),
    ("my_ --kind writer", "NAME 'my_': must begin with"),
    ("_my --kind writer", "NAME '_my': must begin with"),
    ("größe --kind writer", "NAME 'größe': must begin with"),
    ("stub --kind library", "NAME stub: there is already a library 'stub', from rltrain-stub 1.0."),
    ("more-notes --kind writer", "there is already a writer 'more-notes', from rltrain-stub 1.0."),
    ("stub --kind writer", "a distribution rltrain-stub is already installed, from"),
    ("there --kind writer", "rltrain-there: exists already. Choose another NAME"),
    ("link --kind writer", "rltrain-link: exists already."),
    ("demo --kind writer --into none", "--into none: there is no such folder."),
    ("demo --kind writer --into file", "--into file: there is no such folder."),
    ("demo --kind writer --into /proc", "--into /proc: cannot be written to ("),
    ("demo --kind writer --inti x", "Unknown argument '--inti'. Did you mean '--into'?"),
]


@pytest.mark.parametrize(("line", "message"), WRONG)
def test_what_is_wrong_is_reported_in_one_message(new, stub, tmp_path, monkeypatch, line, message):
    monkeypatch.chdir(tmp_path / "new")
    Path("file").touch()
    Path("rltrain-there").mkdir()
    Path("rltrain-link").symlink_to("nowhere")
    before = set(Path().rglob("*"))
    status, out, err = new(*line.split())
    assert (status, out) == (2, "")
    assert err.startswith("rltrain: ")
    assert message in err
    assert "Traceback" not in err
    assert set(Path().rglob("*")) == before


def test_a_full_disk_leaves_nothing_half_written(new, monkeypatch):
    write_text, written = Path.write_text, []

    def fill(path, *arguments, **more):
        written.append(path)
        if len(written) == 4:
            raise OSError(28, "No space left on device")
        return write_text(path, *arguments, **more)

    monkeypatch.setattr(Path, "write_text", fill)
    status, _out, err = new("demo", "--kind", "writer")
    assert (status, len(written)) == (2, 4)
    check_said(err)
    assert list(Path().iterdir()) == []
