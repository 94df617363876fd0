/* Tensors of sparse layouts: their parts, and the stage that finds an entry's sparse form.
 *
 * An entry has one of these forms for sparse arguments: clause `sparse` names another entry
 * with the same parameters; word `keeps_zero` says that the entry is computed on the values; a
 * composition calls other entries, which have forms.  Entries with the word `sparse` take
 * sparse tensors themselves.  All other entries are refused. */
#include "tensor/sparse.h"
#include "entry.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include <string.h>

static const char *const sparse_texts[] = {
#define CR_LAYOUT_(NAME, name, text, backend) text,
#include "ops/layouts.def"
#undef CR_LAYOUT_
};
static const char *const sparse_backends[] = {
#define CR_LAYOUT_(NAME, name, text, backend) backend,
#include "ops/layouts.def"
#undef CR_LAYOUT_
};
const char *const cr_layout_names[CR_LAYOUT_COUNT] = {
#define CR_LAYOUT_(NAME, name, text, backend) name,
#include "ops/layouts.def"
#undef CR_LAYOUT_
};

const char *cr_layout_text(int layout) { return sparse_texts[layout]; }

/* --- parts --- */

static void sparse_parts_drop(cr_sparse *s)
{
    cr_drop(s->compressed);
    cr_drop(s->indices);
    cr_drop(s->values);
}

static void sparse_release(void *owner)
{
    sparse_parts_drop(owner);
    cr_free(owner);
}

static cr_status sparse_parts_copy(cr_sparse *out, const cr_sparse *parts)
{
    cr_status st = CR_OK;

    *out = (cr_sparse){.coalesced = parts->coalesced};
    if (parts->compressed)
        st = cr_tensor_alias(&out->compressed, parts->compressed);
    if (!st)
        st = cr_tensor_alias(&out->indices, parts->indices);
    if (!st)
        st = cr_tensor_alias(&out->values, parts->values);
    if (st) {
        sparse_parts_drop(out);
        *out = (cr_sparse){0};
    }
    return st;
}

static cr_status sparse_storage_new(cr_storage **out, const cr_sparse *parts)
{
    cr_sparse *own = cr_alloc_zero(sizeof *own);
    cr_status st = own ? sparse_parts_copy(own, parts) : CR_MEMORY;

    if (!st)
        st = cr_storage_foreign(out, NULL, 0, sparse_release, own);
    if (st) {
        if (own)
            sparse_parts_drop(own);
        cr_free(own);
        return st;
    }
    (*out)->device = parts->values->device;
    return CR_OK;
}

void cr_tensor_set_layout(cr_tensor *t, int layout)
{
    t->layout = (uint8_t)layout;
    if (layout)
        t->stages |= CR_STAGE_BIT(SPARSE);
    else
        t->stages &= ~CR_STAGE_BIT(SPARSE);
}

static bool sparse_parts_dense(const cr_sparse *parts)
{
    return !cr_is_sparse(parts->indices) && !cr_is_sparse(parts->values) &&
           (!parts->compressed || !cr_is_sparse(parts->compressed));
}

cr_status cr_sparse_new(cr_tensor **out, cr_layout_kind layout, int ndim, const int64_t *size,
                        const cr_sparse *parts)
{
    static const int64_t stride[CR_MAX_DIMS];
    cr_storage *s;

    for (int d = 0; d < ndim; d++)
        if (size[d] < 0)
            return cr_fail(CR_RUNTIME, "Trying to create tensor with negative dimension %lld",
                           (long long)size[d]);
    if (!sparse_parts_dense(parts))
        return cr_fail(CR_RUNTIME, "parts of a sparse tensor must be strided tensors");
    CR_TRY(sparse_storage_new(&s, parts));
    cr_status st =
        cr_tensor_over(out, s, (cr_dtype)parts->values->dtype, ndim, size, stride, 0);
    if (st) {
        cr_storage_drop(s);
        return st;
    }
    cr_tensor_set_layout(*out, layout);
    return CR_OK;
}

bool cr_values_fit(const cr_tensor *t, const cr_tensor *values)
{
    const cr_tensor *own = cr_sparse_of(t)->values;

    for (int d = 0; values->ndim == own->ndim && d < own->ndim; d++)
        if (d != cr_sparse_batch(t) && values->size[d] != own->size[d])
            return false;
    return values->ndim == own->ndim;
}

/* Whether the values of `from` are for the indices that `t` has already. */
static bool sparse_has_indices(const cr_tensor *t, const cr_tensor *from)
{
    const cr_sparse *a = cr_sparse_of(t), *b = cr_sparse_of(from);

    return cr_has_sizes(t, from->ndim, from->size) &&
           a->indices->storage == b->indices->storage &&
           a->indices->address == b->indices->address &&
           cr_has_sizes(a->indices, b->indices->ndim, b->indices->size);
}

/* Aliases of `t` see new values of the indices that they have.  With other indices they keep
 * the old parts, because their sizes are those of the old parts. */
cr_status cr_sparse_assign(cr_tensor *t, const cr_tensor *from)
{
    cr_geometry g = {.ndim = from->ndim};
    cr_storage *made, *old = t->storage;
    cr_status st;

    memcpy(g.size, from->size, (size_t)from->ndim * sizeof *g.size);
    CR_TRY(sparse_storage_new(&made, cr_sparse_of(from)));
    if (sparse_has_indices(t, from)) {
        void *parts = made->owner;
        made->owner = old->owner;
        old->owner = parts;
        old->version++;
        cr_storage_drop(made);
        return CR_OK;
    }
    st = cr_tensor_set_geometry(t, &g);
    if (st) {
        cr_storage_drop(made);
        return st;
    }
    made->version = ++old->version;
    t->storage = made;
    cr_storage_drop(old);
    return CR_OK;
}

/* --- refusals --- */

static bool sparse_is_number(const cr_value *v)
{
    return v->tag == CR_NUMBER || (v->tag == CR_TENSOR && v->t->number);
}

/* The name of torch's overload for the arguments: the one whose Scalars are numbers here. */
static const char *sparse_overload(const cr_op *op, const cr_value *arg)
{
    for (int k = 0; k < op->aten.count; k++) {
        bool fits = true;
        for (int i = 0; i < op->param_count; i++)
            if (op->param[i].number && op->param[i].type == CR_T_TENSOR)
                fits &= (op->aten.list[k].scalars >> i & 1) == sparse_is_number(&arg[i]);
        if (fits)
            return op->aten.list[k].name;
    }
    return op->overload;
}

static int sparse_layout_of(const cr_value *v)
{
    if (v->tag == CR_TENSOR)
        return v->t->layout;
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        if (v->list[i].tag == CR_TENSOR && v->list[i].t->layout)
            return v->list[i].t->layout;
    return CR_LAYOUT_STRIDED;
}

/* The layout of a call: the compressed one if there are several. */
static int sparse_call_layout(const cr_op *op, const cr_value *arg, cr_device *device)
{
    int layout = CR_LAYOUT_STRIDED;

    *device = CR_HOST;
    for (int i = 0; i < op->param_count; i++) {
        int one = sparse_layout_of(&arg[i]);
        layout = one > layout ? one : layout;
        if (arg[i].tag == CR_TENSOR)
            *device = arg[i].t->device;
    }
    return layout;
}

/* The entry that a program called: `all` of `_all`, which is a step of it alone. */
static const cr_op *called_entry(const cr_op *op)
{
    const cr_op *whole = *op->name == '_' && !op->forms ? cr_ops_find(op->name + 1) : NULL;

    return whole ? whole : op;
}

void cr_sparse_refusal(cr_text *out, const cr_op *op, const cr_value *arg)
{
    const cr_op *called = called_entry(op);
    const char *overload =
        called->param_count == op->param_count ? sparse_overload(called, arg) : "default";
    const char *dot;
    cr_device device;
    const char *kind = sparse_backends[sparse_call_layout(op, arg, &device)];
    cr_device_text where = cr_device_backend((cr_device_kind)device.kind);

    overload = strcmp(overload, "default") ? overload : "";
    dot = *overload ? "." : "";
    cr_text_printf(
        out,
        "Could not run 'aten::%s%s%s' with arguments from the '%s%s' backend. This could be "
        "because the operator doesn't exist for this backend, or was omitted during the "
        "selective/custom build process (if using custom build). If you are a Facebook "
        "employee "
        "using PyTorch on mobile, please visit https://fburl.com/ptmfixes for possible "
        "resolutions. 'aten::%s%s%s' is only available for these backends: [CPU, CUDA, Meta].",
        called->name, dot, overload, kind, where.text, called->name, dot, overload);
}

static cr_status sparse_refuse(const cr_op *op, const cr_value *arg)
{
    cr_text text = {0};

    cr_sparse_refusal(&text, op, arg);
    cr_status st = cr_fail(CR_NOT_IMPLEMENTED, "%s", cr_text_str(&text));
    cr_text_drop(&text);
    return st;
}

cr_status cr_sparse_refuse_batch(void)
{
    return cr_fail(CR_RUNTIME, "batches of sparse compressed tensors are not supported");
}

/* --- the stage --- */

static bool sparse_is_batch(const cr_tensor *t)
{
    return cr_is_sparse(t) && cr_sparse_batch(t) > 0;
}

/* Replaces *t, of a sparse layout, by the result of an entry on it. */
static cr_status sparse_apply(cr_tensor **out, const cr_op *op, cr_tensor *t)
{
    cr_value arg = cr_of_tensor(t);

    return cr_call_tensor(out, op, &arg, 1);
}

/* A word `keeps_zero` entry: its result on the values, with self's indices. */
static cr_status sparse_on_values(const cr_op *op, const cr_value *given, cr_value *result)
{
    cr_tensor *self = NULL, *values = NULL, *made = NULL;
    cr_value arg[CR_MAX_ARGS];
    cr_status st;

    memcpy(arg, given, op->param_count * sizeof *arg);
    if (cr_is_coo(arg[0].t))
        CR_GO(sparse_apply(&self, cr_entry.coalesce, arg[0].t));
    else
        self = cr_keep(arg[0].t);
    CR_GO(sparse_apply(&values, cr_entry._sparse_values, self));
    arg[0] = cr_of_tensor(values);
    CR_GO(cr_call(op, arg, result));
    made = result[0].t;
    st = cr_call_tensor(&result[0].t, cr_entry._sparse_with_values,
                        (cr_value[]){cr_of_tensor(self), cr_of_tensor(made)}, 2);
done:
    cr_drop(made);
    cr_drop(values);
    cr_drop(self);
    return st;
}

/* Whether only the first argument is a tensor, and it is sparse. */
static bool sparse_has_one(const cr_op *op, const cr_value *arg)
{
    for (int i = 1; i < op->param_count; i++)
        if (arg[i].tag == CR_TENSOR && cr_is_sparse(arg[i].t))
            return false;
    return arg[0].tag == CR_TENSOR && cr_is_sparse(arg[0].t);
}

/* The form of an entry that writes nothing. */
static cr_status sparse_form(const cr_op *op, const cr_value *arg, cr_value *result)
{
    if (op->sparse.op)
        return cr_call(op->sparse.op, arg, result);
    if (op->words & CR_WORD_KEEPS_ZERO && sparse_has_one(op, arg))
        return sparse_on_values(op, arg, result);
    if (op->words & CR_WORD_SPARSE && !op->sparse.batches &&
        cr_any_tensor(op, arg, sparse_is_batch))
        return cr_sparse_refuse_batch();
    if (op->words & CR_WORD_SPARSE || (op->does == CR_DOES_IS && !op->fused))
        return cr_call_past(CR_STAGE_SPARSE, op, arg, result);
    return sparse_refuse(op, arg);
}

/* The in-place form of an entry: its result becomes self. */
static cr_status sparse_inplace(const cr_op *op, const cr_value *arg, cr_value *result)
{
    const cr_op *of = op->inplace_of;
    cr_tensor *self = arg[0].t;
    cr_value made[CR_MAX_RESULTS];

    if (of->sparse.inplace)
        return cr_call(of->sparse.inplace, arg, result);
    if (!of->sparse.op && !(of->words & CR_WORD_KEEPS_ZERO))
        return sparse_refuse(op, arg);
    if (cr_is_coo(self) && !of->sparse.op && !cr_sparse_of(self)->coalesced)
        return cr_fail(CR_RUNTIME, "%s requires coalesced input", op->name);
    CR_TRY(sparse_form(of, arg, made));
    cr_status st =
        cr_call_given(result, cr_entry._sparse_become_, (cr_value[]){arg[0], made[0]}, 2);
    cr_drop_values(made, of->result_count);
    return st;
}

cr_status cr_sparse_stage(const cr_op *op, const cr_value *arg, cr_value *result)
{
    uint32_t was = cr_thread.exclude;

    CR_TRY(cr_defer_settle_all(op, arg));
    cr_thread.exclude = was | CR_STAGE_BIT(DEFER); /* its functions read the parts' elements */
    cr_status st =
        op->inplace_of ? sparse_inplace(op, arg, result) : sparse_form(op, arg, result);
    cr_thread.exclude = was;
    return st;
}
