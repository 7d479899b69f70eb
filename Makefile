# memstrata: `make help` lists the targets. Everything runs in .venv, which the first target builds.

BIN := .venv/bin
STAMP := .venv/.built
TYPES := build/types/memstrata/capture build/types/memstrata/viewer

.PHONY: help env demo test fuzz lint bench plans samples screenshots 27b types clean

help:
	@echo "make demo     record a real training step without and with checkpointing, and show both"
	@echo "make test     run the tests (without a screen)"
	@echo "make fuzz     read 100,000 damaged snapshots (some minutes; MEMSTRATA_SEED=1000 for others)"
	@echo "make lint     style, types, and the order of the rooms"
	@echo "make bench    measure what the recorder costs and how fast files open"
	@echo "make plans    predict checkpoint plans, apply them, and compare with what is then measured"
	@echo "make samples  make the files under samples/ again"
	@echo "make screenshots  make the pictures under docs/images again, from the samples"
	@echo "make 27b      run the dry runs of docs/27b.md and write it (HYBRID_PYTHON: one that has transformers)"
	@echo "make env      build .venv and nothing else"
	@echo "make clean    remove everything that was built, .venv included"

env: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@.ci/make_env
	@touch $@

demo: $(STAMP)
	@$(BIN)/python .ci/check_libraries.py
	@$(BIN)/memstrata demo

test: $(STAMP)
	@QT_QPA_PLATFORM=offscreen $(BIN)/python .ci/check_libraries.py
	@QT_QPA_PLATFORM=offscreen $(BIN)/pytest --numprocesses 2 --dist loadfile

fuzz: $(STAMP)
	@MEMSTRATA_FUZZ=100000 $(BIN)/pytest -vv -rP --numprocesses 2 --dist load tests/sources/test_fuzz.py

lint: $(STAMP) types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

bench: $(STAMP)
	@$(BIN)/python benchmarks/run.py

plans: $(STAMP)
	@$(BIN)/python benchmarks/plans.py
	@echo
	@$(BIN)/python benchmarks/plans.py --selective
	@echo
	@$(BIN)/python benchmarks/plans.py --teaching

samples: $(STAMP)
	@$(BIN)/python samples/make_recordings.py
	@$(BIN)/python samples/make_ranks.py

screenshots: $(STAMP)
	@QT_QPA_PLATFORM=offscreen $(BIN)/python .ci/check_libraries.py
	@$(BIN)/python samples/make_screenshots.py

27b: $(STAMP) types
	@$(BIN)/python docs/make_27b.py --hybrid-python "$(or $(HYBRID_PYTHON),$(BIN)/python)"

# The folders under the names they install as, for tools that do not follow an editable install.
types: $(TYPES)

build/types/memstrata/%:
	@mkdir -p $(@D)
	@ln -sfn ../../../$* $@

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
