# `make demo` and `make test` work on a fresh clone: they make the environment themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Stamps: the package with all extras, and the tools of developers on top of it.
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test check bench soak mutants versions docs site clean java
# Spark starts many Python processes: without compiled modules each of them would compile again.
unexport PYTHONDONTWRITEBYTECODE
# Processes that run tests at a time: most of them wait for Spark.
PROCESSES ?= 3
# All verbs are tried on the oldest and the newest patch of every supported version of Spark.
VERSIONS ?= 4.1.0 4.1.4 4.2.0 4.2.1 4.3.0
# Random queries that `make soak` tries, and its seed; minutes of random faults.
SHAPES ?= 300
SEED ?= 1000
MINUTES ?= 30
# Batches of the query whose memory, files and durations must stay flat.
BATCHES ?= 10000
# Modules that `make mutants` changes, and mutants of each of them.
MODULES ?= policies control sim
MUTANTS ?= 6

help:  ## Show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

demo: $(INSTALLED) java  ## Run the main job: a stream with Spark's own shuffle, then with Penstock
	$(BIN)/penstock demo

test: $(READY) java  ## Run all tests, those on real Spark too
	$(BIN)/python -m pytest -n $(PROCESSES) --dist loadgroup --no-loadscope-reorder

soak: $(READY) java  ## Run the long tests: faults, endurance, random queries and inputs, all scripts
	PYTHONPATH=tests $(BIN)/python -m faults --minutes $(MINUTES) --shrink --results docs/guide/guarantees.jsonl
	$(BIN)/python docs/guide/update_guarantees.py
	PYTHONPATH=tests $(BIN)/python -m endurance --batches $(BATCHES)
	PENSTOCK_CODEGEN=1 $(BIN)/python -m pytest -m spark -n $(PROCESSES) --dist loadgroup --no-loadscope-reorder
	SPARK_CONF_DIR=$(CURDIR)/tests/settings $(BIN)/python -m pytest -m spark -n $(PROCESSES) --dist loadgroup --no-loadscope-reorder
	PENSTOCK_CODEGEN=1 PENSTOCK_SHAPES=$(SHAPES) PENSTOCK_FIRST_SHAPE=$(SEED) $(BIN)/python -m pytest tests/spark/test_shapes.py
	PENSTOCK_EXAMPLES=1000 $(BIN)/python -m pytest -m "not spark" tests
	PENSTOCK_CODEGEN=1 PENSTOCK_LONG=1 $(BIN)/python -m pytest -m long

mutants: $(READY)  ## Change the source a little, and list the changes that no test notices
	$(BIN)/python tools/mutants.py $(MODULES) --sample $(MUTANTS)

versions: $(READY) java  ## Try all verbs on every supported version of Spark
	PENSTOCK_VERSIONS="$(VERSIONS)" $(BIN)/python -m pytest tests/spark/test_versions.py

check: $(READY)  ## Run the linters and the type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY) java  ## Measure speed, gain and overhead, as ratios side by side
	$(BIN)/python benchmarks/policies.py
	$(BIN)/python benchmarks/placers.py
	$(BIN)/python benchmarks/balance.py
	$(BIN)/python benchmarks/stragglers.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/slow_executor.py
	$(BIN)/python benchmarks/size.py
	$(BIN)/python benchmarks/service.py
	$(BIN)/python benchmarks/forms.py
	$(BIN)/python benchmarks/calibrate.py
	$(BIN)/python benchmarks/aggregate.py
	$(BIN)/python benchmarks/shed.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/place.py
	$(BIN)/python benchmarks/collocate.py
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/narrow.py
	$(BIN)/python benchmarks/task.py
	$(BIN)/python benchmarks/driver.py
	$(BIN)/python benchmarks/diagnose.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/kafka.py
	$(BIN)/python benchmarks/kafka_spike.py
	$(BIN)/python benchmarks/dashboard.py

docs: $(READY) java  ## Draw the pictures of the papers' figures again
	for name in posg-provisioning posg-timeseries cg-choices cg-heterogeneous las-provisioning las-timeseries autoscale-linear-5step milp-solvers; do $(BIN)/penstock reproduce $$name --out docs/pictures || exit 1; done

site: $(READY)  ## Build the documentation site into site/
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[site]'
	$(BIN)/python tools/site.py

clean:  ## Remove the environment, caches and results
	rm -rf $(VENV) .versions build site penstock-out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src -name '*.nb[ic]' -delete

java:
	@$(BIN)/python -c "from penstock.spark.environment import java_version; java_version()" 2>/dev/null \
	  || { $(BIN)/penstock doctor; exit 1; }

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Penstock needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all]'
	@touch $@

$(READY): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(INSTALLED)
