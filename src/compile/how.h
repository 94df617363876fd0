/* how.h - how programs are made. */
#ifndef CR_COMPILE_HOW_H
#define CR_COMPILE_HOW_H

/* None: strict, every bit is eager's, and groups have the schedule that fits most.
 *
 * FAST       results may differ from eager's by rounding: products and sums are contracted, and
 *            chains of half types are rounded where they end
 * MEASURE    candidates for schedules are measured on the running calls, and the best is kept;
 * no bit depends on which it is CALLS      every operator stays a call */
typedef enum { CR_HOW_FAST = 1, CR_HOW_MEASURE = 2, CR_HOW_CALLS = 4 } cr_how;

#endif
