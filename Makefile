# podstead: build, check, test, bench, demo. Everything runs from a fresh clone
# on Debian with Go; `make setup` installs the other dependencies. Only bin/ and
# dist/ are written into the tree.

include test/testbed/versions.env

GO          ?= go
LINT        := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
# Empty without git; the program then uses what the Go tool recorded.
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT      ?= $(shell git rev-parse HEAD 2>/dev/null)
# The date of the commit, in seconds, so that a release can be built again, byte by byte.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)
DATE         = $(shell date -u -d @$(SOURCE_DATE_EPOCH) +%Y-%m-%dT%H:%M:%SZ 2>/dev/null)
# All packages except those that need root and a container runtime.
UNIT         = $(shell $(GO) list ./... | grep -v -e /test/testbed -e /test/e2e -e '/test/machine$$' -e /test/bench -e /test/compare -e /test/demo)
# Empty, or a directory of test/e2e.
SUBJECT     ?=
E2E_FLAGS   ?=

.PHONY: build release release-check setup check unit shellcheck vulncheck fuzz race oracle e2e life machine test bench compare demo screenshot site clean help
.DEFAULT_GOAL := build

# SECONDS, which make test prints, is of bash.
SHELL := /bin/bash

# The tag excludes gRPC's tracing pages, whose templates keep every method of
# every type in the binary: 40 MB instead of 46.
GOBUILDFLAGS = -tags grpcnotrace -ldflags "-X github.com/podstead/podstead/internal/buildinfo.version=$(VERSION) -X github.com/podstead/podstead/internal/buildinfo.commit=$(COMMIT) -X github.com/podstead/podstead/internal/buildinfo.date=$(DATE)"
PROGRAM     ?= ./cmd/podstead
BIN         ?= bin

# Without cgo the program is static, and one binary runs on every Linux, with glibc
# or musl. It is not position-independent: Go creates a static PIE only with cgo and
# a C library. A PIE without cgo names glibc's loader as its interpreter, is 3 MB
# larger, uses 4 MB more memory for its relocations and starts 2 ms later.
build: ## build bin/podstead
	CGO_ENABLED=0 $(GO) build $(GOBUILDFLAGS) -o $(BIN)/podstead $(PROGRAM)

NFPM        ?= $(GO) run github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)
# Called with the path of the checksums, such as SIGN_COMMAND="minisign -Sm".
SIGN_COMMAND ?=
RELEASE_FLAGS ?=

release: ## build archives, packages, checksums and bills of materials into dist/; RELEASE_FLAGS="-platforms arm64" selects
	$(GO) run ./build/release -version "$(VERSION)" -commit "$(COMMIT)" -date "$(or $(SOURCE_DATE_EPOCH),0)" \
		-nfpm "$(NFPM)" -sign "$(SIGN_COMMAND)" -out dist $(RELEASE_FLAGS)

release-check: ## build the release for amd64 twice, in two directories and with an empty cache, and compare the checksums
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; mkdir "$$tmp/tree"; git ls-files -z | xargs -0 cp --parents -t "$$tmp/tree"; \
		$(MAKE) release SIGN_COMMAND= RELEASE_FLAGS="-platforms amd64 -out $$tmp/one"; \
		GOCACHE="$$tmp/cache" $(MAKE) -C "$$tmp/tree" release SIGN_COMMAND= RELEASE_FLAGS="-platforms amd64 -out $$tmp/two" \
			VERSION="$(VERSION)" COMMIT="$(COMMIT)" SOURCE_DATE_EPOCH="$(SOURCE_DATE_EPOCH)"; \
		cmp "$$tmp/one/SHA256SUMS" "$$tmp/two/SHA256SUMS" && cat "$$tmp/one/SHA256SUMS"

setup: ## install the test dependencies (Debian packages, containerd, a systemd root); needs root
	test/setup.sh

# .golangci.yml has the checks, of which vet and staticcheck are a part. vet for arm compiles
# everything for a 32-bit machine, whose system calls have other types.
check: ## run gofmt, mod verify, golangci-lint and the unit tests: a few minutes, no root
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
		if [ -n "$$unformatted" ]; then echo "not gofmt-ed:" $$unformatted >&2; exit 1; fi
	$(GO) mod verify
	GOARCH=arm $(GO) vet $(UNIT)
	$(GO) run $(LINT) run --show-stats=false ./...
	$(MAKE) unit

unit: ## run the unit tests, including fuzz seeds and fault injection in the fake runtime
	$(GO) test -timeout 20m $(UNIT)

# Not a part of check, which needs nothing but Go: make setup installs shellcheck. The scripts of the rpm
# have no interpreter line, since rpm gives them one.
shellcheck: ## run shellcheck over every shell script
	shellcheck -x -e SC2016 $$(git grep -lE '^#!/(usr/)?bin/(env )?(ba|da)?sh$$' -- ':!*.go' ':!*.md' ':!*.yaml')
	shellcheck -s sh build/package/rpm/*

# Not a part of check: it needs the network, and it can fail without a change of the code.
VULNCHECK_FLAGS ?=

vulncheck: ## look for known vulnerabilities; VULNCHECK_FLAGS="-db file:///DIR" takes another database
	$(GO) run $(GOVULNCHECK) -tags grpcnotrace $(VULNCHECK_FLAGS) ./cmd/podstead

# Inputs that fail are written to testdata next to the target, and are then run by make unit.
FUZZTIME    ?= 30s

fuzz: ## run each fuzz target for FUZZTIME (30s)
	@set -e; for dir in $$(git ls-files '*_test.go' | xargs grep -l '^func Fuzz' | xargs -n 1 dirname | sort -u); do \
		for target in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go | cut -d ' ' -f 2); do \
			echo "$$dir $$target"; \
			$(GO) test ./$$dir -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x; \
		done; \
	done

# One thread at a time: the race detector of Go 1.26 can crash when the timers of a
# synctest bubble fire on two threads. It detects races by order, not by threads.
race: ## run the unit tests with the race detector
	CGO_ENABLED=1 $(GO) test -race -cpu 1 -timeout 30m $(UNIT)

oracle: ## compare defaulting and validation with Kubernetes' own, in a separate module
	cd test/oracle && $(GO) vet ./... && $(GO) test -count=1 -timeout 20m ./...

e2e: setup ## run the end-to-end tests on real runtimes and a real systemd; SUBJECT=volumes or E2E_FLAGS="-run TestEviction -v" selects
	$(if $(SUBJECT)$(E2E_FLAGS),,$(GO) test -count=1 -timeout 30m ./test/testbed)
	test/e2e/run.sh "$(SUBJECT)" $(E2E_FLAGS)

life: ## run the quick part of the tests in a virtual machine: install, boot, reboot, three power cuts, purge
	test/setup.sh machine
	$(GO) test -count=1 -v -timeout 60m ./test/machine -run '^TestLife$$'

# One machine at a time: it takes two cores.
ROUNDS      ?= 100

machine: ## run the tests in virtual machines, with ROUNDS (100) power cuts; MACHINE_FLAGS="-run TestShutdown -v" selects
	test/setup.sh machines
	$(GO) test -count=1 -timeout 24h $(MACHINE_FLAGS) ./test/machine -rounds $(ROUNDS)

# Each step says when it starts: continuous integration ends what takes too long.
test: ## run all tests, cheapest first
	@set -e; for step in setup shellcheck check race oracle demo e2e life; do \
		echo "make test: $$step starts after $$(($$SECONDS / 60)) minutes"; $(MAKE) $$step; \
	done; echo "make test: ends after $$(($$SECONDS / 60)) minutes"

bench: setup ## compare with bare CRI calls: prints a table, writes bin/bench.json
	@mkdir -p bin
	$(GO) run ./test/bench -json bin/bench.json $(BENCH_FLAGS)

compare: ## compare with the kubelet and podman kube play: prints the table of docs/compare.md, in about ten minutes
	test/setup.sh compare
	$(GO) run ./test/compare $(COMPARE_FLAGS)

demo: ## demonstrate podstead with a private runtime, and clean up; needs root
	@test/setup.sh runtime
	@$(GO) run ./test/demo

screenshot: setup ## write docs/session.svg and the output in docs/monitor.md from what the commands print
	$(GO) test -count=1 -timeout 20m ./test/e2e/docs -run '(TestTaskPages|TestMonitoringExamples)$$' -update-screenshot

HUGO        ?= CGO_ENABLED=0 $(GO) run github.com/gohugoio/hugo@$(HUGO_VERSION)

# Hugo takes its parameters from the environment too. A warning, such as one about a link, is an error.
site: ## build the documentation as a static site with search into bin/site; it works from its files
	HUGO_PARAMS_VERSION="$(VERSION)" $(HUGO) --source build/site --destination "$(abspath $(BIN))/site" \
		--cleanDestinationDir --noBuildLock --panicOnWarning --quiet

clean: ## remove bin/ and dist/
	rm -rf bin dist

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
