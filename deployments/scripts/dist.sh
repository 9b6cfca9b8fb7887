#!/usr/bin/env bash
# Builds dist/pagetally-VERSION-linux-ARCH.tar.gz for amd64 and arm64, and SHA256SUMS. Same source and Go, same bytes.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=${1:?usage: dist.sh VERSION}
rm -rf dist && mkdir -p dist
epoch=$(git log -1 --format=%ct 2>/dev/null || echo 0)
for arch in amd64 arm64; do
	name=pagetally-$version-linux-$arch
	mkdir -p "dist/$name/engine"
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -ldflags "-s -w -X main.version=$version" -o "dist/$name/pagetally" ./cmd/pagetally
	cp README.md CHANGELOG.md LICENSE "dist/$name/"
	mkdir -p "dist/$name/deployments/geo"
	cp -r deployments/clickhouse "dist/$name/deployments/"
	cp deployments/geo/package.json deployments/geo/package-lock.json "dist/$name/deployments/geo/"
	cp deployments/scripts/fetch-engine "dist/$name/"
	cp deployments/embedded/package.json deployments/embedded/package-lock.json "dist/$name/engine/"
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" -C dist -c "$name" | gzip -n >"dist/$name.tar.gz"
	rm -rf "dist/${name:?}"
done
(cd dist && sha256sum ./*.tar.gz | sed 's|\./||' >SHA256SUMS)
ls -l dist
