/* how.h - how programs are made. */
#ifndef CR_COMPILE_HOW_H
#define CR_COMPILE_HOW_H

/* None: strict, every bit is eager's, and groups have the schedule that fits most.
 *
 * FAST       results may differ from eager's by rounding: products and sums are contracted, chains
 *            of half types are rounded where they end, batch norm is folded into weights
 * EPILOGUES  with FAST: what follows a convolution is done by its kernel
 * MEASURE    candidates for schedules are measured on the running calls, and the best is kept; no
 *            bit depends on which it is
 * CALLS      every operator stays a call */
typedef enum { CR_HOW_FAST = 1, CR_HOW_EPILOGUES = 2, CR_HOW_MEASURE = 4, CR_HOW_CALLS = 8 } cr_how;

#endif
