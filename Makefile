# The front door. Everything real is in CMakeLists.txt and the presets, tools/ and tests/.
.PHONY: all demo demo-run test asan tsan aarch64 bench format-check install clean help setup setup-test
.DEFAULT_GOAL := all

PREFIX ?= /usr/local
ORK = build/release/cli/ork
DEMO = build/demo.orkpack
CLANG_FORMAT ?= clang-format

all: setup ## build the library and the command line
	@cmake --preset release -DORK_TESTS=OFF >build/configure.log || { cat build/configure.log; exit 1; }
	cmake --build --preset release

demo: all demo-run ## build, pack the bundled model, show its card, generate text

demo-run:
	$(ORK) pack --force models/demo-lfm2moe.gguf $(DEMO)
	$(ORK) info $(DEMO)
	$(ORK) run $(DEMO) -p "The king said unto the people," -n 120 --seed 7 --stats

test: setup-test ## everything: all builds, all tests, one summary
	python3 -B tests/run_all.py

asan tsan aarch64: setup-test ## the tests of one build: addresses and undefined behaviour, threads, aarch64 under qemu
	python3 -B tests/run_all.py $@

bench: all ## tokens per second beside llama.cpp's (bench/versus.sh)
	bench/versus.sh

format-check: ## C files that clang-format would change
	git ls-files '*.c' '*.h' | xargs $(CLANG_FORMAT) --dry-run -Werror

install: all ## into PREFIX (/usr/local), below DESTDIR
	cmake --install build/release --prefix $(PREFIX)

clean: ## remove everything that was built
	rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9 -]+:.*## / { printf "%-20s %s\n", $$1, $$2 }' Makefile

setup:
	@mkdir -p build
	@tools/setup.sh build

setup-test:
	@mkdir -p build
	@tools/setup.sh test
