# On a fresh machine: `make demo`, then `make test`. Everything is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
DATA ?=
HOURS ?= 1
PARTS ?=
PYTHONS ?=
COUNT ?= 100
JOBS ?= 1
SEED ?= 0
SOURCES := setup.py src tests benchmarks examples experiments docs/skeletons tools
export OPENBLAS_NUM_THREADS = 1

.PHONY: demo docs docs-draft docs-picture test test-pythons tests lint style types hooks walk long exactness faults gpu-test gpu-bench soak soak-writes mutants mutants-generated bench bench-speed bench-features bench-peers bench-million bench-scale bench-topics bench-topic-peers bench-topic-quality bench-engines bench-compile bench-travel bench-travel-features bench-mixing paper paper-quick paper-docs clean

demo: .setup-done
	$(BIN)/python examples/demo.py

# The site, in build/site: code of pages runs where it has changed, links are checked, no warning is let through.
docs: .setup-done
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	$(BIN)/python tools/site/links.py build/site

docs-draft: .setup-done
	DRAFT=1 NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --site-dir build/draft

# The picture of the README is that of the home page; the only one that is kept in the repository for it.
docs-picture: docs
	$(BIN)/python tools/site/beside.py build/pages/docs-index/1-*.png docs/first-model.png

# Three workers keep two cores busy: one of them begins with the tests of engines, which wait for other processes most of
# their time. Types are checked beside them.
test: style
	$(MAKE) --no-print-directory -j 2 tests types

tests: .setup-done
	$(BIN)/python -m pytest -m "not long" -n 3 --dist loadscope

# The wheel in clean environments, with every Python that it promises and that can be had (or PYTHONS="...").
test-pythons: .setup-done
	$(BIN)/python tools/pythons.py $(PYTHONS)

lint: style types

style: .setup-done
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

types: .setup-done
	$(BIN)/mypy

hooks: .setup-done
	$(BIN)/pre-commit install

walk: .setup-done
	$(BIN)/python benchmarks/walk.py

# All that `make test` leaves out: hours.
long: exactness faults
	$(BIN)/python -m pytest -m "long" tests/models tests/test_experiments.py -s

exactness: .setup-done
	$(BIN)/python -m pytest -m "long" tests/exactness -s

faults: .setup-done
	$(BIN)/python -m pytest -m "long" tests/engines tests/sources tests/chain -s

# On a machine with a GPU, with the torch that is there (PYTHON): all that the interpreter runs elsewhere, and more.
gpu-test:
	PYTHONPATH=src TRITON_INTERPRET=0 $(PYTHON) -m pytest tests/gpu tests/exactness/test_device.py

gpu-bench:
	PYTHONPATH=src $(PYTHON) benchmarks/gpu.py

soak: .setup-done
	$(BIN)/python tests/soak.py --hours $(HOURS)

soak-writes: .setup-done
	$(BIN)/python tests/soak.py --hours $(HOURS) --every-write

mutants: .setup-done
	$(BIN)/python tests/exactness/mutants.py -j 2

mutants-generated: .setup-done
	$(BIN)/python tests/exactness/mutants.py --generate $(COUNT) --seed $(SEED) -j 2

bench: bench-speed bench-features bench-topics bench-peers

bench-speed: .setup-done
	$(BIN)/python benchmarks/speed.py

bench-features: .setup-done
	$(BIN)/python benchmarks/features.py

bench-topics: .setup-done
	$(BIN)/python benchmarks/topics.py

bench-topic-peers: .setup-done
	$(BIN)/python -m pip install --quiet -e ".[peers]"
	$(BIN)/python benchmarks/topic_peers.py synthetic $(if $(DATA),--data $(DATA) ap bbc_news 20newsgroups)

bench-topic-quality: .setup-done
	$(BIN)/python benchmarks/topic_quality.py run ap bbc_news --data $(DATA) --seeds 2 -j 2
	$(BIN)/python benchmarks/topic_quality.py table topic_quality.jsonl

bench-engines: .setup-done
	$(BIN)/python benchmarks/engines.py serial threads processes ray
	$(BIN)/mpiexec -n 2 $(BIN)/python -m unbounded.engines.mpi benchmarks/engines.py mpi

bench-compile: .setup-done
	$(BIN)/python benchmarks/compile.py

bench-travel: .setup-done
	$(BIN)/python benchmarks/travel.py cost
	$(BIN)/python benchmarks/travel.py heal -j 2
	$(BIN)/python benchmarks/travel_topics.py cost
	$(BIN)/python benchmarks/travel_topics.py heal -j 2

bench-mixing: .setup-done
	$(BIN)/python benchmarks/mixing.py agree -j 2
	$(BIN)/python benchmarks/mixing.py quality

bench-travel-features: .setup-done
	$(BIN)/python benchmarks/travel_features.py cost
	$(BIN)/python benchmarks/travel_features.py heal

bench-million: .setup-done
	$(BIN)/python benchmarks/million.py

bench-scale: .setup-done
	$(BIN)/python benchmarks/scale.py $(PARTS)

bench-peers: .setup-done
	$(BIN)/python benchmarks/peers.py

paper: .setup-done
	$(BIN)/unbounded paper all -j $(JOBS) $(if $(DATA),--data $(DATA))

paper-quick: .setup-done
	$(BIN)/unbounded paper all --quick $(if $(DATA),--data $(DATA))

paper-docs: .setup-done
	$(BIN)/python -m experiments.report $(wildcard paper-run)

paper-%: .setup-done
	$(BIN)/unbounded paper $* -j $(JOBS) $(if $(DATA),--data $(DATA))

# Without byte code of everything, which takes half of the time: a module gets its own when it is first imported.
.setup-done: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile -e ".[dev]"
	touch $@

clean:
	rm -rf .venv .setup-done .numba_cache .browser .pythons demo-run paper-run build src/*.egg-info
