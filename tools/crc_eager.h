/* crc_eager.h - runs a program's "# eager" lines by the tensor library. */
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
    const char *text; /* borrowed from the program */
    const crc_array *inputs;
    int count;
    bool (*find)(const void *context, const char *name, double *out); /* value of a setting */
    const void *context;
} crc_eager;

/* Runs the lines and copies the first result of the last line to `out`. */
CR_MUST cr_status crc_eager_run(const crc_eager *e, void *out, size_t bytes);

#endif
