/* turn.h - transposing matrices of float32 or float64. */
#ifndef CR_KERN_TURN_H
#define CR_KERN_TURN_H

#include <stddef.h>
#include <stdint.h>

/* A matrix whose columns have unit stride, and a place for the same matrix by rows.  Element
 * (p, j), p < rows and j < columns, is at from[p + j * from_step] and goes to to[p * to_step +
 * j]. */
typedef struct {
    const void *from;
    void *to;
    size_t item; /* bytes of an element */
    int64_t from_step, to_step, rows, columns;
} cr_turn;

/* Transposes in the calling thread. */
void cr_turn_run(const cr_turn *t);
/* The same, divided among threads. */
void cr_turn_shared(const cr_turn *t);

#endif
