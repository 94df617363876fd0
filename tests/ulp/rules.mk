# Vector vocabulary: errors of the functions, and what every lane must do.
#
# Included by the main Makefile, which sets CC and B.  `test-ulp` takes seconds and belongs to
# `make test`; `test-ulp-full` takes every 7th float and 256 times as many doubles, which takes
# minutes, and belongs to `make test-full`; `test-ulp-every` takes every float, for hours.

ULP_FLAGS := -std=gnu11 -O2 -ffp-contract=off -Isrc -Wall -Wextra -Wshadow -Wundef \
             -Wstrict-prototypes -Wmissing-prototypes -Wdouble-promotion -Wvla -Werror
ULP_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma
ULP_avx2   := -mavx2 -mfma -mf16c
ULP_base   :=
ULP_SETS   := avx512 avx2 base
ULP_JOBS   ?= 2
PYTHON     ?= python3

$(B)/ulp/kernels-%.o: tests/ulp/kernels.c tests/ulp/functions.def $(wildcard src/emit/vec*.h) src/num/order.h
	@mkdir -p $(@D)
	$(CC) $(ULP_FLAGS) $(ULP_$*) -DULP_ISA=$* -c $< -o $@

$(B)/ulp/kernels64-%.o: tests/ulp/kernels64.c tests/ulp/ulp.h tests/ulp/doubles.def \
                        $(wildcard src/emit/vec*.h)
	@mkdir -p $(@D)
	$(CC) $(ULP_FLAGS) $(ULP_$*) -DULP_ISA=$* -c $< -o $@

$(B)/ulp/lanes-%.o: tests/ulp/lanes.c tests/ulp/ulp.h tests/ulp/special.def \
                    $(wildcard src/emit/vec*.h) src/num/order.h
	@mkdir -p $(@D)
	$(CC) $(ULP_FLAGS) $(ULP_$*) -DULP_ISA=$* -c $< -o $@

$(B)/ulp/ulp: tests/ulp/ulp.c tests/ulp/ulp.h tests/ulp/functions.def \
              $(ULP_SETS:%=$(B)/ulp/kernels-%.o)
	$(CC) $(ULP_FLAGS) $< $(ULP_SETS:%=$(B)/ulp/kernels-%.o) -o $@ -lm

$(B)/ulp/doubles: tests/ulp/doubles.c tests/ulp/ulp.h tests/ulp/doubles.def \
                  $(ULP_SETS:%=$(B)/ulp/kernels64-%.o)
	$(CC) $(ULP_FLAGS) $< $(ULP_SETS:%=$(B)/ulp/kernels64-%.o) -o $@ -lm

$(B)/ulp/lanes: tests/ulp/lanes_main.c tests/ulp/ulp.h src/num/philox.c \
              $(ULP_SETS:%=$(B)/ulp/lanes-%.o)
	$(CC) $(ULP_FLAGS) $< src/num/philox.c $(ULP_SETS:%=$(B)/ulp/lanes-%.o) -o $@ -lm

.PHONY: test-ulp test-ulp-full test-ulp-every
test-ulp: $(B)/ulp/ulp $(B)/ulp/lanes $(B)/ulp/doubles
	$(B)/ulp/lanes
	$(B)/ulp/doubles
	$(B)/ulp/ulp --jobs=$(ULP_JOBS)

test-ulp-full: $(B)/ulp/ulp $(B)/ulp/lanes $(B)/ulp/doubles
	$(B)/ulp/lanes
	$(B)/ulp/doubles --full
	$(B)/ulp/ulp --full --jobs=$(ULP_JOBS)

test-ulp-every: $(B)/ulp/ulp
	$(B)/ulp/ulp --every --jobs=$(ULP_JOBS)

# The polynomials' coefficients are what the script derives; needs mpmath.
.PHONY: test-remez
test-remez:
	$(VENV)/bin/python tools/remez.py --check src/emit/vec_f32.h src/emit/vec_f64.h
