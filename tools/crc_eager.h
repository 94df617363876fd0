/* crc_eager.h - a program's "# eager" lines, run by the tensor library. */
#ifndef CR_CRC_EAGER_H
#define CR_CRC_EAGER_H

#include "num/view.h"

typedef struct {
    const char *name;
    cr_dtype dtype;
    int ndim;
    int64_t size[2];
    void *memory; /* row-major */
} crc_array;

typedef struct {
    const char *text; /* the program's */
    const crc_array *inputs;
    int count;
    bool (*find)(const void *context, const char *name, double *out); /* a setting's value */
    const void *context;
} crc_eager;

/* Runs the lines and copies the last one's first result to `out`. */
CR_MUST cr_status crc_eager_run(const crc_eager *e, void *out, size_t bytes);

#endif
