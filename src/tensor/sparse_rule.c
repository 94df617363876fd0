/* Rules that read the parts of sparse tensors and make tensors of parts.
 *
 * The value of a part is borrowed from the tensor and marked, so that a result which is a part
 * becomes an alias (call.c): in-place changes of it change the sparse tensor, but what a
 * program sets at it does not. */
#include "tensor/internal.h"
#include "tensor/sparse.h"
#include <string.h>

static cr_status give_alias(cr_frame *f, const cr_tensor *t, cr_value *out)
{
    cr_tensor *made;

    CR_TRY(cr_tensor_alias(&made, t));
    *out = cr_of_tensor(made);
    return cr_frame_own(f, made);
}

static cr_status give_part(const cr_rule *r, const cr_tensor *t, cr_value *out)
{
    const cr_sparse *p = cr_sparse_of(t);
    const cr_tensor *part = r->builtin == CR_BUILTIN_values_of    ? p->values
                            : r->builtin == CR_BUILTIN_indices_of ? p->indices
                                                                  : p->compressed;

    *out = part ? cr_of_tensor((cr_tensor *)(uintptr_t)part) : cr_of_none();
    out->len = part ? CR_BORROWED_PART : 0;
    return CR_OK;
}

/* layout, sizes, starts, indices, values, coalesced */
static cr_status make_sparse(cr_frame *f, const cr_value *v, cr_value *out)
{
    cr_sparse parts = {.compressed = v[2].tag == CR_TENSOR ? v[2].t : NULL,
                       .indices = v[3].t,
                       .values = v[4].t,
                       .coalesced = v[5].i};
    cr_tensor *made;

    if (v[1].len > CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions, not %u", CR_MAX_DIMS,
                       v[1].len);
    CR_TRY(cr_sparse_new(&made, (cr_layout_kind)v[0].i, (int)v[1].len, v[1].ints, &parts));
    *out = cr_of_tensor(made);
    return cr_frame_own(f, made);
}

static cr_status replace_values(cr_frame *f, const cr_value *v, cr_value *out)
{
    const cr_tensor *t = v[0].t;
    cr_sparse parts = *cr_sparse_of(t);
    cr_tensor *made;

    parts.values = v[1].t;
    CR_TRY(cr_sparse_new(&made, (cr_layout_kind)t->layout, t->ndim, t->size, &parts));
    *out = cr_of_tensor(made);
    return cr_frame_own(f, made);
}

static bool same_indices(const cr_tensor *a, const cr_tensor *b)
{
    const cr_tensor *x = cr_sparse_of(a)->indices, *y = cr_sparse_of(b)->indices;

    return a->layout == b->layout && x->address == y->address &&
           x->size[x->ndim - 1] == y->size[y->ndim - 1] && x->numel == y->numel &&
           x->contiguous && y->contiguous;
}

/* The text of the refusal of the entry that `v` names. */
static cr_status refusal_text(cr_frame *f, const cr_value *v, cr_value *out)
{
    cr_text text = {0};

    cr_sparse_refusal(&text, cr_ops_find(v->s), f->arg);
    const char *s = cr_text_str(&text);
    size_t n = strlen(s);
    char *copy = cr_frame_get(f, n + 1);
    if (copy)
        memcpy(copy, s, n + 1);
    cr_text_drop(&text);
    CR_NEED(copy);
    *out = (cr_value){.tag = CR_STRING, .len = (uint32_t)n, .s = copy};
    return CR_OK;
}

cr_status cr_rule_sparse(cr_frame *f, const cr_rule *r, const cr_value *v, cr_value *out)
{
    const cr_tensor *t = v->tag == CR_TENSOR ? v->t : NULL;
    bool sparse = t && cr_is_sparse(t);

    switch (r->builtin) {
    case CR_BUILTIN_layout:
        *out = (cr_value){.tag = CR_LAYOUT_VAL, .i = t ? t->layout : CR_LAYOUT_STRIDED};
        return CR_OK;
    case CR_BUILTIN_is_coo: *out = cr_of_bool(t && cr_is_coo(t)); return CR_OK;
    case CR_BUILTIN_is_blocked: *out = cr_of_bool(t && cr_is_blocked(t)); return CR_OK;
    case CR_BUILTIN_by_rows: *out = cr_of_bool(t && cr_by_rows(t->layout)); return CR_OK;
    case CR_BUILTIN_sparse_dims: *out = cr_of_int(sparse ? cr_sparse_dims(t) : 0); return CR_OK;
    case CR_BUILTIN_batch_dims: *out = cr_of_int(sparse ? cr_sparse_batch(t) : 0); return CR_OK;
    case CR_BUILTIN_coalesced:
        *out = cr_of_bool(sparse && cr_sparse_of(t)->coalesced);
        return CR_OK;
    case CR_BUILTIN_sparse_of: return make_sparse(f, v, out);
    case CR_BUILTIN_alias_of: return give_alias(f, v->t, out);
    case CR_BUILTIN_no_form: return refusal_text(f, v, out);
    default: break;
    }
    if (!sparse)
        return cr_fail(CR_RUNTIME, "%s(): a sparse tensor expected, not a strided one",
                       f->called->name);
    switch (r->builtin) {
    case CR_BUILTIN_sparse_size:
        *out = cr_of_ints(t->size, (size_t)cr_sparse_dims(t));
        return CR_OK;
    case CR_BUILTIN_dense_size:
        *out = cr_of_ints(t->size + cr_sparse_dims(t), (size_t)(t->ndim - cr_sparse_dims(t)));
        return CR_OK;
    case CR_BUILTIN_nnz: *out = cr_of_int(cr_sparse_count(t)); return CR_OK;
    case CR_BUILTIN_values_fit: *out = cr_of_bool(cr_values_fit(t, v[1].t)); return CR_OK;
    case CR_BUILTIN_with_values: return replace_values(f, v, out);
    case CR_BUILTIN_same_indices: *out = cr_of_bool(same_indices(t, v[1].t)); return CR_OK;
    default: return give_part(r, t, out);
    }
}
