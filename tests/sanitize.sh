#!/usr/bin/env bash
# Random queries, then a sample of the conformance suite, on the simulated device under AddressSanitizer and
# UndefinedBehaviorSanitizer. Reports of the sanitizers go to FOLDER, one file for each process; there must be none.
# usage: tests/sanitize.sh FOLDER [SECONDS [arguments of tests/conformance]]
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
folder="$(mkdir -p "$1" && cd "$1" && pwd)"
seconds="${2:-120}"
shift; shift || true
cd "$(dirname "$0")/.."
python=.venv/bin/python

# Python is not built with the sanitizer: its runtime is loaded first, into the tests only.
under() {
    LD_PRELOAD="$(c++ -print-file-name=libasan.so) $(c++ -print-file-name=libstdc++.so.6)" \
        ASAN_OPTIONS="detect_leaks=0:halt_on_error=1:log_path=$folder/report" UBSAN_OPTIONS="print_stacktrace=1:log_path=$folder/report" \
        WARPMILL_SIM_SANITIZE=1 "$@"
}

status=0
WARPMILL_FUZZ_DOOR=sim WARPMILL_FUZZ_SECONDS="$seconds" under "$python" -m pytest -q -p no:cacheprovider \
    tests/python/differential/test_random_queries.py -k for_a_time 2>&1 | tee "$folder/random.log" || status=1
under "$python" tests/conformance --device sim --brief "${@:---tier=fast}" 2>&1 | tee "$folder/conformance.log" || status=1
reports="$(find "$folder" -name 'report.*' | wc -l)"
echo "sanitizers: $reports reports in $folder"
[ "$reports" = 0 ] && exit "$status" || exit 1
