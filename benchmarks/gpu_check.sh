#!/usr/bin/env bash
# Everything that is checked on a machine with a GPU, in one call: the gpu tests, compute-sanitizer
# over the examples, and the timings.
#   JOBS=14 bash benchmarks/gpu_check.sh tests sanitize racecheck omitted truth time limits launch
#   BUDGET=400 BENCH='--only jacobi* --peers none' bash benchmarks/gpu_check.sh time
set -u
# compute-sanitizer over all examples, in six processes: NAME [option ...]; exit status 1 if any found something.
check() {
  local name=$1 part pids=() code=0
  shift
  for part in 0 1 2 3 4 5; do
    timeout 400 compute-sanitizer "$@" --error-exitcode 9 python3 benchmarks/run_examples.py --part $part/6 > "$out/$name$part.log" 2>&1 &
    pids+=($!)
  done
  for part in "${pids[@]}"; do wait "$part" || code=1; done
  echo "rc $code"
  grep -hE "SUMMARY|hazard|runs$|Error" "$out/$name"?.log
  cat "$out/$name"?.log > "$out/$name.log" && rm -f "$out/$name"?.log
}
out=${OUT:-/tmp/gpu_check}
mkdir -p "$out"
export PYTHONUNBUFFERED=1 LOOPFUSE_CACHE_DIR=/tmp/loopfuse-cache
for part in "$@"; do
  echo "=== $part"
  case "$part" in
    tests) timeout 560 python3 -m pytest -m gpu -n ${JOBS:-8} --dist worksteal -q tests/gpu --no-header --tb=short --maxfail=12 2>&1 | tee "$out/tests.log" | tail -30 ;;
    runtime) timeout 120 python3 -m pytest -m gpu -n 0 -q tests/gpu/test_runtime_gpu.py --no-header --tb=short 2>&1 | tee "$out/runtime.log" | tail -30 ;;
    sanitize) check sanitize --tool memcheck --report-api-errors no ;;
    racecheck) check race --tool racecheck ;;
    time) cp benchmarks/results/gpu.json "$out/gpu.json"; timeout $((${BUDGET:-200} + 60)) python3 benchmarks/gpu.py --json "$out/gpu.json" --budget "${BUDGET:-200}" ${BENCH:-} 2>&1 | tee "$out/gpu.log" | tail -90 ;;
    limits) python3 benchmarks/limits.py --json "$out/limits.json" --budget "${BUDGET:-280}" 2>&1 | tail -30 ;;
    omitted) timeout 200 python3 benchmarks/omitted.py --json "$out/gpu_omitted.json" 2>&1 | tee "$out/omitted.log" | tail -20 ;;
    truth) timeout 300 python3 benchmarks/bench_truth.py --json "$out/gpu_bench_truth.json" 2>&1 | tee "$out/truth.log" | tail -30 ;;
    launch) timeout 100 python3 benchmarks/launch.py --json "$out/launch.json" 2>&1 | tee "$out/launch.log" | tail -40 ;;
  esac
done
