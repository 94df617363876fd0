# make build     the package, ready in .venv     make run       trains the digits network
# make test      every quick test                make test-full sanitizers, mean, fuzzers
# make lib       libcresset.a and .so            make install   for C programs (PREFIX=)
# make bench     speed beside torch (PEER=)      make docs      a page for every operator
# make check-op  the tests of one operator (OP=logaddexp)
#
# B is the build folder; builds in different folders are independent.  PYTHON builds and tests the
# package for another interpreter, in the virtual environment .venv-3.12 and the like; VENV names
# another one.  V=1 shows commands.

B       ?= build
ifeq ($(origin CC),default)
CC      := gcc
endif
HOSTCC  ?= $(CC)
ifeq ($(origin PYTHON),undefined)
PYTHON  := python3.11
VENV    ?= .venv
else ifeq ($(origin VENV),undefined)
VENV    := .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
endif
FLAVOUR ?=
JOBS    ?= $(shell nproc)
V       ?=
Q       := $(if $(V),,@)

WARN    := -Wall -Wextra -Wshadow -Wundef -Wstrict-prototypes -Wmissing-prototypes \
           -Wdouble-promotion -Wvla -Werror
CSTD    := -std=c11 -D_GNU_SOURCE
OPT     ?= -O2
CFLAGS_ALL = $(CSTD) $(OPT) -g1 -fPIC -fvisibility=hidden -fopenmp-simd -ffp-contract=off $(WARN) \
             -Isrc -Iinclude -I$(B)/gen $(FLAVOUR)
LIBS    := -lm -lpthread -ldl -lz
VERSION := $(shell sed -n 's/^cresset = "\([^"]*\)".*/\1/p' python/cresset/version.py)
PREFIX  ?= /usr/local
SHARED  ?= ../shared

ROOM_LIST := base num space sym ops loop emit device plan comm jit kern tensor whole autograd io graph onnx dist script aot compile nn api object
LIB_SRC   := $(foreach r,$(ROOM_LIST),$(filter-out %_test.c %/test_main.c,$(wildcard src/$(r)/*.c src/$(r)/*/*.c src/$(r)/*/*/*.c)))
# opgen reads no sizes: the functions that compute them include headers that opgen makes.
HOST_SRC  := $(foreach r,base num sym ops loop emit,$(filter-out %_test.c %/test_main.c src/ops/shape_%.c,$(wildcard src/$(r)/*.c)))
PY_SRC    := $(wildcard src/py/bind/*.c src/py/bind/*/*.c)
FRAME_SRC := $(wildcard src/frame/*.c)
TESTS_SRC := $(wildcard src/*/*_test.c src/*/*/*_test.c src/*/*/*/*_test.c)
TABLE     := $(sort $(wildcard src/ops/table/*.op))
# What opgen embeds of the host's loops.
LOOPS     := $(wildcard src/kern/cpu/*_loops.inc src/kern/cpu/*_job.h src/kern/cpu/*/*_loops.inc src/kern/cpu/*/*_job.h) \
             src/kern/cpu/plane/grid.h $(wildcard src/kern/cpu/random/*.h)
VEC       := $(wildcard src/emit/vec*.h) src/emit/kernel.h src/emit/scan.h src/num/order.h

# RUN_UNDER: environment variables of a flavour.
RUN_PY    = $(RUN_UNDER) PYTHONPATH=$(abspath $(B))/pkg $(VENV)/bin/python

.PHONY: build run test test-full lib tests-c pkg clean deps docs install bench check-op
.DELETE_ON_ERROR:
.SECONDARY:

build: deps
	$(MAKE) --no-print-directory -j$(JOBS) pkg
	@$(VENV)/bin/python tools/link_venv.py $(B)/pkg
	@$(VENV)/bin/python tools/stubs.py $(B)/pkg/cresset-stubs
	@$(VENV)/bin/python -c 'import cresset; print("cresset", cresset.__version__, "is ready in $(VENV)")'

deps:
	@sh tools/deps.sh $(PYTHON) $(VENV) numpy scipy pytest pytest-xdist scikit-learn

run: build
	@sh tools/deps.sh $(PYTHON) $(VENV) matplotlib
	$(VENV)/bin/python examples/digits.py

# --- host tool -------------------------------------------------------------------
$(B)/host/%.o: src/%.c
	@mkdir -p $(@D)
	$(Q)$(HOSTCC) $(CSTD) -O1 -g1 -fPIE $(WARN) -fopenmp-simd -Isrc -MMD -c $< -o $@

$(B)/opgen: tools/opgen.c tools/opgen_api.c tools/opgen_easy.c tools/opgen_image.c tools/opgen_rules.c $(HOST_SRC:src/%.c=$(B)/host/%.o)
	$(Q)$(HOSTCC) $(CSTD) -O1 -g1 -fPIE -pie $(WARN) -fopenmp-simd -Isrc $^ -o $@ $(LIBS)

# --- generated code --------------------------------------------------------------
KERN_FILES := 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
$(B)/gen/stamp: $(B)/opgen $(TABLE) $(VEC) $(wildcard src/emit/*.cuh) $(LOOPS)
	@mkdir -p $(B)/gen
	$(Q)$(B)/opgen $(B)/gen $(words $(KERN_FILES)) $(TABLE)
	@touch $@

# gcc copies vectors by halves unless told, and loads of what was stored by halves wait.
MOVES      := $(shell $(CC) -mmove-max=256 -mstore-max=256 -E -x c /dev/null >/dev/null 2>&1 && \
                echo -mmove-max=256 -mstore-max=256)
ISA_base   :=
ISA_avx2   := -mavx2 -mfma -mf16c $(MOVES)
ISA_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mavx2 -mf16c $(MOVES:256=512)
ISAS       := base avx2 avx512
KFLAGS     := -std=gnu11 -O2 -fPIC -fvisibility=hidden -ffp-contract=off -Isrc -I$(B)/gen $(FLAVOUR)

# opgen leaves a file alone that would not change; what is made from it then stays too.
$(B)/gen/%.c: $(B)/gen/stamp
	@:
$(B)/gen/%.h: $(B)/gen/stamp
	@:

define isa_rules
$(B)/gen/kern_%.$(1).o: $(B)/gen/kern_%.c $(VEC) src/emit/kernel.h
	@echo "  kernels $$*.$(1)"
	$$(Q)$$(CC) $$(KFLAGS) $$(ISA_$(1)) -DCK_ISA=$(1) -c $(B)/gen/kern_$$*.c -o $$@
endef
$(foreach i,$(ISAS),$(eval $(call isa_rules,$(i))))
KERN_OBJ := $(foreach i,$(ISAS),$(KERN_FILES:%=$(B)/gen/kern_%.$(i).o))

GEN_NAMES := kern_table ops_image functions rules vec_text ops_api
$(B)/gen/%.o: $(B)/gen/%.c
	@mkdir -p $(B)/obj/gen
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MF $(B)/obj/gen/$*.d -c $(B)/gen/$*.c -o $@
GEN_OBJ := $(GEN_NAMES:%=$(B)/gen/%.o)
# A rule may compute what no other part of it reads.  Small, and without lines for debuggers, because
# there are functions of hundreds of entries.
$(B)/gen/rules.o: OPT = -O2 -fno-tree-vectorize -fno-tree-loop-distribute-patterns -fno-align-functions -fno-align-loops -fno-align-jumps
$(B)/gen/rules.o: WARN += -Wno-unused -Wno-unused-parameter -g0

# --- library ---------------------------------------------------------------------
$(B)/obj/%.o: src/%.c | $(B)/gen/stamp
	@mkdir -p $(@D)
	@echo "  $<"
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -c $< -o $@
$(B)/obj/num/mt19937.o $(B)/obj/kern/cpu/random/dropout.o $(B)/obj/kern/cpu/plane/pool.o $(B)/obj/kern/cpu/plane/window.o $(B)/obj/kern/cpu/plane/upsample.o $(B)/obj/kern/cpu/product/matmul.o $(B)/obj/kern/cpu/product/turn.o $(B)/obj/kern/cpu/order/scan.o $(B)/obj/kern/cpu/move/gather.o: OPT = -O3
# A loop of one vector takes up to twice the time where it crosses a fetch window of 32 bytes.
$(B)/obj/num/convert.o: OPT = -O3 -falign-loops=32
# The functions that exported C files share, as strings; and the description of compiled models.
$(B)/gen/c_abi_text.inc: src/object/abi.h
	@mkdir -p $(@D)
	@sed -e 's/\\/\\\\/g; s/"/\\"/g; s/^/"/; s/$$/\\n"/' $< >$@
$(B)/obj/compile/c_object.o: $(B)/gen/c_abi_text.inc
$(B)/gen/c_%_text.inc: src/compile/file/%.inc
	@mkdir -p $(@D)
	@sed -e 's/\\/\\\\/g; s/"/\\"/g; s/^/"/; s/$$/\\n"/' $< >$@
$(B)/obj/compile/c_products.o $(B)/obj/compile/c_planes.o $(B)/obj/compile/c_plan.o $(B)/obj/compile/c_words.o: $(patsubst src/compile/file/%.inc,$(B)/gen/c_%_text.inc,$(wildcard src/compile/file/*.inc))
# One copy of the loops of products for each type and instruction set, with fused multiply-adds.
$(foreach i,$(ISAS),$(foreach t,f32 f64,$(eval $(B)/obj/kern/cpu/product/gemm_$(t)_$(i).o: OPT = -O3)))
$(foreach i,$(ISAS),$(foreach t,f32 f64,$(eval $(B)/obj/kern/cpu/product/gemm_$(t)_$(i).o: CFLAGS_ALL += $(ISA_$(i)) -ffp-contract=fast)))
# The same of rows of attention; fused multiply-adds are spelled.
$(foreach i,$(ISAS),$(eval $(B)/obj/kern/cpu/attention/rows_$(i).o: OPT = -O3))
$(foreach i,$(ISAS),$(eval $(B)/obj/kern/cpu/attention/rows_$(i).o: CFLAGS_ALL += $(ISA_$(i))))
# The same of Fourier transforms, without fused multiply-adds.
$(foreach i,$(ISAS),$(eval $(B)/obj/kern/cpu/fft/fft_loops_$(i).o: OPT = -O3))
$(foreach i,$(ISAS),$(eval $(B)/obj/kern/cpu/fft/fft_loops_$(i).o: CFLAGS_ALL += $(ISA_$(i))))
# sqrtf as an instruction: no number here is negative.
$(B)/obj/kern/cpu/random/normal.o: OPT = -O3 -fno-math-errno
LIB_OBJ := $(LIB_SRC:src/%.c=$(B)/obj/%.o) $(GEN_OBJ) $(KERN_OBJ)

$(B)/libcresset.a: $(LIB_OBJ)
	@rm -f $@
	$(Q)ar rcs $@ $^
$(B)/libcresset.so: $(LIB_OBJ)
	$(Q)$(CC) -shared -Wl,-soname,libcresset.so $(FLAVOUR) $^ -o $@ $(LIBS)
# What loads compiled models (include/cresset_aot.h), without the rest.
AOT_OBJ := $(filter $(B)/obj/base/% $(B)/obj/object/% $(B)/obj/io/zip.o $(B)/obj/io/zip_write.o $(B)/obj/io/source.o,$(LIB_OBJ))
$(B)/libcresset_aot.a: $(AOT_OBJ)
	@rm -f $@
	$(Q)ar rcs $@ $^
$(B)/libcresset_aot.so: $(AOT_OBJ)
	$(Q)$(CC) -shared -Wl,-soname,libcresset_aot.so -Wl,-z,defs $(FLAVOUR) $^ -o $@ $(LIBS)
lib: $(B)/libcresset.a $(B)/libcresset.so $(B)/libcresset_aot.a $(B)/libcresset_aot.so
# All of it: the extension exports the C functions of api/, which it does not call.
ARCHIVE = -Wl,--whole-archive $(B)/libcresset.a -Wl,--no-whole-archive

# Gloo's messages for distributed runs: a shared object of its own, built where Gloo's headers are
# (torch installs some of them).
CXX  ?= g++
GLOO := $(shell $(CXX) -std=c++14 -E -include gloo/rendezvous/context.h -x c++ /dev/null >/dev/null 2>&1 && echo $(B)/libcresset_gloo.so)
$(B)/libcresset_gloo.so: src/comm/gloo/gloo.cc src/comm/gloo/shim.h src/base/thread.h
	@mkdir -p $(@D)
	@echo "  $<"
	$(Q)$(CXX) -std=c++14 -O2 -Wall -Wextra -fPIC -shared -fvisibility=hidden -Isrc $< -o $@ -lgloo -lpthread

$(B)/crc: $(wildcard tools/crc*.c) $(B)/libcresset.a
	$(Q)$(CC) $(CFLAGS_ALL) $(filter %.c,$^) $(ARCHIVE) -o $@ $(LIBS) -rdynamic

# --- Python package --------------------------------------------------------------
# One folder an interpreter, named by its ABI: builds for several share the rest.
PY_TAG := $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_config_var("SOABI"))' 2>/dev/null)
PY_INC  = $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_paths()["include"])' 2>/dev/null)
PY_OBJ := $(B)/$(PY_TAG)
$(PY_OBJ)/%.o: src/py/bind/%.c | $(B)/gen/stamp
	@mkdir -p $(@D)
	@echo "  $<"
	$(Q)$(CC) $(CFLAGS_ALL) -I$(PY_INC) -MMD -c $< -o $@
# The room frame knows this interpreter's instructions.
FRAME_OBJ := $(FRAME_SRC:src/frame/%.c=$(PY_OBJ)/frame/%.o)
$(PY_OBJ)/gen/frame_opcodes.h: tools/opcodes src/frame/opcodes.txt
	@mkdir -p $(@D)
	$(Q)$(PYTHON) tools/opcodes src/frame/opcodes.txt >$@
$(FRAME_OBJ): $(PY_OBJ)/frame/%.o: src/frame/%.c $(PY_OBJ)/gen/frame_opcodes.h
	@mkdir -p $(@D)
	@echo "  $<"
	$(Q)$(CC) $(CFLAGS_ALL) -I$(PY_INC) -I$(PY_OBJ)/gen -MMD -c $< -o $@
# crc is part of the extension, too: python -m cresset crc.
CRC_OBJ := $(patsubst tools/%.c,$(B)/obj/tools/%.o,$(wildcard tools/crc*.c))
$(CRC_OBJ): $(B)/obj/tools/%.o: tools/%.c | $(B)/gen/stamp
	@mkdir -p $(@D)
	@echo "  $<"
	$(Q)$(CC) $(CFLAGS_ALL) $(if $(filter tools/crc.c,$<),-Dmain=cr_crc_main) -MMD -c $< -o $@
$(PY_OBJ)/_C.so: $(PY_SRC:src/py/bind/%.c=$(PY_OBJ)/%.o) $(FRAME_OBJ) $(CRC_OBJ) $(B)/libcresset.a
	$(Q)$(CC) -shared $(FLAVOUR) $(filter %.o,$^) $(ARCHIVE) -o $@ $(LIBS)

# The files that are compiled for the package, of which tools/backend.py shows how many are.
.PHONY: pkg-objects
pkg-objects:
	@echo $(LIB_OBJ) $(PY_SRC:src/py/bind/%.c=$(PY_OBJ)/%.o) $(FRAME_OBJ)
# The package as it is imported: links to the Python files, headers for extensions, and the extension.
pkg: $(PY_OBJ)/_C.so $(GLOO) $(B)/libcresset_aot.so
	@mkdir -p $(B)/pkg/cresset/include/cresset
	@ln -sfn $(abspath $(wildcard include/*.h) $(B)/gen/cresset_ops.h $(B)/gen/cresset_easy_ops.h) $(B)/pkg/cresset/include/
	@ln -sfn $(abspath src/base/kinds.def src/num/dtype.def src/num/device.def) $(B)/pkg/cresset/include/cresset/
	$(if $(GLOO),@ln -sfn $(abspath $(GLOO)) $(B)/pkg/cresset/)
	@ln -sfn $(CURDIR)/python/cresset/* $(B)/pkg/cresset/
	@cp -f $< $(B)/pkg/cresset/_C.new && mv -f $(B)/pkg/cresset/_C.new $(B)/pkg/cresset/_C.$(PY_TAG).so

include tools/rt.mk

# --- tests, installation, pages, figures -------------------------------------------
include tools/tests.mk
include tools/install.mk

clean:
	rm -rf $(B)

-include $(wildcard $(B)/obj/*/*.d $(B)/obj/*/*/*.d $(B)/obj/*/*/*/*.d $(B)/host/*/*.d $(PY_OBJ)/*.d $(PY_OBJ)/*/*.d)
# A header that is gone: what included it is compiled again.
src/%.h:
	@:
src/%.inc:
	@:
src/%.def:
	@:
