# Installing for C programs.  Included by the Makefile.
#
#   make install PREFIX=/usr/local [DESTDIR=...]

define pc_text
prefix=$(PREFIX)
includedir=$${prefix}/include
libdir=$${prefix}/lib

Name: cresset
Description: Tensors, automatic differentiation and neural networks
Version: $(VERSION)
Cflags: -I$${includedir}
Libs: -L$${libdir} -lcresset
Libs.private: $(LIBS)
endef
export pc_text

# One object file, so that hidden names can be made local.
$(B)/installable/libcresset.a: $(LIB_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(CC) -r -nostdlib $^ -o $(@D)/cresset.o
	$(Q)objcopy --localize-hidden $(@D)/cresset.o
	$(Q)ar rcs $@ $(@D)/cresset.o

.PHONY: install
install: $(B)/installable/libcresset.a $(B)/libcresset.so $(B)/libcresset_aot.a $(B)/libcresset_aot.so $(GLOO) tools/cresset_run.c
	@mkdir -p $(DESTDIR)$(PREFIX)/include/cresset $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/bin
	cp include/*.h $(B)/gen/cresset_ops.h $(B)/gen/cresset_easy_ops.h $(DESTDIR)$(PREFIX)/include/
	cp src/base/kinds.def src/num/dtype.def src/num/device.def $(DESTDIR)$(PREFIX)/include/cresset/
	cp $(B)/installable/libcresset.a $(B)/libcresset.so $(B)/libcresset_aot.a $(B)/libcresset_aot.so $(GLOO) $(DESTDIR)$(PREFIX)/lib/
	@echo "$$pc_text" > $(DESTDIR)$(PREFIX)/lib/pkgconfig/cresset.pc
	$(Q)$(CC) -std=c11 -O2 $(WARN) $(FLAVOUR) tools/cresset_run.c -I$(DESTDIR)$(PREFIX)/include \
	    $(DESTDIR)$(PREFIX)/lib/libcresset.a -o $(DESTDIR)$(PREFIX)/bin/cresset-run $(LIBS)

# A program that sees only the installed files, built with both libraries, and run.
INSTALLED  = $(abspath $(B))/installed
PC         = PKG_CONFIG_PATH=$(INSTALLED)/lib/pkgconfig pkg-config
.PHONY: test-installed
test-installed: tests/c/train.c tests/c/facts.c
	@rm -rf $(INSTALLED)
	@$(MAKE) --no-print-directory -s install PREFIX=$(INSTALLED)
	$(Q)$(CC) -std=c11 -pedantic $(WARN) $(FLAVOUR) tests/c/train.c $$($(PC) --cflags --libs cresset) \
	    -Wl,-rpath,$(INSTALLED)/lib -o $(B)/train
	$(Q)$(CC) -std=c11 $(WARN) $(FLAVOUR) tests/c/train.c $$($(PC) --cflags cresset) $(INSTALLED)/lib/libcresset.a \
	    $(LIBS) -o $(B)/train-static
	$(B)/train $(B)/train.safetensors
	$(B)/train-static $(B)/train.safetensors
	@if nm -D --defined-only $(B)/libcresset.so | grep -v ' cr_'; then \
	    echo "libcresset.so exports more than the API"; exit 1; fi
	$(Q)$(CC) $(CFLAGS_ALL) -DINSIDE tests/c/facts.c -c -o $(B)/facts_inside.o
	$(Q)$(CC) -std=c11 $(WARN) tests/c/facts.c $$($(PC) --cflags cresset) $(B)/facts_inside.o -o $(B)/facts
	$(B)/facts

# C programs and their Python equivalents; VALGRIND=1 uses valgrind.
.PHONY: test-c-programs test-valgrind
test-c-programs: test-installed pkg
	$(PYTEST) tests/c
test-valgrind:
	@TOOLS="valgrind libc6-dbg" sh tools/deps.sh $(PYTHON) $(VENV)
	VALGRIND=1 $(MAKE) --no-print-directory test-c-programs

# --- figures -------------------------------------------------------------------------
# The ceiling is measured with the instruction set that the kernels use.
BENCH_ISA  = $(shell grep -q avx512bw /proc/cpuinfo && echo avx512 || (grep -q avx2 /proc/cpuinfo && echo avx2 || echo base))
PEER      ?= $(VENV)/bin/python
THREADS   ?= 1
$(B)/ceiling: bench/ceiling.c $(VEC)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 $(ISA_$(BENCH_ISA)) -Isrc $< -o $@
bench: build $(B)/ceiling $(B)/libcresset.a
	$(RUN_PY) bench/startup.py --peer $(PEER) --library $(B)/libcresset.a
	$(RUN_PY) bench/run.py --peer $(PEER) --threads $(THREADS) --ceiling $(B)/ceiling $(if $(ONLY),--only "$(ONLY)")

# compile() beside torch.compile.  This takes 15 minutes, most of them in torch.
.PHONY: bench-compile
bench-compile: pkg
	$(RUN_PY) bench/compile.py --peer $(PEER) $(if $(ONLY),--only "$(ONLY)")
	$(RUN_PY) bench/numpy_functions.py --peer $(PEER) $(if $(ONLY),--only "$(ONLY)")

# --- pages ---------------------------------------------------------------------------
docs: build
	$(RUN_PY) tools/op_pages.py docs/ops
	$(RUN_PY) tools/docs_site.py $(B)/site
