/* Type rules: promotion over call arguments, compute and result types, checks.
 *
 * Most entries promote their tensor arguments, or promote them and convert integers to the
 * default dtype.  These two rules are recognized and not evaluated. */
#include "tensor/internal.h"
#include "tensor/sparse.h"
#include <float.h>
#include <math.h>

cr_dtype cr_number_dtype(cr_category category)
{
    switch (category) {
    case CR_CAT_BOOL: return CR_BOOL;
    case CR_CAT_INT: return CR_I64;
    case CR_CAT_FLOAT: return cr_default_dtype();
    default: return cr_dtype_complex(cr_default_dtype());
    }
}

cr_dtype cr_value_dtype(const cr_value *v)
{
    switch (v->tag) {
    case CR_TENSOR: return (cr_dtype)v->t->dtype;
    case CR_VIEW: return (cr_dtype)v->view->dtype;
    case CR_DTYPE_VAL: return (cr_dtype)v->i;
    case CR_NUMBER: return cr_number_dtype(v->number.category);
    case CR_INT: return CR_I64;
    case CR_TRUTH: return CR_BOOL;
    case CR_FLOAT: return cr_default_dtype();
    default: return CR_DTYPE_NONE;
    }
}

/* Promotion in progress. */
typedef struct {
    cr_dtype kinds[3];   /* of the operands of each strength; CR_DTYPE_NONE without one */
    cr_dtype refused[2]; /* the first pair that cr_promote or cr_dtype_complex refused */
} promotion;

static cr_dtype promote_or_either(promotion *p, cr_dtype a, cr_dtype b)
{
    if (a == CR_DTYPE_NONE || b == CR_DTYPE_NONE)
        return a == CR_DTYPE_NONE ? b : a;
    cr_dtype t = cr_promote(a, b);
    if (t == CR_DTYPE_NONE && p->refused[0] == CR_DTYPE_NONE)
        p->refused[0] = a, p->refused[1] = b;
    return t;
}

/* Adds a weaker operand (a 0-d tensor or a number): it changes the dtype only when its category
 * is higher. */
static cr_dtype combine_kinds(promotion *p, cr_dtype strong, cr_dtype weak)
{
    if (strong == CR_DTYPE_NONE || weak == CR_DTYPE_NONE)
        return strong == CR_DTYPE_NONE ? weak : strong;
    if (cr_dtype_category(weak) <= cr_dtype_category(strong))
        return strong;
    if (!cr_dtype_is_complex(weak) || !cr_dtype_is_float(strong))
        return promote_or_either(p, strong, weak);
    cr_dtype t = cr_dtype_complex(strong);
    if (t == CR_DTYPE_NONE)
        p->refused[0] = strong;
    return t;
}

/* The class of an operand in promotion: with dims, 0-d, or a number. */
static int strength(const cr_value *v)
{
    if (v->tag == CR_TENSOR)
        return v->t->number ? 2 : v->t->ndim == 0;
    if (v->tag == CR_VIEW)
        return v->view->number ? 2 : v->view->ndim == 0;
    return v->tag == CR_DTYPE_VAL ? 0 : 2;
}

static void gather_kinds(promotion *p, const cr_value *v)
{
    if (v->tag == CR_TENSORS) {
        for (uint32_t i = 0; i < v->len; i++)
            gather_kinds(p, &v->list[i]);
        return;
    }
    cr_dtype t = cr_value_dtype(v);
    if (t != CR_DTYPE_NONE) {
        int k = strength(v);
        p->kinds[k] = promote_or_either(p, p->kinds[k], t);
    }
}

static cr_dtype promote_all(promotion *p, const cr_value *v, int n)
{
    *p = (promotion){{CR_DTYPE_NONE, CR_DTYPE_NONE, CR_DTYPE_NONE},
                     {CR_DTYPE_NONE, CR_DTYPE_NONE}};
    for (int i = 0; i < n; i++)
        gather_kinds(p, &v[i]);
    cr_dtype t = combine_kinds(p, p->kinds[1], p->kinds[2]);
    t = combine_kinds(p, p->kinds[0], t);
    return p->refused[0] == CR_DTYPE_NONE ? t : CR_DTYPE_NONE;
}

cr_status cr_promote_values(cr_dtype *out, const cr_value *v, int n)
{
    promotion p;
    cr_dtype t = promote_all(&p, v, n);

    if (CR_LIKELY(p.refused[0] == CR_DTYPE_NONE)) {
        *out = t;
        return CR_OK;
    }
    if (p.refused[1] == CR_DTYPE_NONE)
        return cr_fail(CR_RUNTIME, "Unknown Complex ScalarType for %s",
                       cr_dtype_infos[p.refused[0]].legacy);
    return cr_refuse_promotion(p.refused[0], p.refused[1]);
}

/* --- rules --- */

enum { TYPE_RULE, TYPE_SELF, TYPE_PROMOTE, TYPE_FLOAT };

/* `promote(...)` over exactly the leading tensor parameters, or one of them. */
static bool is_promotion(const cr_op *op, const cr_rule *r, int *first)
{
    if (r->kind == CR_RULE_NAME && r->slot == 0 && op->param[0].type == CR_T_TENSOR) {
        *first = 1;
        return true;
    }
    if (r->kind != CR_RULE_CALL || r->builtin != CR_BUILTIN_promote)
        return false;
    for (int i = 0; i < r->count; i++)
        if (r->args[i]->kind != CR_RULE_NAME || r->args[i]->slot != i)
            return false;
    *first = r->count;
    return true;
}

void cr_classify_type(cr_op *op)
{
    const cr_rule *r = op->type;
    int n = 0;

    op->typing.kind = TYPE_RULE;
    if (!r && op->param_count && op->param[0].type == CR_T_TENSOR) {
        op->typing.kind = TYPE_SELF;
        op->typing.args = 1;
    } else if (r && r->kind == CR_RULE_CALL && r->builtin == CR_BUILTIN_type_of &&
               is_promotion(op, r->args[0], &n)) {
        op->typing.kind = TYPE_SELF;
    } else if (r && is_promotion(op, r, &n)) {
        op->typing.kind = TYPE_PROMOTE;
    } else if (r && r->kind == CR_RULE_CALL && r->builtin == CR_BUILTIN_float &&
               is_promotion(op, r->args[0], &n)) {
        op->typing.kind = TYPE_FLOAT;
    }
    if (n)
        op->typing.args = (uint8_t)n;
}

/* The dtype when all of them are tensors of one dtype, which need no promotion. */
static cr_status promote_leading(cr_dtype *out, const cr_value *arg, int n)
{
    bool one = arg[0].tag == CR_TENSOR && n == 1 && !arg[0].t->number;
    bool equal = n == 2 && arg[0].tag == CR_TENSOR && arg[1].tag == CR_TENSOR &&
                 arg[0].t->dtype == arg[1].t->dtype && !arg[0].t->number && !arg[1].t->number;

    if (!one && !equal)
        return cr_promote_values(out, arg, n);
    *out = (cr_dtype)arg[0].t->dtype;
    return CR_OK;
}

static cr_status eval_type(cr_dtype *out, const cr_op *op, const cr_rule *rule, cr_frame *f)
{
    cr_value v;

    CR_TRY(cr_frame_eval(f, rule, &v));
    *out = cr_value_dtype(&v);
    if (*out == CR_DTYPE_NONE)
        return cr_fail(CR_RUNTIME, "%s(): the result type cannot be inferred", op->name);
    return CR_OK;
}

/* Without clause `refuses`, the message has the entry's name without a leading underscore, like
 * the entry that it is a part of. */
static cr_status refuse_dtype(const cr_op *op, cr_dtype t)
{
    return cr_fail(CR_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'",
                   op->refuses ? op->refuses : op->name + (*op->name == '_'),
                   cr_dtype_infos[t].legacy);
}

cr_status cr_compute_type(cr_dtype *out, const cr_op *op, const cr_value *arg, cr_frame *f)
{
    cr_dtype t = CR_DTYPE_NONE;

    switch (op->typing.kind) {
    case TYPE_SELF:
    case TYPE_PROMOTE: CR_TRY(promote_leading(&t, arg, op->typing.args)); break;
    case TYPE_FLOAT:
        CR_TRY(promote_leading(&t, arg, op->typing.args));
        if (t != CR_DTYPE_NONE && cr_dtype_category(t) < CR_CAT_FLOAT)
            t = cr_default_dtype();
        break;
    default:
        if (!op->type)
            return cr_fail(CR_RUNTIME, "%s has no type rule", op->name);
        CR_TRY(eval_type(&t, op, op->type, f));
    }
    if (CR_UNLIKELY(t == CR_DTYPE_NONE))
        return cr_fail(CR_RUNTIME, "%s(): the result type cannot be inferred", op->name);
    if (CR_UNLIKELY(!(op->dtypes >> t & 1)))
        return refuse_dtype(op, t);
    *out = t;
    return CR_OK;
}

cr_status cr_result_type(cr_dtype *out, const cr_op *op, int k, cr_dtype compute, cr_frame *f)
{
    *out = compute;
    return op->returns[k] ? eval_type(out, op, op->returns[k], f) : CR_OK;
}

cr_status cr_find_kernel(cr_kernel *out, const cr_op *op, cr_dtype dtype, cr_form form)
{
    *out = op->kernel[cr_dtype_compute(dtype)][form];
    return *out ? CR_OK : refuse_dtype(op, dtype);
}

/* --- the last decision --- */

/* Most calls have the types of the entry's last call.  If its checks and types depend on types
 * alone, one word of the record stores the last types and the decision. */

enum { KEY_BITS = 7, KEY_TENSORS = 4, TYPE_BITS = 5, KEY_WIDTH = 34, STEADY_RESULTS = 4 };
_Static_assert(CR_DTYPE_COUNT < 1 << TYPE_BITS &&
                   KEY_BITS * KEY_TENSORS + TYPE_BITS < KEY_WIDTH &&
                   KEY_WIDTH + TYPE_BITS * (1 + STEADY_RESULTS) <= 64,
               "a decision fits a word");

/* True when the rule's value depends on types alone.  Adds the other arguments that it names to
 * `others`.  `typed`: only the type of the rule's value is used. */
static bool is_steady(const cr_op *op, const cr_rule *r, bool typed, uint32_t *others)
{
    if (!r)
        return true;
    if (r->kind == CR_RULE_NAME) {
        if (r->slot < 0)
            return true; /* a dtype's name */
        if (r->slot >= op->param_count)
            return false;
        if (op->tensor_params >> r->slot & 1)
            return typed;
        *others |= 1u << r->slot;
        return op->param[r->slot].has_default;
    }
    if (r->kind == CR_RULE_EACH || r->kind == CR_RULE_INDEX || r->kind == CR_RULE_LIST ||
        (r->kind == CR_RULE_CALL && (r->op || r->builtin < 0)))
        return false;
    typed = r->kind == CR_RULE_CALL && cr_builtin_reads_only(r->builtin, CR_READS_TYPE);
    for (int i = 0; i < r->count; i++)
        if (!is_steady(op, r->args[i], typed, others))
            return false;
    return true;
}

void cr_classify_steady(cr_op *op)
{
    int tensors = 0;

    op->typing.steady_params = 0;
    op->typing.steady = is_steady(op, op->type, true, &op->typing.steady_params) &&
                        op->result_count <= STEADY_RESULTS;
    for (int i = 0; op->typing.steady && i < op->check_count; i++)
        op->typing.steady = is_steady(op, op->checks[i].when, false, &op->typing.steady_params);
    for (int k = 0; op->typing.steady && k < op->result_count; k++)
        op->typing.steady = is_steady(op, op->returns[k], true, &op->typing.steady_params);
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1, tensors++)
        op->typing.steady = op->typing.steady && op->param[CR_CTZ(mask)].type == CR_T_TENSOR;
    op->typing.steady = op->typing.steady && tensors && tensors <= KEY_TENSORS;
}

/* `typed`: the rule is an argument of a function that asks for no size.  Arithmetic is of
 * numbers, because a tensor is not accepted as its argument. */
static bool ignores_sizes(const cr_op *op, const cr_rule *r, bool typed, uint32_t varying)
{
    if (r->kind == CR_RULE_NAME && r->slot >= 0) {
        if (r->slot >= op->param_count)
            return false;
        return op->tensor_params >> r->slot & 1 ? typed : !(varying >> r->slot & 1);
    }
    bool calls = r->kind == CR_RULE_CALL && r->builtin < CR_BUILTIN_add;
    if (r->kind == CR_RULE_EACH || r->kind == CR_RULE_INDEX ||
        (calls && (r->op || r->builtin < 0)))
        return false;
    typed = r->kind == CR_RULE_CALL && cr_builtin_reads_only(r->builtin, CR_READS_NDIM);
    for (int i = 0; i < r->count; i++)
        if (!ignores_sizes(op, r->args[i], typed, varying))
            return false;
    return true;
}

bool cr_checks_ignore_sizes(const cr_op *op, uint32_t varying)
{
    for (int i = 0; i < op->check_count; i++)
        if (!ignores_sizes(op, op->checks[i].when, false, varying))
            return false;
    return true;
}

/* Same tag and bits; numbers by their category, too. */
static inline bool equals_preset(const cr_value *v, const cr_value *preset)
{
    if (v->tag != preset->tag)
        return false;
    switch (v->tag) {
    case CR_NONE: return true;
    case CR_NUMBER:
        return v->number.category == preset->number.category &&
               v->number.i == preset->number.i && v->number.category != CR_CAT_COMPLEX;
    case CR_INT:
    case CR_TRUTH:
    case CR_FLOAT:
    case CR_DTYPE_VAL: return v->i == preset->i;
    default: return false;
    }
}

/* The types of a call as a key; 0 when its decision cannot be stored. */
static inline uint64_t types_key(const cr_op *op, const cr_value *arg)
{
    uint64_t key = 1 << TYPE_BITS | (uint64_t)cr_default_dtype();

    for (uint32_t mask = op->typing.steady_params; mask; mask &= mask - 1)
        if (!equals_preset(&arg[CR_CTZ(mask)], &op->param[CR_CTZ(mask)].preset))
            return 0;
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        const cr_value *v = &arg[CR_CTZ(mask)];
        uint64_t one;
        if (CR_LIKELY(v->tag == CR_TENSOR))
            one = (uint64_t)v->t->dtype << 2 | (v->t->number ? 2u : v->t->ndim == 0);
        else if (v->tag == CR_NUMBER)
            one = (uint64_t)v->number.category << 2 | 3;
        else
            return 0;
        key = key << KEY_BITS | one;
    }
    return key;
}

static inline cr_dtype field(uint64_t word, int k)
{
    return (cr_dtype)(word >> (KEY_WIDTH + TYPE_BITS * k) & ((1 << TYPE_BITS) - 1));
}

static cr_status evaluate_types(const cr_op *op, const cr_value *arg, cr_dtype *compute,
                                cr_dtype *dtypes)
{
    cr_frame f;
    cr_status st = CR_OK;

    cr_frame_init(&f, op, arg);
    if (op->check_count)
        st = cr_run_checks(op, &f);
    if (!st)
        st = cr_compute_type(compute, op, arg, &f);
    for (int k = 0; !st && k < op->result_count; k++)
        st = cr_result_type(&dtypes[k], op, k, *compute, &f);
    cr_frame_drop(&f);
    return st;
}

cr_status cr_check_fits(cr_scalar value, cr_dtype dtype)
{
    if (CR_LIKELY(cr_scalar_fits(value, dtype)))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "value cannot be converted to type %s without overflow",
                   cr_dtype_scalar_name(dtype));
}

/* torch's alpha_check. */
static cr_status check_factor(const char *name, cr_scalar s, cr_dtype compute, bool as_real)
{
    cr_category most = cr_dtype_category(compute);

    if (s.category == CR_CAT_BOOL && compute != CR_BOOL)
        return cr_fail(CR_RUNTIME, "Boolean %s only supported for Boolean results.", name);
    if (s.category <= CR_CAT_INT || s.category <= most)
        return CR_OK;
    if (most < CR_CAT_FLOAT)
        return cr_fail(
            CR_RUNTIME,
            "For integral input tensors, argument %s must not be a floating point number.",
            name);
    if (as_real) /* check_number refuses an imaginary part */
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "For non-complex input tensors, argument %s must not be a complex number.",
                   name);
}

static cr_scalar negative(cr_scalar s)
{
    s.large = false;
    s.i = (int64_t)(0 - (uint64_t)s.i);
    return s;
}

/* Whether the compute type holds the number. */
static cr_status check_holds(const cr_op *op, int i, cr_scalar s, cr_dtype compute)
{
    bool wide = op->rounds ? !(op->rounds >> i & 1) : op->fits == CR_FITS_WIDE;

    if (op->fits == CR_FITS_NEGATED && s.category == CR_CAT_INT)
        s = negative(s);
    return cr_check_fits(s, wide && cr_dtype_is_float(compute) ? cr_dtype_compute(compute)
                                                               : compute);
}

static CR_NOINLINE cr_status check_number(const cr_op *op, int i, cr_scalar s, cr_dtype compute)
{
    if (op->factors >> i & 1)
        CR_TRY(check_factor(op->param[i].name, s, compute, op->factors_real));
    return check_holds(op, i, s, compute);
}

/* True for most numbers of most calls: small integers, and floats where float32 or a wider
 * dtype computes. */
static inline bool fits_surely(const cr_scalar *s, cr_dtype compute)
{
    const uint32_t wide = 1u << CR_F32 | 1u << CR_F64 | 1u << CR_C64 | 1u << CR_C128;

    if (s->category == CR_CAT_INT)
        return (uint64_t)s->i <= INT8_MAX;
    return s->category == CR_CAT_FLOAT && (wide >> compute & 1) &&
           fabs(s->d) <= (double)FLT_MAX;
}

cr_status cr_check_numbers(const cr_op *op, const cr_value *arg, cr_dtype compute)
{
    for (uint32_t mask = op->scalar_params; mask; mask &= mask - 1) {
        int i = CR_CTZ(mask);
        if (arg[i].tag == CR_NUMBER && CR_UNLIKELY(!fits_surely(&arg[i].number, compute)))
            CR_TRY(check_number(op, i, arg[i].number, compute));
    }
    return CR_OK;
}

static cr_status decide_types(const cr_op *op, const cr_value *arg, cr_dtype *compute,
                              cr_dtype *dtypes)
{
    _Atomic uint64_t *decided = &((cr_op *)(uintptr_t)op)->typing.decided;
    uint64_t key = op->typing.steady ? types_key(op, arg) : 0, word;

    if (CR_LIKELY(key != 0)) {
        word = atomic_load_explicit(decided, memory_order_relaxed);
        if (CR_LIKELY((word & (((uint64_t)1 << KEY_WIDTH) - 1)) == key)) {
            *compute = field(word, 0);
            for (int k = 0; k < op->result_count; k++)
                dtypes[k] = field(word, k + 1);
            return CR_OK;
        }
    }
    CR_TRY(evaluate_types(op, arg, compute, dtypes));
    if (key) {
        word = key | (uint64_t)*compute << KEY_WIDTH;
        for (int k = 0; k < op->result_count; k++)
            word |= (uint64_t)dtypes[k] << (KEY_WIDTH + TYPE_BITS * (k + 1));
        atomic_store_explicit(decided, word, memory_order_relaxed);
    }
    return CR_OK;
}

cr_status cr_decide_types(const cr_op *op, const cr_value *arg, cr_dtype *compute,
                          cr_dtype *dtypes)
{
    CR_TRY(decide_types(op, arg, compute, dtypes));
    return cr_check_numbers(op, arg, *compute);
}

/* --- checks --- */

static void print_value(cr_text *out, const cr_value *v)
{
    switch (v->tag) {
    case CR_INT:
    case CR_TRUTH: cr_text_printf(out, "%lld", (long long)v->i); break;
    case CR_FLOAT: cr_text_printf(out, "%g", v->d); break;
    case CR_NUMBER: cr_text_printf(out, "%g", cr_scalar_as_double(v->number)); break;
    case CR_DTYPE_VAL: cr_text_put(out, cr_dtype_name((cr_dtype)v->i)); break;
    case CR_LAYOUT_VAL: cr_text_put(out, cr_layout_text((int)v->i)); break;
    case CR_STRING: cr_text_put_n(out, v->s, v->len); break;
    case CR_INTS: cr_print_sizes(out, (int)v->len, v->ints); break;
    case CR_NONE: cr_text_put(out, "None"); break;
    case CR_DEVICE_VAL:
        cr_text_put(out, cr_device_print((cr_device){.kind = (uint8_t)cr_packed_kind(v->i),
                                                     .index = (uint8_t)cr_packed_index(v->i)})
                             .text);
        break;
    default: cr_text_put(out, "?");
    }
}

static cr_status print_check(cr_text *out, const cr_check *c, cr_frame *f)
{
    int k = 0;

    for (const char *p = c->message; *p; p++) {
        if (p[0] == '{' && p[1] == '}' && k < c->count) {
            cr_value v;
            CR_TRY(cr_frame_eval(f, c->args[k++], &v));
            print_value(out, &v);
            p++;
        } else {
            cr_text_char(out, *p);
        }
    }
    return CR_OK;
}

cr_status cr_raise_check(const cr_check *c, cr_frame *f)
{
    cr_text text = {0};
    cr_status st = print_check(&text, c, f);

    if (!st)
        st = cr_fail((cr_status)c->kind, "%s", cr_text_str(&text));
    cr_text_drop(&text);
    return st;
}

cr_status cr_op_print_warning(cr_text *out, const cr_op *op, int i, const cr_value *arg)
{
    const cr_check *c = &op->warnings[i].say;
    cr_value v;
    cr_frame f;
    cr_status st;

    cr_frame_init(&f, op, arg);
    st = cr_frame_eval(&f, c->when, &v);
    if (!st && v.i)
        st = print_check(out, c, &f);
    cr_frame_drop(&f);
    return st;
}

cr_status cr_run_checks(const cr_op *op, cr_frame *f)
{
    if (op->passes && CR_LIKELY(op->passes(f->arg)))
        return CR_OK;
    for (int i = 0; i < op->check_count; i++) {
        cr_value v;
        CR_TRY(cr_frame_eval(f, op->checks[i].when, &v));
        if (CR_UNLIKELY(v.i))
            return cr_raise_check(&op->checks[i], f);
    }
    return CR_OK;
}
