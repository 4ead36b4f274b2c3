#!/usr/bin/env bash
# Everything a session checks on the GPU machine, in one call: the gpu tests, compute-sanitizer over
# the examples, and the timings. Needs the wheels of .whl (see the device tool's README).
#   bash benchmarks/gpu_check.sh tests sanitize racecheck time limits launch
#   BUDGET=400 BENCH='--only jacobi* --peers none' bash benchmarks/gpu_check.sh time
set -u
out=${OUT:-/tmp/gpu_check}
mkdir -p "$out"
export PYTHONUNBUFFERED=1 LOOPFUSE_CACHE_DIR=/tmp/loopfuse-cache PYTHONWARNINGS=ignore
for part in "$@"; do
  echo "=== $part"
  case "$part" in
    tests) timeout 330 python3 -m pytest -m gpu -p no:xdist -o addopts= -q tests/gpu --no-header --tb=short --maxfail=12 -W ignore 2>&1 | tee "$out/tests.log" | tail -30 ;;
    runtime) timeout 120 python3 -m pytest -m gpu -p no:xdist -o addopts= -q tests/gpu/test_runtime_gpu.py --no-header --tb=short -W ignore 2>&1 | tee "$out/runtime.log" | tail -30 ;;
    sanitize) timeout 250 compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 python3 benchmarks/run_examples.py > "$out/sanitize.log" 2>&1; echo "rc $?"; tail -4 "$out/sanitize.log" ;;
    racecheck) timeout 250 compute-sanitizer --tool racecheck --error-exitcode 9 python3 benchmarks/run_examples.py > "$out/race.log" 2>&1; echo "rc $?"; tail -4 "$out/race.log" ;;
    time) cp benchmarks/results/gpu.json "$out/gpu.json"; timeout $((${BUDGET:-200} + 60)) python3 benchmarks/gpu.py --json "$out/gpu.json" --budget "${BUDGET:-200}" ${BENCH:-} 2>&1 | tee "$out/gpu.log" | tail -90 ;;
    limits) python3 benchmarks/limits.py --json "$out/limits.json" --budget "${BUDGET:-280}" 2>&1 | tail -30 ;;
    launch) timeout 100 python3 benchmarks/launch.py --json "$out/launch.json" 2>&1 | tee "$out/launch.log" | tail -40 ;;
  esac
done
