# ClawRL: the commands of a checkout. Each sets up what it needs (ci/setup.sh, silent when all is there).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo test lint bench clean

# Cargo sizes its own parallelism: make's job slots would reach it as closed descriptors.
unexport MAKEFLAGS MFLAGS
# Where rustup and `cargo install` put programs, in case this login does not know yet.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

DEMO_SHELLS := 256
# With libtorch; `cargo build` without either builds everything else.
CARGO := ci/setup.sh run cargo
TORCH := --features clawrl/torch
ALL := --workspace $(TORCH),clawrl-bench/torch
# Tests in containers, which can be built anywhere and run where an engine can.
ENGINE := clawrl-container/base-image-tests
# Tests in browsers, the same.
BROWSER := clawrl-gui/browser-tests,clawrl/browser-tests,clawrl-gateway/browser-tests
# Tests of MCP servers of others, and with clients of others, which can be built anywhere and run where those are installed.
SERVERS := clawrl-toolcall/real-servers,clawrl/real-clients
CLAWRL := $(CARGO) run --quiet --release --locked --package clawrl --bin clawrl $(TORCH) --

help: ## What can be made
	@sed -n 's/^\([a-z]*\): .*## \(.*\)/make \1\t\2/p' Makefile | expand -t 14

setup: ## Install what building and testing needs
	@ci/setup.sh

demo: ## Run terminal-basics in 256 sandboxed shells at once, then train a tiny policy in them from nothing
	@ci/setup.sh demo
	$(CARGO) build --release --locked --package clawrl --package clawrl-sandbox $(TORCH)
	$(CLAWRL) run tasks/terminal-basics --policy oracle --concurrency $(DEMO_SHELLS) --prewarm $(DEMO_SHELLS)
	$(CLAWRL) run tasks/terminal-basics --policy noop --concurrency $(DEMO_SHELLS) --prewarm $(DEMO_SHELLS)
	$(CLAWRL) train policies/presets/terminal-tiny.yaml

# nextest runs last, so that its summary closes the output.
test: ## Run all tests
	@ci/setup.sh
	$(CARGO) test --doc $(ALL) --locked --quiet
	$(CARGO) nextest run $(ALL)$$(ci/setup.sh engine)$$(ci/setup.sh browser)$$(ci/setup.sh servers) --locked $(if $(CI),--profile ci)

lint: ## Check formatting, clippy with warnings denied, and the rules of CONTRIBUTING.md
	@ci/setup.sh
	cargo fmt --all --check
	$(CARGO) clippy $(ALL),$(ENGINE),$(BROWSER),$(SERVERS) --all-targets --locked -- -D warnings
	env -u LIBTORCH cargo clippy --all-targets --locked -- -D warnings
	cargo xtask tidy

bench: ## Measure one area against its peer: make bench AREA=scheduler
	@ci/setup.sh
	@ci/bench/run.sh $(or $(AREA),$(error say which area: make bench AREA=scheduler))

clean: ## Delete what was built; results stay (`clawrl clean` deletes those)
	cargo clean
