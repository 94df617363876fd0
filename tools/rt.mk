# make rt         the runtime of exported programs, libcresset_rt.a, in RT_BUILD
#                 OPS="a.rt b.rt": with only the operators that these programs use
# RT_CC           the compiler, such as arm-linux-gnueabihf-gcc; RT_FLAGS adds flags, RT_OPT replaces -Os

OPS       ?=
RT_CC     ?= $(CC)
RT_AR     ?= $(if $(filter %-linux-gnu-gcc %-linux-gnueabihf-gcc %-elf-gcc %-eabi-gcc,$(RT_CC)),$(RT_CC:%-gcc=%-ar),ar)
RT_OPT    ?= -Os
RT_FLAGS  ?=
RT_BUILD  ?= $(B)/obj/rt$(if $(OPS),_of_programs)
# A library for any program has its loops twice on x86-64, the second time for AVX2; RT_FAST= leaves that out.
RT_FAST   ?= $(if $(OPS),,$(if $(findstring x86_64,$(shell $(RT_CC) -dumpmachine)),kernel product))
RT_OBJ     = $(patsubst src/rt/%.c,$(RT_BUILD)/%.o,$(wildcard src/rt/*.c)) $(RT_FAST:%=$(RT_BUILD)/%_fast.o)
RT_TEXT    = $(patsubst %,$(B)/gen/rt_%_f64.inc,matrix convolve alone spread weigh)
RT_WARN   := -Wall -Wextra -Wshadow -Wundef -Wstrict-prototypes -Wmissing-prototypes -Wvla -pedantic -Werror
RT_CFLAGS  = -std=c99 -D_POSIX_C_SOURCE=200809L $(RT_OPT) -ffp-contract=off -fno-strict-aliasing -fno-math-errno \
             -ffunction-sections -fdata-sections $(RT_WARN) -Isrc -Iinclude -I$(B)/gen $(if $(RT_FAST),-DRT_FAST) \
             $(if $(OPS),-DRT_USE_FILE='"$(abspath $(RT_BUILD))/use.h"') $(RT_FLAGS)

.PHONY: rt rt_use
rt: $(RT_BUILD)/libcresset_rt.a

# The texts of products for float64.
$(RT_TEXT): $(B)/gen/rt_%_f64.inc: src/compile/file/%.inc
	@mkdir -p $(@D)
	@sed -e 's/f32/f64/g; s/\bfloat\b/double/g' $< >$@
$(B)/rt_use: tools/rt_use.c $(wildcard src/rt/* include/cresset_rt.h) $(RT_TEXT)
	$(Q)$(HOSTCC) $(CSTD) -O1 $(WARN) -fno-strict-aliasing -Isrc -Iinclude -I$(B)/gen $(filter %.c,$^) -o $@ -lm
# What the programs use; the library is compiled again if that changes.
$(RT_BUILD)/use.h: $(B)/rt_use $(OPS) rt_use
	@mkdir -p $(@D)
	@$(B)/rt_use $(OPS) >$@.new && { cmp -s $@.new $@ || cp $@.new $@; }
$(filter-out %_fast.o,$(RT_OBJ)): $(RT_BUILD)/%.o: src/rt/%.c $(RT_TEXT) $(if $(OPS),$(RT_BUILD)/use.h)
	@mkdir -p $(@D)
	$(Q)$(RT_CC) $(RT_CFLAGS) -MMD -c $< -o $@
$(RT_FAST:%=$(RT_BUILD)/%_fast.o): $(RT_BUILD)/%_fast.o: src/rt/%.c $(RT_TEXT)
	@mkdir -p $(@D)
	$(Q)$(RT_CC) $(RT_CFLAGS) -O3 -mavx2 -mfma -DRT_FAST_PART -MMD -c $< -o $@
$(RT_BUILD)/libcresset_rt.a: $(RT_OBJ)
	@rm -f $@
	$(Q)$(RT_AR) rcs $@ $^
-include $(wildcard $(RT_BUILD)/*.d)

# --- tests ---

# Small programs, which the package writes.
RT_PROGRAMS = $(B)/rt_programs
.PHONY: rt_programs test-rt-cross test-rt-fuzz
rt_programs: pkg
	@$(RUN_PY) tests/rt/programs.py $(RT_PROGRAMS)
# Bits of results on Arm and RISC-V, where compilers and qemu are.  Sums of exponents in double call the
# C library's exp and log, whose last bits may differ.
test-rt-cross: rt_programs
	@sh tools/rt_cross.sh $(B)/rt_cross $$(ls $(RT_PROGRAMS)/*.rt | grep -v scans_of_logarithms)
# COUNT mutated programs under asan and ubsan.
$(B)/rt_fuzz: tests/rt/fuzz.c $(wildcard src/rt/* include/cresset_rt.h) $(RT_TEXT)
	$(Q)$(CC) -std=gnu99 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-strict-aliasing \
	    -ffp-contract=off -Isrc -Iinclude -I$(B)/gen $< $(wildcard src/rt/*.c) -o $@ -lm
test-rt-fuzz: $(B)/rt_fuzz rt_programs
	@ASAN_OPTIONS=detect_leaks=0 $< $(or $(COUNT),1000000) $(or $(SEED),1) $(RT_PROGRAMS)/*.rt

# --- examples ---

# Trains the networks of examples/rt, and runs their programs with libraries that have what each needs.
RT_EXAMPLES = $(B)/rt_examples
.PHONY: rt-examples
rt-examples: pkg
	@sh tools/deps.sh $(PYTHON) $(VENV) scikit-learn
	@$(RUN_PY) examples/rt/train.py $(RT_EXAMPLES)
	@for name in digits keywords writer tune; do \
	    $(MAKE) --no-print-directory rt OPS=$(RT_EXAMPLES)/$$name.rt RT_BUILD=$(RT_EXAMPLES)/$$name.build && \
	    $(RT_CC) -std=gnu11 -Os $(WARN) -Iinclude $(RT_FLAGS) -Wl,--gc-sections examples/rt/$$name.c \
	        $(RT_EXAMPLES)/$$name.build/libcresset_rt.a -lm -o $(RT_EXAMPLES)/$$name || exit 1; done
	@cd $(RT_EXAMPLES) && ./digits digits.rt digits.data && ./keywords keywords.rt keywords.data && \
	    ./writer writer.rt "The run" 160 && ./tune tune.rt tune.data
