#!/usr/bin/env bash
# Installs what the tests drive besides the engine, where this is possible: a real browser.
# Tests that need one of them say so and skip when it is missing.
set -euo pipefail
missing=()
command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium)
command -v npm >/dev/null || missing+=(npm)
command -v gcc >/dev/null || missing+=(gcc libc6-dev) # for the race detector
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "not installed, some tests will skip: ${missing[*]}" >&2
	exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}"
