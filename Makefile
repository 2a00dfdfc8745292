# `make` lists the targets. Everything but `build` works on the tree in build/prefix, as a user would: PATH is all it needs.
PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
CC ?= cc
MINUTES ?= 10
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
SOVERSION := $(firstword $(subst ., ,$(VERSION)))
STAGE := $(CURDIR)/build/prefix
# What Rust's static library needs; abi-tests/tests/install.rs compares it with rustc's own list.
SYSTEM_LIBS := -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc
export GINRS_PREFIX ?= $(STAGE)

# Missing prerequisites of all goals are reported before any work starts; test targets install them.
checked := $(filter-out test test-changed test-all test-list flaky,$(MAKECMDGOALS))
ifneq ($(checked),)
  $(if $(shell CARGO='$(CARGO)' MACHINES='$(MACHINES)' scripts/deps.sh --check $(checked) || echo missing),$(error prerequisites are missing))
endif

.PHONY: help deps fresh build stage install uninstall headers check-headers demo test test-changed test-all test-list flaky bench perf gpu-build gpu-test gpu-faults gpu-bench gpu-bench-collectives gpu-bench-pytorch gpu-theirs soak chaos chaos-net simulate machines rxe fuzz fuzz-elements abi-full asan tsan fmt clippy clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

deps: ## checks for what the other targets need; installs it as root, else says which command does
	@scripts/deps.sh

build: ## libraries and tools, release; with nvcc also the GPU kernels (GINRS_GPU_ARCHS)
	@scripts/deps.sh --check
	$(CARGO) build --release -p ginrs-cpu -p ginrs-tools -p ginrs-baton
	scripts/build-kernels.sh cpu build/kernels/collectives-cpu.o & kernels=$$!; \
	  fatbin=$$(scripts/build-kernels.sh gpu build/kernels/collectives.fatbin) && \
	  env $${fatbin:+GINRS_FATBIN=$$fatbin} $(CARGO) build --release -p ginrs -p ginrs-info; \
	  status=$$?; wait $$kernels && exit $$status
	scripts/link-library.sh target/release/libginrs.a exports.map build/lib ginrs $(VERSION) $(SYSTEM_LIBS)
	EXTRA_OBJECTS=build/kernels/collectives-cpu.o \
	  scripts/link-library.sh target/release/libginrs_cpu.a cpu-device/exports.map build/lib ginrs_cpu $(VERSION) -lstdc++ $(SYSTEM_LIBS)
	scripts/link-library.sh target/release/libginrs_baton.a baton/exports.map build/lib ginrs_baton $(VERSION) $(SYSTEM_LIBS)

stage: build ## installs into build/prefix
	@scripts/stage.sh $(STAGE) $(VERSION)
	@echo "staged in $(STAGE): export PATH=$(STAGE)/bin:\$$PATH"

install: build ## installs into DESTDIR/PREFIX (default /usr/local)
	scripts/stage.sh $(DESTDIR)$(PREFIX) $(VERSION)

uninstall: ## takes back what install put there
	rm -f $(DESTDIR)$(PREFIX)/lib/libginrs.so* $(DESTDIR)$(PREFIX)/lib/libginrs.a $(DESTDIR)$(PREFIX)/lib/libginrs_cpu.so*
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,ginrs-cc ginrs-run ginrs-info ginrs-gdb) $(DESTDIR)$(PREFIX)/lib/pkgconfig/ginrs.pc
	rm -rf $(DESTDIR)$(PREFIX)/lib/cmake/ginrs $(DESTDIR)$(PREFIX)/lib/cmake/NCCL
	rm -rf $(DESTDIR)$(PREFIX)/include/ginrs $(DESTDIR)$(PREFIX)/lib/ginrs $(DESTDIR)$(PREFIX)/share/doc/ginrs

headers: ## generates include/nccl.h, include/ginrs.h, MATRIX.md, docs/errors.md and docs/environment.md
	$(CARGO) run -q -p header-gen -- write
	BLESS=1 $(CARGO) test -q -p ginrs --lib config::tests::the_page >/dev/null

check-headers: ## fails if they are stale
	$(CARGO) run -q -p header-gen -- check
	$(CARGO) test -q -p ginrs --lib config::tests::the_page >/dev/null

demo: stage ## the examples on 4 ranks: processes, threads, machines (as root installs libfabric1)
	@scripts/demo.sh

fresh: ## the README's commands on a minimal Debian with a clone of HEAD, as root and as a user
	@scripts/fresh.sh

test: ## the jobs that CI runs (ONLY='races cuda': jobs with these words in their names)
	@scripts/deps.sh && python3 scripts/suite test

test-changed: ## the jobs that the files changed since BASE (default: origin/main) touch
	@scripts/deps.sh && python3 scripts/suite changed

test-all: ## make test, and what takes hours: all sanitizers, compilers, seeds, long fuzzing
	@scripts/deps.sh && python3 scripts/suite all

test-list: ## the names of all jobs of make test
	@python3 scripts/suite list

flaky: ## every test N (20) times next to busy processes; reports each that failed (ONLY)
	@scripts/deps.sh && N=$(or $(N),20) python3 scripts/suite flaky

bench: stage ## speed on the CPU device, as ratios to floors measured in the same run
	@scripts/bench.sh

perf: stage ## ginrs-perf, the device API's benchmarks, into build/perf
	@scripts/perf.sh

gpu-build: stage ## what gpu-test and gpu-bench run on a machine with GPUs, into build/gpu (needs nvcc, no GPU)
	@scripts/gpu-build.sh

gpu-test: ## the four combinations with NVIDIA's headers and library, on the GPUs found
	@scripts/gpu-test.py $(GPU_TEST)
	@[ -n "$(GPU_TEST)" ] || scripts/gpu-faults.sh
	@[ -n "$(GPU_TEST)" ] || scripts/gpu-together.sh
	@[ -n "$(GPU_TEST)" ] || scripts/gpu-communicators.sh
	@[ -n "$(GPU_TEST)" ] || scripts/gpu-lent.sh

gpu-faults: ## a rank fails in every way there is: the waits of the others end (part of gpu-test)
	@scripts/gpu-faults.sh $(GPU_FAULTS)

gpu-bench: ## the figures of ginrs-perf on the GPUs found, beside NVIDIA's library
	@scripts/gpu-bench.sh $(GPU_BENCH)

gpu-theirs: ## ginrs, and NVIDIA's library, on the GPUs found, by GDAKI over the soft card (first scripts/gpu-theirs.sh --build, which needs no GPU)
	@scripts/gpu-theirs.sh

gpu-bench-collectives: ## collectives on the GPUs found, beside NVIDIA's library
	@scripts/gpu-bench-collectives.sh $(GPU_BENCH)

gpu-bench-pytorch: ## PyTorch's collectives and training steps on the GPUs found, beside NVIDIA's library
	@scripts/gpu-bench-pytorch.py $(GPU_BENCH)

soak: stage ## random shapes and seeds of the torture program for MINUTES (10)
	@scripts/soak.sh $(MINUTES)

chaos: stage ## a rank is killed, stopped, .. at random moments of a job, ROUNDS (200) times from SEED: no hang (a few are in make test)
	@scripts/chaos.sh $(ROUNDS) $(SEED)

chaos-net: stage ## the suite on an adversarial, lawful network, SEEDS (100) seeds of GINRS_CHAOS from FROM (1) on; EACH=one: one run of each (a few are in make test)
	@EACH="$(or $(EACH),all)" scripts/chaos-net.sh $(or $(SEEDS),100) $(or $(FROM),1)

simulate: ## whole communicators with faults by seed, in virtual time: SEEDS (1000) of them from FROM (1) on, on all cores (some are in make test)
	@$(CARGO) test --release -q -p ginrs --test simulation -- --seeds $(or $(SEEDS),1000) --from $(or $(FROM),1)

machines: stage ## the examples and the suite's programs on 2, 3 and 8 network namespaces, up to 16 ranks, with both header sets (root; a part is in make test)
	@GINRS_TEST_SHAPES="$(SHAPES)" $(CARGO) test -q -p abi-tests --test networks -- --ignored --nocapture

rxe: stage ## the suite's programs over verbs on soft RoCE, in a guest of QEMU without KVM (root; packages that it names, and a kernel's, which it fetches; not in make test)
	@scripts/rxe/run.sh

fuzz: ## libFuzzer on what reads bytes of strangers, FUZZ_SECONDS (600) for each target; FUZZ=conf: that one (60 s each are in make test-all)
	@scripts/fuzz.sh $(or $(FUZZ_SECONDS),600) $(FUZZ)

fuzz-elements: ## ELEMENTS (10^9) work queue elements of a card at random, on all cores (a part is in make test)
	@scripts/fuzz-elements.sh $(or $(ELEMENTS),1000000000)

abi-full: stage ## the compile matrix: every compatibility test, compiler, architecture and option
	@scripts/abi-full.sh

asan: ## the suite under AddressSanitizer
	@scripts/sanitize.sh address

tsan: ## plain programs under ThreadSanitizer
	@scripts/sanitize.sh thread

fmt: ## formats the Rust sources
	$(CARGO) fmt --all

clippy: ## lints
	$(CARGO) clippy --workspace --all-targets -- -D warnings

clean: ## removes build and target
	rm -rf build
	$(CARGO) clean
