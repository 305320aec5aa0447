"""What `rltrain new` writes: the files of a plugin's distribution, of one kind or of several."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from rltrain import API_LEVEL

TEMPLATES = Path(__file__).parent / "templates"
"""Has a folder for each kind and `common`, laid out like the distribution; `package` is renamed."""

SUFFIX = ".tmpl"
"""The suffix of templates, so that tools do not read them as Python files."""

_TWO = "--distributed --nproc-per-node 2 --max-iterations 2"


@dataclass(frozen=True)
class Kind:
    """What differs between kinds, beside their templates."""

    use: str
    """The command that uses the plugin of the template."""
    adapts: str
    """An example of a requirement that such a plugin may have."""
    library: tuple[str, ...] = ()
    """What the template adapts."""
    needs: tuple[str, ...] = ()
    """What it needs beside rltrain."""


KINDS = {
    "library": Kind(
        f"rltrain --library $name {_TWO}",
        "my-library>=1.2,<2",
        needs=("rltrain-torch>=0.1",),
    ),
    "backend": Kind(f"rltrain --backend $name {_TWO}", "mpi4py>=4,<5", library=("torch>=2.7",)),
    "suite": Kind(f"rltrain --task $name/Point-v0 {_TWO}", "mujoco>=3", library=("torch>=2.7",)),
    "writer": Kind(f"rltrain --writer console $name {_TWO}", "wandb>=0.18,<1"),
    "launcher": Kind(f"rltrain --launcher $name {_TWO}", "ray>=2.40,<3"),
    "observer": Kind(f"rltrain --observer $name {_TWO}", "psutil>=6"),
    "gradient_sync": Kind(f"rltrain --grad-sync $name {_TWO}", "torch>=2.7"),
    "cluster": Kind(
        "${variable}_NODES=2 ${variable}_NODE=0 rltrain --distributed --dry-run",
        "some-scheduler>=1",
    ),
    "command": Kind("rltrain $name", "rich>=13"),
}
"""The kinds, in the order in which they are listed."""


def distribution_of(name: str) -> str:
    """Return the distribution's name for a plugin's."""
    return "-".join(["rltrain", *re.split("[-_]", name)]).lower()


def uses_of(name: str, kinds: Sequence[str]) -> list[str]:
    """Return a command that uses the plugin, for each kind."""
    return [Template(KINDS[kind].use).substitute(_named(name)) for kind in kinds]


def files_of(name: str, kinds: Sequence[str], author: str) -> dict[str, str]:
    """Return the text of each file by its path in the distribution."""
    named = _named(name)
    modules = {kind: f"{kind}_plugin" if len(kinds) > 1 else "plugin" for kind in kinds}
    of_kinds = {kind: _filled(kind, {**named, "plugin": modules[kind]}) for kind in kinds}
    sections = []
    for kind, files in of_kinds.items():
        heading = f"\n## The {_words(kind)}\n\n" if len(kinds) > 1 else ""
        sections.append(heading + files.pop("README.md"))
        if len(kinds) > 1:
            files[f"tests/test_{kind}.py"] = files.pop("tests/test_conformance.py")
            files[f"package/{modules[kind]}.py"] = files.pop("package/plugin.py")
    common = {
        **named,
        "what": f"The {_series(list(map(_words, kinds)))} {name}",
        "author": author,
        "author_in_toml": json.dumps(author, ensure_ascii=False),
        "year": str(datetime.date.today().year),
        "dependencies": _listed(["rltrain>=0.1", *_all("needs", kinds)]),
        "library": _listed(_all("library", kinds)),
        "adapts": KINDS[kinds[0]].adapts,
        "sections": "".join(sections),
    }
    files = _filled("common", common)
    if len(kinds) > 1:
        files["package/plugin.py"] = _several(named["package"], kinds)
    for of_kind in of_kinds.values():
        files.update(of_kind)
    files["package/plugin.py"] += f"\n\nrltrain_api = {API_LEVEL}\n"
    return {
        re.sub("^package/", f"{named['package']}/", path): files[path] for path in sorted(files)
    }


def _several(package: str, kinds: Sequence[str]) -> str:
    """Return the module that provides what the modules of several kinds do."""
    imports = [f"from {package}.{x}_plugin import rltrain_provides as {x}" for x in sorted(kinds)]
    provided = [f"        *{kind}()," for kind in kinds]
    text = (TEMPLATES / f"several.py{SUFFIX}").read_text(encoding="utf-8")
    return Template(text).substitute(imports="\n".join(imports), provided="\n".join(provided))


def _named(name: str) -> dict[str, str]:
    """Return the values of the templates' fields that follow from the name."""
    parts = re.split("[-_]", name)
    return {
        "name": name,
        "distribution": distribution_of(name),
        "package": "_".join(["rltrain", *parts]).lower(),
        "variable": "_".join(parts).upper(),
        "title": "".join(part[0].upper() + part[1:] for part in parts),
    }


def _filled(folder: str, fields: dict[str, str]) -> dict[str, str]:
    """Return the text of each template of a folder by its path there."""
    sources = (TEMPLATES / folder).rglob(f"*{SUFFIX}")
    return {
        str(source.relative_to(TEMPLATES / folder).with_suffix("")): Template(
            source.read_text(encoding="utf-8")
        ).substitute(fields)
        for source in sources
    }


def _words(kind: str) -> str:
    return kind.replace("_", " ")


def _series(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _all(field: str, kinds: Sequence[str]) -> list[str]:
    """Return what any of the kinds has in a field, each once."""
    return list(dict.fromkeys(item for kind in kinds for item in getattr(KINDS[kind], field)))


def _listed(items: Sequence[str]) -> str:
    """Return the items of a list of TOML."""
    return ", ".join(map(json.dumps, items))
