# make run     makes the environment and runs the main job
# make test    makes the environment, checks the code and runs the tests
# make lint    ruff, mypy strict and the import contracts alone
# make lab     tests against real engines, as far as this machine has them
# make gpu     tries GPU memory on a machine with an NVIDIA GPU, in four minutes at most
# make format  lets ruff lay out the code and mend what it can
# make pins    writes constraints.txt anew from pyproject.toml
# make clean   removes the environment and every cache
#
# PYTHON=…     picks the interpreter of the environment (3.11 or newer)
# workers=…    runs so many tests at once (3; many of them wait for processes)
# slowest=…    tells after the tests which of them took longest, so many of them

MAKEFLAGS += --no-print-directory
bin := .venv/bin
workers ?= 3
slowest ?=

soak_script := scripts/soak
bench_script := bench/run
gpu_script := scripts/gpu

.PHONY: help run test lint layout lab soak bench gpu format pins environment clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

# Makes .venv, or leaves it alone when it is what constraints.txt and pyproject.toml say.
environment:
	@scripts/environment
	@$(bin)/python -m compileall -q src

run: environment
	$(bin)/stellwerk run examples/digits/task.yaml --env "PYTHON=$(CURDIR)/$(bin)/python"

test: environment layout
	@scripts/check $(workers) $(if $(slowest),--durations=$(slowest))

lint: environment layout
	$(bin)/mypy

# What takes no time; the types are checked beside the tests.
layout: environment
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/lint-imports --no-logo

# Real engines: takes what the machine has, and says what it left out.
lab: environment
	@scripts/lab

# Long or special runs; each refuses in words where this version has nothing to run.
soak bench gpu: environment
	@if [ -x $($@_script) ]; then $($@_script); else \
	    echo "make $@: this version has nothing to run here ($($@_script) doesn't exist)" >&2; exit 2; fi

format: environment
	$(bin)/ruff check --fix --quiet . || true
	$(bin)/ruff format .

pins:
	@scripts/pins

clean:
	rm -rf .venv .stamp .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
