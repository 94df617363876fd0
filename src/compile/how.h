/* how.h - how programs are made. */
#ifndef CR_COMPILE_HOW_H
#define CR_COMPILE_HOW_H

/* Zero: results equal eager's bit for bit, and every group has the usual schedule.
 *
 * - FAST: results may differ from eager's by rounding.  Products and sums are contracted, and
 *   chains of half types are rounded only at the end.
 * - MEASURE: schedules are measured on running calls, and the best is kept.  All schedules have
 *   equal results.
 * - CALLS: every operator stays a call.
 * - APART: in every run, no two inputs of the recording share memory. */
typedef enum { CR_HOW_FAST = 1, CR_HOW_MEASURE = 2, CR_HOW_CALLS = 4, CR_HOW_APART = 8 } cr_how;

#endif
