"""jax's policies as files: of any batch size, with states, with choices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from messages import says

from rltrain.errors import UsageError
from rltrain.policy import PolicyModule
from rltrain.types import ArrayInfo
from rltrain_jax import exporter
from rltrain_jax.exporter import JaxExporter

WEIGHTS = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)


def recurrent(policy, eye, memory):
    memory = jnp.tanh(policy.astype(jnp.float32) @ WEIGHTS + memory + eye.mean((1, 2, 3))[:, None])
    return jnp.argmax(memory, -1), memory


RECURRENT = PolicyModule(
    function=recurrent,
    inputs={"policy": ArrayInfo((2,), "float64"), "eye": ArrayInfo((4, 4, 1), "uint8")},
    states={"memory": ArrayInfo((3,))},
    output=ArrayInfo((), "int32"),
)


def test_stablehlo_acts_as_the_policy_and_jax_alone_reads_it(tmp_path):
    path, module = tmp_path / "policy.stablehlo", RECURRENT
    about = JaxExporter().export(module, "stablehlo", path, {})
    assert about["platforms"] == ["cpu", "cuda"]
    run = JaxExporter().load(path, "stablehlo")
    random = np.random.default_rng(1)
    for size in (1, 4):
        infos = [*module.inputs.values(), *module.states.values()]
        given = [(random.random((size, *info.shape)) * 3).astype(info.dtype) for info in infos]
        wanted = module.function(*map(jnp.asarray, given))
        for found, expected in zip(run(given), wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    function = export.deserialize(bytearray(path.read_bytes()))
    assert [x.shape for x in jax.jit(function.call)(*given)] == [(4,), (4, 3)]


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(exporter, "_WRITER", "no_flatbuffers_here")
    with says(UsageError):
        JaxExporter().check("stablehlo")
