/* model.h - a loaded model, inside the room. */
#ifndef CR_OBJECT_MODEL_H
#define CR_OBJECT_MODEL_H

#include "base/memory.h"
#include "io/source.h"
#include "object/object.h"
#include <pthread.h>

struct cr_aot {
    cr_source *file; /* mapped */
    cr_object_record record[CR_OBJECT_RECORDS];
    int fd; /* of the library */
    void *library;
    const cr_object_model *model;
    const void *weights;
    void *own_weights; /* if they were replaced */
    void **state;
    cr_arena arena;
    cr_aot_array *array; /* of inputs, then of outputs */
    int threads;
    pthread_mutex_t lock; /* of what follows, of states, and of replaced weights */
    void *work;
    size_t work_bytes;
};

/* *out: the size of a dim for n; false if it is not a size. */
bool cr_object_size(int64_t *out, const int64_t *size, int64_t n);

#endif
