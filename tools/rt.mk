# make rt         the runtime of exported programs: libcresset_rt.a, in RT_BUILD (build/obj/rt)
#                 OPS="a.rt b.rt": only the operators that these programs use
# RT_CC           the compiler, such as arm-linux-gnueabihf-gcc; RT_FLAGS adds flags

RT_CC     ?= $(CC)
RT_AR     ?= $(if $(filter %-gcc,$(RT_CC)),$(RT_CC:%-gcc=%-ar),ar)
RT_OPT    ?= -Os
RT_FLAGS  ?=
RT_BUILD  ?= $(B)/obj/rt
RT_OBJ     = $(patsubst src/rt/%.c,$(RT_BUILD)/%.o,$(wildcard src/rt/*.c))
RT_TEXT    = $(B)/gen/rt_matrix_f64.inc $(B)/gen/rt_convolve_f64.inc $(B)/gen/rt_alone_f64.inc
RT_WARN   := -Wall -Wextra -Wshadow -Wundef -Wstrict-prototypes -Wmissing-prototypes -Wvla -pedantic -Werror
RT_CFLAGS  = -std=c99 -D_POSIX_C_SOURCE=200809L $(RT_OPT) -ffp-contract=off -fno-strict-aliasing -fno-math-errno \
             -ffunction-sections -fdata-sections $(RT_WARN) -Isrc -Iinclude -I$(B)/gen $(RT_FLAGS)

.PHONY: rt
rt: $(RT_BUILD)/libcresset_rt.a

# The texts of products for float64.
$(RT_TEXT): $(B)/gen/rt_%_f64.inc: src/compile/file/%.inc
	@mkdir -p $(@D)
	@sed -e 's/f32/f64/g; s/\bfloat\b/double/g' $< >$@
$(RT_OBJ): $(RT_BUILD)/%.o: src/rt/%.c $(RT_TEXT)
	@mkdir -p $(@D)
	$(Q)$(RT_CC) $(RT_CFLAGS) -MMD -c $< -o $@
$(RT_BUILD)/libcresset_rt.a: $(RT_OBJ)
	@rm -f $@
	$(Q)$(RT_AR) rcs $@ $^
-include $(wildcard $(RT_BUILD)/*.d)
