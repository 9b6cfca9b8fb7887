#!/usr/bin/env bash
# One run of every benchmark: the whole server beside a bare one, then the packages' own.
set -euo pipefail
cd "$(dirname "$0")/../.."
go run ./cmd/pagetallybench
go run ./cmd/pagetallybench read
go test ./... -run '^$' -bench . -benchmem -p 1 -timeout 30m
