/* isa.h - the instruction set that kernels are picked and compiled for.
 *
 * One a process: CR_ISA names it, else the best that the processor has. */
#ifndef CR_JIT_ISA_H
#define CR_JIT_ISA_H

#include "base/error.h"

/* CR_ISA_ROW(name, compiler flags, flags that not every compiler knows), worst first.  The last
 * let gcc copy whole vectors; else it copies halves, and loads of what was stored by halves wait:
 * folds then take up to 1.7 times as long. */
#define CR_ISA_ROWS(ROW)                                                                           \
    ROW(base, "", "")                                                                              \
    ROW(avx2, "-mavx2 -mfma -mf16c", "-mmove-max=256 -mstore-max=256")                             \
    ROW(avx512, "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mavx2 -mf16c",                  \
        "-mmove-max=512 -mstore-max=512")

typedef enum {
#define CR_ISA_ROW(name, flags, moves) CR_ISA_##name,
    CR_ISA_ROWS(CR_ISA_ROW)
#undef CR_ISA_ROW
    CR_ISA_COUNT
} cr_isa;

/* The process's choice; the same at every call. */
cr_isa cr_isa_chosen(void);
const char *cr_isa_name(cr_isa isa);
const char *cr_isa_flags(cr_isa isa);
const char *cr_isa_moves(cr_isa isa);

/* Tells processors apart: a hash of what the system says of the model. */
uint64_t cr_cpu_model(void);
/* Bytes of the last cache before memory, as far as it is known. */
int64_t cr_cpu_cache_bytes(void);

#endif
