# The commands a developer and a user need. `make` alone lists them.
#
# On a fresh machine (git, make, a C compiler, rustup, Go 1.26 or newer) each of them does its own set-up.

SHELL := /bin/sh
PREFIX ?= $(HOME)/.local
CARGO ?= cargo
PLUGINS := rancher-lease rancher-ghosts
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

.DEFAULT_GOAL := help
.PHONY: help build release install uninstall demo sandbox test lint bench krew dist clean

help: ## List the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

build: ## Build the plugins (debug)
	$(CARGO) build --locked --workspace --bins

release: ## Build the plugins as they are shipped
	$(CARGO) build --locked --release --workspace --bins

install: release ## Put the plugins and their completion helpers into PREFIX/bin (default ~/.local)
	@sh tests/scripts/install.sh "$(PREFIX)" $(PLUGINS)

uninstall: ## Remove what `make install` put into PREFIX/bin
	@sh tests/scripts/install.sh --remove "$(PREFIX)" $(PLUGINS)

demo: ## Watch a dead leader and a ghost machine being diagnosed and repaired on real API servers
	@sh tests/scripts/demo.sh

sandbox: ## A real API server with a Rancher whose leader is dead; stays up until Ctrl-C
	@tests/control-plane/build.sh
	@tests/control-plane/bin/control-plane sandbox

test: ## Run all tests, with the real control plane where Go is installed
	@sh tests/scripts/test.sh

lint: ## Formatting, clippy, documentation, licences
	@sh tests/scripts/lint.sh

bench: release ## Measure against kubectl in the same run
	@sh tests/scripts/bench.sh

dist: release ## Archive the release binaries for this platform into dist/
	@sh tests/scripts/dist.sh "$(VERSION)" $(PLUGINS)

krew: dist ## Write the Krew manifests for the archives in dist/
	@sh tests/scripts/krew.sh "$(VERSION)" $(PLUGINS)

clean: ## Remove what was built
	$(CARGO) clean
	rm -rf dist tests/control-plane/bin
