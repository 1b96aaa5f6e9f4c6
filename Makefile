# Everything goes through one virtual environment, made once and made again when pyproject.toml changes.
PYTHON ?= python3
# Where pip finds a CPU build of this torch it prefers it: no CUDA libraries on a machine that has no GPU.
# On a machine with a GPU: make TORCH=torch (any torch>=2.4 serves; it is never replaced once installed).
# PIP_INDEX_URL and pip's other settings are honoured, for a mirror or an index of CPU wheels.
TORCH ?= torch==2.13.0

VENV  := .venv
PY    := $(VENV)/bin/python
STAMP := $(VENV)/.installed
LABEXT := $(VENV)/share/jupyter/labextensions/tilebench/sources.json
CACHES := .pytest_cache .ruff_cache .hypothesis .import_linter_cache
ROOT_FLAG := $(if $(filter 0,$(shell id -u)),--allow-root)
# The address that JupyterLab prints leads to the notebook too, for where it can open no browser.
FIRST = --LabApp.default_url=/lab/tree/$(1)

.DEFAULT_GOAL := help
.PHONY: help demo test lab course check format extension clean .venv

help:  ## list what can be made
	@sed -n 's/^\([a-z.]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 15

demo: $(STAMP)  ## set up, run the showcase, print its table, write build/flash_attention.html
	$(PY) -m tilebench.cli demo

test: $(STAMP) $(LABEXT)  ## set up and pass the tests, suite by suite, with the time of each
	$(PY) tests/run.py

lab: $(STAMP) $(LABEXT)  ## set up and open JupyterLab on the showcase notebook
	$(VENV)/bin/jupyter lab $(ROOT_FLAG) $(call FIRST,flash_attention.ipynb) notebooks/flash_attention.ipynb

course: $(STAMP) $(LABEXT)  ## set up and open the tutorials, the first one in front (your copies: build/course)
	@first="$$($(PY) -m tilebench.teach.course tutorials build/course)" && \
	    $(VENV)/bin/jupyter lab $(ROOT_FLAG) $(call FIRST,$$(basename "$$first")) "$$first"

check: $(STAMP)  ## formatting, lint, strict types, and the layers of the package
	@$(PY) tests/check.py

format: $(STAMP)  ## rewrite the sources as `make check` wants them
	$(VENV)/bin/ruff check --fix-only --quiet .
	$(VENV)/bin/ruff format .

extension: $(STAMP)  ## build the JupyterLab extension anew (fetches npm packages; its files are committed)
	$(PY) extension/build.py

$(LABEXT): extension/labextension/sources.json | $(STAMP)
	@$(PY) extension/build.py --install

clean:  ## remove what was built and cached (the environment stays: rm -r .venv to set up anew)
	rm -rf build dist $(CACHES)
	find tilebench tests -name __pycache__ -type d -prune -exec rm -rf {} +

.venv: $(STAMP)  ## set up only

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "tilebench needs Python 3.11 or newer: make PYTHON=python3.12, say" >&2; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	    echo "python3 -m venv failed: on Debian, apt-get install python3-venv" >&2; exit 1; }
	@echo "setting up $(VENV), once: a few minutes, most of them downloads"
	@echo "1 of 2: PyTorch, $(TORCH)"
	@$(PY) .ci/install.py '$(TORCH)'
	@echo "2 of 2: tilebench with JupyterLab, LLVM, NVRTC and what the tests need"
	@$(PY) .ci/install.py --editable '.[dev]'
	@touch $(STAMP)
