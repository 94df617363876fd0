/* The key of a trace.
 *
 * Every storage has a base: the header with the geometry of its value in the graph.  That of a
 * made storage is the result that made it.  That of an input is a header with all of its bytes,
 * in row-major order where the dims of one can be put in that order, else its only geometry if
 * that is row-major, else a flat header that is made here, of which a view has sizes and
 * strides beside the key. */
#include "compile/traced.h"
#include "tensor/geometry.h"
#include <string.h>

/* --- bases --- */
bool cr_traced_same_geometry(const cr_tensor *a, const cr_tensor *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim && a->offset == b->offset &&
           !memcmp(a->size, b->size, a->ndim * sizeof *a->size) &&
           !memcmp(a->stride, b->stride, a->ndim * sizeof *a->stride);
}

/* Whether the header has every byte of its storage, once. */
static bool covers(const cr_tensor *h)
{
    return !h->offset && cr_is_dense(h) &&
           (size_t)h->numel * cr_dtype_size((cr_dtype)h->dtype) == h->storage->size;
}

static cr_tensor *copy_header(cr_trace *x, const cr_tensor *like)
{
    cr_tensor *h = cr_arena_get(&x->arena, sizeof *h);

    if (!h)
        return NULL;
    memcpy(h, like, sizeof *h);
    h->size = h->dims;
    h->stride = h->dims + CR_INLINE_DIMS;
    return h;
}

/* A header of all elements in one dim; NULL when memory is short. */
static cr_tensor *flat_header(cr_trace *x, const cr_tensor *like)
{
    cr_tensor *h = copy_header(x, like);

    if (!h)
        return NULL;
    h->ndim = 1;
    h->offset = 0;
    h->numel = (int64_t)(like->storage->size / cr_dtype_size((cr_dtype)like->dtype));
    h->size[0] = h->numel;
    h->stride[0] = 1;
    h->contiguous = true;
    return h;
}

/* The same elements with dims in row-major order: a program whose base is contiguous may be one
 * for all sizes.  Returns `like` where there is no such order. */
static const cr_tensor *ordered_header(cr_trace *x, const cr_tensor *like)
{
    if (like->contiguous || !like->numel || like->ndim > CR_INLINE_DIMS)
        return like;
    cr_tensor *h = copy_header(x, like);
    if (!h)
        return NULL;
    cr_memory_order(like->ndim, like->size, like->stride, h->size, h->stride);
    h->contiguous = cr_is_contiguous(h->ndim, h->size, h->stride);
    return h->contiguous ? h : like;
}

static cr_status choose_base(cr_traced *t, const cr_tensor *h)
{
    cr_memory *m = cr_memory_of(h);
    const cr_tensor **at = &t->base[m->index];

    if (h->conj || h->neg)
        return cr_fail(CR_VALUE, "a view with a bit");
    if (h->numel && !m->shown.size)
        return cr_fail(CR_VALUE, "a geometry without elements");
    if (!*at)
        *at = h;
    if (m->made)
        return CR_OK;
    if (!covers(*at) && covers(h))
        *at = h;
    else if (!covers(*at) && (!cr_traced_is_sized(*at) || !cr_traced_same_geometry(*at, h)))
        *at = flat_header(t->x, h);
    if (*at && covers(*at))
        *at = ordered_header(t->x, *at);
    return *at ? CR_OK : CR_MEMORY;
}

static cr_status choose_of_value(cr_traced *t, const cr_value *v)
{
    if (v->tag == CR_TENSOR && !v->t->number)
        return choose_base(t, v->t);
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        CR_TRY(choose_of_value(t, &v->list[i]));
    return CR_OK;
}

static cr_status choose_bases(cr_traced *t)
{
    for (size_t i = 0; i < t->x->calls.len; i++) {
        const cr_noted *n = &t->x->calls.at[i];
        for (int k = 0; n->live && k < n->outs; k++)
            t->base[n->out[k]->index] = n->like[k];
        for (int a = 0; n->live && a < n->op->param_count; a++)
            CR_TRY(choose_of_value(t, &n->arg[a]));
    }
    return CR_OK;
}

/* --- views --- */

/* The order of base's dims in which they are those of `h`. */
static bool is_permuted(const cr_tensor *base, const cr_tensor *h, int64_t *dims)
{
    uint64_t used = 0;

    if (h->ndim != base->ndim || h->offset != base->offset)
        return false;
    for (int d = 0; d < h->ndim; d++) {
        int at = 0;
        while (at < base->ndim && (used >> at & 1 || base->size[at] != h->size[d] ||
                                   base->stride[at] != h->stride[d]))
            at++;
        if (at == base->ndim)
            return false;
        used |= (uint64_t)1 << at;
        dims[d] = at;
    }
    return true;
}

cr_traced_view cr_traced_view_of(const cr_tensor *base, const cr_tensor *h, int64_t *dims)
{
    if (base->dtype != h->dtype)
        return CR_TRACED_NO_VIEW;
    if (cr_traced_same_geometry(base, h))
        return CR_TRACED_SAME;
    if (is_permuted(base, h, dims))
        return CR_TRACED_PERMUTED;
    if (base->contiguous && h->contiguous && base->numel == h->numel &&
        base->offset == h->offset)
        return CR_TRACED_VIEW;
    return covers(base) ? CR_TRACED_STRIDED : CR_TRACED_NO_VIEW;
}

bool cr_traced_is_sized(const cr_tensor *base) { return base->contiguous; }

cr_status cr_traced_literal(cr_scalar *out, const cr_tensor *h)
{
    const cr_memory *m = cr_memory_of(h);

    if (m->made || !m->shown.chunk || h->numel != 1)
        return cr_fail(CR_VALUE, "a number that a call makes");
    *out = cr_scalar_load((cr_dtype)h->dtype, cr_moved(m->shown.chunk, h->offset,
                                                       cr_dtype_size((cr_dtype)h->dtype)));
    return CR_OK;
}

/* --- the key --- */
static cr_status put(cr_traced_words *w, uint64_t v)
{
    CR_TRY(cr_vec_reserve(w, 1));
    cr_vec_put(w, v);
    return CR_OK;
}

static cr_status put_bytes(cr_traced_words *w, const void *p, size_t n)
{
    CR_TRY(cr_vec_reserve(w, n / 8 + 2));
    w->at[w->len++] = n;
    w->at[w->len + n / 8] = 0;
    if (n)
        memcpy(&w->at[w->len], p, n);
    w->len += (n + 7) / 8;
    return CR_OK;
}

static cr_status put_numbers(cr_traced *t, const void *p, size_t n)
{
    CR_TRY(cr_vec_reserve(&t->number, n));
    if (n)
        memcpy(&t->number.at[t->number.len], p, n * sizeof(uint64_t));
    t->number.len += n;
    return CR_OK;
}

bool cr_traced_may_vary(cr_scalar n)
{
    return (n.category == CR_CAT_INT && !n.large) || n.category == CR_CAT_FLOAT;
}

static cr_status put_scalar(cr_traced *t, cr_scalar n, bool fixed)
{
    bool large = n.category == CR_CAT_INT && n.large; /* of other categories it is undefined */

    CR_TRY(put(&t->key, n.category | (uint64_t)large << 8));
    if (n.category == CR_CAT_COMPLEX)
        return put_bytes(&t->key, &n.c, sizeof n.c);
    return fixed || !cr_traced_may_vary(n) ? put_bytes(&t->key, &n.i, sizeof n.i)
                                           : put_numbers(t, &n.i, 1);
}

/* Two bits a dim: its stride is 0, 1, or another number.  No program is for two of these. */
static uint64_t stride_kinds(const cr_tensor *h)
{
    uint64_t kinds = 0;

    for (int d = 0; d < h->ndim; d++)
        kinds = kinds << 2 | (uint64_t)(h->stride[d] == 0 ? 0 : h->stride[d] == 1 ? 1 : 2);
    return kinds;
}

static cr_status put_view(cr_traced *t, const cr_tensor *base, const cr_tensor *h)
{
    int64_t dims[CR_MAX_DIMS];
    cr_traced_view way = cr_traced_view_of(base, h, dims);

    CR_TRY(put(&t->key, way | (uint64_t)h->ndim << 8));
    switch (way) {
    case CR_TRACED_SAME: return CR_OK;
    case CR_TRACED_PERMUTED: return put_bytes(&t->key, dims, h->ndim * sizeof *dims);
    case CR_TRACED_VIEW: return put_numbers(t, h->size, h->ndim);
    case CR_TRACED_STRIDED:
        CR_TRY(put(&t->key, stride_kinds(h)));
        CR_TRY(put_numbers(t, h->size, h->ndim));
        CR_TRY(put_numbers(t, h->stride, h->ndim));
        return put_numbers(t, &h->offset, 1);
    default: return cr_fail(CR_VALUE, "a view of another dtype, or of a part of a result");
    }
}

static cr_status put_tensor(cr_traced *t, const cr_tensor *h)
{
    size_t m = cr_memory_of(h)->index;
    cr_scalar n;

    CR_TRY(put(&t->key, h->number ? UINT64_MAX - h->dtype : m));
    if (!h->number)
        return put_view(t, t->base[m], h);
    CR_TRY(cr_traced_literal(&n, h));
    return put_scalar(t, n, false);
}

static cr_status put_value(cr_traced *t, const cr_value *v, bool in_list)
{
    CR_TRY(put(&t->key, v->tag | (uint64_t)(v->tag >= CR_STRING ? v->len : 0) << 8));
    switch (v->tag) {
    case CR_TENSOR: return put_tensor(t, v->t);
    case CR_NUMBER: return put_scalar(t, v->number, in_list);
    case CR_STRING: return put_bytes(&t->key, v->s, v->len);
    case CR_INT:
    case CR_FLOAT: return put_numbers(t, &v->i, 1);
    case CR_INTS: return put_numbers(t, v->ints, v->len);
    case CR_TRUTHS: return put_bytes(&t->key, v->ints, v->len * sizeof *v->ints);
    case CR_FLOATS: return put_bytes(&t->key, v->floats, v->len * sizeof *v->floats);
    case CR_NUMBERS:
    case CR_TENSORS:
        for (uint32_t i = 0; i < v->len; i++)
            CR_TRY(put_value(t, &v->list[i], true));
        return CR_OK;
    case CR_NONE: return CR_OK;
    case CR_GENERATOR:
    case CR_VIEW: return cr_fail(CR_VALUE, "an argument that no graph has");
    default: return put(&t->key, (uint64_t)v->i);
    }
}

static cr_status put_memory(cr_traced *t, const cr_memory *m)
{
    const cr_tensor *h = t->base[m->index];
    bool read = m->last == SIZE_MAX, sized = h && cr_traced_is_sized(h);

    if (!h)
        return put(&t->key, (uint64_t)m->made | 2);
    CR_TRY(put(&t->key, (uint64_t)m->made | (uint64_t)read << 2 | (uint64_t)covers(h) << 3 |
                            (uint64_t)sized << 4 | (uint64_t)h->dtype << 8 |
                            (uint64_t)h->ndim << 16));
    if (m->made)
        return read && !covers(h) ? cr_fail(CR_VALUE, "a result that is a part of its storage")
                                  : CR_OK;
    if (sized)
        return put_numbers(t, h->size, h->ndim);
    CR_TRY(put_bytes(&t->key, h->size, h->ndim * sizeof *h->size));
    return put_bytes(&t->key, h->stride, h->ndim * sizeof *h->stride);
}

static cr_status put_call(cr_traced *t, const cr_noted *n)
{
    CR_TRY(put(&t->key, n->op->index | (uint64_t)n->results << 32));
    for (int i = 0; i < n->op->param_count; i++)
        CR_TRY(put_value(t, &n->arg[i], false));
    for (int k = 0; k < n->results; k++)
        CR_TRY(put(&t->key, n->result[k] ? cr_memory_of(n->result[k])->index : UINT64_MAX));
    return CR_OK;
}

cr_status cr_traced_read(cr_traced *out, cr_trace *x)
{
    cr_traced *t = out;

    *t = (cr_traced){.x = x, .base = cr_alloc_zero((x->memories.len + 1) * sizeof *t->base)};
    CR_NEED(t->base);
    CR_TRY(choose_bases(t));
    CR_TRY(put(&t->key, x->how));
    for (size_t i = 0; i < x->memories.len; i++)
        CR_TRY(put_memory(t, x->memories.at[i]));
    for (size_t i = 0; i < x->calls.len; i++)
        if (x->calls.at[i].live)
            CR_TRY(put_call(t, &x->calls.at[i]));
    return CR_OK;
}

void cr_traced_drop(cr_traced *t)
{
    cr_free(t->base);
    cr_vec_drop(&t->key);
    cr_vec_drop(&t->number);
    t->base = NULL;
}
