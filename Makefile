# Every target sets up what it needs. Python 3.11 or newer is all that must be there before.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LAMBDA := .cache/lambda
CONFIG ?= portico.yaml
PORT   ?= 8088
ARCH   ?= arm64
HERE   := $(subst aarch64,arm64,$(shell uname -m))

.PHONY: serve test lint format mutants bench conformance matrix layer lambda filter fuzz deploy-check coldstart lock clean

serve: $(VENV)/.ready
	$(BIN)/python -m examples.demo --config $(CONFIG) --port $(PORT)

# Most tests wait for processes: more of them at once than there are cores, each file by one worker.
test: $(VENV)/.ready $(LAMBDA)/.ready
	$(BIN)/pytest -n 4 --dist loadfile $(ARGS)
	$(BIN)/pytest -n 4 --dist loadfile --place lambda tests/interaction

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m ziglang fmt --check authz/filter tests/filter

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m ziglang fmt authz/filter tests/filter

# One thing after the other is changed in authz/policy.py: the vectors must notice each.
mutants: $(VENV)/.ready
	$(BIN)/python -m tests.vectors.mutants

bench: $(VENV)/.ready $(LAMBDA)/.ready
	$(BIN)/python -m tests.bench $(ARGS)

conformance: $(VENV)/.ready $(LAMBDA)/.ready
	$(BIN)/python -m tests.conformance $(ARGS)

matrix: $(VENV)/.ready $(LAMBDA)/.ready
	$(BIN)/python -m tests.matrix $(ARGS)

# What would be deployed, built for this machine and run on it; ARGS are the emulator's.
lambda: $(LAMBDA)/.ready
	SAM_CLI_TELEMETRY=0 PATH="$(abspath $(LAMBDA)/bin):$$PATH" $(LAMBDA)/bin/sam build --parameter-overrides Architecture=$(HERE)
	exec $(LAMBDA)/bin/python -m emulator template.yaml .aws-sam/build --port $(PORT) --parameter Architecture=$(HERE) \
	  --parameter "PublicBaseUrl=http://127.0.0.1:{port}" $(ARGS)

layer: $(LAMBDA)/.ready
	PATH="$(abspath $(LAMBDA)/bin):$$PATH" $(MAKE) --no-print-directory -f layers/portico/Makefile \
	  build-PorticoLayer$(if $(filter arm64,$(ARCH)),Arm64,X86) ARTIFACTS_DIR="$(abspath .cache/layer/$(ARCH))"

# Twice, from nothing: the same sources must give the same bytes.
filter: $(VENV)/.ready
	rm -rf .cache/filter/once .cache/filter/again
	$(MAKE) --no-print-directory -C authz/filter OUT=$(abspath .cache/filter/once)
	$(MAKE) --no-print-directory -C authz/filter OUT=$(abspath .cache/filter/again)
	cmp .cache/filter/once/portico.wasm .cache/filter/again/portico.wasm
	cp .cache/filter/once/portico.wasm .cache/filter/portico.wasm
	@$(BIN)/python -c 'import hashlib, pathlib; made = pathlib.Path(".cache/filter/portico.wasm").read_bytes(); \
	  print(f"{len(made)} bytes, sha256 {hashlib.sha256(made).hexdigest()}"); assert len(made) <= 300_000, "too large"'

fuzz: $(VENV)/.ready
	$(BIN)/python -m tests.filter.fuzz $(ARGS)

# `sam validate` overlooks references to nothing and circles: the translation is looked at, too.
deploy-check: $(LAMBDA)/.ready
	SAM_CLI_TELEMETRY=0 $(LAMBDA)/bin/sam validate --lint --region us-east-1
	$(LAMBDA)/bin/python tests/infrastructure/translate.py template.yaml > .cache/translated.json
	$(LAMBDA)/bin/cfn-lint --regions us-east-1 --template .cache/translated.json

coldstart: $(LAMBDA)/.ready
	@$(MAKE) --no-print-directory layer ARCH=$(HERE)
	$(LAMBDA)/bin/python -m tests.bench.coldstart .cache/layer/$(HERE) $(ARGS)

lock: $(VENV)/.ready
	for wanted in requirements/*.in; do $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-emit-index-url --no-emit-find-links -o $${wanted%.in}.txt $$wanted || exit 1; done

clean:
	rm -rf $(VENV) .portico .cache .aws-sam

$(VENV)/.ready: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Portico needs Python 3.11 or newer; say which with: make PYTHON=python3.12 ...")'
	@echo "setting up $(VENV) (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# What builds, checks and runs the deployment, on the Python that Lambda runs. pyenv lends that out only if told to.
$(LAMBDA)/.ready: requirements/lambda-dev.txt requirements/lambda-runtime.txt | $(VENV)/.ready
	@echo "setting up $(LAMBDA) (once)"
	@PYENV_VERSION=3.13 $(BIN)/uv venv --quiet --clear --python 3.13 $(LAMBDA)
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(LAMBDA)/bin/python --require-hashes -r requirements/lambda-dev.txt
	@$(LAMBDA)/bin/python -m emulator.interpreters
	@touch $@
