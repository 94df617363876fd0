# Tests.  `make test` is what every change must pass; `make test-full` adds the flavours,
# full sweeps, fuzzers and faults.  Included by the Makefile.

include tests/ulp/rules.mk

# --- C ---------------------------------------------------------------------------
$(B)/tests/%: src/%.c src/base/test_main.c $(B)/libcresset.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -Wno-missing-prototypes $< src/base/test_main.c $(ARCHIVE) -o $@ $(LIBS)
TEST_BIN := $(TESTS_SRC:src/%.c=$(B)/tests/%)

.PHONY: tests-build test-rooms test-headers test-text test-installed test-python
tests-build: $(TEST_BIN)
tests-c: $(TEST_BIN)
	@sh tools/run_c_tests.sh $(TEST_BIN)

test-rooms: $(B)/libcresset.a
	@python3 tools/rooms $(B)/libcresset.a

# Every header compiles alone.
test-headers: $(B)/gen/stamp
	@sh tools/headers.sh $(CC) $(CSTD) -fopenmp $(WARN) -Isrc -Iinclude -I$(B)/gen -I$(PY_INC)

# Golden texts of the compiler's passes.
test-text: $(B)/crc
	@$(B)/crc text tests/text/*.txt

# --- Python ------------------------------------------------------------------------
# What ../shared holds is tested where it is.
SHARED_TESTS = $(if $(wildcard $(SHARED)/programs),tests/shared)
PY_TEST_ENV  = SHARED=$(abspath $(SHARED)) CRESSET_BUILD=$(abspath $(B))
PYTEST       = $(PY_TEST_ENV) $(RUN_PY) -m pytest -q
PY_TESTS     = $(wildcard tests/ops tests/python tests/faults) $(SHARED_TESTS)
test-python: pkg
	$(PYTEST) $(PY_TESTS)

# Writes anew which operators differ from torch's recorded samples.
.PHONY: bless-conformance
bless-conformance: pkg
	$(PY_TEST_ENV) $(RUN_PY) tests/shared/test_conformance.py

# One operator's generated tests: make check-op OP=logaddexp
check-op: pkg
	@test -n "$(OP)" || { echo "which operator?  make check-op OP=logaddexp"; exit 2; }
	$(PYTEST) tests/ops --op=$(OP)

# --- together ------------------------------------------------------------------------
test: build
	$(MAKE) --no-print-directory -j$(JOBS) tests-build $(B)/ulp/ulp $(B)/ulp/lanes $(B)/crc lib
	$(MAKE) --no-print-directory tests-c test-ulp test-rooms test-headers test-text test-installed
	$(if $(SHARED_TESTS),,@echo "tests/shared: there is no $(SHARED), its tests are left out")
	$(PYTEST) $(PY_TESTS)
