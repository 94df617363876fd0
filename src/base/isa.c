/* The instruction set of this process. */
#include "base/isa.h"
#include "base/env.h"
#include "base/log.h"
#include <pthread.h>
#include <string.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

static const struct {
    const char *name, *flags, *moves;
} rows[] = {
#define CR_ISA_ROW(name, flags, moves) {#name, flags, moves},
    CR_ISA_ROWS(CR_ISA_ROW)
#undef CR_ISA_ROW
};

const char *cr_isa_name(cr_isa isa) { return rows[isa].name; }
const char *cr_isa_flags(cr_isa isa) { return rows[isa].flags; }
const char *cr_isa_moves(cr_isa isa) { return rows[isa].moves; }

#if defined(__x86_64__) || defined(__i386__)
/* gcc 10's and clang 14's __builtin_cpu_supports do not know F16C. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

cr_isa cr_isa_best(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
        return CR_ISA_base;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return CR_ISA_avx512;
    return CR_ISA_avx2;
}
#else
cr_isa cr_isa_best(void) { return CR_ISA_base; }
#endif

static cr_isa chosen;

/* Chooses the instruction set of CR_ISA when the processor has it, or else the best one. */
static void isa_choose(void)
{
    const char *wish = cr_env(CR_ENV_CR_ISA);
    bool known = !*wish;

    chosen = cr_isa_best();
    for (int i = 0; i < CR_ISA_COUNT; i++) {
        known = known || !strcmp(wish, rows[i].name);
        if (!strcmp(wish, rows[i].name) && i < (int)chosen)
            chosen = (cr_isa)i;
    }
    if (!known)
        cr_env_refuse(CR_ENV_CR_ISA, "none of base, avx2 and avx512");
    cr_log_line("jit", 1, "instruction set %s", rows[chosen].name);
}

cr_isa cr_isa_chosen(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, isa_choose);
    return chosen;
}
