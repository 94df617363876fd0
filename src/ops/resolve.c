/* Resolves names to slots and functions.
 *
 * Slots of an evaluation: parameters, results, cotangents (one for each result), lets, then the
 * loop variables of comprehensions. */
#include "ops/lex.h"
#include "ops/ops.h"
#include <string.h>

/* Names that have a value in every rule. */
static const char *const constants[] = {
    "inf",
    "nan",
    "pi",
    "ln2",
};

typedef struct {
    cr_op *op;
    int lets;         /* how many lets are visible */
    bool scalar_code; /* body and fold: calls are loop functions */
    bool loops_code;  /* clauses of loops: axes have names */
    bool onnx_code;   /* clause `onnx`: calls may be ONNX's operators */
    const char *loop_name[8];
    int loop_slot[8], loops;
} scope;

/* Compares the first letters itself: most names differ there, and start-up compares tens of
 * thousands. */
static bool same_text(const char *a, const char *b) { return *a == *b && !strcmp(a, b); }

static const struct {
    const char *name;
    uint8_t least, most, reads;
} builtins[CR_BUILTIN_COUNT] = {
#define CR_BUILTIN(name, least, most, reads) {#name, least, most, CR_READS_##reads},
#include "ops/builtin.def"
#undef CR_BUILTIN
};

static int builtin_number(const char *name)
{
    for (int i = 0; i < CR_BUILTIN_COUNT; i++)
        if (same_text(builtins[i].name, name))
            return i;
    return -1;
}

bool cr_builtin_reads_only(int builtin, cr_rule_reads most)
{
    return builtin >= 0 && builtins[builtin].reads <= most;
}

static int cotangent_slot(const cr_op *op, const char *name)
{
    if (!strcmp(name, "g"))
        return op->slots.grad;
    for (int i = 0; i < op->result_count; i++)
        if (name[0] == 'g' && name[1] == '_' && !strcmp(name + 2, op->result[i].name))
            return op->slots.grad + i;
    return -1;
}

static int name_slot(const scope *s, const char *name)
{
    const cr_op *op = s->op;

    for (int i = s->loops - 1; i >= 0; i--)
        if (same_text(s->loop_name[i], name))
            return s->loop_slot[i];
    for (int i = s->lets - 1; i >= 0; i--)
        if (same_text(op->lets[i].name, name))
            return op->lets[i].slot;
    int param = cr_op_find_param(op, name);
    if (param >= 0)
        return param;
    for (int i = 0; i < op->loop.axis_count && s->loops_code; i++)
        if (same_text(op->loop.axis[i].name, name))
            return op->loop.axis[i].slot;
    for (int i = 0; i < op->result_count; i++)
        if (same_text(*op->result[i].name ? op->result[i].name : "result", name))
            return op->slots.result + i;
    return cotangent_slot(op, name);
}

static cr_status scope_fail(const scope *s, const cr_rule *r, const char *what)
{
    return cr_fail(CR_VALUE, "%s:%d: in %s: %s '%s'", s->op->text.file, rule_line(r),
                   s->op->name, what, r->name);
}

static const char *const layouts[] = {
#define CR_LAYOUT_(NAME, name, text, backend) name,
#include "ops/layouts.def"
#undef CR_LAYOUT_
};

static int64_t named_constant(const char *name)
{
    for (int i = 0; i < (int)CR_LEN(layouts); i++)
        if (same_text(layouts[i], name))
            return CR_RULE_LAYOUT - i;
    for (int i = 0; i < CR_FORMAT_COUNT; i++)
        if (same_text(cr_format_names[i], name))
            return CR_RULE_FORMAT - i;
    return 0;
}

static cr_status resolve_name(scope *s, cr_rule *r)
{
    r->slot = name_slot(s, r->name);
    if (r->slot >= 0)
        return CR_OK;
    if (cr_dtype_find(r->name) != CR_DTYPE_NONE)
        r->integer = 1 + (int64_t)cr_dtype_find(r->name);
    for (size_t i = 0; i < CR_LEN(constants) && !r->integer; i++)
        if (same_text(constants[i], r->name))
            return CR_OK;
    r->integer = r->integer ? r->integer : named_constant(r->name);
    return r->integer ? CR_OK : scope_fail(s, r, "no value is called");
}

/* Calls of in-place forms, whose records are made after all entries are resolved. */
enum { MOST_INPLACE_CALLS = 64 };
static cr_rule *inplace_calls[MOST_INPLACE_CALLS];
static int inplace_count;

/* True for a call of the in-place form of an entry. */
static bool note_inplace_call(cr_rule *r)
{
    size_t n = strlen(r->name);
    char base[128];

    if (n < 2 || n > sizeof base || r->name[n - 1] != '_')
        return false;
    memcpy(base, r->name, n - 1);
    base[n - 1] = 0;
    const cr_op *op = cr_ops_find(base);
    if (!op || !(op->forms & CR_AS_INPLACE) || inplace_count == MOST_INPLACE_CALLS)
        return false;
    inplace_calls[inplace_count++] = r;
    return true;
}

static cr_status resolve_rule(scope *s, cr_rule *r);

static cr_status check_arg_count(const scope *s, const cr_rule *r)
{
    if (r->count < builtins[r->builtin].least || r->count > builtins[r->builtin].most)
        return scope_fail(s, r, "wrong number of arguments for");
    return CR_OK;
}

/* Keywords are the names of the first overload's parameters, the same pointers: a call then
 * compares no text. */
static void resolve_keywords(cr_rule *r)
{
    for (int i = 0; i < r->count; i++)
        for (int p = 0; r->keyword[i] && p < r->op->param_count; p++)
            if (!strcmp(r->op->param[p].name, r->keyword[i]))
                r->keyword[i] = r->op->param[p].name;
}

static cr_status resolve_call(scope *s, cr_rule *r)
{
    for (int i = 0; i < r->count; i++)
        CR_TRY(resolve_rule(s, r->args[i]));
    r->builtin = builtin_number(r->name);
    r->op = cr_ops_find(!strcmp(r->name, "floordiv") ? "floor_divide" : r->name);
    if (r->op)
        resolve_keywords(r);
    /* loop/ resolves scalar code by name; lets of scalar code also serve derivatives */
    if (s->onnx_code && *r->name >= 'A' && *r->name <= 'Z')
        return CR_OK;
    if (!s->scalar_code && r->builtin < 0 && !r->op && !note_inplace_call(r))
        return scope_fail(s, r, "no operator or function is called");
    return r->builtin < 0 || s->scalar_code ? CR_OK : check_arg_count(s, r);
}

static cr_status resolve_each(scope *s, cr_rule *r)
{
    CR_TRY(resolve_rule(s, r->args[0]));
    if (s->loops == (int)CR_LEN(s->loop_name) || s->op->slots.count == CR_MAX_SLOTS)
        return scope_fail(s, r, "too many names, at");
    r->slot = s->op->slots.count++;
    s->loop_name[s->loops] = r->name;
    s->loop_slot[s->loops++] = r->slot;
    cr_status st = resolve_rule(s, r->args[1]);
    if (!st && r->count > 2)
        st = resolve_rule(s, r->args[2]);
    s->loops--;
    return st;
}

static cr_status resolve_rule(scope *s, cr_rule *r)
{
    if (r->kind == CR_RULE_INDEX && r->count > 2 && !s->loops_code)
        return cr_fail(CR_VALUE, "%s:%d: in %s: several indices outside of a loop",
                       s->op->text.file, rule_line(r), s->op->name);
    switch (r->kind) {
    case CR_RULE_NAME: return resolve_name(s, r);
    case CR_RULE_CALL: return resolve_call(s, r);
    case CR_RULE_EACH: return resolve_each(s, r);
    default:
        for (int i = 0; i < r->count; i++)
            CR_TRY(resolve_rule(s, r->args[i]));
        return CR_OK;
    }
}

static cr_status resolve_some(scope *s, cr_rule **rules, int n)
{
    for (int i = 0; i < n; i++)
        if (rules[i])
            CR_TRY(resolve_rule(s, rules[i]));
    return CR_OK;
}

static bool names_slot(const cr_rule *r, int slot)
{
    if (r->kind == CR_RULE_NAME && r->slot == slot)
        return true;
    for (int i = 0; i < r->count; i++)
        if (names_slot(r->args[i], slot))
            return true;
    return false;
}

static void find_masks(cr_op *op)
{
    uint32_t typed = 0;

    for (int i = 0; op->type && i < op->param_count; i++)
        if (op->param[i].type == CR_T_TENSOR && names_slot(op->type, i))
            typed |= 1u << i;
    op->mask_params = typed ? op->tensor_params & ~typed : 0;
}

static void lay_slots(cr_op *op)
{
    op->slots.result = op->param_count;
    op->slots.grad = op->slots.result + op->result_count;
    op->slots.let = op->slots.grad + op->result_count;
    op->slots.count = op->slots.let + op->let_count + op->loop.axis_count;
    for (int i = 0; i < op->let_count; i++)
        op->lets[i].slot = op->slots.let + i;
    for (int i = 0; i < op->loop.axis_count; i++)
        op->loop.axis[i].slot = op->slots.let + op->let_count + i;
}

/* The entry that a clause names, which must have `more` parameters more than this one; NULL
 * without the clause. */
static cr_status find_partner(const cr_op *op, const char *name, int more, const cr_op **out)
{
    if (!name)
        return CR_OK;
    *out = cr_ops_find(name);
    if (!*out)
        return cr_fail(CR_VALUE, "%s:%d: %s: no operator is called '%s'", op->text.file,
                       op->text.line, op->name, name);
    if ((*out)->param_count != op->param_count + more)
        return cr_fail(CR_VALUE, "%s:%d: the parameters of %s and %s do not go together",
                       op->text.file, op->text.line, op->name, name);
    return CR_OK;
}

static bool is_param(const cr_op *op, const cr_rule *r)
{
    return r->kind == CR_RULE_NAME && r->slot >= 0 && r->slot < op->param_count;
}

static cr_status check_functional(const cr_op *op)
{
    const cr_rule *r = op->functional;
    bool good = !r || r->kind == CR_RULE_CALL || is_param(op, r);

    if (r && r->kind == CR_RULE_CALL && !r->op)
        return cr_fail(CR_VALUE, "%s:%d: %s: no operator is called '%s'", op->text.file,
                       op->text.line, op->name, r->name);
    for (int i = 0; r && i < r->count; i++)
        good = good && is_param(op, r->args[i]);
    return good ? CR_OK
                : cr_fail(CR_VALUE, "%s:%d: %s: `functional` is about parameters",
                          op->text.file, op->text.line, op->name);
}

/* True if the indices of an element are all axes of the result, in order. */
static bool is_at_axes(const cr_op *op, const cr_rule *element)
{
    int names = op->loop.axis_count - (op->loop.window != NULL);
    bool good = element->count == names + 1;

    for (int i = 0; good && i < names; i++)
        good = element->args[i + 1]->slot == op->loop.axis[i].slot;
    return good;
}

/* The target is an element of the first result: without a start, the one at all axes. */
static cr_status check_target(const cr_op *op)
{
    const cr_rule *t = op->loop.target;
    bool good = !t || t->args[0]->slot == op->slots.result;

    if (t && !op->loop.start)
        good = good && is_at_axes(op, t);
    if (op->loop.window && op->loop.window->index)
        good = good && op->loop.window->index->kind == CR_RULE_INDEX &&
               op->loop.window->index->args[0]->slot == op->slots.result + 1 &&
               is_at_axes(op, op->loop.window->index);
    return good ? CR_OK
                : cr_fail(CR_VALUE,
                          "%s:%d: %s: a loop without a start defines the element at its axes, "
                          "in order",
                          op->text.file, op->text.line, op->name);
}

/* A list is indexed by a single axis, and each pack before it has a number of axes. */
static cr_status check_list(const cr_op *op)
{
    const cr_rule *r = op->loop.value;
    int axis, i = 0;

    if (!r || r->kind != CR_RULE_INDEX || r->args[0]->kind != CR_RULE_INDEX)
        return CR_OK;
    axis = op->loop.axis_count ? r->args[0]->args[1]->slot - op->loop.axis[0].slot : -1;
    while (i < axis && i < op->loop.axis_count &&
           (!op->loop.axis[i].pack || op->loop.axis[i].count))
        i++;
    return i == axis && i < op->loop.axis_count && !op->loop.axis[i].pack && !op->loop.start
               ? CR_OK
               : cr_fail(CR_VALUE,
                         "%s:%d: %s: a list is read at a single axis, after packs of a stated "
                         "number of axes",
                         op->text.file, op->text.line, op->name);
}

/* Lets of an entry with loops may name axes, which then have values in loops only. */
static cr_status resolve_loop(scope *s, cr_op *op)
{
    s->loops_code = true;
    CR_TRY(resolve_some(s, &op->loop.start, 1));
    CR_TRY(resolve_some(s, &op->loop.target, 1));
    CR_TRY(resolve_some(s, &op->loop.value, 1));
    CR_TRY(resolve_some(s, &op->loop.combine, 1));
    CR_TRY(resolve_some(s, &op->loop.fresh, 1));
    if (op->loop.window) {
        CR_TRY(resolve_some(s, &op->loop.window->inside, 1));
        CR_TRY(resolve_some(s, &op->loop.window->divisor, 1));
        CR_TRY(resolve_some(s, &op->loop.window->index, 1));
    }
    CR_TRY(check_target(op));
    CR_TRY(check_list(op));
    s->loops_code = false;
    for (int i = 0; i < op->loop.axis_count; i++)
        CR_TRY(resolve_some(s, &op->loop.axis[i].count, 1));
    for (int i = 0; i < op->loop.index_count; i++) {
        CR_TRY(resolve_some(s, &op->loop.index[i].low, 1));
        CR_TRY(resolve_some(s, &op->loop.index[i].high, 1));
        CR_TRY(resolve_some(s, op->loop.index[i].error.args, op->loop.index[i].error.count));
    }
    return CR_OK;
}

/* The texts of kernels have no way to tell a parameter `nan` from the number. */
static cr_status check_names(const cr_op *op)
{
    for (int p = 0; p < op->param_count; p++)
        for (size_t i = 0; i < CR_LEN(constants); i++)
            if (same_text(constants[i], op->param[p].name))
                return cr_fail(CR_VALUE,
                               "%s:%d: in %s: a parameter has the name of a number '%s'",
                               op->text.file, op->text.line, op->name, constants[i]);
    return CR_OK;
}

cr_status ops_resolve_one(cr_op *op)
{
    scope s = {.op = op, .scalar_code = op->does == CR_DOES_BODY || op->does == CR_DOES_FOLD};

    if (s.scalar_code || op->does == CR_DOES_SCAN)
        CR_TRY(check_names(op));
    lay_slots(op);
    if (op->slots.count > CR_MAX_SLOTS)
        return cr_fail(CR_VALUE, "%s:%d: %s has too many names", op->text.file, op->text.line,
                       op->name);
    s.loops_code = op->loop.axis_count > 0;
    for (int i = 0; i < op->let_count; i++, s.lets++)
        CR_TRY(resolve_rule(&s, op->lets[i].rule));
    s.loops_code = false;
    CR_TRY(resolve_loop(&s, op));
    if (op->defer.within) {
        CR_TRY(resolve_some(&s, &op->defer.within->low, 1));
        CR_TRY(resolve_some(&s, &op->defer.within->high, 1));
    }
    CR_TRY(resolve_some(&s, op->body, op->body_count));
    CR_TRY(resolve_some(&s, &op->fold.rule, 1));
    s.scalar_code = s.scalar_code || op->does == CR_DOES_SCAN;
    CR_TRY(resolve_some(&s, &op->scan.rule, 1));
    s.scalar_code = false;
    CR_TRY(resolve_some(&s, &op->type, 1));
    CR_TRY(resolve_some(&s, op->returns, CR_MAX_RESULTS));
    CR_TRY(resolve_some(&s, op->sizes.rule, CR_MAX_RESULTS));
    for (int i = 0; i < op->check_count; i++) {
        CR_TRY(resolve_rule(&s, op->checks[i].when));
        CR_TRY(resolve_some(&s, op->checks[i].args, op->checks[i].count));
    }
    for (int i = 0; i < op->warning_count; i++) {
        CR_TRY(resolve_rule(&s, op->warnings[i].say.when));
        CR_TRY(resolve_some(&s, op->warnings[i].say.args, op->warnings[i].say.count));
    }
    for (int i = 0; i < op->grad_count; i++)
        CR_TRY(resolve_some(&s, &op->grads[i].rule, 1));
    CR_TRY(resolve_some(&s, &op->node, 1));
    CR_TRY(resolve_some(&s, &op->flops, 1));
    s.onnx_code = true;
    CR_TRY(resolve_some(&s, op->onnx, op->onnx_count));
    s.onnx_code = false;
    CR_TRY(resolve_some(&s, &op->dispatch.calls, 1));
    CR_TRY(resolve_some(&s, &op->filled, 1));
    CR_TRY(resolve_some(&s, &op->expanded, 1));
    CR_TRY(resolve_some(&s, &op->functional, 1));
    CR_TRY(check_functional(op));
    CR_TRY(find_partner(op, op->inverse.name, 0, &op->inverse.op));
    CR_TRY(find_partner(op, op->scatter.name, 1, &op->scatter.op));
    CR_TRY(find_partner(op, op->sparse.name, 0, &op->sparse.op));
    CR_TRY(find_partner(op, op->sparse.inplace_name, 0, &op->sparse.inplace));
    find_masks(op);
    op->fold.dim = (int8_t)cr_op_find_param(op, "dim");
    op->fold.keepdim = (int8_t)cr_op_find_param(op, "keepdim");
    return CR_OK;
}

cr_status cr_ops_resolve(void)
{
    int entries = cr_ops_count();

    for (int i = 0; i < entries; i++)
        CR_TRY(ops_resolve_one(cr_ops_at(i)));
    for (int i = 0; i < entries; i++)
        if (cr_ops_at(i)->forms & CR_AS_INPLACE)
            CR_TRY(ops_add_inplace(cr_ops_at(i)));
    for (int i = 0; i < inplace_count; i++) {
        inplace_calls[i]->op = cr_ops_find(inplace_calls[i]->name);
        resolve_keywords(inplace_calls[i]);
    }
    inplace_count = 0;
    return ops_reserve();
}
