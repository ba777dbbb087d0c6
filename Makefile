# dray: `make up` runs a cluster, `make test` runs every test. Both need python3 (3.11 to 3.14) and make, nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
DIR ?= .dray
ARGS ?=
SIZE ?= 10000x200
SECONDS ?= 120

ON_ETCD := $(addprefix tests/,store/test_log.py store/test_cache.py scheduler controllers $(addprefix apiserver/,read write admission wire/test_http.py \
  wire/test_versions.py test_bootstrap.py test_core.py test_lifecycles.py test_steps.py))

.PHONY: setup up test test-etcd faults codes attack flood chaos lint format bench clean lock rpc site types mutants release image

$(VENV)/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info < (3, 15) else "dray needs Python 3.11 to 3.14, this is " + sys.version.split()[0])'
	@echo "setting up $(VENV): packages are fetched once, which takes about a minute"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps -e .
	@touch $@

$(VENV)/installed-dev: requirements-dev.lock $(VENV)/installed
	@echo "setting up what tests need, once"
	@$(PIP) --require-hashes -r requirements-dev.lock
	@touch $@

setup: $(VENV)/installed ## install dray as .venv/bin/dray

up: setup ## run a cluster in the foreground; DIR=… and ARGS="--nodes 3 --devices 8" change it
	@$(BIN)/dray up --dir $(DIR) $(ARGS)

test: $(VENV)/installed-dev ## run every test, on all cores
	tools/provide-programs
	tools/run-tests $(ARGS)

test-etcd: $(VENV)/installed-dev ## run the tests of API, scheduler, controllers and stores with the objects of each server in a real etcd
	tools/run-tests --store etcd $(ON_ETCD) $(ARGS)

faults: $(VENV)/installed-dev ## kill, pause and disconnect processes of a cluster on three etcd members for ten minutes; ARGS="--seconds 60" is shorter
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.faults.run $(ARGS)

codes: $(VENV)/installed-dev ## run the tests with every text replaced by its code, to show that no program reads a sentence
	tools/provide-programs
	tools/run-tests --codes $(ARGS)

chaos: $(VENV)/installed-dev ## run the tests of chaos and kills with 10,000 pods on 200 nodes; SIZE=2000x40 is smaller
	DRAY_CHAOS=$(SIZE) $(BIN)/pytest -s --show-capture=no --durations=0 tests/e2e/test_chaos.py tests/e2e/test_kills.py $(ARGS)

mutants: $(VENV)/installed-dev ## break the program in small ways and check that a test notices; ARGS="store" runs some
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/mutants/run.py $(ARGS)

attack: $(VENV)/installed-dev ## run all attacks against a cluster on loopback at once, twice for two minutes; SECONDS=20 is shorter
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.hostile.attack --seconds $(SECONDS)

flood: $(VENV)/installed-dev ## measure event loop, latency and memory while 30,000 pods are created and a client sends copy bombs; ARGS="--pods 3000" is smaller
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.hostile.flood $(ARGS)

lint: $(VENV)/installed-dev ## check style, spelling, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/installed-dev ## print figures, each with a figure to compare it with; never fails because of a timing
	$(BIN)/python -m bench $(ARGS)

site: $(VENV)/installed-dev ## build the documentation as a site in build/site
	$(BIN)/python tools/site/build.py build/site

types: $(VENV)/installed-dev ## generate the wire types from the schema table
	$(BIN)/python tools/generate_types.py
	$(BIN)/ruff format --quiet src/dray/api/types

rpc: $(VENV)/installed-dev ## generate the gRPC messages from the .proto files
	$(BIN)/python -m grpc_tools.protoc -I src --python_out=src --pyi_out=src src/dray/rpc/*.proto

lock: $(VENV)/installed ## generate the lock files from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate pyproject.toml --group dev -o requirements-dev.lock

release: $(VENV)/installed-dev ## build source distribution, wheel, notes, bill of materials and checksums in dist/; publishes nothing
	$(BIN)/python tools/release.py

image: $(VENV)/installed-dev ## build the container image as an OCI layout in build/image/dray, without Docker
	$(BIN)/python -m tools.image $(ARGS)

clean:
	rm -rf $(VENV) $(DIR) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist src/*.egg-info
