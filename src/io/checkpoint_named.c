/* The tensors of a checkpoint by name, for programs without Python.
 *
 * The walk starts at the pickle's result and follows dicts.  It enters each dict once, so
 * cycles and shared dicts do not make the walk longer than the pickle. */
#include "base/map.h"
#include "io/checkpoint.h"
#include <string.h>

enum { MOST_NESTED = 64 };

typedef struct {
    char *name;
    cr_tensor *tensor;
} named;

struct cr_named_tensors {
    CR_VEC(named) list;
};

typedef struct {
    const cr_checkpoint *c;
    const cr_pickle *p;
    cr_named_tensors *into;
    /* The steps that change step i, as a linked list: first[i], then next[] of the changing
     * step. */
    uint32_t *first, *next;
    bool *seen;
    cr_storage **storage;
    cr_text path;
} walk;

static const cr_step *at(const walk *w, uint32_t i) { return &w->p->steps.at[i]; }

static const cr_step *named_operand(const walk *w, const cr_step *s, uint32_t i)
{
    return at(w, cr_step_operands(w->p, s)[i]);
}

static cr_global_id function_of(const walk *w, const cr_step *s)
{
    if (s->kind != CR_STEP_REDUCE && s->kind != CR_STEP_NEWOBJ)
        return CR_GLOBAL_OTHER;
    const cr_step *f = named_operand(w, s, 0);
    return f->kind == CR_STEP_GLOBAL ? w->p->names.at[f->i].global.id : CR_GLOBAL_OTHER;
}

/* --- tensors --- */
static cr_status storage_number(walk *w, size_t i, cr_storage **out)
{
    const cr_pickle_storage *s = &w->p->storages.at[i];
    cr_storage *root = NULL;

    if (s->root >= 0)
        /* a root is no part of another storage */
        CR_TRY(storage_number(w, (size_t)s->root, &root));
    if (!w->storage[i])
        CR_TRY(cr_checkpoint_storage(&w->storage[i], w->c, i, root));
    *out = w->storage[i];
    return CR_OK;
}

/* Reads a tuple of at most CR_MAX_DIMS ints. */
static bool ints(const walk *w, const cr_step *s, int64_t *out, int *n)
{
    if (s->kind != CR_STEP_TUPLE || s->count > CR_MAX_DIMS)
        return false;
    for (uint32_t i = 0; i < s->count; i++) {
        if (named_operand(w, s, i)->kind != CR_STEP_INT)
            return false;
        out[i] = named_operand(w, s, i)->i;
    }
    *n = (int)s->count;
    return true;
}

/* _rebuild_tensor(_v2)(storage, offset, size, stride, ...) */
static cr_status named_rebuild(walk *w, const cr_step *args, cr_tensor **out)
{
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
    int ndim = 0, strides = 0;
    cr_storage *storage;

    if (args->kind != CR_STEP_TUPLE || args->count < 4 ||
        named_operand(w, args, 0)->kind != CR_STEP_STORAGE ||
        named_operand(w, args, 1)->kind != CR_STEP_INT ||
        !ints(w, named_operand(w, args, 2), size, &ndim) ||
        !ints(w, named_operand(w, args, 3), stride, &strides))
        return cr_fail(CR_UNPICKLING,
                       "a tensor is not described by storage, offset, sizes and strides");
    if (ndim != strides)
        return cr_fail(CR_RUNTIME, "unequal size length (%d) and stride length (%d)", ndim,
                       strides);
    size_t i = (size_t)named_operand(w, args, 0)->i;
    CR_TRY(storage_number(w, i, &storage));
    return cr_checkpoint_tensor(out, storage, w->p->storages.at[i].dtype,
                                named_operand(w, args, 1)->i, ndim, size, stride);
}

/* Makes the tensor that step `s` describes.  *out stays NULL for other steps. */
static cr_status tensor_of(walk *w, const cr_step *s, cr_tensor **out)
{
    cr_global_id f = function_of(w, s);

    if (f == CR_GLOBAL_REBUILD_PARAMETER || f == CR_GLOBAL_REBUILD_STATE) {
        const cr_step *args = named_operand(w, s, 1);
        if (args->kind != CR_STEP_TUPLE || !args->count)
            return CR_OK;
        s = named_operand(w, args, 0);
        f = function_of(w, s);
    }
    if (f == CR_GLOBAL_REBUILD_TENSOR || f == CR_GLOBAL_REBUILD_TENSOR_V2)
        return named_rebuild(w, named_operand(w, s, 1), out);
    return CR_OK;
}

/* --- dicts --- */
static cr_status named_put(walk *w, cr_tensor *t)
{
    char *name = cr_strdup(cr_text_str(&w->path));

    CR_NEED(name);
    cr_status st = cr_vec_reserve(&w->into->list, 1);
    if (st)
        cr_free(name);
    else
        cr_vec_put(&w->into->list, ((named){name, t}));
    return st;
}

static bool is_dict(const walk *w, const cr_step *s)
{
    return s->kind == CR_STEP_DICT || function_of(w, s) == CR_GLOBAL_ORDERED_DICT;
}

static cr_status named_enter(walk *w, uint32_t dict, int depth);

static cr_status named_value(walk *w, uint32_t v, int depth)
{
    cr_tensor *t = NULL;

    if (is_dict(w, at(w, v)))
        return named_enter(w, v, depth + 1);
    CR_TRY(tensor_of(w, at(w, v), &t));
    cr_status st = t ? named_put(w, t) : CR_OK;
    if (st)
        cr_drop(t);
    return st;
}

static cr_status pair(walk *w, uint32_t key, uint32_t v, int depth)
{
    const cr_step *k = at(w, key);
    size_t len = w->path.len;

    if (k->kind != CR_STEP_TEXT && k->kind != CR_STEP_STRING)
        return CR_OK;
    if (len)
        cr_text_char(&w->path, '.');
    cr_text_put_n(&w->path, k->text.at, k->text.len);
    CR_TRY(cr_text_status(&w->path));
    CR_TRY(named_value(w, v, depth));
    w->path.len = len;
    w->path.at[len] = 0;
    return CR_OK;
}

static cr_status named_enter(walk *w, uint32_t dict, int depth)
{
    if (w->seen[dict] || depth > MOST_NESTED)
        return CR_OK;
    w->seen[dict] = true;
    for (uint32_t i = w->first[dict]; i; i = w->next[i]) {
        const cr_step *s = at(w, i);
        const uint32_t *items = cr_step_operands(w->p, s);
        for (uint32_t k = 1; k + 1 < s->count; k += 2)
            CR_TRY(pair(w, items[k], items[k + 1], depth));
    }
    return CR_OK;
}

/* Links the steps that fill dicts, in their order.  Step 0 changes no dict, so 0 ends a
 * list. */
static void chain(walk *w)
{
    for (size_t i = w->p->steps.len; i-- > 1;) {
        const cr_step *s = at(w, (uint32_t)i);
        if (s->kind != CR_STEP_SETITEM && s->kind != CR_STEP_SETITEMS)
            continue;
        uint32_t target = cr_step_operands(w->p, s)[0];
        w->next[i] = w->first[target];
        w->first[target] = (uint32_t)i;
    }
}

static cr_status walk_all(walk *w)
{
    size_t n = w->p->steps.len;

    w->first = cr_alloc_zero(n * sizeof *w->first);
    w->next = cr_alloc_zero(n * sizeof *w->next);
    w->seen = cr_alloc_zero(n * sizeof *w->seen);
    w->storage = cr_alloc_zero(w->p->storages.len * sizeof *w->storage + 1);
    CR_NEED(w->first && w->next && w->seen && w->storage);
    chain(w);
    return named_value(w, w->p->result, 0);
}

static void named_walk_drop(walk *w)
{
    for (size_t i = 0; w->storage && i < w->p->storages.len; i++)
        cr_storage_drop(w->storage[i]);
    cr_free(w->first);
    cr_free(w->next);
    cr_free(w->seen);
    cr_free(w->storage);
    cr_text_drop(&w->path);
}

cr_status cr_checkpoint_named(cr_named_tensors **out, const cr_checkpoint *c)
{
    walk w = {.c = c, .p = cr_checkpoint_pickle(c)};

    w.into = cr_alloc_zero(sizeof *w.into);
    CR_NEED(w.into);
    cr_status st = walk_all(&w);
    named_walk_drop(&w);
    if (st)
        cr_named_tensors_drop(w.into);
    else
        *out = w.into;
    return st;
}

cr_status cr_checkpoint_load(cr_named_tensors **out, const char *path)
{
    cr_checkpoint_options options = {.rules.weights_only = true};
    cr_checkpoint *c = NULL;
    cr_source *source;
    cr_status st;

    CR_TRY(cr_source_open(&source, path));
    CR_GO(cr_checkpoint_open(&c, source, &options));
    CR_GO(cr_checkpoint_named(out, c));
done:
    cr_checkpoint_drop(c);
    cr_source_drop(source);
    return st;
}

void cr_named_tensors_drop(cr_named_tensors *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->list.len; i++) {
        cr_free(n->list.at[i].name);
        cr_drop(n->list.at[i].tensor);
    }
    cr_vec_drop(&n->list);
    cr_free(n);
}

int cr_named_tensors_count(const cr_named_tensors *n) { return (int)n->list.len; }
const char *cr_named_tensors_name(const cr_named_tensors *n, int i)
{
    return n->list.at[i].name;
}
cr_tensor *cr_named_tensors_at(const cr_named_tensors *n, int i)
{
    return n->list.at[i].tensor;
}
