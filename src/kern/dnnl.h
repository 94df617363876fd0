/* dnnl.h - oneDNN, loaded at first use, and a cache of its primitives.
 *
 * A primitive is made once for a key (an operator's sizes, strides, dtype); the
 * cache keeps those used last.  Operands are given in plain layouts; where the
 * primitive wants another one, running it reorders them through scratch memory. */
#ifndef CR_KERN_DNNL_H
#define CR_KERN_DNNL_H

#include "num/view.h"
#include <oneapi/dnnl/dnnl.h>

typedef struct {
#define CR_DNNL(name, args)               dnnl_status_t(*name) args;
#define CR_DNNL_OTHER(result, name, args) result(*name) args;
#include "kern/dnnl.def"
#undef CR_DNNL
#undef CR_DNNL_OTHER
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr; /* for primitives that have no other: see cr_dnnl_attr */
} cr_dnnl_table;

/* The functions and the CPU engine, or NULL when the system has no oneDNN.  Sets the
 * thread count of OpenMP in the calling thread to cr_threads(). */
const cr_dnnl_table *cr_dnnl(void);

/* Attributes of a primitive: its working memory comes with every run.  The library's own belongs to the
 * thread that made the primitive, and to one run at a time.  False: there are none. */
bool cr_dnnl_attr(const cr_dnnl_table *d, dnnl_primitive_attr_t *out);

/* Sets the threads that calls from this thread may use; returns the number before. */
int cr_dnnl_threads(int n);

enum { CR_DNNL_OPERANDS = 5 };

/* What a primitive is made of; the descriptor is taken over. */
typedef struct {
    dnnl_primitive_desc_t desc;
    int count;
    struct {
        int arg; /* DNNL_ARG_... */
        bool output;
        dnnl_memory_desc_t plain; /* the caller's layout */
    } operand[CR_DNNL_OPERANDS];
} cr_dnnl_recipe;

typedef struct cr_dnnl_primitive cr_dnnl_primitive;

/* False when oneDNN has no implementation.  `key` is what was given to cr_dnnl_get. */
typedef bool (*cr_dnnl_make)(const cr_dnnl_table *d, const void *key, cr_dnnl_recipe *out);

enum { CR_DNNL_KEY_BYTES = 512 };

/* The primitive for `key` (bytes without padding garbage, at most CR_DNNL_KEY_BYTES),
 * made when it is new.  NULL when oneDNN is missing or cannot.  Counted; give it back
 * with cr_dnnl_release. */
cr_dnnl_primitive *cr_dnnl_get(const void *key, size_t size, cr_dnnl_make make);
void cr_dnnl_release(cr_dnnl_primitive *p);
/* Runs on `data`, one pointer for each operand of the recipe.  CR_MEMORY. */
CR_MUST cr_status cr_dnnl_run(cr_dnnl_primitive *p, void *const *data);

/* --- operands in the primitive's own layout --- */
/* Bit i of `own`: data[i] is in the layout that the primitive wants, not in the plain one. */
CR_MUST cr_status cr_dnnl_run_own(cr_dnnl_primitive *p, void *const *data, unsigned own);
/* Bytes of operand i in that layout, and whether it is the plain one. */
size_t cr_dnnl_own_bytes(const cr_dnnl_primitive *p, int i);
bool cr_dnnl_own_is_plain(const cr_dnnl_primitive *p, int i);
/* b when the layout is [N][C / b][...][b] without padding, else 0. */
int64_t cr_dnnl_own_block(const cr_dnnl_primitive *p, int i);
/* An input from the plain layout to the primitive's own. */
CR_MUST cr_status cr_dnnl_pack(cr_dnnl_primitive *p, int i, void *plain, void *own);

/* Appends the operand to a recipe. */
void cr_dnnl_operand(cr_dnnl_recipe *r, int arg, bool output, const dnnl_memory_desc_t *plain);

#endif
