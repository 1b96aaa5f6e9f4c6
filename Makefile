PYTHON ?= python3
# The CPU build of torch where pip finds one by this version. On a machine with a GPU: make TORCH=torch (CUDA build).
TORCH  ?= torch==2.13.0

VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.installed
