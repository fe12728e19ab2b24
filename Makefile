# ClawRL: the commands of a checkout. Each sets up what it needs (ci/setup.sh, silent when all is there).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo test test-all test-changed build-tests doc-tests lint format tidy check clippy slowest wheel image bench clean

# Cargo sizes its own parallelism: make's job slots would reach it as closed descriptors.
unexport MAKEFLAGS MFLAGS
# Where rustup and `cargo install` put programs, in case this login does not know yet.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

DEMO_SHELLS := 256
# With libtorch; `cargo build` without either builds everything else.
CARGO := ci/setup.sh run cargo
# The same features everywhere, so that nothing is built twice.
TORCH := --features clawrl/torch
ALL := --workspace $(TORCH),clawrl-bench/torch --locked
# Before anything is built: what other clones built is of use to an empty target folder only.
READY := ci/setup.sh && ci/cache.sh restore debug
NEXTEST := $(CARGO) nextest run $(ALL) $(if $(CI),--profile ci)
# Most tests wait for processes, so there are more of them at once than cores.
RUN := $(NEXTEST) --test-threads $$((2 * $$(nproc))) --ignore-default-filter
CLAWRL := $(CARGO) run --quiet --release --locked --package clawrl --bin clawrl $(TORCH) --

help: ## What can be made
	@sed -n 's/^\([a-z-]*\): .*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16

setup: ## Install what building and testing needs
	@ci/setup.sh

demo: ## Run terminal-basics in 256 sandboxed shells at once, then train a tiny policy in them from nothing
	@ci/setup.sh demo
	@ci/cache.sh restore release
	$(CARGO) build --release --locked --package clawrl --package clawrl-sandbox $(TORCH)
	@ci/cache.sh save release
	$(CLAWRL) run tasks/terminal-basics --policy oracle --concurrency $(DEMO_SHELLS) --prewarm $(DEMO_SHELLS)
	$(CLAWRL) run tasks/terminal-basics --policy noop --concurrency $(DEMO_SHELLS) --prewarm $(DEMO_SHELLS)
	$(CLAWRL) train policies/presets/terminal-tiny.yaml

# nextest runs last, so that its summary closes the output.
test: doc-tests build-tests ## Run all tests but the slow ones
	$(RUN) -E "$$(ci/select-tests.sh)"

test-all: doc-tests build-tests ## Run all tests: before a release
	$(RUN) -E "$$(ci/select-tests.sh all)"

# What CI runs: the slow tests of crates that changed, too.
test-changed: build-tests
	$(RUN) -E "$$(ci/select-tests.sh changed)"

build-tests:
	@$(READY)
	$(NEXTEST) --no-run
	@ci/cache.sh save debug

# Only the crates that have any: without one, nothing is built.
doc-tests:
	@$(READY)
	@packages=$$(cargo xtask doc-tests); \
	if [[ -n $$packages ]]; then $(CARGO) test --doc --locked --quiet $$packages; fi

slowest: ## Print the tests that took longest in the last run
	@ci/slowest-tests.py "$$(ls -t target/nextest/*/junit.xml | sed -n 1p)"

lint: format tidy check clippy ## Check formatting, the rules of CONTRIBUTING.md, and clippy with warnings denied

format:
	@ci/setup.sh
	cargo fmt --all --check

tidy:
	@$(READY)
	cargo xtask tidy

# What builds without libtorch, as its users build it: without what only tests turn on.
check:
	@$(READY)
	env -u LIBTORCH cargo check --locked

clippy:
	@$(READY)
	$(CARGO) clippy $(ALL) --all-targets -- -D warnings

wheel: ## Build the Python wheel that holds the programs, in target/wheels
	@ci/setup.sh demo
	ci/wheel.sh

image: wheel ## Build the container image clawrl, with Docker, from the wheel
	docker build --tag clawrl --file harness/clawrl/wheel/Dockerfile target/wheels

bench: ## Measure one area against its peer: make bench AREA=scheduler
	@ci/setup.sh
	@ci/bench/run.sh $(or $(AREA),$(error say which area: make bench AREA=scheduler))

clean: ## Delete what was built; results stay (`clawrl clean` deletes those)
	cargo clean
