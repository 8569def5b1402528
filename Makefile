# Everything happens in .venv, which the first target to need it makes. PYTHON=python3.12 chooses another Python.
PYTHON ?= python3
PIP = .venv/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
BIN = .venv/bin

.PHONY: help demo test test-all test-bare test-lowest test-kernels test-serve fuzz-serve bench-serve test-scale postgres browser web docs docs-serve \
	test-docs dist bench bench-oracles bench-scale lint clean

help:
	@echo "make demo       install and run the demonstration (offline after the install)"
	@echo "make test       install and run every check; as root it installs Chromium too, BROWSER= does not"
	@echo "make test-all   the same, mutated files for half an hour, and other people's code in an environment of its own"
	@echo "make test-lowest the tests of the core with the lowest versions that it declares, in an environment of its own"
	@echo "make test-kernels the pages, with the figures of other processors"
	@echo "make test-serve the tests of the server, in an environment of its own"
	@echo "make fuzz-serve 10,000 broken bodies sent to the server; make bench-serve a load test of it"
	@echo "make test-scale the tests on Dask, Ray, Spark and PostgreSQL, in an environment of its own"
	@echo "make docs       build the documentation into site/, in an environment of its own"
	@echo "make test-docs  build it and look at every page in Chromium, light and dark, wide and narrow"
	@echo "make docs-serve show it while you write, at http://127.0.0.1:8000"
	@echo "make dist       build sdist and wheel, check them, and install the wheel where nothing else is"
	@echo "make bench      install and print how far from its limits the code is"
	@echo "make bench-oracles fits against pytorch-ood's on real features, in an environment of its own"
	@echo "make bench-scale the same for tables of 1,000,000 rows and more, on one machine and on engines; takes 10 GB of disk"
	@echo "make clean      remove the environments and caches"

.venv/demo: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable .
	@touch $@

# pip learnt to install dependency groups in 25.1; .ci/groups.py reads them for any pip.
.venv/dev: pyproject.toml constraints.txt .venv/demo
	$(PIP) --editable '.[parquet,torch]' $$($(BIN)/python .ci/groups.py dev)
	@touch $@

demo: .venv/demo
	$(BIN)/typica demo
	$(BIN)/typica bench digits --report -o demo-result

# One thread a process: the tests run side by side, and threads of small matrices get in each other's way.
test: lint test-bare browser web
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal \
		--cov --cov-report=term

# The report is tested in a real browser: one that is there, or Debian's where root may install it.
SKIPPED = the tests that need a browser will be skipped
browser:
	@if { command -v chromium && command -v chromedriver; } >/dev/null; then :; \
	elif [ "$(origin BROWSER)" != undefined ] && [ -z "$(filter-out none,$(BROWSER))" ]; then \
		echo "BROWSER=$(BROWSER): nothing is installed, $(SKIPPED)"; \
	elif ! command -v apt-get >/dev/null; then echo "no Chromium and no apt-get: $(SKIPPED)"; \
	elif [ "$$(id -u)" != 0 ]; then echo "no Chromium, and only root may install it: $(SKIPPED)"; \
	else echo "installing system packages as root: chromium chromium-driver (BROWSER= leaves them out)"; \
		{ apt-get update -qq && apt-get install -y -qq chromium chromium-driver; } >/dev/null 2>&1 \
			|| echo "Chromium could not be installed: $(SKIPPED)"; \
	fi

# The runtime of browsers, for one test: where npm is there and may install it.
web: .web/ready
.web/ready: tests/export/web/package.json
	@if ! command -v npm >/dev/null; then echo "no npm: the test of onnxruntime-web will be skipped"; \
	else mkdir -p .web && cp tests/export/web/package.json .web/ && \
		{ npm install --prefix .web --fetch-retries 0 --fetch-timeout 60000 --ignore-scripts --no-audit --no-fund --silent >/dev/null 2>&1 && touch $@ \
			|| echo "onnxruntime-web could not be installed: its test will be skipped"; } \
	fi

# What other people's code needs must not reach the other tests.
test-all: test .oracles/ready .alibi/ready
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/helpers/fuzz.py --cases 100000
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .oracles/bin/python tests/helpers/guided.py
	.oracles/bin/python -m pytest tests/oracles -o addopts="" -ra
	$(MAKE) test-lowest test-serve fuzz-serve test-scale test-docs

.oracles/ready: pyproject.toml constraints.txt tests/oracles/requirements.txt tests/oracles/requirements-nodeps.txt
	test -x .oracles/bin/python || $(PYTHON) -m venv .oracles
	.oracles/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt \
		--editable '.[onnx,torch]' -r tests/oracles/requirements.txt
	.oracles/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt \
		--no-deps -r tests/oracles/requirements-nodeps.txt
	@touch $@

# It needs NumPy 1: the tables of docs/moving are tested against it from afar.
.alibi/ready: tests/oracles/requirements-alibi.txt
	test -x .alibi/bin/python || $(PYTHON) -m venv .alibi
	.alibi/bin/python -m pip --disable-pip-version-check install --quiet -r tests/oracles/requirements-alibi.txt
	@touch $@

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(BIN)/mypy --strict --python-version 3.14 src

# The core must work with its own dependencies alone.
test-bare: .bare/ready
	.bare/bin/python .ci/bare.py

# The lowest versions of what pyproject.toml declares: the core alone, then with the extras that its tests use.
LOWEST = .lowest/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt -r .lowest/versions
test-lowest:
	rm -rf .lowest
	$(PYTHON) -m venv .lowest
	.lowest/bin/python .ci/lowest.py >.lowest/versions
	$(LOWEST) --editable .
	.lowest/bin/python .ci/bare.py
	.lowest/bin/typica demo >/dev/null
	.lowest/bin/python .ci/lowest.py pandas parquet >.lowest/versions
	$(LOWEST) pytest pytest-xdist hypothesis array-api-strict mypy torch
	.lowest/bin/python -m pip check
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .lowest/bin/python -m pytest --numprocesses auto tests/core

# The figures of the pages, as OpenBLAS computes them on other processors.
test-kernels: .venv/dev
	for kernel in Haswell Nehalem; do \
		OPENBLAS_CORETYPE=$$kernel OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto \
			tests/docs/test_pages.py || exit 1; \
	done

# The server's dependencies pin others; they stay out of the other tests. Its doctests are run by themselves: MLServer and
# tritonclient, which the tests ask with, do not go into one process.
SERVE = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .serve/bin/python
test-serve: .serve/ready browser
	$(SERVE) -m pytest -ra --strict-markers -o addopts="" -q --doctest-modules src/typica/serve
	$(SERVE) -m pytest -ra --strict-markers -o addopts="" tests/serve

# Ten thousand broken bodies, and no 5xx.
fuzz-serve: .serve/ready
	$(SERVE) tests/serve/fuzz.py --cases 10000

# A bounded load test on this machine.
bench-serve: .serve/ready
	.serve/bin/python benchmarks/serve/load.py

.serve/ready: pyproject.toml constraints.txt tests/serve/requirements.txt
	test -x .serve/bin/python || $(PYTHON) -m venv .serve
	.serve/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt \
		--editable '.[serve,torch]' -r tests/serve/requirements.txt
	@touch $@

# Engines bring much, and start clusters of their own.
SCALE = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .scale/bin/python
test-scale: .scale/ready postgres
	$(SCALE) -m pytest tests/engines -ra --strict-markers -o addopts=""

.scale/ready: pyproject.toml constraints.txt tests/engines/requirements.txt
	test -x .scale/bin/python || $(PYTHON) -m venv .scale
	.scale/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt \
		--editable '.[dask,faiss,ray,spark,torch]' -r tests/engines/requirements.txt
	@touch $@

# A server that the tests start and stop themselves; as root it is installed.
postgres:
	@if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; then :; \
	elif [ "$(origin POSTGRES)" != undefined ] && [ -z "$(filter-out none,$(POSTGRES))" ]; then \
		echo "POSTGRES=$(POSTGRES): nothing is installed, its tests will be skipped"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing a system package as root: postgresql (POSTGRES= leaves it out)"; \
		{ apt-get update -qq && apt-get install -y -qq postgresql; } >/dev/null 2>&1 \
			|| echo "PostgreSQL could not be installed: its tests will be skipped"; \
	else echo "no PostgreSQL, and only root may install it: its tests will be skipped"; \
	fi

.bare/ready: pyproject.toml constraints.txt
	test -x .bare/bin/python || $(PYTHON) -m venv .bare
	.bare/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt --editable .
	@touch $@

docs: .docs/ready
	NO_MKDOCS_2_WARNING=1 .docs/bin/mkdocs build --strict --clean
	.docs/bin/python docs/tools/check.py site

test-docs: docs browser .venv/dev
	$(BIN)/python -m pytest tests/site -o addopts="" -ra

docs-serve: .docs/ready
	NO_MKDOCS_2_WARNING=1 .docs/bin/mkdocs serve --livereload

# The site's own dependencies; KaTeX, which typesets its formulas, comes from npm.
.docs/ready: pyproject.toml constraints.txt docs/tools/package.json
	test -x .docs/bin/python || $(PYTHON) -m venv .docs
	.docs/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt \
		--editable . $$(.docs/bin/python .ci/groups.py docs)
	@command -v npm >/dev/null || { echo "make docs needs npm, for KaTeX: install it (Debian: nodejs npm)"; exit 1; }
	mkdir -p .docs/npm && cp docs/tools/package.json .docs/npm/
	npm install --prefix .docs/npm --ignore-scripts --no-audit --no-fund --silent
	@touch $@

# The wheel is made from the sdist, so that what is missing there is noticed.
dist: .dist/ready
	rm -rf dist .dist/bare
	.dist/bin/python -m build --outdir dist .
	.dist/bin/python -m twine check --strict dist/*
	.dist/bin/python .ci/dist.py dist
	$(PYTHON) -m venv .dist/bare
	.dist/bare/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt dist/*.whl
	.dist/bare/bin/python .ci/bare.py

.dist/ready: pyproject.toml
	test -x .dist/bin/python || $(PYTHON) -m venv .dist
	.dist/bin/python -m pip --disable-pip-version-check install --quiet $$(.dist/bin/python .ci/groups.py dist)
	@touch $@

bench: .venv/dev
	$(BIN)/python benchmarks/run.py

bench-oracles: .oracles/ready
	.oracles/bin/python benchmarks/oracles/fits.py

# ROWS=10000000 takes 20 GB for one machine, and 30 GB for the engines; the file that is scored takes 10 GB. RECORD=1 keeps the
# times for docs/make_scale_costs.py.
ROWS ?= 1000000
GIGABYTES ?= 5
bench-scale: .venv/dev .scale/ready
	$(BIN)/python benchmarks/scale/one_machine.py --rows $(ROWS) --remove $(if $(RECORD),--record docs/measured_one_machine.csv)
	$(BIN)/python benchmarks/scale/score_file.py --gigabytes $(GIGABYTES)
	$(SCALE) benchmarks/scale/engines.py --rows $(ROWS) --remove $(if $(RECORD),--record docs/measured_scale.csv)
	$(SCALE) benchmarks/scale/merge_tree.py $(if $(RECORD),--record docs/measured_merge.csv)

clean:
	rm -rf demo-result .venv .web .bare .lowest .oracles .alibi .serve .scale .docs .dist site .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
