#!/usr/bin/env bash
# What is to be seen on a GPU, in the order of worth, in fifteen minutes.
#
#   benchmarks/gpu_session.sh [--on-cpu] [--seconds N] [FOLDER]
#
# FOLDER ($OUT, or build/gpu-session) gets a log of each part while it runs, and summary.txt. --on-cpu tries the script where there is
# no GPU. --seconds (840) are those of all parts; each part has a bound of its own, too. PYTHON (python3) is the Python to use. It
# needs no package index: if benchmarks/gpu_carry.sh has made build/gpu, that is installed beside what PYTHON has.
set -u
cd "$(dirname "$0")/.." || exit
python=${PYTHON:-python3} on=cuda seconds=840
while [ $# -gt 0 ]; do
  case $1 in
    --on-cpu) on=cpu ;;
    --seconds) seconds=$2; shift ;;
    -*) sed -n 's/^# \{0,1\}//p' "$0"; exit 2 ;;
    *) OUT=$1 ;;
  esac
  shift
done
folder=${OUT:-build/gpu-session}
mkdir -p "$folder" && folder=$(cd "$folder" && pwd) || exit
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
: > "$folder/summary.txt"

say() { echo "$*" | tee -a "$folder/summary.txt"; }

part() { # NAME LIMIT COMMAND...
  local name=$1 limit=$2 left=$((seconds - SECONDS)) began=$SECONDS status=0
  shift 2
  if [ "$left" -lt 10 ]; then
    say "$name: left out, no time is left"
    return
  fi
  [ "$limit" -le "$left" ] || limit=$left
  timeout --kill-after=10 "$limit" "$@" > "$folder/$name.log" 2>&1 < /dev/null || status=$?
  case $status in
    0) say "$name: well, $((SECONDS - began)) s" ;;
    124 | 137) say "$name: cut off after $limit s" ;;
    *) say "$name: status $status, $((SECONDS - began)) s"; failed=1 ;;
  esac
}

if [ -d build/gpu/wheels ]; then
  part install 120 "$python" -m pip install --quiet --no-index --no-deps --no-compile --target "$work/site" build/gpu/wheels/*.whl
  export PYTHONPATH="$work/site${PYTHONPATH:+:$PYTHONPATH}"
else
  # Run from this checkout, whether or not it is installed.
  PYTHONPATH="$PWD/src/core$(printf ':%s' "$PWD"/src/plugins/*/*)${PYTHONPATH:+:$PYTHONPATH}"
  export PYTHONPATH
fi
nccl=()
if [ -f build/gpu/libnccl.so.2.xz ] && [ $on = cuda ]; then
  xz -dc build/gpu/libnccl.so.2.xz > "$work/libnccl.so.2"
  nccl=(env "LD_PRELOAD=$work/libnccl.so.2")
fi
# jax would take most of the GPU's memory.
export XLA_PYTHON_CLIENT_PREALLOCATE=false RLTRAIN_TEST_DEVICE=$on GIT_PYTHON_REFRESH=quiet

tests=("${nccl[@]}" "$python" -m pytest -p no:cacheprovider -v --timeout 200)
"$python" -c "import xdist" 2> /dev/null && tests+=(-n "$([ $on = cuda ] && echo 6 || echo 2)")
if [ $on = cuda ]; then
  share=(--backend nccl --gpu-ids 0)
  measured=()
  few=()
else
  share=(--backend gloo --device cpu)
  measured=(--device cpu --tiny --library rsl_rl)
  few=(-k "not learn and (rsl_rl or weight)") # All of them take a small machine an hour.
fi
doctor=("${nccl[@]}" "$python" -m rltrain doctor "${share[@]}" --timeout 60)

part machine 60 sh -c "nvidia-smi; $python -m rltrain doctor --no-ranks --json"
# Do two ranks meet over NCCL on one GPU, and how fast; then without MPS.
part two-ranks 90 "${doctor[@]}" --nproc-per-node 2
part four-ranks 90 "${doctor[@]}" --nproc-per-node 4
part without-mps 90 env CUDA_MPS_PIPE_DIRECTORY=/nowhere "${doctor[@]}" --nproc-per-node 2
# What a run goes through on ranks that share a GPU.
part sharing 270 "${tests[@]}" "${few[@]}" tests/integration/cuda/test_sharing.py tests/integration/cuda/test_groups.py
# What rltrain costs beside the libraries' own runs.
part speed 330 "${nccl[@]}" "$python" benchmarks/cuda.py "${measured[@]}" --seconds 270 --output "$folder/speed.jsonl"
# One rank, jax, simulators, videos, exports.
part others 240 "${tests[@]}" "${few[@]}" tests/integration/cuda --deselect tests/integration/cuda/test_sharing.py --deselect tests/integration/cuda/test_groups.py

say "in all $SECONDS s; logs are in $folder"
exit $failed
