/* Calls of operators of the table: tagged values of programs become values of the table's
 * calling convention, and back. */
#include "script/execute_impl.h"
#include <string.h>

cr_dtype cr_dtype_of_number(int64_t n)
{
    for (int t = 0; t < CR_DTYPE_COUNT; t++)
        if (cr_dtype_number((cr_dtype)t) == n)
            return (cr_dtype)t;
    return CR_DTYPE_NONE;
}

/* What the entry gets for each of its parameters. */
struct cr_sop {
    const cr_op *op;
    int8_t from[CR_MAX_ARGS]; /* the argument; -1: the default */
    int count;                /* arguments of the schema */
    uint32_t unused;          /* bit i: the entry has no parameter for argument i */
    int out;                  /* the argument that the result is written to; -1: none */
    const cr_sschema *schema;
};

cr_status cr_sop_prepare(cr_sop **out, cr_arena *arena, const cr_sschema *schema)
{
    cr_sop *p = cr_arena_get(arena, sizeof *p);

    CR_NEED(p);
    p->op = schema->op;
    p->schema = schema;
    p->count = schema->param_count;
    p->out = -1;
    memset(p->from, -1, sizeof p->from);
    for (int i = 0; i < schema->param_count; i++) {
        int k = cr_op_find_param(schema->op, schema->param[i].name);
        if (k >= 0)
            p->from[k] = (int8_t)i;
        else if (schema->param[i].written)
            p->out = i;
        else
            p->unused |= 1u << i;
    }
    for (int k = 0; k < p->op->param_count; k++)
        if (p->from[k] < 0 && !p->op->param[k].has_default)
            return cr_fail(CR_RUNTIME, "%s: the operator needs '%s'", schema->name,
                           p->op->param[k].name);
    *out = p;
    return CR_OK;
}

bool cr_ivalue_scalar(const cr_ivalue *v, cr_scalar *out)
{
    switch (v->kind) {
    case CR_IV_INT: *out = cr_scalar_int(v->i); return true;
    case CR_IV_FLOAT: *out = cr_scalar_float(v->d); return true;
    case CR_IV_BOOL: *out = (cr_scalar){.category = CR_CAT_BOOL, .i = v->i}; return true;
    case CR_IV_COMPLEX: *out = (cr_scalar){.category = CR_CAT_COMPLEX, .c = v->c}; return true;
    default: return false;
    }
}

cr_ivalue cr_ivalue_of_scalar(cr_scalar s)
{
    switch (s.category) {
    case CR_CAT_BOOL: return cr_iv_bool(s.i != 0);
    case CR_CAT_INT: return cr_iv_int(s.i);
    case CR_CAT_FLOAT: return cr_iv_float(s.d);
    default: return cr_iv_complex(s.c);
    }
}

/* --- arguments --- */

static bool op_to_scalar(const cr_ivalue *v, cr_value *out)
{
    cr_scalar s;

    if (!cr_ivalue_scalar(v, &s))
        return false;
    *out = cr_of_number(s);
    return true;
}

static bool op_to_tensor(const cr_param *p, const cr_ivalue *v, cr_value *out)
{
    if (v->kind == CR_IV_TENSOR) {
        *out = cr_of_tensor(v->t);
        return true;
    }
    return p->number && op_to_scalar(v, out);
}

static bool op_is_sequence(const cr_ivalue *v)
{
    return v->kind == CR_IV_LIST || v->kind == CR_IV_TUPLE;
}

static bool op_to_tensors(cr_arena *arena, const cr_param *p, const cr_ivalue *v, cr_value *out)
{
    if (!op_is_sequence(v))
        return false;
    cr_value *list = cr_arena_get(arena, v->list->len * sizeof *list + 1);
    for (size_t i = 0; list && i < v->list->len; i++) {
        const cr_ivalue *item = &v->list->at[i];
        if (item->kind != CR_IV_TENSOR && !(item->kind == CR_IV_NONE && p->item_optional))
            return false;
        list[i] = cr_of_tensor(item->kind == CR_IV_TENSOR ? item->t : NULL);
    }
    *out = (cr_value){.tag = CR_TENSORS, .len = (uint32_t)v->list->len, .list = list};
    return list != NULL;
}

static bool op_to_ints(cr_arena *arena, const cr_param *p, const cr_ivalue *v, cr_tag tag,
                       cr_value *out)
{
    bool one = v->kind == CR_IV_INT || v->kind == CR_IV_BOOL;
    size_t n = one ? (size_t)(p->fixed ? p->fixed : 1) : op_is_sequence(v) ? v->list->len : 0;
    int64_t *ints = cr_arena_get(arena, n * sizeof *ints + 1);

    if (!ints || (!one && !op_is_sequence(v)))
        return false;
    for (size_t i = 0; i < n; i++) {
        const cr_ivalue *item = one ? v : &v->list->at[i];
        if (item->kind != CR_IV_INT && item->kind != CR_IV_BOOL)
            return false;
        ints[i] = item->i;
    }
    *out = (cr_value){.tag = (uint8_t)tag, .len = (uint32_t)n, .ints = ints};
    return true;
}

static bool op_to_floats(cr_arena *arena, const cr_ivalue *v, cr_value *out)
{
    if (!op_is_sequence(v))
        return false;
    double *floats = cr_arena_get(arena, v->list->len * sizeof *floats + 1);
    for (size_t i = 0; floats && i < v->list->len; i++) {
        cr_scalar s;
        if (!cr_ivalue_scalar(&v->list->at[i], &s))
            return false;
        floats[i] = cr_scalar_as_double(s);
    }
    *out = (cr_value){.tag = CR_FLOATS, .len = (uint32_t)v->list->len, .floats = floats};
    return floats != NULL;
}

static bool op_to_scalars(cr_arena *arena, const cr_ivalue *v, cr_value *out)
{
    if (!op_is_sequence(v))
        return false;
    cr_value *list = cr_arena_get(arena, v->list->len * sizeof *list + 1);
    for (size_t i = 0; list && i < v->list->len; i++)
        if (!op_to_scalar(&v->list->at[i], &list[i]))
            return false;
    *out = (cr_value){.tag = CR_NUMBERS, .len = (uint32_t)v->list->len, .list = list};
    return list != NULL;
}

static bool op_to_float(const cr_ivalue *v, cr_value *out)
{
    *out = cr_of_float(v->kind == CR_IV_FLOAT ? v->d : (double)v->i);
    return v->kind == CR_IV_FLOAT || v->kind == CR_IV_INT || v->kind == CR_IV_BOOL;
}

static bool op_to_int(const cr_ivalue *v, cr_tag tag, int64_t limit, cr_value *out)
{
    *out = (cr_value){.tag = (uint8_t)tag, .i = v->i};
    return v->kind == CR_IV_INT && (limit < 0 || (v->i >= 0 && v->i < limit));
}

static bool op_to_dtype(const cr_ivalue *v, cr_value *out)
{
    cr_dtype t = v->kind == CR_IV_INT ? cr_dtype_of_number(v->i) : CR_DTYPE_NONE;

    *out = cr_of_dtype(t);
    return t != CR_DTYPE_NONE;
}

static bool op_to_layout(const cr_ivalue *v, cr_value *out)
{
    *out = (cr_value){.tag = CR_LAYOUT_VAL,
                      .i = v->kind == CR_IV_INT ? cr_layout_of_number(v->i) : -1};
    return out->i >= 0;
}

static bool op_convert(cr_arena *arena, const cr_param *p, const cr_ivalue *v, cr_value *out)
{
    if (v->kind == CR_IV_NONE) {
        *out = cr_of_none();
        return p->optional;
    }
    switch ((cr_type)p->type) {
    case CR_T_TENSOR: return op_to_tensor(p, v, out);
    case CR_T_TENSORS: return op_to_tensors(arena, p, v, out);
    case CR_T_SCALAR: return op_to_scalar(v, out);
    case CR_T_SCALARS: return op_to_scalars(arena, v, out);
    case CR_T_INT: return op_to_int(v, CR_INT, -1, out);
    case CR_T_INTS: return op_to_ints(arena, p, v, CR_INTS, out);
    case CR_T_FLOAT: return op_to_float(v, out);
    case CR_T_FLOATS: return op_to_floats(arena, v, out);
    case CR_T_BOOL:
        *out = cr_of_bool(v->i != 0);
        return v->kind == CR_IV_BOOL || v->kind == CR_IV_INT;
    case CR_T_BOOLS: return op_to_ints(arena, p, v, CR_TRUTHS, out);
    case CR_T_STRING:
        if (v->kind == CR_IV_STRING)
            *out = (cr_value){
                .tag = CR_STRING, .len = (uint32_t)v->string->len, .s = v->string->at};
        return v->kind == CR_IV_STRING;
    case CR_T_DTYPE: return op_to_dtype(v, out);
    case CR_T_LAYOUT: return op_to_layout(v, out);
    case CR_T_FORMAT: return op_to_int(v, CR_FORMAT_VAL, CR_FORMAT_COUNT, out);
    case CR_T_DEVICE:
        *out = (cr_value){.tag = CR_DEVICE_VAL, .i = v->i};
        return v->kind == CR_IV_DEVICE;
    case CR_T_GENERATOR:
        *out = (cr_value){.tag = CR_GENERATOR, .generator = v->generator};
        return v->kind == CR_IV_GENERATOR;
    }
    return false;
}

static cr_status op_refuse_argument(const cr_op *op, int k, const cr_ivalue *v)
{
    return cr_fail(CR_RUNTIME,
                   "%s() Expected a value of type '%s' for argument '%s' but "
                   "instead found type '%s'.",
                   op->name, cr_param_type_text(&op->param[k]), op->param[k].name,
                   cr_ivalue_kind_name(v));
}

/* --- results --- */

static cr_status op_list_of_tensors(cr_ivalue *out, cr_value *v)
{
    CR_TRY(cr_ilist_new(out, NULL, v->len));
    for (uint32_t i = 0; i < v->len; i++)
        out->list->at[out->list->len++] =
            cr_ivalue_keep(cr_iv_tensor(v->list[i].tag == CR_TENSOR ? v->list[i].t : NULL));
    return CR_OK;
}

static cr_status op_list_of_numbers(cr_ivalue *out, const cr_value *v)
{
    CR_TRY(cr_ilist_new(out, NULL, v->len));
    for (uint32_t i = 0; i < v->len; i++)
        out->list->at[out->list->len++] = v->tag == CR_FLOATS   ? cr_iv_float(v->floats[i])
                                          : v->tag == CR_TRUTHS ? cr_iv_bool(v->ints[i] != 0)
                                                                : cr_iv_int(v->ints[i]);
    return CR_OK;
}

/* The result as a value of programs.  A tensor's reference moves to *out. */
static cr_status op_result(cr_ivalue *out, cr_value *v)
{
    switch ((cr_tag)v->tag) {
    case CR_NONE: *out = cr_iv_none(); return CR_OK;
    case CR_TENSOR:
        *out = cr_iv_tensor(v->t);
        *v = cr_of_none();
        return CR_OK;
    case CR_NUMBER: *out = cr_ivalue_of_scalar(v->number); return CR_OK;
    case CR_LAYOUT_VAL: *out = cr_iv_layout(v->i); return CR_OK;
    case CR_INT:
    case CR_FORMAT_VAL: *out = cr_iv_int(v->i); return CR_OK;
    case CR_FLOAT: *out = cr_iv_float(v->d); return CR_OK;
    case CR_TRUTH: *out = cr_iv_bool(v->i != 0); return CR_OK;
    case CR_DTYPE_VAL: *out = cr_iv_int(cr_dtype_number((cr_dtype)v->i)); return CR_OK;
    case CR_DEVICE_VAL: *out = (cr_ivalue){.kind = CR_IV_DEVICE, .i = v->i}; return CR_OK;
    case CR_STRING: return cr_istring_new(out, v->s, v->len);
    case CR_INTS:
    case CR_FLOATS:
    case CR_TRUTHS: return op_list_of_numbers(out, v);
    case CR_TENSORS: return op_list_of_tensors(out, v);
    default: return cr_fail(CR_RUNTIME, "a result of a kind that programs do not have");
    }
}

/* --- calls --- */

/* `into`: the tensor that the result is written to, or NULL. */
static cr_status op_run(const cr_op *op, const cr_value *value, const cr_ivalue *into,
                        cr_ivalue *out, int outs)
{
    cr_value result[CR_MAX_RESULTS];
    cr_status st = CR_OK;

    for (int i = 0; i < CR_MAX_RESULTS; i++)
        result[i] = cr_of_none();
    if (into && into->kind != CR_IV_TENSOR)
        return cr_fail(CR_RUNTIME, "%s() Expected a value of type 'Tensor' for argument 'out'",
                       op->name);
    CR_TRY(into ? cr_call_out(op, value, &(cr_tensor *){into->t}, result)
                : cr_call(op, value, result));
    for (int i = 0; !st && i < outs && i < op->result_count; i++)
        st = op_result(&out[i], &result[i]);
    cr_drop_values(result, op->result_count);
    return st;
}

static bool op_is_plain(const cr_ivalue *v)
{
    return v->kind == CR_IV_NONE || ((v->kind == CR_IV_INT || v->kind == CR_IV_BOOL) && !v->i);
}

/* Arguments that the entry lacks (pin_memory, layout) must have no effect. */
static cr_status op_check_unused(const cr_sop *p, const cr_scall *c)
{
    for (uint32_t mask = p->unused; mask; mask &= mask - 1) {
        int i = (int)CR_CTZ(mask);
        if (i < c->count && !op_is_plain(&c->arg[i]) &&
            strcmp(p->schema->param[i].name, "non_blocking"))
            return cr_fail(CR_RUNTIME, "%s: argument '%s' is not supported", p->schema->name,
                           p->schema->param[i].name);
    }
    return CR_OK;
}

cr_status cr_sop_call(const cr_sop *p, cr_scall *c)
{
    cr_value value[CR_MAX_ARGS];
    cr_arena arena = {0};
    cr_status st;

    CR_GO(op_check_unused(p, c));
    for (int k = 0; k < p->op->param_count; k++) {
        int from = p->from[k];
        if (from < 0 || from >= c->count)
            value[k] = p->op->param[k].preset;
        else if (!op_convert(&arena, &p->op->param[k], &c->arg[from], &value[k]))
            CR_GO(op_refuse_argument(p->op, k, &c->arg[from]));
    }
    st = op_run(p->op, value, p->out >= 0 && p->out < c->count ? &c->arg[p->out] : NULL, c->out,
                c->outs);
done:
    cr_arena_drop(&arena);
    return st;
}

cr_status cr_sop_call_entry(const cr_op *op, const cr_ivalue *arg, int n, cr_ivalue *out,
                            int outs)
{
    cr_value value[CR_MAX_ARGS];
    cr_arena arena = {0};
    cr_status st;

    for (int k = 0; k < op->param_count; k++)
        if (k >= n)
            value[k] = op->param[k].preset;
        else if (!op_convert(&arena, &op->param[k], &arg[k], &value[k]))
            CR_GO(op_refuse_argument(op, k, &arg[k]));
    st = op_run(op, value, NULL, out, outs);
done:
    cr_arena_drop(&arena);
    return st;
}
