#!/usr/bin/env bash
# Collects in build/gpu what gpu_session.sh needs on a machine with a GPU, torch and jax, but no package index: about 60 MB.
#
#   benchmarks/gpu_carry.sh [PYTHON]
#
# PYTHON has pip and hatchling, and an index. That machine has Python 3.12, torch 2.11 with CUDA 13, numpy, jax, flax, optax, onnx,
# onnxruntime, tensorboard, rich, pluggy and pytest with timeout and xdist. Other versions:
#
#   CONSTRAINTS  the exact versions of what is carried (constraints/torch-2.11.txt)
#   THERE        its Python (3.12)
#   CUDA         its CUDA (13)
#   ARCH         its GPU: 90 is Hopper
#   SIMULATORS   any text: mjlab with its simulator too, 170 MB more
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-.venv/bin/python}
constraints=${CONSTRAINTS:-constraints/torch-2.11.txt} there=${THERE:-3.12} cuda=${CUDA:-13} arch=${ARCH:-90}
rm -rf build/gpu
mkdir -p build/gpu/wheels
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pip() { "$python" -m pip --disable-pip-version-check "$@"; }
platforms=()
for each in manylinux_2_28 manylinux_2_27 manylinux_2_18 manylinux_2_17 manylinux2014 manylinux1; do
  platforms+=(--platform "${each}_x86_64")
done
download() {
  pip download --quiet --no-deps --only-binary=:all: --python-version "$there" --implementation cp "${platforms[@]}" "$@"
}

for project in . src/plugins/*/*; do
  pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/gpu/wheels "$project"
done
download --constraint "$constraints" --dest build/gpu/wheels \
  gymnasium cloudpickle farama-notifications rl-games rsl-rl-lib skrl tensordict omegaconf gitpython gitdb smmap tensorboardx setproctitle \
  watchdog pyvers orjson importlib-metadata 'mujoco<3.12' imageio glfw pyopengl tqdm etils onnxscript onnx-ir
[ -z "${SIMULATORS:-}" ] ||
  download --constraint constraints/mjlab.txt --dest build/gpu/wheels mjlab mujoco-warp warp-lang

# The newest NCCL, without code for other GPUs: torch's own cannot have two ranks on one GPU before 2.30.
download --dest "$work" "nvidia-nccl-cu$cuda>=2.30"
unzip -q "$work"/nvidia_nccl*.whl 'nvidia/nccl/lib/libnccl.so.2' -d "$work"
"$python" benchmarks/prune_fatbin.py "$work/nvidia/nccl/lib/libnccl.so.2" "$arch" build/gpu/libnccl.so.2
strip --strip-unneeded build/gpu/libnccl.so.2
xz -1 -T0 -f build/gpu/libnccl.so.2
du -sh build/gpu/*
