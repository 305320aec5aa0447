"""What this plugin provides. It must not import skrl, which can start a process group."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain.hookspecs import hookimpl
from rltrain.specs import LibrarySpec, Spec
from rltrain_skrl.declare.iteration import iteration
from rltrain_skrl.declare.keys import keys, unread
from rltrain_skrl.declare.options import ALGORITHMS, RESTORED, default_agent, in_jax
from rltrain_skrl.declare.refusals import REFUSES
from rltrain_skrl.declare.words import only_computes, words


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the library skrl."""
    return [
        LibrarySpec(
            name="skrl",
            factory="rltrain_skrl.run.library:SkrlLibrary",
            summary="skrl's agents, with the options of its Runner",
            frameworks=("torch", "jax"),
            algorithms=ALGORITHMS,
            default_agent=default_agent,
            convert_defaults={"jax": in_jax},
            required_keys=("models", "agent.class", "trainer"),
            same_kinds=True,
            keys=keys,
            words=words,
            unread=unread,
            harmless=only_computes,
            run_keys={"seed": "seed"},
            restored=RESTORED,
            refuses=REFUSES,
            iteration=iteration,
            read_checkpoint="rltrain_skrl.run.checkpoints:parts",
            checkpoint_keys=frozenset({"an agent of skrl"}),
            # For torch: ranks of jax are not forked.
            preload=dict.fromkeys(("cpu", "cuda"), "rltrain_skrl.run.torch.runner"),
        )
    ]
