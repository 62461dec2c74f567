# make run: every sample on this machine. make test, make lint: what a change must pass;
# make test-all: what a release must pass.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/launcher
BIN := $(VENV)/bin

# Which board `make board` emulates: arm64, or armhf (32-bit, as the ODROID XU3 and XU4), of Debian 12
# or, with RELEASE=bullseye, 11; or one that only compiles, for a GPU: GPU=mali-g52. `make mali` has
# every kernel compiled for the GPUS, and compares those for Mali with their targets.
ARCH := arm64
GPUS = $(shell sed -n 's/^\["\(mali-[^"]*\)"\]$$/\1/p' boards.toml)

.PHONY: run test test-all fuzz board board-stop mali screenshots lint lock clean
.PHONY: test-arm64 test-armhf test-arm64-bullseye test-armhf-bullseye test-debian11

run: $(READY)
	$(BIN)/fab deploy run-all

# Three processes: most tests wait for one that they started. Where a driver takes one down, another
# takes its place, even after each of the 300 tests that use OpenCL there; what it had not yet run,
# the others run (--dist loadfile waits for it for ever). -u: a log shows how far it is.
PYTEST := $(BIN)/python -u -m pytest -n 3 --dist worksteal --max-worker-restart 500

# All but the exhaustive ones: some minutes.
test: $(READY)
	$(PYTEST) -m "not exhaustive"

test-all: $(READY)
	$(PYTEST)

# Odd inputs for every program, the same each time: INPUTS=300 is a short run, SEED=2 draws others,
# ONLY=archives or 'images or tools' takes some targets of tests/dev/fuzz_targets.py.
INPUTS := 10000
SEED := 1
ONLY := documented
fuzz: $(READY)
	@test "$(INPUTS)" -gt 0 2>/dev/null || { echo "INPUTS=$(INPUTS): give a whole number above 0"; exit 2; }
	INPUTS=$(INPUTS) $(PYTEST) -rP --hypothesis-seed=$(SEED) \
	    tests/dev/test_fuzz.py::test_a_program_ends_as_documented -k "$(ONLY)"

# An ARM board that is emulated here; `fab ... --host emulated` reaches it.
board: $(READY)
	@$(BIN)/python -m dev.emulate start $(or $(GPU),$(ARCH)$(RELEASE:%=-%))

board-stop: $(READY)
	@$(BIN)/python -m dev.emulate stop

# These cases build the same kernels, with the same options, as another case.
BUILT_ELSEWHERE := batch,documented,embedded,odd,seeded,strides,white
comma := ,
mali: $(READY)
	@grep -qE '"($(subst $(comma),|,$(GPUS)))"' tests/tools/test_gpus_targets.py || \
	    { echo "GPUS=$(GPUS): no kernel has a target for it"; exit 2; }
	@for gpu in $(subst $(comma), ,$(GPUS)); do $(BIN)/python -m dev.emulate start $$gpu || exit; done
	@$(BIN)/fab -H $(GPUS) deploy run-all --skip $(BUILT_ELSEWHERE); status=$$?; \
	    GPUS=$(GPUS) $(PYTEST) -rP tests/tools/test_gpus_targets.py || status=1; \
	    for gpu in $(subst $(comma), ,$(GPUS)); do $(BIN)/python -m dev.emulate stop $$gpu; done; \
	    exit $$status

# The README's way to a board, command by command, on such a board; without the cases named in SKIP.
SKIP :=
test-arm64 test-armhf test-arm64-bullseye test-armhf-bullseye: $(READY)
	TEST_BOARD=$(@:test-%=%) SKIP=$(SKIP) $(BIN)/python -m pytest tests/dev/test_emulate_readme.py

# A short one: a 32-bit board of Debian 11, without packages for Python.
test-debian11: $(READY)
	TEST_DEBIAN11=1 $(BIN)/python -m pytest tests/dev/test_emulate_debian11.py

# The README's pictures of the report, from results/reference. Needs Debian's chromium and
# chromium-driver.
screenshots: $(READY)
	$(BIN)/python -m dev.screenshots

lint: $(READY)
	$(BIN)/ruff check .

# The mark is the last thing that is made: a set-up that broke off starts anew.
$(VENV)/ready: requirements.lock
	@$(PYTHON) -c '' || { echo "$(PYTHON) does not run: make PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "$(PYTHON) is older than 3.11: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || \
	    { echo "$(PYTHON) has no venv: install python3-venv"; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	@echo "installing $$(grep -c == requirements.lock) packages into $(VENV): up to 0.8 GB, some minutes"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m deploy.slim
	touch $@
	@$(BIN)/python samples/sgemm/run.py --list || true

# Instead of Fabric's own fab, but for the lines by which that one starts this Python.
$(READY): deploy/launcher.py $(VENV)/ready
	sed '/^import /,$$d; /^"""/,$$d' $(BIN)/fab | cat - deploy/launcher.py > $@
	chmod +x $@ && cp -p $@ $(BIN)/fab.new && mv $(BIN)/fab.new $(BIN)/fab

# Update every version in the locks: this machine's from pyproject.toml, and those of boards whose
# Python is too old for it, which pip-compile cannot look up.
COMPILE := $(VENV)/lock/bin/pip-compile --quiet --generate-hashes --strip-extras --upgrade \
    --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header
FOR_BOARDS := numpy pyopencl pillow intel-opencl-rt intel-cmplr-lib-rt

lock: $(READY)
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet pip-tools uv
	$(COMPILE) --extra test --output-file requirements.lock pyproject.toml
	printf '%s\n' $(FOR_BOARDS) | $(VENV)/lock/bin/uv pip compile - --quiet --upgrade \
	    --python-version 3.10 --generate-hashes --no-header \
	    --output-file requirements-python3.10.lock

clean:
	rm -rf $(VENV)
