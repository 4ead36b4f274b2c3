#!/usr/bin/env bash
# Everything a session checks on the GPU machine, in one call: the gpu tests, compute-sanitizer over
# the examples, and the timings. Needs the wheels of .whl (see the device tool's README).
#   bash benchmarks/gpu_check.sh [tests] [sanitize] [time]
set -u
out=${OUT:-/tmp/gpu_check}
mkdir -p "$out"
export PYTHONUNBUFFERED=1 LOOPFUSE_CACHE_DIR=/tmp/loopfuse-cache
for part in "${@:-tests}"; do
  case "$part" in
    tests) timeout 300 python3 -m pytest -m gpu -p no:xdist -o addopts= -q tests/gpu --no-header --tb=short --maxfail=12 2>&1 | tee "$out/tests.log" | tail -40 ;;
    sanitize) timeout 240 compute-sanitizer --tool memcheck --error-exitcode 9 python3 benchmarks/run_examples.py 2>&1 | tee "$out/sanitize.log" | tail -8 ;;
    racecheck) timeout 200 compute-sanitizer --tool racecheck --error-exitcode 9 python3 benchmarks/run_examples.py l2norm stats 2>&1 | tee "$out/race.log" | tail -8 ;;
    time) timeout 200 python3 benchmarks/gpu.py --json "$out/gpu.json" 2>&1 | tee "$out/gpu.log" | tail -60 ;;
  esac
done
