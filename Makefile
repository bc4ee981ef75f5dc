# From a bare Python 3.11 or newer: `make demo` shows a project at work, `make test` checks the
# repository. Another Python: make test PYTHON=python3.12

PYTHON ?= python3
VENV ?= .venv
BIN = $(abspath $(VENV))/bin
DEMO = build/demo
# Without its dependencies: those are gigabytes that its loop does not need.
ORBIT = templates/extras/orbit/requirements.txt
TASKS = $(patsubst templates/%/cookiecutter.json,%,$(wildcard templates/*/cookiecutter.json))
# Templates may hold a pyproject.toml of their own, which is the one of a generated project.
RUFF_OPTIONS = --no-cache --config pyproject.toml

.PHONY: demo test whole quick lint types types-generator types-shared test-all docs lock clean

# Bake a project, train it on its sample, score it and compare it with the shipped reference.
demo: $(VENV)/installed
	rm -rf $(DEMO)
	$(BIN)/cookiecutter . --directory templates/relation_extraction --no-input \
		--default-config --output-dir build project_slug=demo
	cd $(DEMO) && $(BIN)/python train.py --run_name demo
	cd $(DEMO) && $(BIN)/python evaluate.py runs/demo sample/test.jsonl
	cd $(DEMO) && $(BIN)/python compare.py runs/demo

test: lint types
	$(BIN)/python -m pytest -n 2 -m "not further" --durations 60 --durations-min 10

# Before a release: every test, also those that show the same of a further task.
whole: lint types
	$(BIN)/python -m pytest -n 2

# Before each commit: everything but the tests that train, and other slow ones.
quick: lint types
	$(BIN)/python -m pytest -n 2 -m "not trains and not slow"

lint: $(VENV)/installed
	$(BIN)/ruff check $(RUFF_OPTIONS) .
	$(BIN)/ruff format $(RUFF_OPTIONS) --check .

# Every project has a package `task` of its own, and finds `core` and `extras` in templates/.
types: $(VENV)/installed
	@$(MAKE) --no-print-directory --keep-going --jobs 2 \
		types-generator types-shared $(patsubst %,types-%,$(TASKS))

types-generator:
	@echo generator && MYPYPATH=templates $(BIN)/mypy generator

types-shared:
	@echo core and extras && MYPYPATH=templates $(BIN)/mypy --cache-dir .mypy_cache/shared \
		templates/*.py templates/*/*_extension.py templates/core templates/extras

types-%:
	@project="templates/$*/{{cookiecutter.project_slug}}"; \
	echo $* && MYPYPATH="templates:$$project" $(BIN)/mypy --follow-imports silent \
		--cache-dir .mypy_cache/$* \
		$$(ls -d "$$project"/*/ | grep -v "/\(core\|extras\|tests\|sample\|reference\)/") "$$project"/*.py

# The tests with each supported TensorFlow, each in an environment of its own.
test-all:
	$(MAKE) whole VENV=.venv-2.20 TENSORFLOW="tensorflow==2.20.*"
	$(MAKE) whole VENV=.venv-2.21 TENSORFLOW="tensorflow==2.21.*"

$(VENV)/installed: pyproject.toml $(ORBIT)
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and \
		'error: Python 3.11 or newer is needed: name one with make PYTHON=python3.12')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --no-compile --editable ".[dev]" $(if $(TENSORFLOW),"$(TENSORFLOW)")
	$(BIN)/python -m pip install --no-compile --no-deps -r $(ORBIT)
	@# pip would compile one file after another, and what is never imported. Some are for other Pythons.
	-$(BIN)/python -m compileall -qq -j 0 -x '/(tests|official|networkx|nltk|pip|tf_keras)/' $(VENV)
	touch $@

# The documentation as a site, in build/site: pip install -e ".[docs]" brings MkDocs.
docs:
	$(BIN)/python -m mkdocs build --strict

# The lock file of every project; pip install uv. New releases: make lock LOCK=--upgrade
lock:
	uv pip compile --quiet --universal --python-version 3.11 --no-annotate $(LOCK) \
		--custom-compile-command "make lock, in a clone of the repository of the templates" \
		--output-file templates/shared/requirements.lock templates/*/{{*/requirements.txt

# Also the runs of `baselines reproduce`, which are in build/.
clean:
	rm -rf build .venv .venv-2.20 .venv-2.21
