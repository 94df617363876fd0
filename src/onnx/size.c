/* Arguments of nodes, and integers that vary with the sizes of a call.
 *
 * An integer that varies is known by its values in all samples.  It is written as the size of a
 * value with the same sizes in all samples, or as the first of these that fits in all of them:
 * a * n + b, n // a, m * n * a, m * n // a, where m and n are such sizes. */
#include "onnx/lower.h"
#include <string.h>

ox_arg ox_int(int64_t i) { return (ox_arg){.tag = CR_INT, .i = i}; }

ox_arg ox_varying(ox *x, const int64_t *at)
{
    ox_arg a = ox_int(at[0]);
    bool varies = false;

    for (int p = 1; p < x->samples; p++)
        varies = varies || at[p] != at[0];
    if (varies)
        a.at = cr_session_copy(x->s, at, (size_t)x->samples * sizeof *at);
    return a;
}

static ox_arg tensor_arg(const ox *x, const cr_gvalue *v)
{
    return (ox_arg){.tag = CR_TENSOR, .v = x->now[v->id], .of = v};
}

ox_arg ox_size(ox *x, const cr_gvalue *v, int d)
{
    int64_t at[OX_SAMPLES];

    for (int p = 0; p < x->samples; p++)
        at[p] = x->twin[p][v->id]->type.size[d];
    return ox_varying(x, at);
}

/* --- arguments --- */

static ox_arg int_argument(ox *x, int i, uint32_t item, bool list)
{
    int64_t at[OX_SAMPLES];

    for (int p = 0; p < x->samples; p++) {
        const cr_garg *a = &x->node[p]->arg[i];
        at[p] = list ? a->ints[item] : a->i;
    }
    return ox_varying(x, at);
}

static CR_NORETURN void refuse_size(ox *x, int i)
{
    ox_refuse(x, "its argument '%s' depends on a size", x->node[0]->op->param[i].name);
}

/* A number that must have the same bits in all samples. */
static ox_arg float_argument(ox *x, int i, uint32_t item)
{
    ox_arg out = {.tag = CR_FLOAT};

    for (int p = 0; p < x->samples; p++) {
        const cr_garg *a = &x->node[p]->arg[i];
        double d = a->tag == CR_NUMBER   ? a->number.d
                   : a->tag == CR_FLOATS ? a->floats[item]
                                         : a->d;
        if (p > 0 && memcmp(&d, &out.d, sizeof d))
            refuse_size(x, i);
        out.d = d;
    }
    return out;
}

/* The same for truth values and dtypes. */
static ox_arg word_argument(ox *x, int i, uint32_t item, cr_tag tag)
{
    ox_arg out = {.tag = tag};

    for (int p = 0; p < x->samples; p++) {
        const cr_garg *a = &x->node[p]->arg[i];
        int64_t word = a->tag == CR_NUMBER   ? a->number.i
                       : a->tag == CR_TRUTHS ? a->ints[item]
                                             : a->i;
        if (p > 0 && word != out.i)
            refuse_size(x, i);
        out.i = word;
    }
    return out;
}

static ox_arg string_argument(ox *x, int i)
{
    const cr_garg *a = &x->node[0]->arg[i];

    for (int p = 1; p < x->samples; p++) {
        const cr_garg *b = &x->node[p]->arg[i];
        if (b->len != a->len || memcmp(a->s, b->s, a->len))
            refuse_size(x, i);
    }
    return (ox_arg){.tag = CR_STRING,
                    .text = cr_session_printf(x->s, "%.*s", (int)a->len, a->s)};
}

static ox_arg number_argument(ox *x, int i)
{
    int64_t at[OX_SAMPLES];
    const cr_scalar *n = &x->node[0]->arg[i].number;

    switch (n->category) {
    case CR_CAT_BOOL: return word_argument(x, i, 0, CR_TRUTH);
    case CR_CAT_INT:
        for (int p = 0; p < x->samples; p++)
            at[p] = x->node[p]->arg[i].number.i;
        return ox_varying(x, at);
    case CR_CAT_FLOAT: return float_argument(x, i, 0);
    default: ox_refuse(x, "ONNX has no complex numbers");
    }
}

static ox_arg list_argument(ox *x, int i)
{
    const cr_garg *a = &x->node[0]->arg[i];
    ox_arg out = {.tag = CR_TENSORS, .len = a->len, .list = CR_NEW_N(x->s, ox_arg, a->len + 1)};

    for (uint32_t k = 0; k < a->len; k++)
        if (a->tag == CR_INTS)
            out.list[k] = int_argument(x, i, k, true);
        else if (a->tag == CR_FLOATS)
            out.list[k] = float_argument(x, i, k);
        else if (a->tag == CR_TRUTHS)
            out.list[k] = word_argument(x, i, k, CR_TRUTH);
        else if (a->tag == CR_TENSORS && a->list[k].tag == CR_TENSOR)
            out.list[k] = tensor_arg(x, a->list[k].value);
        else if (a->tag != CR_TENSORS)
            ox_refuse(x, "its argument '%s' has no form in ONNX",
                      x->node[0]->op->param[i].name);
    return out;
}

ox_arg ox_argument(ox *x, int i)
{
    const cr_garg *a = &x->node[0]->arg[i];

    switch (a->tag) {
    case CR_TENSOR: return tensor_arg(x, a->value);
    case CR_INT: return int_argument(x, i, 0, false);
    case CR_NUMBER: return number_argument(x, i);
    case CR_FLOAT: return float_argument(x, i, 0);
    case CR_TRUTH:
    case CR_DTYPE_VAL: return word_argument(x, i, 0, a->tag);
    case CR_STRING: return string_argument(x, i);
    case CR_INTS:
    case CR_FLOATS:
    case CR_TRUTHS:
    case CR_TENSORS: return list_argument(x, i);
    default: return (ox_arg){.tag = CR_NONE};
    }
}

/* --- known sizes --- */

static const ox_known *known_size(const ox *x, const int64_t *at)
{
    for (size_t i = 0; i < x->known.len; i++)
        if (!memcmp(x->known.at[i].at, at, (size_t)x->samples * sizeof *at))
            return &x->known.at[i];
    return NULL;
}

void ox_know(ox *x, const cr_gvalue *v)
{
    if (!v->type.known || !x->now[v->id].name)
        return;
    for (int d = 0; d < v->type.ndim; d++) {
        ox_arg size = ox_size(x, v, d);
        if (size.at && !known_size(x, size.at))
            CR_PUSH(x->s, &x->known, ((ox_known){size.at, x->now[v->id], d}));
    }
}

static ox_value known_value(ox *x, const ox_known *k)
{
    ox_attr at[2] = {{.name = "start", .kind = OX_INT, .i = k->dim},
                     {.name = "end", .kind = OX_INT, .i = k->dim + 1}};

    return ox_call(x->m, "Shape", &k->value, 1, at, 2, 0, CR_I64);
}

static ox_value with_int(ox *x, const char *op, ox_value v, int64_t n)
{
    return ox_op2(x->m, op, v, ox_ints(x->m, &n, 1));
}

/* --- expressions --- */

/* a * base + b for all samples. */
static bool is_linear(const ox *x, const int64_t *base, const int64_t *at, int64_t *a,
                      int64_t *b)
{
    int q = 1;

    while (q < x->samples && base[q] == base[0])
        q++;
    if (q == x->samples || (at[q] - at[0]) % (base[q] - base[0]))
        return false;
    *a = (at[q] - at[0]) / (base[q] - base[0]);
    *b = at[0] - *a * base[0];
    for (int p = 0; p < x->samples; p++)
        if (at[p] != *a * base[p] + *b)
            return false;
    return *a != 0;
}

/* base // a for all samples, with the largest divisor that the first sample allows. */
static bool is_quotient(const ox *x, const int64_t *base, const int64_t *at, int64_t *a)
{
    if (at[0] <= 0 || base[0] < at[0])
        return false;
    for (*a = base[0] / at[0]; *a > 1 && base[0] / *a == at[0]; --*a) {
        bool fits = true;
        for (int p = 0; p < x->samples; p++)
            fits = fits && at[p] == base[p] / *a;
        if (fits)
            return true;
    }
    return false;
}

static bool one_size(ox *x, const int64_t *base, ox_value v, const int64_t *at, ox_value *out)
{
    int64_t a, b;

    if (is_linear(x, base, at, &a, &b)) {
        *out = a == 1 ? v : with_int(x, "Mul", v, a);
        *out = b == 0 ? *out : with_int(x, "Add", *out, b);
        return true;
    }
    if (!is_quotient(x, base, at, &a))
        return false;
    *out = with_int(x, "Div", v, a);
    return true;
}

static bool two_sizes(ox *x, const ox_known *m, const ox_known *n, const int64_t *at,
                      ox_value *out)
{
    int64_t base[OX_SAMPLES], sum[OX_SAMPLES], a, b;
    bool product = true;

    for (int p = 0; p < x->samples; p++) {
        product = product && !CR_MUL_OVERFLOW(m->at[p], n->at[p], &base[p]);
        sum[p] = m->at[p] + n->at[p];
    }
    if (is_linear(x, sum, at, &a, &b) && a == 1)
        return one_size(x, sum, ox_op2(x->m, "Add", known_value(x, m), known_value(x, n)), at,
                        out);
    if (!product || !(is_linear(x, base, at, &a, &b) || is_quotient(x, base, at, &a)))
        return false;
    return one_size(x, base, ox_op2(x->m, "Mul", known_value(x, m), known_value(x, n)), at,
                    out);
}

ox_value ox_int_value(ox *x, const ox_arg *a)
{
    const ox_known *same = a->at ? known_size(x, a->at) : NULL;
    ox_value out;

    if (!a->at)
        return ox_ints(x->m, &a->i, 1);
    if (same)
        return known_value(x, same);
    if (x->samples < 3)
        ox_refuse(x, "a size that varies has too few other values to be computed");
    for (size_t i = 0; i < x->known.len; i++) {
        int64_t slope, offset;
        const ox_known *k = &x->known.at[i];
        if ((is_linear(x, k->at, a->at, &slope, &offset) ||
             is_quotient(x, k->at, a->at, &slope)) &&
            one_size(x, k->at, known_value(x, k), a->at, &out))
            return out;
    }
    for (size_t i = 0; i < x->known.len; i++)
        for (size_t k = i; k < x->known.len; k++)
            if (two_sizes(x, &x->known.at[i], &x->known.at[k], a->at, &out))
                return out;
    ox_refuse(x, "no expression over sizes gives one of its numbers, which varies");
}

ox_value ox_list_value(ox *x, const ox_arg *list, size_t n)
{
    int64_t *whole = CR_NEW_N(x->s, int64_t, n + 1);
    ox_value *part = CR_NEW_N(x->s, ox_value, n + 1);
    ox_attr axis = {.name = "axis", .kind = OX_INT};
    bool fixed = true;

    for (size_t i = 0; i < n; i++) {
        fixed = fixed && !list[i].at;
        whole[i] = list[i].i;
    }
    if (fixed)
        return ox_ints(x->m, whole, n);
    for (size_t i = 0; i < n; i++)
        part[i] = ox_int_value(x, &list[i]);
    return n == 1 ? part[0] : ox_call(x->m, "Concat", part, (int)n, &axis, 1, 0, CR_I64);
}
