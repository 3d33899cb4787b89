# podstead: build, check, test, bench, demo. Everything runs from a fresh clone
# on Debian with Go; what else is needed is installed by `make setup`. Nothing
# but bin/ is written into the tree.

include test/testbed/versions.env

GO          ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
# All but the packages that need root and a container runtime.
UNIT         = $(shell $(GO) list ./... | grep -v -e /test/testbed -e /test/e2e -e /test/bench -e /test/demo)
# Its tests wait more than they work, so more of them run at once than there are cores.
E2E_FLAGS   ?= -parallel 6

.PHONY: build setup check unit race oracle e2e test bench demo clean help
.DEFAULT_GOAL := build

# The tag leaves out gRPC's tracing pages, whose templates keep every method of
# every type in the binary: 40 MB instead of 46.
build: ## build bin/podstead
	$(GO) build -tags grpcnotrace -o bin/podstead ./cmd/podstead

setup: ## install what the tests need (Debian packages, containerd, a systemd root); needs root
	test/setup.sh

check: ## formatting, vet, staticcheck and unit tests: a few minutes, no root
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
		if [ -n "$$unformatted" ]; then echo "not gofmt-ed:" $$unformatted >&2; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(MAKE) unit

unit: ## unit tests with their fuzz seeds and the fake runtime with its injected faults
	$(GO) test -timeout 20m $(UNIT)

# One thread at a time: the detector of Go 1.26 can crash when the timers of a
# synctest bubble fire on two. What it finds depends on order, not on threads.
race: ## the same under the race detector
	CGO_ENABLED=1 $(GO) test -race -cpu 1 -timeout 30m $(UNIT)

oracle: ## defaulting and validation against Kubernetes' own, in a module of its own
	cd test/oracle && $(GO) vet ./... && $(GO) test -count=1 -timeout 20m ./...

e2e: setup ## end to end on real runtimes and a real systemd; E2E_FLAGS="-run TestEdit -v" for a part
	$(GO) test -count=1 -timeout 15m ./test/testbed
	$(GO) test -count=1 -timeout 40m $(E2E_FLAGS) ./test/e2e

test: setup ## everything, cheapest first
	$(MAKE) check
	$(MAKE) race
	$(MAKE) oracle
	$(MAKE) e2e

bench: setup ## measure against bare CRI calls: a table, and JSON in bin/bench.json
	@mkdir -p bin
	$(GO) run ./test/bench -json bin/bench.json $(BENCH_FLAGS)

demo: ## watch it work, from nothing, and leave nothing behind; needs root
	@test/setup.sh runtime
	@$(GO) run ./test/demo

clean: ## remove what was built here
	rm -rf bin

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
