#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each: fuzz.sh 5s
set -euo pipefail
cd "$(dirname "$0")/../.."
time=${1:?usage: fuzz.sh DURATION}
list=$(git grep -l --untracked '^func Fuzz' -- '*_test.go' || true)
for dir in $(for file in $list; do dirname "$file"; done | sort -u); do
	for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | sed 's/^func //' | sort -u); do
		go test "./$dir" -run '^$' -fuzz "^$target\$" -fuzztime "$time"
	done
done
