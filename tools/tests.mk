# Tests.  Every change must pass `make test`.  `make test-full` adds flavours, full sweeps,
# fuzzers and faults.  The Makefile includes this file.

include tests/ulp/rules.mk
include tests/libraries/rules.mk

# --- C ---------------------------------------------------------------------------
$(B)/tests/%: src/%.c src/base/test_main.c $(B)/libcresset.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -Wno-missing-prototypes $< src/base/test_main.c $(ARCHIVE) -o $@ $(LIBS)
TEST_BIN := $(TESTS_SRC:src/%.c=$(B)/tests/%)

.PHONY: tests-build test-rooms test-counts test-headers test-text test-installed test-python
tests-build: $(TEST_BIN)
tests-c: $(TEST_BIN)
	@sh tools/run_c_tests.sh $(TEST_BIN)

test-rooms: $(B)/libcresset.a $(RT_BUILD)/libcresset_rt.a
	@python3 tools/rooms $(B)

# Exported functions that no other file uses, and the like (tools/counts).
test-counts:
	@python3 tools/counts --check

# The layout that .clang-format states.  `make format` rewrites the files.  clang-format 14 decides,
# because versions differ.
CLANG_FORMAT ?= clang-format-14
FORMATTED     = $(shell find src include tools tests examples -name '*.[ch]' -o -name '*.inc' -o -name '*.cuh')
.PHONY: format test-format
format test-format:
	@TOOLS=$(CLANG_FORMAT) sh tools/deps.sh $(PYTHON) $(VENV)
	@$(CLANG_FORMAT) $(if $(filter format,$@),-i,--dry-run -Werror) $(FORMATTED)

# Every header compiles alone.
test-headers: $(B)/gen/stamp
	@sh tools/headers.sh $(CC) $(CSTD) -fopenmp-simd $(WARN) -Isrc -Iinclude -I$(B)/gen -I$(PY_INC)

# Golden texts of the compiler's passes.
test-text: $(B)/crc
	@$(B)/crc text tests/text/*.txt

# --- Python ------------------------------------------------------------------------
# Tests that need ../shared run when it exists.
SHARED_TESTS = $(if $(wildcard $(SHARED)/programs),tests/shared)
PY_TEST_ENV  = SHARED=$(abspath $(SHARED)) CRESSET_BUILD=$(abspath $(B)) PEER=$(PEER)
# Tests that expect a machine without a GPU get one.
NO_CUDA      = CR_CUDA=none
PYTEST       = $(PY_TEST_ENV) $(RUN_PY) -m pytest -q
PY_TESTS     = $(wildcard tests/ops tests/python tests/faults) $(SHARED_TESTS)
# Processes that share tests, a file at a time: some tests of a file expect those before them.
SHARES      ?= $(shell test $(JOBS) -lt 4 && echo $(JOBS) || echo 4)
SHARED_OUT   = $(if $(filter-out 1,$(SHARES)),-n $(SHARES) --dist loadfile)
test-python: build
	$(NO_CUDA) $(PYTEST) $(SHARED_OUT) $(PY_TESTS)

# The long forms of Python's tests, which test-python leaves out.
.PHONY: test-python-full
test-python-full: build
	$(NO_CUDA) $(PYTEST) --full -m full tests/python

# Every call deferred (docs/design/defer.md), but in tests marked `records`, which say why.
.PHONY: test-defer
test-defer: build
	CR_DEFER=1 $(NO_CUDA) $(PYTEST) tests/ops tests/python

# CPython's own tests, plain and observed by the room frame, which must give the same counts.  An
# interpreter without the package `test` has none of them.  FRAME_TESTS=--quick runs a selection.
FRAME_GATE = $(PY_OBJ)/gate/frame_gate.so
$(FRAME_GATE): tests/frame/gate.c $(FRAME_OBJ)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -I$(PY_INC) -shared $^ -o $@
.PHONY: test-frame test-frame-quick
test-frame: $(FRAME_GATE)
	@PYTHONPATH=$(abspath $(dir $(FRAME_GATE))) $(PYTHON) tests/frame/gate.py $(FRAME_TESTS)
test-frame-quick:
	@$(MAKE) --no-print-directory FRAME_TESTS=--quick test-frame

# A device outside the library (examples/backend): its own tests, and every operator's results and
# gradients on it, which must have the host's bits (near numbers: word other_order).
BACKEND      = $(B)/examples/libdemo.so
$(BACKEND): $(wildcard examples/backend/*.[ch]) include/cresset_backend.h
	$(Q)$(MAKE) -s -C examples/backend OUT=$(abspath $(B))/examples CC=$(CC)
.PHONY: test-backend
test-backend: pkg $(BACKEND)
	$(NO_CUDA) $(PYTEST) $(SHARED_OUT) tests/backend tests/ops/test_on_device.py --device demo --backend $(BACKEND)

# Rewrites the list of operators that differ from torch's recorded samples.
.PHONY: bless-conformance
bless-conformance: pkg
	$(PY_TEST_ENV) $(RUN_PY) tests/shared/test_conformance.py

# The whole table of digests (tests/ops/digests.py), of which test-python compares a part.
.PHONY: test-digests
test-digests: pkg $(BACKEND) $(B)/crc
	$(PY_TEST_ENV) $(RUN_PY) tests/ops/digests.py --table $(B)/digests.txt --backend $(BACKEND)

# Groups of processes, on this host: 2 and 4 ranks, and faults.  Engines: Gloo where the package was built with it, MPI
# by the wheel mpich.
DIST_PARTS = $(addprefix test-dist-,tensors groups launches others)
.PHONY: test-dist $(DIST_PARTS)
test-dist: pkg
	@sh tools/deps.sh $(PYTHON) $(VENV) mpich
	$(MAKE) --no-print-directory -j4 --output-sync=target $(DIST_PARTS)
# Parts run side by side, because ranks mostly wait for each other.  They import the package in a hundred processes: bytecode
# is kept, also where the environment says not to.
DIST_PYTEST   = PYTHONDONTWRITEBYTECODE= $(PYTEST)
DIST_TENSORS  = $(addprefix tests/dist/test_,tensor.py fsdp.py optim.py)
DIST_GROUPS   = tests/dist/test_dist.py
DIST_LAUNCHES = $(addprefix tests/dist/test_,torchrun.py elastic_parts.py numa.py sharding_spec.py)
DIST_OTHERS   = $(filter-out $(DIST_TENSORS) $(DIST_GROUPS) $(DIST_LAUNCHES),$(wildcard tests/dist/test_*.py))
test-dist-tensors:  ; $(DIST_PYTEST) $(DIST_TENSORS)
test-dist-groups:   ; $(DIST_PYTEST) $(DIST_GROUPS)
test-dist-launches: ; $(DIST_PYTEST) $(DIST_LAUNCHES)
test-dist-others:   ; $(DIST_PYTEST) $(DIST_OTHERS)
# With more ranks, and more kills.
.PHONY: test-dist-full
test-dist-full: pkg
	@sh tools/deps.sh $(PYTHON) $(VENV) mpich
	$(DIST_PYTEST) --full -m full tests/dist

# NCCL on two or more GPUs of this machine.  Needs no pytest; CR_NCCL names a library.
.PHONY: test-nccl
test-nccl: pkg
	$(PY_TEST_ENV) $(RUN_PY) tests/dist/test_nccl.py

# Random faults of random calls: FAULTS of them, SEED repeats a run, MS is the shortest timeout of groups.
$(B)/dist/faults: tests/dist/faults.c $(B)/libcresset.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) $< $(ARCHIVE) -o $@ $(LIBS)
.PHONY: test-dist-faults
test-dist-faults: $(B)/dist/faults $(GLOO)
	CR_MPI=$(or $(CR_MPI),$(abspath $(VENV))/lib/libmpi_abi.so.1) $< $(or $(FAULTS),300) $(or $(SEED),1) $(MS)

# One operator's generated tests: make check-op OP=logaddexp
check-op: build
	@test -n "$(OP)" || { echo "which operator?  make check-op OP=logaddexp"; exit 2; }
	$(NO_CUDA) $(PYTEST) tests/ops --op=$(OP)

# --- together ------------------------------------------------------------------------
test: build
	$(MAKE) --no-print-directory -j$(JOBS) tests-build $(B)/ulp/ulp $(B)/ulp/lanes $(B)/ulp/doubles $(B)/crc lib
	$(MAKE) --no-print-directory tests-c test-ulp test-rooms test-counts test-format test-headers test-text test-graphs-short test-c-programs
	$(if $(SHARED_TESTS),,@echo "tests/shared: there is no $(SHARED), its tests are left out")
	$(NO_CUDA) $(PYTEST) $(SHARED_OUT) $(PY_TESTS)
	$(MAKE) --no-print-directory test-frame-quick test-backend test-fake-cuda test-dist

# --- flavours --------------------------------------------------------------------------
# Each flavour has a build folder below B.
ASAN_FLAVOUR = -fsanitize=address,undefined -fno-sanitize-recover=undefined \
               -fno-omit-frame-pointer -DCR_SANITIZE
# The fake stack of gcc 13's address sanitizer is not aligned to 64 bytes, so vectors on it fault (gcc 110027).
ASAN_STACK   = detect_stack_use_after_return=0
ASAN_PY      = LD_PRELOAD="$(shell $(CC) -print-file-name=libasan.so) $(shell $(CC) -print-file-name=libubsan.so)" \
               ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:$(ASAN_STACK) UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc
FUZZ_SECONDS ?= 60
FUZZ_SRC    := $(filter-out tests/fuzz/calls_fuzz.c,$(wildcard tests/fuzz/*.c))
GRAPH_FUZZ   = CR_CACHE=$(abspath $(B))/fuzz/cache $(B)/fuzz/graph_fuzz
FUZZ_BIN     = $(FUZZ_SRC:tests/fuzz/%.c=$(B)/fuzz/%)

$(B)/fuzz/%: tests/fuzz/%.c $(wildcard tests/fuzz/*.h) $(B)/libcresset.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) $< $(ARCHIVE) -o $@ $(LIBS)

.PHONY: fuzz-build test-fuzz test-flavour-c test-flavour-python test-asan test-mean test-clang test-cxx
fuzz-build: $(FUZZ_BIN) $(B)/fuzz/calls_fuzz
test-fuzz: $(FUZZ_BIN)
	$(foreach f,$^,$(f) $(FUZZ_SECONDS) &&) true

# Random calls of every record of the table, CALLS of each, with a fixed seed and a fresh one; SEED
# repeats a run, OP=NAME looks at one operator, BATCH=0 runs its first batch in one process.
CALLS ?= 600
.PHONY: test-calls
test-calls: $(B)/fuzz/calls_fuzz
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $< $(CALLS) $(or $(SEED),1) $(OP) $(BATCH)
	$(if $(SEED),,OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $< $(CALLS) 0 $(OP))

# COUNT mutated exported programs, and compiled models, which run under asan and ubsan.
FILE_PROGRAMS = $(B)/file_programs
.PHONY: file_programs test-pt2-fuzz test-object-fuzz test-exported-fuzz
file_programs: pkg
	@$(RUN_PY) tests/files/programs.py $(FILE_PROGRAMS)
test-pt2-fuzz: file_programs
	@$(RUN_PY) tests/files/pt2_fuzz.py $(or $(COUNT),2000) $(or $(SEED),1) $(FILE_PROGRAMS)/*.pt2
AOT_SRC = $(AOT_OBJ:$(B)/obj/%.o=src/%.c)
$(B)/object_fuzz: tests/files/object_fuzz.c $(AOT_SRC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CSTD) -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -Isrc -Iinclude $^ -o $@ $(LIBS)
test-object-fuzz: $(B)/object_fuzz file_programs
	@ASAN_OPTIONS=detect_leaks=0 $< $(or $(COUNT),100000) $(or $(SEED),1) $(FILE_PROGRAMS)/*.aot
# The same of exported programs that C reads.  test-asan gives a library with sanitizers.
$(B)/exported_fuzz: tests/files/exported_fuzz.c $(B)/libcresset.a
	$(Q)$(CC) $(CFLAGS_ALL) $< $(ARCHIVE) -o $@ $(LIBS)
test-exported-fuzz: $(B)/exported_fuzz file_programs
	@$< $(or $(COUNT),20000) $(or $(SEED),1) $(FILE_PROGRAMS)/*.pt2

# Runs random graphs on every tier, and with CR_ORACLE through the interpreter.  SEED repeats a
# run.  test-graphs-hour runs for an hour from a new seed, in processes of ten minutes, because a
# process keeps the programs of all its graphs: about 7 MB a second.
.PHONY: test-graphs test-graphs-short test-graphs-hour
test-graphs: $(B)/fuzz/graph_fuzz
	$(GRAPH_FUZZ) 0 $(or $(SEED),1) $(or $(GRAPHS),10000)
	$(GRAPH_FUZZ) 0 $(or $(SEED),1) 200 native
	CR_ORACLE=1 $(GRAPH_FUZZ) 0 $(or $(SEED),1) 200 native
test-graphs-short: $(B)/fuzz/graph_fuzz
	@$(GRAPH_FUZZ) 0 1 200
	@$(GRAPH_FUZZ) 0 1 25 native
	@CR_ORACLE=1 $(GRAPH_FUZZ) 0 2 200
	@CR_ORACLE=1 $(GRAPH_FUZZ) 0 1 25 native
test-graphs-hour: $(B)/fuzz/graph_fuzz
	@end=$$(($$(date +%s) + $(or $(SECONDS),3600))); seed=$(or $(SEED),$$(date +%s)); \
	while left=$$((end - $$(date +%s))); [ $$left -gt 0 ]; do \
	    $(GRAPH_FUZZ) $$((left < 600 ? left : 600)) $$seed || exit 1; \
	    seed=$$((seed + 10000000)); \
	done

# A million TorchScript archives and a million sources.  A run that fails prints its seed, with which it
# can be repeated; SEED is the first one.
.PHONY: test-scripts
test-scripts: $(B)/fuzz/script_fuzz
	@first=$(or $(SEED),$$(date +%s)000); export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1; \
	seq $$first $$((first + $(or $(RUNS),200) - 1)) | xargs -P$(JOBS) -I{} \
	    sh -c '$< 0 {} tests/data/script 5000 || { echo "script_fuzz: seed {} failed"; exit 1; }'

# Lines of the readers of scripts and archives that the fuzzer reaches with COUNT archives, sources and
# texts from SEED on.  Only these files count their lines.
COVER_SRC = $(filter-out %_test.c,$(wildcard src/script/*.c)) $(addprefix src/io/,pickle.c checkpoint.c globals.c zip.c zip_write.c)
COVER     = $(B)/cover
COVER_OF  = lex parse parse_literal parse_expression parse_statement parse_define ir_parse archive import source pickle zip checkpoint
.PHONY: cover-scripts
cover-scripts: $(B)/libcresset.a
	@mkdir -p $(COVER)/src/script $(COVER)/src/io; rm -f $(COVER)/*.gcda $(COVER)/src/*/*.gcda
	@printf '%s\n' $(COVER_SRC:.c=) | xargs -P$(JOBS) -I{} sh -c \
	    '[ $(COVER)/{}.o -nt $< ] || $(CC) $(CFLAGS_ALL) -O0 --coverage -c {}.c -o $(COVER)/{}.o'
	@$(CC) $(CFLAGS_ALL) --coverage tests/fuzz/script_fuzz.c $(COVER)/src/*/*.o $< -o $(COVER)/script_fuzz $(LIBS)
	@seq $(or $(SEED),1) $$(($(or $(SEED),1) + $(JOBS) - 1)) | OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 xargs -P$(JOBS) -I{} \
	    $(COVER)/script_fuzz 0 {} tests/data/script $$(($(or $(COUNT),100000) / $(JOBS)))
	@cd $(COVER); for f in $(COVER_OF); do \
	    printf '%s: ' $$f.c; gcov -n src/*/$$f.gcda | grep -A1 "^File.*/$$f\.c'" | grep Lines; done

test-flavour-c: $(TEST_BIN)
	@sh tools/run_c_tests.sh $(TEST_BIN)
test-flavour-python: pkg $(B)/crc
	$(NO_CUDA) $(PYTEST) -x --capture=sys $(FLAVOUR_PYTEST) tests/ops tests/python tests/faults

# Leaks are checked in single-threaded C programs only: the leak checker fails with the threads
# of the matrix libraries, and Python keeps objects until its end.  The data loader's processes
# are excluded: a child forked from a process with threads hangs in the sanitizer's allocator.
# A hostile pickle makes Python request gigabytes; the allocator answers NULL, as malloc does.
test-asan: file_programs
	$(MAKE) --no-print-directory B=$(B)/asan FLAVOUR='$(ASAN_FLAVOUR)' -j$(JOBS) tests-build pkg fuzz-build $(B)/asan/exported_fuzz
	ASAN_OPTIONS=$(ASAN_STACK) $(B)/asan/exported_fuzz 20000 1 $(FILE_PROGRAMS)/*.pt2
	ASAN_OPTIONS=detect_leaks=1:$(ASAN_STACK) OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
	    $(MAKE) --no-print-directory B=$(B)/asan FLAVOUR='$(ASAN_FLAVOUR)' test-flavour-c test-fuzz
	ASAN_OPTIONS=$(ASAN_STACK) $(MAKE) --no-print-directory B=$(B)/asan FLAVOUR='$(ASAN_FLAVOUR)' CALLS=200 test-calls
	$(MAKE) --no-print-directory B=$(B)/asan FLAVOUR='$(ASAN_FLAVOUR)' RUN_UNDER='$(ASAN_PY)' \
	    FLAVOUR_PYTEST='--ignore=tests/python/test_data.py --ignore=tests/python/test_datapipes.py' test-flavour-python

# Checks for data races in parallel regions, the compiler, backward and the loader.  Reports are files, because pytest
# captures the output of tests and of their children.  A process with threads may fork.  One
# test starts threads in the child, which the sanitizer's run time refuses (dup thread).
TSAN_FLAVOUR = -fsanitize=thread -fno-omit-frame-pointer
TSAN_LOG     = $(abspath $(B))/report
TSAN_ENV     = CR_THREADS=4 OPENBLAS_NUM_THREADS=1 \
               TSAN_OPTIONS=suppressions=$(abspath tools/tsan.supp):die_after_fork=0:history_size=4:log_path=$(TSAN_LOG)
TSAN_PY      = LD_PRELOAD="$(shell $(CC) -print-file-name=libtsan.so)" PYTHONMALLOC=malloc $(TSAN_ENV)
TSAN_TESTS   = tests/python/test_threads.py tests/python/test_data.py tests/python/test_optim.py
.PHONY: test-tsan test-tsan-flavour
test-tsan:
	$(MAKE) --no-print-directory B=$(B)/tsan FLAVOUR='$(TSAN_FLAVOUR)' -j$(JOBS) tests-build pkg
	$(MAKE) --no-print-directory B=$(B)/tsan FLAVOUR='$(TSAN_FLAVOUR)' test-tsan-flavour
test-tsan-flavour: RUN_UNDER = $(TSAN_PY)
test-tsan-flavour:
	@rm -f $(TSAN_LOG).*
	@$(TSAN_ENV) sh tools/run_c_tests.sh $(TEST_BIN) || { cat $(TSAN_LOG).*; exit 1; }
	$(NO_CUDA) $(PYTEST) -x $(TSAN_TESTS) --deselect tests/python/test_data.py::test_a_forked_child_computes_products
	@! cat $(TSAN_LOG).* 2>/dev/null

# The tests as other machines would run them (tools/machines); MACHINE names one setting.  Settings that
# have passed are not repeated, so an interrupted run goes on where it stopped.
.PHONY: test-machines
test-machines: build
	@TOOLS=qemu-user sh tools/deps.sh $(PYTHON) $(VENV)
	$(MAKE) --no-print-directory -j$(JOBS) tests-build $(B)/crc
	@tools/machines $(B) $(VENV)/bin/python $(MACHINE)

# Mean build: capacity one everywhere, growth always moves, released blocks are overwritten.
test-mean:
	$(MAKE) --no-print-directory B=$(B)/mean FLAVOUR=-DCR_MEAN -j$(JOBS) tests-build pkg
	$(MAKE) --no-print-directory B=$(B)/mean FLAVOUR=-DCR_MEAN test-flavour-c test-flavour-python

# Checks that clang compiles every file without a warning.
CLANG ?= clang-14
test-clang:
	$(MAKE) --no-print-directory B=$(B)/clang CC=$(CLANG) HOSTCC=$(CLANG) -j$(JOBS) tests-build lib pkg $(B)/clang/crc
	$(MAKE) --no-print-directory B=$(B)/clang CC=$(CLANG) HOSTCC=$(CLANG) tests-c

# The public headers compile as C++, each alone, and a C++ program runs.
CXX ?= g++
CXXWARN = -std=c++11 -Wall -Wextra -Wshadow -pedantic -Werror
test-cxx: test-installed
	for h in cresset cresset_call cresset_nn cresset_easy cresset_dist cresset_script; do \
	    echo "#include <$$h.h>" | $(CXX) $(CXXWARN) -fsyntax-only $$($(PC) --cflags cresset) -x c++ - || exit 1; \
	done
	$(CXX) $(CXXWARN) tests/c/easy.cc $$($(PC) --cflags --libs cresset) -Wl,-rpath,$(INSTALLED)/lib -o $(B)/easy-cxx
	$(B)/easy-cxx

# The vocabulary, and the kernels of all entries, on an NVIDIA GPU, bit for bit beside this machine's
# processor.  The first part needs clang; the second needs a GPU and fails where there is none; the
# third runs the kernels' CUDA C++ on this processor.
CUDA_TEST = CLANG=$(CLANG) CRESSET_BUILD=$(abspath $(B)) $(VENV)/bin/python tests/cuda
.PHONY: test-cuda test-cuda-build test-simt
test-cuda-build: $(B)/crc
	@$(CUDA_TEST)/vocabulary.py build $(B)/cuda
	@$(CUDA_TEST)/kernels.py build $(B)/cuda-kernels
test-cuda: test-cuda-build
	$(CUDA_TEST)/vocabulary.py run $(B)/cuda
	$(CUDA_TEST)/kernels.py run $(B)/cuda-kernels
# The tests of torch.cuda on a GPU under compute-sanitizer, each block of memory the driver's:
# make test-cuda-sanitized SANITIZER=/usr/local/cuda/bin/compute-sanitizer TOOL=racecheck
SANITIZER = compute-sanitizer
TOOL      = memcheck
.PHONY: test-cuda-sanitized
test-cuda-sanitized: pkg
	PYTORCH_NO_CUDA_MEMORY_CACHING=1 $(SANITIZER) --tool $(TOOL) --target-processes all --report-api-errors no \
	    --print-limit 5 --error-exitcode 9 env $(PYTEST) tests/fake_cuda
# torch.cuda on a stand-in for the driver and NVRTC, which runs a kernel's threads as fibers.
FAKE_CUDA = $(B)/fake_cuda
$(FAKE_CUDA):
	@mkdir -p $@
$(FAKE_CUDA)/libcuda.so.1: tests/fake_cuda/driver.cpp | $(FAKE_CUDA)
	$(Q)$(CXX) -std=c++17 -O1 -Wall -Wextra -fPIC -shared -fvisibility=hidden -Wl,-soname,libcuda.so.1 $< -o $@ -ldl
$(FAKE_CUDA)/libcudnn.so.9: tests/fake_cuda/cudnn.cpp $(FAKE_CUDA)/libcuda.so.1
	$(Q)$(CXX) -std=c++17 -O1 -Wall -Wextra -fPIC -shared -fvisibility=hidden $< -o $@ $(FAKE_CUDA)/libcuda.so.1 -Wl,-rpath,'$$ORIGIN'
$(FAKE_CUDA)/libcublasLt.so.13: tests/fake_cuda/cublas.cpp $(FAKE_CUDA)/libcuda.so.1
	$(Q)$(CXX) -std=c++17 -O2 -Wall -Wextra -fPIC -shared -fvisibility=hidden $< -o $@ $(FAKE_CUDA)/libcuda.so.1 -Wl,-rpath,'$$ORIGIN'
$(FAKE_CUDA)/libcufft.so.12: tests/fake_cuda/cufft.cpp $(FAKE_CUDA)/libcuda.so.1
	$(Q)$(CXX) -std=c++17 -O2 -Wall -Wextra -fPIC -shared -fvisibility=hidden $< -o $@ $(FAKE_CUDA)/libcuda.so.1 -Wl,-rpath,'$$ORIGIN'
$(FAKE_CUDA)/libcusolver.so.12: tests/fake_cuda/cusolver.cpp $(FAKE_CUDA)/libcuda.so.1
	$(Q)$(CXX) -std=c++17 -O2 -Wall -Wextra -fPIC -shared -fvisibility=hidden $< -o $@ $(FAKE_CUDA)/libcuda.so.1 -ldl -Wl,-rpath,'$$ORIGIN'
# cublas<t>trsm.
$(FAKE_CUDA)/libcublas.so.13: $(FAKE_CUDA)/libcusolver.so.12
	@cp $< $@
$(FAKE_CUDA)/libnvrtc.so.13: tests/fake_cuda/nvrtc.cpp | $(FAKE_CUDA)
	$(Q)$(CXX) -std=c++17 -O1 -Wall -Wextra -fPIC -shared -fvisibility=hidden $< -o $@
$(FAKE_CUDA)/libnccl.so.2: tests/fake_cuda/nccl.cpp $(FAKE_CUDA)/libcuda.so.1
	$(Q)$(CXX) -std=c++17 -O1 -Wall -Wextra -fPIC -shared -fvisibility=hidden $< -o $@ $(FAKE_CUDA)/libcuda.so.1 -Wl,-rpath,'$$ORIGIN'
.PHONY: test-fake-cuda
test-fake-cuda: pkg $(FAKE_CUDA)/libcuda.so.1 $(FAKE_CUDA)/libcublasLt.so.13 $(FAKE_CUDA)/libcudnn.so.9 $(FAKE_CUDA)/libcufft.so.12 $(FAKE_CUDA)/libcusolver.so.12 \
                $(FAKE_CUDA)/libcublas.so.13 $(FAKE_CUDA)/libnvrtc.so.13 $(FAKE_CUDA)/libnccl.so.2
	@TOOLS="$(CLANG)" sh tools/deps.sh $(PYTHON) $(VENV)
	$(MAKE) --no-print-directory -j$(JOBS) $(FAKE_CUDA_PARTS)
	$(ON_FAKE_CUDA) FAKE_CUDA_DEVICES=4 $(PYTEST) tests/dist/test_nccl.py
FAKE_CUDA_PARTS  = $(addprefix test-fake-cuda-,$(shell seq 0 $$(($(SHARES) - 1))))
ON_FAKE_CUDA     = CR_CUDA=$(abspath $(FAKE_CUDA)) FAKE_CUDA_SIMT=$(abspath tests/cuda) FAKE_CUDA_CLANG=$(CLANG)
test-fake-cuda-%:
	$(ON_FAKE_CUDA) FAKE_CUDA_PART=$*/$(SHARES) $(PYTEST) tests/fake_cuda
test-simt: $(B)/crc
	@$(CUDA_TEST)/kernels.py simulate $(B)/simt

# Parts of test-full that may run side by side, the longest first.  The others use the installed files.
FULL_PARTS = test-asan test-python-full test-ulp-full test-mean test-digests test-tsan test-clang test-simt test-remez test-dist-full \
             test-cuda-build test-calls test-scripts test-rt-fuzz test-rt-cross test-pt2-fuzz test-object-fuzz
test-full: test
	@TOOLS="clang-14" sh tools/deps.sh $(PYTHON) $(VENV) mpmath
	$(MAKE) --no-print-directory $(B)/crc $(BACKEND) $(B)/fuzz/calls_fuzz $(B)/fuzz/script_fuzz
	$(MAKE) --no-print-directory test-cxx
	$(MAKE) --no-print-directory test-valgrind
	$(MAKE) --no-print-directory -j$(JOBS) --output-sync=target $(FULL_PARTS)
	@echo "test-full: everything passed"
