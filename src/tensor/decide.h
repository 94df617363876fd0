/* decide.h - the comparisons of numbers by which rules choose.
 *
 * A composition or derivative may choose its calls by sizes: m > k ? ... : ...  A recording has
 * the calls, and not the comparison.  A log of the comparisons says for which other sizes the
 * same calls are made. */
#ifndef CR_TENSOR_DECIDE_H
#define CR_TENSOR_DECIDE_H

#include "base/error.h"
#include "base/memory.h"

typedef enum { CR_DECIDE_EQ, CR_DECIDE_LT, CR_DECIDE_LE } cr_decide_test;

typedef struct {
    uint8_t test; /* cr_decide_test */
    bool holds;
    int64_t a, b;
} cr_decision;

typedef struct {
    size_t len, cap;
    cr_decision *at;
    cr_status status; /* CR_MEMORY: comparisons are missing */
} cr_decisions;

/* Appends the comparisons that this thread makes to `log`, or to none; returns the log before
 * it. */
cr_decisions *cr_decisions_into(cr_decisions *log);
void cr_decisions_drop(cr_decisions *log);

#endif
