/* isa.h - the instruction set for which kernels are chosen and compiled.
 *
 * A process has one: CR_ISA names it; the default is the best that the processor has. */
#ifndef CR_BASE_ISA_H
#define CR_BASE_ISA_H

#include "base/error.h"

/* CR_ISA_ROW(name, compiler flags, flags that not every compiler knows), worst first.  With the
 * last flags gcc copies whole vectors.  Without them gcc copies halves, and a load of a value
 * stored in halves waits: folds then take up to 1.7 times as long. */
#define CR_ISA_ROWS(ROW)                                                                       \
    ROW(base, "", "")                                                                          \
    ROW(avx2, "-mavx2 -mfma -mf16c", "-mmove-max=256 -mstore-max=256")                         \
    ROW(avx512, "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mavx2 -mf16c",              \
        "-mmove-max=512 -mstore-max=512")

typedef enum {
#define CR_ISA_ROW(name, flags, moves) CR_ISA_##name,
    CR_ISA_ROWS(CR_ISA_ROW)
#undef CR_ISA_ROW
        CR_ISA_COUNT
} cr_isa;

/* The process's choice; every call returns the same. */
cr_isa cr_isa_chosen(void);
/* The best that the processor has. */
cr_isa cr_isa_best(void);
const char *cr_isa_name(cr_isa isa);
const char *cr_isa_flags(cr_isa isa);
const char *cr_isa_moves(cr_isa isa);

/* Identifies the model of the processor: a hash of the system's description. */
uint64_t cr_cpu_model(void);
/* Bytes of the last cache before memory, or a default when the system does not tell. */
int64_t cr_cpu_cache_bytes(void);

#endif
