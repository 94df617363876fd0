/* plan/test.h - memory of a test as buffers of a run. */
#ifndef CR_PLAN_TEST_H
#define CR_PLAN_TEST_H

#include "plan/plan.h"
#include <string.h>

/* Gives a buffer memory of the caller, before a command needs it.  CR_VALUE if the memory has
 * fewer bytes than the buffer; CR_MEMORY. */
CR_MUST static inline cr_status test_plan_give(cr_plan_run *r, size_t buffer, void *at,
                                               size_t bytes)
{
    size_t wanted = r->plan->buffer.at[buffer].bytes;

    if (bytes < wanted)
        return cr_fail(CR_VALUE, "buffer %zu of the plan has %zu bytes, and %zu are given",
                       buffer, wanted, bytes);
    if (r->memory.len <= buffer) {
        size_t more = buffer + 1 - r->memory.len;
        CR_TRY(cr_vec_reserve(&r->memory, more));
        memset(r->memory.at + r->memory.len, 0, more * sizeof *r->memory.at);
        r->memory.len += more;
    }
    r->memory.at[buffer] = (cr_plan_memory){at, 0};
    return CR_OK;
}

#endif
