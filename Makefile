# make run     makes the environment and runs the main job
# make test    makes the environment, checks the code and runs the tests
# make lint    ruff, mypy strict and the import contracts alone
# make lab     tests against real engines, as far as this machine has them
# make format  lets ruff lay out the code and mend what it can
# make pins    writes constraints.txt anew from pyproject.toml
# make clean   removes the environment and every cache
#
# PYTHON=…     picks the interpreter of the environment (3.11 or newer)

MAKEFLAGS += --no-print-directory
bin := $(CURDIR)/.venv/bin
workers ?= 2

.PHONY: help run test lint lab format pins environment clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

# Makes .venv, or leaves it alone when it is what constraints.txt and pyproject.toml say.
environment:
	@scripts/environment
	@$(bin)/python -m compileall -q src

run: environment
	$(bin)/stellwerk run examples/digits/task.yaml --env PYTHON=$(bin)/python

test: lint
	$(bin)/python -m pytest -n $(workers)

lint: environment
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy
	$(bin)/lint-imports --no-logo

# Real engines: takes what the machine has, and says what it left out.
lab: environment
	@scripts/lab

format: environment
	$(bin)/ruff check --fix --quiet . || true
	$(bin)/ruff format .

pins:
	@scripts/pins

clean:
	rm -rf .venv .stamp .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
