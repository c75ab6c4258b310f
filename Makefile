# make demo: set up, run the default campaign, say where its report is.   make test: set up, run the tests.
PYTHON ?= python3
VENV ?= .venv
READY := $(VENV)/.ready
# Rules call `scaleproof` and `python` by name; this puts the environment's first.
export PATH := $(abspath $(VENV))/bin:$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Packages of Debian and of Python are installed side by side.
MAKEFLAGS += --jobs=2
unexport MAKEFLAGS

.PHONY: gpu-check demo picture test packages setup lock envs conda-lock
demo: $(READY)
	snakemake --cores 2
	@echo
	@echo "The report: results/demo/report.html"

# The environment alone, for `. .venv/bin/activate` and commands by hand; on a cluster, on its login node.
setup: $(READY)

test: $(READY) packages
	$(if $(TESTS),pytest $(TESTS),tests/run-all)

packages:
	tests/install-system-packages

# First contact with a GPU (docs/gpu.md): no network, no snakemake. STAGES=doctor,runs: those alone. WHEELS: see there.
OUT ?= gpu-check
GPU_PYTHON := $(if $(filter file,$(origin PYTHON)),$(firstword $(wildcard $(VENV)/bin/python) $(PYTHON)),$(PYTHON))
gpu-check:
	$(GPU_PYTHON) benchmarks/on_gpu.py $(OUT) $(if $(STAGES),--stages $(STAGES)) $(if $(WHEELS),--wheels $(WHEELS)) \
	    $(GPU_CHECK)

$(READY): pyproject.toml envs/requirements.lock
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || \
	{ echo "scaleproof needs Python 3.11 or 3.12; give one with make PYTHON=python3.12 ..."; exit 2; }
	$(PYTHON) -m venv $(VENV)
	envs/uv pip install --python $(VENV)/bin/python --compile-bytecode --requirement envs/requirements.lock
	envs/uv pip install --python $(VENV)/bin/python --no-deps --editable .
	$(VENV)/bin/python -m compileall -q src
	touch $@

# After a change of pyproject.toml: resolve again what no longer fits, and write down every version with its checksums.
# LOCK=--upgrade: everything anew. LOCK='--upgrade-package torch': that one.
lock:
	$(PYTHON) envs/lock.py $(LOCK)

# After `make lock`: write envs/<stage>.yaml again, in the environment that the lock describes.
envs: $(READY)
	python envs/generate.py

# On a machine with conda and its channels: what envs/<stage>.yaml came to, by address and checksum, and what pip added.
PLATFORM ?= linux-64
conda-lock: STAGES ?= $(basename $(notdir $(wildcard envs/*.yaml)))
conda-lock:
	@command -v conda >/dev/null || { echo "make conda-lock needs conda (docs/environments.md)"; exit 2; }
	set -e; for stage in $(STAGES); do fresh=$$(mktemp -d); \
	    conda env create --quiet --file envs/$$stage.yaml --prefix $$fresh/env; \
	    conda list --explicit --md5 --prefix $$fresh/env > envs/$$stage.$(PLATFORM).lock.txt; \
	    $$fresh/env/bin/python -m pip list --format freeze > envs/$$stage.$(PLATFORM).pip.txt; rm -rf $$fresh; done

# The README's picture, docs/report.png, from the demo's report; needs chromium.
picture: $(READY)
	snakemake --cores 2
	python benchmarks/picture.py results/demo/report.html

# The faults of docs/reliability.md, one test each; the long ones start real ranks, Snakemake and a small Slurm cluster.
# CHAOS=60: that at which anything happens to a cluster goes on for an hour, not for five minutes.
.PHONY: faults
faults: $(READY)
	$(if $(CHAOS),CHAOS_MINUTES=$(CHAOS)) pytest -m fault
