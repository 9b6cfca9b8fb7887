#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each: fuzz.sh 5s
set -euo pipefail
cd "$(dirname "$0")/../.."
time=${1:?usage: fuzz.sh DURATION}
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# Go's fuzzer now and then misses the end of its time and calls that a failure, without an input that failed.
missed_its_end() { grep -q 'context deadline exceeded' "$out" && ! grep -q 'Failing input written' "$out"; }

list=$(git grep -l --untracked '^func Fuzz' -- '*_test.go' || true)
for dir in $(for file in $list; do dirname "$file"; done | sort -u); do
	for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | sed 's/^func //' | sort -u); do
		if ! go test "./$dir" -run '^$' -fuzz "^$target\$" -fuzztime "$time" 2>&1 | tee "$out"; then
			missed_its_end || exit 1
		fi
	done
done
