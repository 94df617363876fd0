/* dnnl.h - oneDNN, loaded at first use, and a cache of its primitives.
 *
 * A primitive is made once for a key (an operator's sizes, strides and dtype).  The cache keeps
 * those used most recently.  Operands are in plain layouts.  When the primitive wants another
 * layout, a run reorders the operands through scratch memory. */
#ifndef CR_KERN_DNNL_H
#define CR_KERN_DNNL_H

#include "num/view.h"
#include <oneapi/dnnl/dnnl.h>

typedef struct {
#define CR_DNNL(name, args)               dnnl_status_t(*name) args;
#define CR_DNNL_OTHER(result, name, args) result(*name) args;
#include "kern/cpu/library/dnnl.def"
#undef CR_DNNL
#undef CR_DNNL_OTHER
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr; /* for primitives without other attributes: see cr_dnnl_attr */
} cr_dnnl_table;

/* The functions and the CPU engine, or NULL when the system has no oneDNN. */
const cr_dnnl_table *cr_dnnl(void);

/* Makes attributes for primitives that take their scratch memory as an argument of every run.
 * oneDNN's own scratch memory belongs to the thread that made the primitive and serves one run
 * at a time.  False when the attributes cannot be made. */
bool cr_dnnl_attr(const cr_dnnl_table *d, dnnl_primitive_attr_t *out);

enum { CR_DNNL_OPERANDS = 5 };

/* The description of a primitive.  The primitive takes ownership of the descriptor. */
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

/* Makes a recipe; false when oneDNN has no implementation.  `key` is the key given to
 * cr_dnnl_get. */
typedef bool (*cr_dnnl_make)(const cr_dnnl_table *d, const void *key, cr_dnnl_recipe *out);

enum { CR_DNNL_KEY_BYTES = 512 };

/* The primitive for `key` (initialized bytes, padding included; at most CR_DNNL_KEY_BYTES).
 * Makes a new primitive for a new key.  It uses cr_threads() threads, at most `most`.  NULL
 * when oneDNN is missing or refuses, and in a parallel region.  The caller owns a reference and
 * drops it with cr_dnnl_release. */
cr_dnnl_primitive *cr_dnnl_get(const void *key, size_t size, cr_dnnl_make make, int most);
void cr_dnnl_release(cr_dnnl_primitive *p);
/* Runs on `data`, one pointer for each operand of the recipe.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_dnnl_run(cr_dnnl_primitive *p, void *const *data);

/* --- operands in the primitive's layout --- */
/* When bit i of `own` is set, data[i] is in the primitive's layout, not in the plain one. */
CR_MUST cr_status cr_dnnl_run_own(cr_dnnl_primitive *p, void *const *data, unsigned own);
/* The bytes of operand i in the primitive's layout, and whether that layout is the plain
 * one. */
size_t cr_dnnl_own_bytes(const cr_dnnl_primitive *p, int i);
bool cr_dnnl_own_is_plain(const cr_dnnl_primitive *p, int i);
/* Whether operand i has the same sizes and layout in both. */
bool cr_dnnl_own_is_same(const cr_dnnl_primitive *a, const cr_dnnl_primitive *b, int i);
/* b when the layout is [N][C / b][...][b] without padding, or else 0. */
int64_t cr_dnnl_own_block(const cr_dnnl_primitive *p, int i);
/* Reorders an input from the plain layout to the primitive's. */
CR_MUST cr_status cr_dnnl_pack(cr_dnnl_primitive *p, int i, void *plain, void *own);

/* Appends the operand to a recipe. */
void cr_dnnl_operand(cr_dnnl_recipe *r, int arg, bool output, const dnnl_memory_desc_t *plain);

#endif
