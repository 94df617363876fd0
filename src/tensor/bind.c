/* Binding the arguments of C programs to an operator's parameters.
 *
 * Overloads are tried in the table's order, as for Python.  The first pass does not take
 * integers for bools.  The second takes 0 and 1 for False and True, because C's `true` is an
 * int. */
#include "num/generator.h"
#include "tensor/arg.h"
#include "tensor/remote.h"
#include <stdio.h>
#include <string.h>

/* A call, and the first argument that did not fit the last overload tried. */
typedef struct {
    const char *name;
    const cr_arg *args;
    int count;         /* without END; does not include results */
    bool lenient;      /* 0 and 1 may be bools */
    int bad_param;     /* -1: too many arguments, or an unknown keyword */
    const cr_arg *bad; /* NULL: the parameter has no value */
    int position;      /* from 1; 0 for a keyword */
    int bad_item;
} call;

/* --- one value --- */

static bool is_none(const cr_arg *a)
{
    return a->kind == CR_ARG_NONE || (a->kind == CR_ARG_TENSOR && !a->t) ||
           (a->kind == CR_ARG_STRING && !a->s) ||
           (a->kind == CR_ARG_GENERATOR && !a->generator) ||
           (a->kind == CR_ARG_INTS && !a->ints && a->len);
}

static bool to_number(const cr_arg *a, cr_value *out)
{
    out->tag = CR_NUMBER;
    switch (a->kind) {
    case CR_ARG_BOOL:
    case CR_ARG_INT:
        out->number = cr_scalar_int(a->i);
        out->number.category = a->kind == CR_ARG_BOOL ? CR_CAT_BOOL : CR_CAT_INT;
        return true;
    case CR_ARG_FLOAT: out->number = cr_scalar_float(a->d); return true;
    case CR_ARG_COMPLEX:
        out->number = (cr_scalar){.category = CR_CAT_COMPLEX, .c = a->c};
        return true;
    default: return false;
    }
}

/* A 0-d tensor given for a number. */
static bool item_number(const cr_arg *a, cr_value *out)
{
    out->tag = CR_NUMBER;
    return a->kind == CR_ARG_TENSOR && !a->t->ndim && !a->t->requires_grad &&
           cr_has_bytes(a->t->device) && !cr_tensor_item(&out->number, a->t);
}

static bool to_int(const cr_arg *a, cr_value *out)
{
    *out = cr_of_int(a->i);
    return a->kind == CR_ARG_INT;
}

static bool to_float(const cr_arg *a, cr_value *out)
{
    *out = cr_of_float(a->kind == CR_ARG_INT ? (double)a->i : a->d);
    return a->kind == CR_ARG_FLOAT || a->kind == CR_ARG_INT;
}

static bool to_bool(const call *c, const cr_arg *a, cr_value *out)
{
    *out = cr_of_bool(a->i != 0);
    return a->kind == CR_ARG_BOOL ||
           (a->kind == CR_ARG_INT && (c->lenient || a->name) && (a->i == 0 || a->i == 1));
}

static bool to_string(const cr_arg *a, cr_value *out)
{
    if (a->kind != CR_ARG_STRING)
        return false;
    *out = (cr_value){.tag = CR_STRING, .len = (uint32_t)strlen(a->s), .s = a->s};
    return true;
}

static bool to_dtype(const cr_arg *a, cr_value *out)
{
    cr_dtype t = a->kind == CR_ARG_STRING ? cr_dtype_find(a->s)
                 : a->kind == CR_ARG_INT && (uint64_t)a->i < CR_DTYPE_COUNT ? (cr_dtype)a->i
                                                                            : CR_DTYPE_NONE;
    *out = cr_of_dtype(t);
    return t != CR_DTYPE_NONE;
}

/* Memory formats and layouts by torch's names. */
static bool to_named(const cr_arg *a, cr_tag tag, cr_value *out)
{
    static const struct {
        const char *name;
        cr_tag tag;
        int value;
    } names[] = {
        {"contiguous_format", CR_FORMAT_VAL, CR_FORMAT_CONTIGUOUS},
        {"preserve_format", CR_FORMAT_VAL, CR_FORMAT_PRESERVE},
        {"channels_last", CR_FORMAT_VAL, CR_FORMAT_CHANNELS_LAST},
        {"channels_last_3d", CR_FORMAT_VAL, CR_FORMAT_CHANNELS_LAST_3D},
#define CR_LAYOUT_(NAME, name, text, backend) {name, CR_LAYOUT_VAL, CR_LAYOUT_##NAME},
#include "ops/layouts.def"
#undef CR_LAYOUT_
    };

    for (size_t i = 0; a->kind == CR_ARG_STRING && i < CR_LEN(names); i++)
        if (names[i].tag == tag && !strcmp(names[i].name, a->s)) {
            *out = (cr_value){.tag = (uint8_t)tag, .i = names[i].value};
            return true;
        }
    return false;
}

static bool to_device(const cr_arg *a, cr_value *out)
{
    int kind, index;

    if (a->kind != CR_ARG_STRING || cr_device_parse(a->s, &kind, &index))
        return false;
    *out = (cr_value){.tag = CR_DEVICE_VAL, .i = cr_device_pack(kind, index)};
    return true;
}

static bool to_tensor(const cr_param *p, const cr_arg *a, cr_value *out)
{
    if (a->kind == CR_ARG_TENSOR) {
        *out = cr_of_tensor(a->t);
        return true;
    }
    return p->number && !p->written && to_number(a, out);
}

/* --- lists --- */

static int64_t *take_ints(cr_binding *b, int n)
{
    int64_t *at = b->ints + b->ints_used;

    if (b->ints_used + n > CR_MAX_GIVEN)
        return cr_arena_get(&b->lists, (size_t)n * sizeof *at);
    b->ints_used += n;
    return at;
}

/* Repeats one value for every item of an int[2]. */
static bool repeat_value(cr_binding *b, const cr_param *p, cr_tag tag, int64_t i, cr_value *out)
{
    int64_t *ints = take_ints(b, p->fixed);

    for (int k = 0; ints && k < p->fixed; k++)
        ints[k] = i;
    *out = (cr_value){.tag = (uint8_t)tag, .len = (uint32_t)p->fixed, .ints = ints};
    return ints != NULL;
}

static bool to_ints(cr_binding *b, const cr_param *p, const cr_arg *a, cr_tag tag,
                    cr_value *out)
{
    *out = (cr_value){.tag = (uint8_t)tag, .len = a->len, .ints = a->ints};
    if (a->kind == CR_ARG_INTS)
        return true;
    return (a->kind == CR_ARG_INT || (tag == CR_TRUTHS && a->kind == CR_ARG_BOOL)) &&
           p->fixed && repeat_value(b, p, tag, a->i, out);
}

static bool to_floats(cr_binding *b, const cr_param *p, const cr_arg *a, cr_value *out)
{
    bool single = a->kind == CR_ARG_INT || a->kind == CR_ARG_FLOAT;
    uint32_t n = single ? (uint32_t)p->fixed : a->len;

    *out = (cr_value){.tag = CR_FLOATS, .len = n, .floats = a->floats};
    if (a->kind == CR_ARG_FLOATS)
        return true;
    if (a->kind != CR_ARG_INTS && !(single && n))
        return false;
    double *floats = cr_arena_get(&b->lists, (n ? n : 1) * sizeof *floats);
    for (uint32_t i = 0; floats && i < n; i++)
        floats[i] = a->kind == CR_ARG_INTS  ? (double)a->ints[i]
                    : a->kind == CR_ARG_INT ? (double)a->i
                                            : a->d;
    out->floats = floats;
    return floats != NULL;
}

static bool to_tensors(cr_binding *b, call *c, const cr_param *p, const cr_arg *a,
                       cr_value *out)
{
    if (a->kind != CR_ARG_TENSORS)
        return false;
    cr_value *list = cr_arena_get(&b->lists, (a->len ? a->len : 1) * sizeof *list);
    for (uint32_t i = 0; list && i < a->len; i++) {
        list[i] = cr_of_tensor(a->tensors[i]);
        if (!a->tensors[i] && !p->item_optional) {
            c->bad_item = (int)i;
            return false;
        }
    }
    *out = (cr_value){.tag = CR_TENSORS, .len = a->len, .list = list};
    return list != NULL;
}

static bool convert_arg(cr_binding *b, call *c, const cr_param *p, const cr_arg *a,
                        cr_value *out)
{
    c->bad_item = -1;
    if (is_none(a)) {
        *out = cr_of_none();
        return p->optional;
    }
    switch ((cr_type)p->type) {
    case CR_T_TENSOR: return to_tensor(p, a, out);
    case CR_T_TENSORS: return to_tensors(b, c, p, a, out);
    case CR_T_SCALAR: return to_number(a, out) || item_number(a, out);
    case CR_T_INT: return to_int(a, out);
    case CR_T_INTS: return to_ints(b, p, a, CR_INTS, out);
    case CR_T_FLOAT: return to_float(a, out);
    case CR_T_FLOATS: return to_floats(b, p, a, out);
    case CR_T_BOOL: return to_bool(c, a, out);
    case CR_T_BOOLS: return to_ints(b, p, a, CR_TRUTHS, out);
    case CR_T_STRING: return to_string(a, out);
    case CR_T_DTYPE: return to_dtype(a, out);
    case CR_T_DEVICE: return to_device(a, out);
    case CR_T_FORMAT: return to_named(a, CR_FORMAT_VAL, out);
    case CR_T_GENERATOR:
        *out = (cr_value){.tag = CR_GENERATOR, .generator = a->generator};
        return a->kind == CR_ARG_GENERATOR;
    case CR_T_LAYOUT: return to_named(a, CR_LAYOUT_VAL, out);
    case CR_T_SCALARS: break;
    }
    return false;
}

/* --- one overload --- */

static bool note_misfit(call *c, int param, const cr_arg *a, int position)
{
    c->bad_param = param;
    c->bad = a;
    c->position = position;
    return false;
}

static int param_index(const cr_op *op, const char *name)
{
    int i = cr_op_find_param(op, name);

    return i < 0 && !strcmp(name, "input") ? cr_op_find_param(op, "self") : i;
}

static int positional(const cr_op *op)
{
    int n = 0;

    while (n < op->param_count && !op->param[n].keyword_only)
        n++;
    return n;
}

/* The parameter that takes integers one by one, as in x.view(2, 3): the only positional one
 * after self, of type int[]; -1 when there is none. */
static int varargs(const cr_op *op)
{
    int n = positional(op), at = n && !strcmp(op->param[0].name, "self");

    return n == at + 1 && op->param[at].type == CR_T_INTS ? at : -1;
}

/* Takes the integers from args[from] on and returns their number. */
static int take_varargs(cr_binding *b, const call *c, int from, int param)
{
    int64_t *ints = b->ints + b->ints_used;
    int n = 0;

    for (; from + n < c->count && c->args[from + n].kind == CR_ARG_INT &&
           !c->args[from + n].name && b->ints_used + n < CR_MAX_GIVEN;
         n++)
        ints[n] = c->args[from + n].i;
    b->ints_used += n;
    b->value[param] = cr_of_ints(ints, (size_t)n);
    return n;
}

static bool bind_place(cr_binding *b, call *c, const cr_op *op, int *at, int *place,
                       uint32_t *have)
{
    const cr_arg *a = &c->args[*at];
    int p = (*place)++;

    if (p >= op->param_count || op->param[p].keyword_only)
        return note_misfit(c, -1, NULL, 0);
    *have |= 1u << p;
    if (a->kind == CR_ARG_INT && p == varargs(op)) {
        *at += take_varargs(b, c, *at, p) - 1;
        return true;
    }
    return convert_arg(b, c, &op->param[p], a, &b->value[p]) || note_misfit(c, p, a, p + 1);
}

static bool bind_name(cr_binding *b, call *c, const cr_op *op, const cr_arg *a, uint32_t *have)
{
    int p = param_index(op, a->name);

    if (p < 0 || *have >> p & 1u)
        return note_misfit(c, -1, a, 0);
    *have |= 1u << p;
    return convert_arg(b, c, &op->param[p], a, &b->value[p]) || note_misfit(c, p, a, 0);
}

static bool fill_defaults(cr_binding *b, call *c, const cr_op *op, uint32_t have)
{
    for (int i = 0; i < op->param_count; i++) {
        if (have >> i & 1u)
            continue;
        if (!op->param[i].has_default)
            return note_misfit(c, i, NULL, 0);
        b->value[i] = op->param[i].preset;
    }
    return true;
}

static bool bind_overload(cr_binding *b, call *c, const cr_op *op)
{
    uint32_t have = 0;
    int place = 0;

    b->result_count = 0;
    b->ints_used = 0;
    for (int i = 0; i < c->count; i++) {
        const cr_arg *a = &c->args[i];
        if (a->kind == CR_ARG_RESULT) {
            if (b->result_count + 1 >= op->result_count)
                return note_misfit(c, -1, NULL, 0);
            b->result[b->result_count++] = a->result;
        } else if (!(a->name ? bind_name(b, c, op, a, &have)
                             : bind_place(b, c, op, &i, &place, &have)))
            return false;
    }
    return fill_defaults(b, c, op, have);
}

/* --- messages --- */

static const char *param_name(const cr_param *p)
{
    return strcmp(p->name, "self") ? p->name : "input";
}

static const char *given_text(const cr_arg *a)
{
    static const char *const text[] = {
        [CR_ARG_TENSOR] = "Tensor",   [CR_ARG_BOOL] = "bool",
        [CR_ARG_INT] = "int",         [CR_ARG_FLOAT] = "float",
        [CR_ARG_COMPLEX] = "complex", [CR_ARG_STRING] = "str",
        [CR_ARG_INTS] = "tuple",      [CR_ARG_FLOATS] = "tuple",
        [CR_ARG_TENSORS] = "tuple",   [CR_ARG_GENERATOR] = "torch.Generator"};
    return is_none(a) ? "NoneType" : text[a->kind];
}

static void print_arg_types(cr_text *out, const call *c)
{
    const char *comma = "";

    for (int i = 0; i < c->count; i++) {
        if (c->args[i].kind == CR_ARG_RESULT)
            continue;
        cr_text_put(out, comma);
        if (c->args[i].name)
            cr_text_printf(out, "%s=", c->args[i].name);
        cr_text_put(out, given_text(&c->args[i]));
        comma = ", ";
    }
}

static void print_params(cr_text *out, const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++) {
        const cr_param *p = &op->param[i];
        bool star = p->keyword_only && (!i || !op->param[i - 1].keyword_only);
        cr_text_printf(out, "%s%s%s %s", i ? ", " : "", star ? "*, " : "",
                       cr_param_type_text(p), param_name(p));
    }
}

static cr_status refuse_all_overloads(const call *c, const cr_op *op)
{
    cr_text out = {0};

    cr_text_printf(&out, "%s() received an invalid combination of arguments - got (", c->name);
    print_arg_types(&out, c);
    cr_text_put(&out, "), but expected one of:\n");
    for (; op; op = op->next) {
        cr_text_put(&out, " * (");
        print_params(&out, op);
        cr_text_put(&out, ")\n");
    }
    cr_status st = cr_fail(CR_TYPE, "%s", cr_text_str(&out));
    cr_text_drop(&out);
    return st;
}

static int required_count(const cr_op *op)
{
    int n = 0;

    while (n < positional(op) && !op->param[n].has_default)
        n++;
    return n;
}

static cr_status refuse_too_many(const call *c, const cr_op *op)
{
    int most = positional(op), least = required_count(op), given = 0, results = 0;

    for (int i = 0; i < c->count; i++) {
        given += !c->args[i].name && c->args[i].kind != CR_ARG_RESULT;
        results += c->args[i].kind == CR_ARG_RESULT;
    }
    if (given <= most)
        return cr_fail(CR_TYPE, "%s() returns %d values, but %d were asked for", c->name,
                       op->result_count, results + 1);
    if (least < most)
        return cr_fail(CR_TYPE,
                       "%s() takes from %d to %d positional arguments but %d were given",
                       c->name, least, most, given);
    return cr_fail(CR_TYPE, "%s() takes %d positional argument%s but %d %s given", c->name,
                   most, most == 1 ? "" : "s", given, given == 1 ? "was" : "were");
}

static bool has_arg(const call *c, const cr_op *op, int param)
{
    int place = 0;

    for (int i = 0; i < c->count; i++)
        if (c->args[i].kind == CR_ARG_RESULT)
            continue;
        else if (c->args[i].name ? param_index(op, c->args[i].name) == param : place++ == param)
            return true;
    return false;
}

static cr_status refuse_missing(const call *c, const cr_op *op)
{
    cr_text names = {0};
    int n = 0;

    for (int i = 0; i < op->param_count; i++)
        if (!op->param[i].has_default && !has_arg(c, op, i))
            cr_text_printf(&names, "%s\"%s\"", n++ ? ", " : "", param_name(&op->param[i]));
    cr_status st = cr_fail(CR_TYPE, "%s() missing %d required positional argument%s: %s",
                           c->name, n, n == 1 ? "s" : "", cr_text_str(&names));
    cr_text_drop(&names);
    return st;
}

static cr_status refuse_wrong_type(const call *c, const cr_op *op)
{
    const cr_param *p = &op->param[c->bad_param];
    char where[32] = "";

    if (p->type == CR_T_TENSORS && c->bad_item >= 0)
        return cr_fail(CR_TYPE,
                       "expected Tensor as element %d in argument %d, but got NoneType",
                       c->bad_item, c->bad_param);
    if (c->position > 0)
        snprintf(where, sizeof where, " (position %d)", c->position);
    return cr_fail(CR_TYPE, "%s(): argument '%s'%s must be %s, not %s", c->name, param_name(p),
                   where, cr_param_type_text(p), given_text(c->bad));
}

static cr_status refuse_overload(const call *c, const cr_op *op)
{
    if (c->bad_param >= 0)
        return c->bad ? refuse_wrong_type(c, op) : refuse_missing(c, op);
    if (!c->bad)
        return refuse_too_many(c, op);
    return cr_fail(CR_TYPE,
                   param_index(op, c->bad->name) < 0
                       ? "%s() got an unexpected keyword argument '%s'"
                       : "%s() got multiple values for argument '%s'",
                   c->name, c->bad->name);
}

/* --- binding a call --- */

cr_status cr_bind(cr_binding *b, const cr_op **bound, const cr_op *op, const char *name,
                  const cr_arg *args)
{
    call c = {.name = name, .args = args};

    b->lists = (cr_arena){0};
    while (args[c.count].kind != CR_ARG_END)
        c.count++;
    for (int lenient = 0; lenient <= 1; lenient++) {
        c.lenient = lenient;
        for (const cr_op *o = op; o; o = o->next)
            if (bind_overload(b, &c, o)) {
                *bound = o;
                return CR_OK;
            }
    }
    return op->next ? refuse_all_overloads(&c, op) : refuse_overload(&c, op);
}

void cr_binding_drop(cr_binding *b) { cr_arena_drop(&b->lists); }

static const char *missing_of(const cr_param *p, const cr_value *v)
{
    bool list = v->tag == CR_INTS || v->tag == CR_FLOATS || v->tag == CR_TENSORS;

    if (v->tag == CR_NONE && !p->optional)
        return cr_param_type_text(p);
    if (list && v->len && !v->ints)
        return cr_param_type_text(p);
    for (uint32_t i = 0; v->tag == CR_TENSORS && !p->item_optional && i < v->len; i++)
        if (v->list[i].tag == CR_NONE)
            return "tuple of Tensors";
    return NULL;
}

cr_status cr_check_args(const cr_op *op, const cr_value *value)
{
    for (int i = 0; i < op->param_count; i++) {
        const cr_param *p = &op->param[i];
        const char *missing = missing_of(p, &value[i]);
        if (CR_UNLIKELY(missing != NULL))
            return cr_fail(CR_TYPE,
                           "%s(): argument '%s' (position %d) must be %s, not NoneType",
                           op->name, param_name(p), i + 1, missing);
        if (value[i].tag == CR_DTYPE_VAL && (uint64_t)value[i].i >= CR_DTYPE_COUNT)
            return cr_fail(CR_VALUE, "%lld is no dtype", (long long)value[i].i);
    }
    return CR_OK;
}

cr_status cr_call_by_name(const char *name, const cr_arg *args, const cr_op **called,
                          cr_value *result)
{
    const cr_op *op = cr_ops_find(name);
    cr_binding b;
    cr_status st;

    if (!op)
        return cr_fail(CR_ATTRIBUTE, "no operator is called '%s'", name);
    CR_GO(cr_bind(&b, &op, op, name, args));
    st = cr_call(op, b.value, result);
    CR_GO(CR_LIKELY(!st) ? st : cr_refused_call(op, st));
    for (int k = 0; k < b.result_count; k++) {
        *b.result[k] = result[k + 1].t;
        result[k + 1] = cr_of_none();
    }
    *called = op;
done:
    cr_binding_drop(&b);
    return st;
}
