# From a bare Python 3.11 or newer: `make demo` shows a project at work, `make test` checks the
# repository. Another Python: make test PYTHON=python3.12

PYTHON ?= python3
VENV ?= .venv
BIN = $(abspath $(VENV))/bin
DEMO = build/demo
# Without what it asks for, which is gigabytes that its loop does not need.
ORBIT = "templates/seq2seq/{{cookiecutter.project_slug}}/requirements-orbit.txt"

.PHONY: demo test test-all clean

# Bake a project, train it on its sample, score it and compare it with the shipped reference.
demo: $(VENV)/installed
	rm -rf $(DEMO)
	$(BIN)/cookiecutter . --directory templates/relation_extraction --no-input \
		--default-config --output-dir build project_slug=demo
	cd $(DEMO) && $(BIN)/python train.py --run_name demo
	cd $(DEMO) && $(BIN)/python evaluate.py runs/demo sample/test.jsonl
	cd $(DEMO) && $(BIN)/python compare.py runs/demo

test: $(VENV)/installed
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --no-cache --check .
	$(BIN)/python -m pytest -n 2

# The tests with each supported TensorFlow, each in an environment of its own.
test-all:
	$(MAKE) test VENV=.venv-2.20 TENSORFLOW="tensorflow==2.20.*"
	$(MAKE) test VENV=.venv-2.21 TENSORFLOW="tensorflow==2.21.*"

$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and \
		'error: Python 3.11 or newer is needed: name one with make PYTHON=python3.12')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --no-compile --editable ".[dev]" $(if $(TENSORFLOW),"$(TENSORFLOW)")
	$(BIN)/python -m pip install --no-compile --no-deps -r $(ORBIT)
	@# pip would compile one file after another, and what is never imported. Some are for other Pythons.
	-$(BIN)/python -m compileall -qq -j 0 -x '/(tests|official|networkx|nltk|pip|tf_keras)/' $(VENV)
	touch $@

clean:
	rm -rf build .venv .venv-2.20 .venv-2.21
