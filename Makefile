# Needs Python 3.11 or newer with venv and ensurepip; everything else goes into .venv.
PYTHON ?= python3
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Compiled modules are kept: the tests start many programs.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
READY := .venv/.ready

# So many workers; a test file stays with one of them. JOBS=0 runs the suite in one process.
JOBS ?= 2
# COVERAGE=1 runs the suite under coverage, for `make coverage-gate` to judge.
COVERAGE ?=
RUN_TESTS = $(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(if $(COVERAGE),--cov --cov-report=)

# Layers 0 to 3: every branch is covered. The rest is reported.
comma := ,
space := $(subst ,, )
GATED := errors.py trees.py capabilities.py content.py tags.py treatment.py ontology.py uris.py wire/*.py protocol/*.py grants.py receipts.py negotiation.py inbox.py manifest/*.py
GATED_FILES := $(subst $(space),$(comma),$(addprefix mcpl_core/,$(GATED)))

.PHONY: help setup demo test lint format types coverage coverage-gate bench conformance-mcp wheel clean

help:
	@echo "make setup | demo | test | lint | format | types | coverage | bench | conformance-mcp | wheel | clean"

# Anew when the dependencies change, not each time.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[dev]'
	@touch $@

setup: $(READY)

demo: $(READY)
	$(BIN)/mcpl demo

test: $(READY)
	$(RUN_TESTS)

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(READY)
	$(BIN)/mypy

coverage:
	$(MAKE) test COVERAGE=1
	$(MAKE) coverage-gate

coverage-gate: $(READY)
	$(BIN)/python -m coverage report --include='$(GATED_FILES)' --fail-under=100
	@echo "Outside the gate:"
	@$(BIN)/python -m coverage report --omit='$(GATED_FILES)' --fail-under=0

# The peers are installed only for this. BENCH='--quick' or any other options; MCPL_TS_CORE and MCPL_TS_WS for Node.
BENCH ?=
bench: $(READY)
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks $(BENCH)

# Judged by programs of others, from npm. By hand: it needs Node 22 or newer, which NODE may name, and the network.
conformance-mcp: $(READY)
	$(BIN)/python -m tests.mcp.conformance

# Built, installed alone, imported and run outside the tree; then with the extra that the command needs.
wheel: $(READY)
	rm -rf dist
	$(BIN)/python -m build --wheel --outdir dist . >/dev/null
	@here=$$PWD; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	wheel=$$(echo "$$here"/dist/*.whl); \
	install=("$$dir/venv/bin/python" -m pip install --disable-pip-version-check -q -c "$$here/constraints.txt"); \
	$(PYTHON) -m venv "$$dir/venv"; \
	"$${install[@]}" "$$wheel"; \
	cd "$$dir"; \
	venv/bin/python -I -c "import mcpl_core, pathlib; \
	root = pathlib.Path(mcpl_core.__file__).parent; \
	assert root.is_relative_to('$$dir'), root; \
	assert (root / 'py.typed').is_file(), 'no py.typed in the wheel'; \
	assert list((root / 'vectors').rglob('*.json')), 'no vectors in the wheel'; \
	print('imported from the wheel:', mcpl_core.__version__)"; \
	status=0; venv/bin/mcpl --help >out 2>err || status=$$?; \
	if [ $$status -ne 2 ] || ! grep -q 'mcp-live-core\[cli\]' out err; then \
	  echo "mcpl without its extra: status $$status"; cat out err; exit 1; fi; \
	echo "without [cli]: $$(cat out err)"; \
	venv/bin/python -I venv/lib/python*/site-packages/mcpl_core/examples/read_only_host.py >reads; \
	grep -q '^alice ok ' reads || { echo "no read under authority:"; cat reads; exit 1; }; \
	cp "$$here"/tests/approvals/{acceptance,write_server}.py .; \
	venv/bin/python -I acceptance.py "$$dir/write_server.py" "$$dir/venv/bin/python" >writes 2>&1 || { cat writes; exit 1; }; \
	"$${install[@]}" "$$wheel[cli]"; \
	venv/bin/mcpl --help >/dev/null; \
	venv/bin/mcpl demo >demo; \
	venv/bin/mcpl conformance >conformance; \
	echo "the wheel works on its own: $$(basename "$$wheel")"

clean:
	rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
	find mcpl_core tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
