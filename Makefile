# Everything that a fresh machine with Go and make needs. `make help` lists the targets.
# What a build or a test needs is put into .cache; nothing else on the machine is touched.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CACHE := $(CURDIR)/.cache
BIN   := $(CACHE)/bin
export GOFLAGS ?= -buildvcs=false
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT  := $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# Modules of their own keep heavy dependencies away from the users of the product.
NESTED := plugins/proto plugins/sdk plugins/examples plugins/examples/template $(patsubst %/go.mod,%,$(wildcard infra/*/go.mod infra/*/*/go.mod lambda/*/go.mod))

TOOL := go tool -modfile=tools.mod
LINT := go tool -modfile=lint.mod golangci-lint

.PHONY: help
help: ## Lists the targets.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- see it run -------------------------------------------------------------------

.PHONY: demo
demo: ## The main job in virtual time, on the embedded simulator: pods wait, nodes are bought, reclaimed and given back.
	@echo "building (the first time takes a minute or two) ..."
	@mkdir -p $(BIN)
	@go build -o $(BIN)/weir ./cmd/weir
	@$(BIN)/weir simulate run --scenario integration/demo/scenario.yaml

.PHONY: demo-cluster
demo-cluster: $(if $(KUBECONFIG),,$(BIN)/devcluster) binaries ## The same on a real control plane, with real processes (KUBECONFIG set: on that cluster; DEMO_FLAGS=--keep: stays).
	@go build -o $(BIN)/demo-cluster ./integration/demo/cluster
	@WEIR_BIN=$(BIN) $(BIN)/demo-cluster $(DEMO_FLAGS)

# --- build ------------------------------------------------------------------------

.PHONY: binaries
binaries: ## Builds the programs into .cache/bin.
	@mkdir -p $(BIN)
	@echo "building weir, weir-scaler, weir-strategy, simcloud ..."
	@CGO_ENABLED=0 go build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/weir ./cmd/weir-scaler ./cmd/weir-strategy ./integration/simcloud

.PHONY: generate
generate: ## Makes everything that is generated: deepcopy, CRDs, protocol, reference pages.
	go generate ./...
	$(TOOL) buf generate plugins/proto --template plugins/proto/buf.gen.yaml -o plugins/proto
	cd infra/chart/test && go test -count=1 -run TestReferencePages . -update

.PHONY: release-protocol
release-protocol: ## Takes the protocol as it is now for released: from then on verify refuses what would break it.
	@$(TOOL) buf breaking plugins/proto --against plugins/proto/released.binpb
	$(TOOL) buf build plugins/proto -o plugins/proto/released.binpb

.PHONY: verify
verify: ## Generates again and fails on a difference; checks the protocol's rules and formatting.
	@echo "verify: generated files are up to date"
	@state() { { git diff; git ls-files -o --exclude-standard | git hash-object --stdin-paths; } | git hash-object --stdin; }; \
	  before=$$(state); $(MAKE) --no-print-directory generate; \
	  [ "$$before" = "$$(state)" ] || { git status --short; echo "generated files were out of date: make generate has written them, commit them"; exit 1; }
	@echo "verify: the protocol keeps to the rules"
	@$(TOOL) buf lint plugins/proto
	@$(TOOL) buf breaking plugins/proto --against plugins/proto/released.binpb
	@echo "verify: gofmt"
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }

.PHONY: lint
lint: ## golangci-lint and buf with a few checks, all meant.
	$(LINT) run ./...
	$(TOOL) buf lint plugins/proto

# --- the control plane for tests and demos, a module of its own -------------------

DEVCLUSTER_VERSION := v1.37.2
DEVCLUSTER         := $(BIN)/devcluster
DEVCLUSTER_SOURCES := integration/devcluster/go.mod integration/devcluster/go.sum \
	$(filter-out %_test.go,$(wildcard integration/devcluster/*.go))
DEVCLUSTER_LDFLAGS := -s -w $(foreach p,k8s.io/component-base/version k8s.io/client-go/pkg/version,\
	-X $(p).gitVersion=$(DEVCLUSTER_VERSION) -X $(p).gitMajor=1 -X $(p).gitMinor=37 -X $(p).gitTreeState=clean)
# Counts the packages that "go build -v" names, one a line; prints everything else
# (errors) as it is, and ends with the exit code of the build, which the last line
# carries. A shell loop, since mawk holds its input back until it has 4 KB.
DEVCLUSTER_PROGRESS := { n=0; code=1; while IFS= read -r line; do case "$$line" in \
	"exit "*) code=$${line\#exit };; \
	*[!A-Za-z0-9_.~/-]*) echo "$$line";; \
	*) n=$$((n+1)); [ $$((n % 25)) -ne 0 ] || echo "  compiled $$n of about 2500 packages";; \
	esac; done; exit $$code; }

# Tests and the demo find it here; KUBECONFIG, where set, wins.
export WEIR_DEVCLUSTER := $(DEVCLUSTER)

.PHONY: devcluster
devcluster: $(DEVCLUSTER) ## Builds the control plane: etcd, API server, controller manager and scheduler in one binary.

$(DEVCLUSTER): $(DEVCLUSTER_SOURCES)
	@mkdir -p $(@D)
	@echo "building the control plane (Kubernetes $(DEVCLUSTER_VERSION)): 6 to 18 minutes on 2 cores the first time, half a minute after that"
	@{ cd integration/devcluster && go build -v -ldflags '$(DEVCLUSTER_LDFLAGS)' -o $@.new . 2>&1; echo "exit $$?"; } | $(DEVCLUSTER_PROGRESS)
	@mv $@.new $@
	@echo "built $@ ($$($@ version))"

# --- test -------------------------------------------------------------------------

RIE := $(BIN)/aws-lambda-rie

$(RIE): tools.mod tools.sum
	@mkdir -p $(@D)
	@echo "building the Lambda runtime interface emulator ..."
	@go build -modfile=tools.mod -o $@ github.com/aws/aws-lambda-runtime-interface-emulator/cmd/aws-lambda-rie

# Another reading of AWS's protocols, for tests. Whatever python3 (3.11 or later, with its
# venv module) is there makes a place of its own for it; nothing else is touched.
PYTHON       ?= python3
MOTO         := $(CACHE)/moto/bin/python
MOTO_READY   := $(CACHE)/moto/installed
REQUIREMENTS := integration/aws/moto/requirements.txt

.PHONY: moto
moto: $(MOTO_READY) ## Installs moto, the stand-in for AWS in tests, into .cache.

$(MOTO_READY): $(REQUIREMENTS)
	@echo "installing moto (half a minute to a minute) ..."
	@rm -rf $(CACHE)/moto && $(PYTHON) -m venv $(CACHE)/moto
	@$(MOTO) -m pip install --quiet --disable-pip-version-check --no-deps --no-compile -r $(REQUIREMENTS)
	@touch $@

# Rules about CloudFormation templates, for the CDK app's tests.
CFN_LINT              := $(CACHE)/cfn-lint/bin/cfn-lint
CFN_LINT_READY        := $(CACHE)/cfn-lint/installed
CFN_LINT_REQUIREMENTS := infra/cdk/requirements.txt

.PHONY: cfn-lint
cfn-lint: $(CFN_LINT_READY) ## Installs cfn-lint, which looks at the CDK app's templates in tests, into .cache.

$(CFN_LINT_READY): $(CFN_LINT_REQUIREMENTS)
	@echo "installing cfn-lint (a quarter of a minute) ..."
	@rm -rf $(CACHE)/cfn-lint && $(PYTHON) -m venv $(CACHE)/cfn-lint
	@$(CACHE)/cfn-lint/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile -r $(CFN_LINT_REQUIREMENTS)
	@touch $@

# What the strategy in Python needs, and its stubs.
STRATEGY_PYTHON       := $(CACHE)/strategy-python
STRATEGY_PYTHON_READY := $(STRATEGY_PYTHON)/installed

.PHONY: strategy-python
strategy-python: $(STRATEGY_PYTHON_READY) ## Installs what plugins/examples/python needs into .cache.

$(STRATEGY_PYTHON_READY): plugins/examples/python/requirements.txt $(wildcard plugins/proto/weir/*/v1/*.proto)
	@echo "installing gRPC for Python (a quarter of a minute) ..."
	@$(MAKE) --no-print-directory --silent -C plugins/examples/python install VENV=$(STRATEGY_PYTHON) PYTHON=$(PYTHON)

.PHONY: lambda
lambda: ## The interruption function as a bootstrap for both architectures.
	@for arch in amd64 arm64; do mkdir -p $(CACHE)/lambda/$$arch; \
	  CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build -tags lambda.norpc -ldflags '-s -w' -o $(CACHE)/lambda/$$arch/bootstrap ./lambda/interruption; done

.PHONY: lambda-deploy
lambda-deploy: ## The function that installs the chart, with the charts and, once make image was run, the image beside it (the first time some minutes).
	@for arch in amd64 arm64; do d=$(CACHE)/lambda-deploy/$$arch; rm -rf $$d && mkdir -p $$d/charts || exit 1; \
	  (cd lambda/deploy && CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build -tags lambda.norpc -trimpath -ldflags '-s -w' -o $$d/bootstrap .) || exit 1; \
	  cp -RL infra/chart $$d/charts/weir && rm -rf $$d/charts/weir/test && cp -RL infra/chart-crds $$d/charts/weir-crds && rm -f $$d/charts/weir-crds/files/*.go || exit 1; \
	  if [ -d $(CACHE)/image/weir ]; then cp -R $(CACHE)/image/weir $$d/image || exit 1; fi; done

.PHONY: test-short
test-short: ## The pure rooms only: no control plane, no processes, under a minute once compiled.
	go test -short ./core/... ./cmd/weir/...

.PHONY: test
test: ## Everything: unit tests under the race detector, nested modules, and the tests on a real control plane.
	@$(MAKE) --no-print-directory test-unit
	@$(MAKE) --no-print-directory test-nested
	@$(MAKE) --no-print-directory verify
	@$(MAKE) --no-print-directory test-integration

# Far more than any package needs on a busy machine: it only ends what hangs.
TEST_LIMIT := 60m

.PHONY: test-unit
test-unit:
	@echo "== unit tests (the first time compiles everything for the race detector: some minutes)"
	go test -race -timeout $(TEST_LIMIT) $$(go list ./... | grep -v /integration/)

.PHONY: test-nested
test-nested: $(DEVCLUSTER) $(CFN_LINT_READY) $(STRATEGY_PYTHON_READY) $(RIE) binaries
	@for m in $(NESTED); do echo "== module $$m"; (cd $$m && WEIR_CFN_LINT=$(CFN_LINT) WEIR_RIE=$(RIE) WEIR_BIN=$(BIN) WEIR_STRATEGY_PYTHON=$(STRATEGY_PYTHON)/bin/python go test -timeout $(TEST_LIMIT) ./...) || exit 1; done

.PHONY: test-integration
test-integration: $(DEVCLUSTER) $(RIE) $(MOTO_READY) binaries lambda
	@echo "== tests on a real control plane"
	WEIR_MOTO=$(MOTO) WEIR_BIN=$(BIN) WEIR_RIE=$(RIE) WEIR_LAMBDA=$(CACHE)/lambda/amd64/bootstrap go test -p 1 -count=1 -timeout $(TEST_LIMIT) ./integration/...
	@echo "== the control plane's own module"
	cd integration/devcluster && go test -vet=off -count=1 -timeout $(TEST_LIMIT) -parallel 2 .

DRAWS ?= 200
SEED  ?= 1

.PHONY: oracle
oracle: $(DEVCLUSTER) ## Random clusters, planned for and bound by the real kube-scheduler (DRAWS=200 SEED=1; a quick subset is part of make test): about half an hour.
	WEIR_DEVCLUSTER=$(DEVCLUSTER) go test -count=1 -timeout 4h -v -run TestLong ./integration/oracle -draws $(DRAWS) -seed $(SEED)

# --- measure, package -------------------------------------------------------------

.PHONY: bench
bench: ## Price, time and memory on the benchmark workloads, several draws each; prints the table of docs/benchmarks.md.
	go run ./integration/bench $(ARGS)

.PHONY: bench-week
bench-week: ## A week of a cluster in virtual time, Weir's default against first-fit with Karpenter's rules: bills, evictions, waiting (an hour and more; ARGS="-nodes 20 -for 24h": minutes).
	go run ./integration/bench week $(ARGS)

.PHONY: bench-wire
bench-wire: ## Plans for 50,000 pods with a strategy in process and in a process of its own, as a ratio.
	go test -run '^$$' -bench Wire -benchtime 5x ./core/strategy

.PHONY: bench-reaction
bench-reaction: $(DEVCLUSTER) $(RIE) lambda ## Time from an interruption event to the cordon, cold and warm, in a Lambda's share of a core (as root, for the limit).
	WEIR_RIE=$(RIE) WEIR_LAMBDA=$(CACHE)/lambda/amd64/bootstrap go test -count=1 -run '^$$' -bench Reaction -benchtime 10x ./integration/e2e

.PHONY: bench-peer
bench-peer: ## The same pods, pools and prices with Karpenter's own scheduler, side by side (the first time compiles Karpenter: about 5 minutes).
	cd integration/peer && go run . $(ARGS)

# What the app cannot know; `make synth SYNTH='-c clusterName=... -c endpoint=... -c certificateAuthority=...'` for a real cluster.
SYNTH ?= -c clusterName=example -c endpoint=https://example.eks.amazonaws.com \
	-c certificateAuthority=$(shell printf -- '-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n' | base64 | tr -d '\n')

.PHONY: synth
synth: image ## Synthesises the CDK app, functions and image included, into .cache/cdk.out (SYNTH='-c ...' for a real cluster).
	@$(MAKE) --no-print-directory lambda lambda-deploy
	@cd infra/cdk && go run . $(SYNTH) -o $(CACHE)/cdk.out

.PHONY: image
image: ## OCI image layouts for both architectures in .cache/image/weir, without a container engine.
	@for arch in amd64 arm64; do mkdir -p $(CACHE)/image-bin/$$arch; CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build -trimpath \
	  -ldflags '$(LDFLAGS)' -o $(CACHE)/image-bin/$$arch/ ./cmd/weir-scaler ./cmd/weir-strategy || exit 1; done
	@cd infra/image && go run . -version $(VERSION) -revision $$(git rev-parse HEAD) -binaries amd64=$(CACHE)/image-bin/amd64 \
	  -binaries arm64=$(CACHE)/image-bin/arm64 -out $(CACHE)/image/weir

.PHONY: clean
clean: ## Removes .cache.
	rm -rf $(CACHE)
