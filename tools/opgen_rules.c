/* Conditions of checks and warnings, rules of sizes, and lets of compositions, as C.
 *
 * A rule is written where the kinds of its parts are known: integers, floats, truths, dtypes,
 * texts, lists of integers, tensors and lists of tensors.  Each part is a variable of the
 * function; statements give them values in the order of the evaluator (tensor/rule.c).  A
 * function returns false in all cases that it leaves to the evaluator: a check holds, an
 * argument is of another kind, a dim is out of range.  So errors and their texts are the
 * evaluator's, and an entry with a rule that cannot be written has no function. */
#include "base/map.h"
#include "opgen.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
    IS_NONE,
    IS_INT,
    IS_REAL,
    IS_TRUTH,
    IS_DTYPE,
    IS_TEXT, /* c is the address of a cr_value */
    IS_LIST,
    IS_TENSOR,
    IS_TENSORS,
    IS_DEVICE, /* packed, of a tensor */
    IS_OTHER
} kind;

/* A value: the C expression `c`, without effects.  Of an argument, `c` is the cr_value, whose
 * tag is not known yet, and `param` its parameter. */
typedef struct {
    kind kind;
    const char *c;
    const cr_param *param;
} value;

/* The names of one entry's rules.  Those of an entry whose sizes another one asks for have the
 * values of its arguments. */
typedef struct scope {
    const cr_op *op;
    int depth; /* values of lets are kept when computed at this depth, which all later code
                * sees */
    uint64_t known;
    value slot[CR_MAX_SLOTS];
} scope;

typedef struct {
    cr_text declared, start, code;
    cr_arena room;
    scope *scope;
    uint32_t loaded; /* bit i: variable a<i> has the argument i */
    int variables, depth;
    bool fails; /* a rule that cannot be written */
} writer;

static value write_rule(writer *w, const cr_rule *r);

static const char *in_room(writer *w, const char *format, ...) CR_PRINTF(2, 3);
static void say(writer *w, const char *format, ...) CR_PRINTF(2, 3);

static const char *in_room(writer *w, const char *format, ...)
{
    cr_text text = {0};
    const char *kept;
    va_list args;

    va_start(args, format);
    cr_text_printf_va(&text, format, args);
    va_end(args);
    kept = cr_arena_text(&w->room, cr_text_str(&text), text.len);
    cr_text_drop(&text);
    w->fails |= !kept;
    return kept ? kept : "";
}

static void say(writer *w, const char *format, ...)
{
    va_list args;

    cr_text_pad(&w->code, 4 * (size_t)(w->depth + 1), ' ');
    va_start(args, format);
    cr_text_printf_va(&w->code, format, args);
    va_end(args);
    cr_text_char(&w->code, '\n');
}

static const char *variable(writer *w, const char *type)
{
    const char *name = in_room(w, "v%d", w->variables++);

    cr_text_printf(&w->declared, "    %s %s;\n", type, name);
    return name;
}

static value of(kind k, const char *c) { return (value){.kind = k, .c = c}; }

static value without_c(writer *w)
{
    w->fails = true;
    return of(IS_OTHER, "0");
}

/* A variable with the value of an expression. */
static value named(writer *w, kind k, const char *type, const char *c)
{
    const char *name = variable(w, type);

    say(w, "%s = %s;", name, c);
    return of(k, name);
}

/* A variable that `call(arguments, &variable)` gives a value or refuses. */
static value given_by(writer *w, kind k, const char *type, const char *call)
{
    const char *name = variable(w, type);

    say(w, "if (!%s, &%s))", call, name);
    say(w, "    return false;");
    return of(k, name);
}

/* An item of a list of tensors, which is read like an argument that may be None. */
static value item_at(writer *w, const char *list, const char *i)
{
    static const cr_param item = {.name = "item", .type = CR_T_TENSOR, .optional = true};

    return (value){.kind = IS_OTHER, .c = in_room(w, "%s.at[%s]", list, i), .param = &item};
}

/* --- conversions --- */

static kind kind_of(value v)
{
    static const uint8_t kinds[] = {
        [CR_T_TENSOR] = IS_TENSOR, [CR_T_SCALAR] = IS_REAL, [CR_T_INT] = IS_INT,
        [CR_T_INTS] = IS_LIST,     [CR_T_FLOAT] = IS_REAL,  [CR_T_BOOL] = IS_TRUTH,
        [CR_T_STRING] = IS_TEXT,   [CR_T_DTYPE] = IS_DTYPE, [CR_T_TENSORS] = IS_TENSORS,
    };

    if (!v.param)
        return v.kind;
    return v.param->type < CR_LEN(kinds) && kinds[v.param->type] ? (kind)kinds[v.param->type]
                                                                 : IS_OTHER;
}

static void need_tag(writer *w, value v, const char *tag)
{
    say(w, "if (%s.tag != %s)", v.c, tag);
    say(w, "    return false;");
}

static const char *as_truth(writer *w, value v)
{
    if (v.param && (kind_of(v) == IS_TRUTH || kind_of(v) == IS_INT))
        return given_by(w, IS_TRUTH, "bool", in_room(w, "rule_truth(&%s", v.c)).c;
    switch (v.param ? IS_OTHER : v.kind) {
    case IS_NONE: return "false";
    case IS_TRUTH: return v.c;
    case IS_INT: return in_room(w, "(%s != 0)", v.c);
    case IS_LIST: return in_room(w, "(%s.n != 0)", v.c);
    default: return without_c(w).c;
    }
}

/* The variable of an argument that every call has, which is read once, at the start. */
static const char *loaded(writer *w, value v, const char *type, const char *test,
                          const char *load)
{
    int i = atoi(v.c + strlen("arg["));

    if (!(w->loaded >> i & 1)) {
        w->loaded |= 1u << i;
        cr_text_printf(&w->declared, "    %s a%d;\n", type, i);
        cr_text_printf(&w->start, "    if (%s)\n        return false;\n", test);
        cr_text_put(&w->start, load);
    }
    return in_room(w, "a%d", i);
}

static const char *as_int(writer *w, value v)
{
    if (kind_of(v) == IS_TRUTH)
        return as_truth(w, v);
    if (kind_of(v) != IS_INT)
        return without_c(w).c;
    if (!v.param)
        return v.c;
    if (!v.param->optional)
        return loaded(w, v, "int64_t", in_room(w, "%s.tag != CR_INT", v.c),
                      in_room(w, "    a%d = %s.i;\n", atoi(v.c + strlen("arg[")), v.c));
    need_tag(w, v, "CR_INT");
    return in_room(w, "%s.i", v.c);
}

static const char *as_real(writer *w, value v)
{
    bool number = kind_of(v) == IS_REAL || (v.param && v.param->number);

    if (!number)
        return in_room(w, "(double)%s", as_int(w, v));
    return v.param ? given_by(w, IS_REAL, "double", in_room(w, "rule_real(&%s", v.c)).c : v.c;
}

static const char *as_dtype(writer *w, value v)
{
    if (kind_of(v) != IS_DTYPE)
        return without_c(w).c;
    if (!v.param)
        return v.c;
    need_tag(w, v, "CR_DTYPE_VAL");
    return in_room(w, "(cr_dtype)%s.i", v.c);
}

static const char *as_text(writer *w, value v)
{
    if (kind_of(v) != IS_TEXT)
        return without_c(w).c;
    return v.param ? in_room(w, "&%s", v.c) : v.c;
}

static const char *as_list(writer *w, value v)
{
    if (kind_of(v) != IS_LIST)
        return without_c(w).c;
    if (!v.param)
        return v.c;
    if (!v.param->optional)
        return loaded(w, v, "rule_list", in_room(w, "%s.tag != CR_INTS", v.c),
                      in_room(w, "    a%d = (rule_list){%s.ints, %s.len};\n",
                              atoi(v.c + strlen("arg[")), v.c, v.c));
    need_tag(w, v, "CR_INTS");
    return named(w, IS_LIST, "rule_list", in_room(w, "(rule_list){%s.ints, %s.len}", v.c, v.c))
        .c;
}

static const char *as_tensor(writer *w, value v)
{
    if (kind_of(v) != IS_TENSOR)
        return without_c(w).c;
    if (!v.param)
        return v.c;
    if (v.param->optional || v.param->number)
        return given_by(w, IS_TENSOR, "rule_tensor", in_room(w, "rule_argument(&%s", v.c)).c;
    return loaded(w, v, "rule_tensor",
                  in_room(w, "!rule_argument(&%s, &a%d)", v.c, atoi(v.c + strlen("arg["))), "");
}

static const char *as_tensors(writer *w, value v)
{
    if (kind_of(v) != IS_TENSORS || v.param->optional)
        return without_c(w).c;
    return loaded(w, v, "rule_tensors", in_room(w, "%s.tag != CR_TENSORS", v.c),
                  in_room(w, "    a%d = (rule_tensors){%s.list, %s.len};\n",
                          atoi(v.c + strlen("arg[")), v.c, v.c));
}

/* Whether an argument's size or number of dims has been read. */
static bool is_loaded(const writer *w, value v)
{
    return w->loaded >> atoi(v.c + strlen("arg[")) & 1;
}

static const char *dtype_of(writer *w, value v)
{
    if (kind_of(v) == IS_TENSOR && !(v.param && (v.param->optional || v.param->number)))
        return v.param && !is_loaded(w, v)
                   ? given_by(w, IS_DTYPE, "cr_dtype", in_room(w, "rule_dtype(&%s", v.c)).c
                   : in_room(w, "%s.dtype", as_tensor(w, v));
    if (v.param)
        return named(w, IS_DTYPE, "cr_dtype", in_room(w, "cr_value_dtype(&%s)", v.c)).c;
    return as_dtype(w, v);
}

/* The value as a cr_value. */
static const char *boxed(writer *w, value v)
{
    if (v.param)
        return v.c;
    switch (v.kind) {
    case IS_NONE: return "cr_of_none()";
    case IS_INT: return in_room(w, "cr_of_int(%s)", v.c);
    case IS_REAL: return in_room(w, "cr_of_float(%s)", v.c);
    case IS_TRUTH: return in_room(w, "cr_of_bool(%s)", v.c);
    case IS_DTYPE: return in_room(w, "cr_of_dtype(%s)", v.c);
    case IS_TEXT: return in_room(w, "(*%s)", v.c);
    case IS_LIST: return in_room(w, "cr_of_ints(%s.at, (size_t)%s.n)", v.c, v.c);
    default: return without_c(w).c;
    }
}

/* --- arithmetic --- */

static value write_int_arithmetic(writer *w, int builtin, const char *a, const char *b)
{
    const char *q, *rest;

    switch (builtin) {
    case CR_BUILTIN_add:
        return given_by(w, IS_INT, "int64_t", in_room(w, "rule_add(%s, %s", a, b));
    case CR_BUILTIN_sub:
        return given_by(w, IS_INT, "int64_t", in_room(w, "rule_sub(%s, %s", a, b));
    case CR_BUILTIN_mul:
        return given_by(w, IS_INT, "int64_t", in_room(w, "rule_mul(%s, %s", a, b));
    case CR_BUILTIN_div:
        return named(w, IS_REAL, "double", in_room(w, "(double)%s / (double)%s", a, b));
    case CR_BUILTIN_least:
        return named(w, IS_INT, "int64_t", in_room(w, "cr_least(%s, %s)", a, b));
    case CR_BUILTIN_most:
        return named(w, IS_INT, "int64_t", in_room(w, "cr_most(%s, %s)", a, b));
    case CR_BUILTIN_floordiv:
    case CR_BUILTIN_remainder: break;
    default: return without_c(w);
    }
    q = variable(w, "int64_t");
    rest = given_by(w, IS_INT, "int64_t", in_room(w, "rule_quotient(%s, %s, &%s", a, b, q)).c;
    return of(IS_INT, builtin == CR_BUILTIN_floordiv ? q : rest);
}

static value write_real_arithmetic(writer *w, int builtin, const char *a, const char *b)
{
    switch (builtin) {
    case CR_BUILTIN_add: return named(w, IS_REAL, "double", in_room(w, "%s + %s", a, b));
    case CR_BUILTIN_sub: return named(w, IS_REAL, "double", in_room(w, "%s - %s", a, b));
    case CR_BUILTIN_mul: return named(w, IS_REAL, "double", in_room(w, "%s * %s", a, b));
    case CR_BUILTIN_div: return named(w, IS_REAL, "double", in_room(w, "%s / %s", a, b));
    default: return without_c(w);
    }
}

static bool is_whole(value v) { return kind_of(v) == IS_INT || kind_of(v) == IS_TRUTH; }

static value write_arithmetic(writer *w, const cr_rule *r)
{
    value a = write_rule(w, r->args[0]), b = write_rule(w, r->args[1]);

    if (is_whole(a) && is_whole(b)) {
        const char *x = as_int(w, a), *y = as_int(w, b);
        return write_int_arithmetic(w, r->builtin, x, y);
    }
    const char *x = as_real(w, a), *y = as_real(w, b);
    return write_real_arithmetic(w, r->builtin, x, y);
}

static const char *comparison(int builtin)
{
    switch (builtin) {
    case CR_BUILTIN_eq: return "==";
    case CR_BUILTIN_ne: return "!=";
    case CR_BUILTIN_lt: return "<";
    case CR_BUILTIN_le: return "<=";
    case CR_BUILTIN_gt: return ">";
    default: return ">=";
    }
}

/* Of an argument that may be None. */
static value compare_none(writer *w, value v, const char *sign)
{
    if (v.param)
        return of(IS_TRUTH, in_room(w, "(%s.tag %s CR_NONE)", v.c, sign));
    if (v.kind == IS_DTYPE)
        return of(IS_TRUTH, in_room(w, "(%s %s CR_DTYPE_NONE)", v.c, sign));
    return of(IS_TRUTH, (v.kind == IS_NONE) == (*sign == '=') ? "true" : "false");
}

static value compare(writer *w, value a, value b, const char *sign)
{
    const char *x, *y, *function = kind_of(a) == IS_TEXT ? "rule_is_text" : "rule_is_list";

    if (kind_of(a) == IS_DEVICE && kind_of(b) == IS_DEVICE) {
        x = a.c, y = b.c;
    } else if (kind_of(a) == IS_DTYPE || kind_of(b) == IS_DTYPE) {
        x = as_dtype(w, a), y = as_dtype(w, b);
    } else if (kind_of(a) == IS_TEXT || kind_of(a) == IS_LIST) {
        x = kind_of(a) == IS_TEXT ? as_text(w, a) : as_list(w, a);
        y = kind_of(a) == IS_TEXT ? as_text(w, b) : as_list(w, b);
        return named(w, IS_TRUTH, "bool",
                     in_room(w, "%s%s(%s, %s)", *sign == '!' ? "!" : "", function, x, y));
    } else if (is_whole(a) && is_whole(b)) {
        x = as_int(w, a), y = as_int(w, b);
    } else {
        x = as_real(w, a), y = as_real(w, b);
    }
    return named(w, IS_TRUTH, "bool", in_room(w, "%s %s %s", x, sign, y));
}

static value write_comparison(writer *w, const cr_rule *r)
{
    const char *sign = comparison(r->builtin);
    value a = write_rule(w, r->args[0]), b = write_rule(w, r->args[1]);

    if (!a.param && a.kind == IS_NONE)
        return compare_none(w, b, sign);
    if (!b.param && b.kind == IS_NONE)
        return compare_none(w, a, sign);
    return compare(w, a, b, sign);
}

static value write_neg(writer *w, const cr_rule *r)
{
    value v = write_rule(w, r->args[0]);

    if (is_whole(v))
        return named(w, IS_INT, "int64_t",
                     in_room(w, "(int64_t)(0 - (uint64_t)%s)", as_int(w, v)));
    return named(w, IS_REAL, "double", in_room(w, "-%s", as_real(w, v)));
}

/* --- branches --- */

static value write_logic(writer *w, const cr_rule *r)
{
    const char *both = as_truth(w, write_rule(w, r->args[0]));

    if (r->builtin == CR_BUILTIN_not)
        return of(IS_TRUTH, in_room(w, "!%s", both));
    if (!strcmp(both, r->builtin == CR_BUILTIN_and ? "false" : "true"))
        return of(IS_TRUTH, both); /* the other part may have no value */
    both = named(w, IS_TRUTH, "bool", both).c;
    say(w, "if (%s%s) {", r->builtin == CR_BUILTIN_and ? "" : "!", both);
    w->depth++;
    say(w, "%s = %s;", both, as_truth(w, write_rule(w, r->args[1])));
    w->depth--;
    say(w, "}");
    return of(IS_TRUTH, both);
}

static const struct {
    const char *type;
    const char *(*as)(writer *w, value v);
} forms[] = {
    [IS_INT] = {"int64_t", as_int},
    [IS_REAL] = {"double", as_real},
    [IS_TRUTH] = {"bool", as_truth},
    [IS_DTYPE] = {"cr_dtype", as_dtype},
    [IS_TEXT] = {"const cr_value *", as_text},
    [IS_LIST] = {"rule_list", as_list},
    [IS_TENSOR] = {"rule_tensor", as_tensor},
    [IS_OTHER] = {NULL, NULL},
};

/* The kind of a choice is that of its first part, or of its second if that is a float. */
static value write_choice(writer *w, const cr_rule *r)
{
    const char *when = as_truth(w, write_rule(w, r->args[0])), *name;
    kind k;

    say(w, "if (%s) {", when);
    w->depth++;
    value yes = write_rule(w, r->args[1]);
    k = kind_of(yes);
    if (!forms[k].type) {
        w->depth--;
        return without_c(w);
    }
    name = variable(w, forms[k].type);
    say(w, "%s = %s;", name, forms[k].as(w, yes));
    w->depth--;
    say(w, "} else {");
    w->depth++;
    value no = write_rule(w, r->args[2]);
    if (kind_of(no) != k)
        return without_c(w);
    say(w, "%s = %s;", name, forms[k].as(w, no));
    w->depth--;
    say(w, "}");
    return of(k, name);
}

/* --- lists --- */

static const char *array(writer *w, int n)
{
    const char *name = in_room(w, "v%d", w->variables++);

    if (n)
        cr_text_printf(&w->declared, "    int64_t %s[%d];\n", name, n);
    else
        cr_text_printf(&w->declared, "    int64_t %s[CR_MAX_DIMS];\n", name);
    return name;
}

static value list_of(writer *w, const char *at, const char *n)
{
    return named(w, IS_LIST, "rule_list", in_room(w, "(rule_list){%s, %s}", at, n));
}

static value write_list(writer *w, const cr_rule *r)
{
    const char *at = array(w, r->count ? (int)r->count : 1);

    for (unsigned i = 0; i < r->count; i++) {
        value item = write_rule(w, r->args[i]);
        say(w, "%s[%u] = %s;", at, i, as_int(w, item));
    }
    return list_of(w, at, in_room(w, "%u", r->count));
}

/* The number of items of range(n) or dims(x); NULL for another rule. */
static const char *write_range_end(writer *w, const cr_rule *r)
{
    if (r->kind != CR_RULE_CALL)
        return NULL;
    if (r->builtin == CR_BUILTIN_dims)
        return in_room(w, "(int64_t)%s.ndim", as_tensor(w, write_rule(w, r->args[0])));
    if (r->builtin != CR_BUILTIN_range)
        return NULL;
    return named(w, IS_INT, "int64_t",
                 in_room(w, "cr_most(%s, 0)", as_int(w, write_rule(w, r->args[0]))))
        .c;
}

static void say_loop(writer *w, const char *i, const char *n, bool stores)
{
    if (stores) {
        say(w, "if (%s > CR_MAX_DIMS)", n);
        say(w, "    return false;");
    }
    say(w, "for (%s = 0; %s < %s; %s++) {", i, i, n, i);
}

/* Gives the lets that a rule names values before a loop that reads them. */
static void write_lets(writer *w, const cr_rule *r)
{
    scope *s = w->scope;
    int let = r->slot - s->op->slots.let;

    if (r->kind == CR_RULE_NAME && r->slot >= 0 && !(s->known >> r->slot & 1) && let >= 0 &&
        let < s->op->let_count) {
        s->slot[r->slot] = write_rule(w, s->op->lets[let].rule);
        s->known |= (uint64_t)1 << r->slot;
    }
    for (unsigned i = 0; i < r->count; i++)
        write_lets(w, r->args[i]);
}

/* What becomes of the items of a list. */
typedef enum { EACH_STORED, EACH_SOUGHT, EACH_ADDED, EACH_COUNTED } each_use;

static void use_item(writer *w, each_use use, const char *at, const char *n, const char *item,
                     const char *sought)
{
    if (use == EACH_SOUGHT)
        say(w, "%s = %s < 0 && %s == %s ? %s : %s;", at, at, item, sought, n, at);
    else if (use == EACH_ADDED)
        say(w, "if (!rule_add(%s, %s, &%s)) return false;", at, item, at);
    else if (use == EACH_STORED)
        say(w, "%s[%s] = %s;", at, n, item);
}

/* The list, the index of the first item equal to `sought` or -1, the sum, or the number of
 * items. */
static value write_each(writer *w, const cr_rule *r, each_use use, const char *sought)
{
    bool stores = use == EACH_STORED, filters = r->count > 2;
    const char *i = variable(w, "int64_t"), *kept = i;
    const char *at =
        stores ? array(w, 0) : named(w, IS_INT, "int64_t", use == EACH_SOUGHT ? "-1" : "0").c;
    const char *n = write_range_end(w, r->args[0]);
    value item, list = {0};
    scope *s = w->scope;
    uint64_t known;

    if (!n) {
        list = write_rule(w, r->args[0]);
        list.c = kind_of(list) == IS_TENSORS ? as_tensors(w, list) : as_list(w, list);
        n = in_room(w, "%s.n", list.c);
    }
    if (filters)
        kept = named(w, IS_INT, "int64_t", "0").c;
    known = s->known;
    write_lets(w, r->args[1]);
    if (filters)
        write_lets(w, r->args[2]);
    known = w->depth == s->depth ? s->known : known;
    say_loop(w, i, n, stores);
    w->depth++;
    s->slot[r->slot] = !list.c ? of(IS_INT, i)
                       : kind_of(list) == IS_TENSORS
                           ? item_at(w, list.c, i)
                           : of(IS_INT, in_room(w, "%s.at[%s]", list.c, i));
    s->known |= (uint64_t)1 << r->slot;
    if (filters) {
        say(w, "if (!%s)", as_truth(w, write_rule(w, r->args[2])));
        say(w, "    continue;");
    }
    if (use != EACH_COUNTED) {
        item = write_rule(w, r->args[1]);
        use_item(w, use, at, kept, as_int(w, item), sought);
    }
    if (filters)
        say(w, "%s++;", kept);
    w->depth--;
    say(w, "}");
    s->known = known;
    if (use == EACH_COUNTED)
        return of(IS_INT, kept);
    return stores ? list_of(w, at, filters ? kept : n) : of(IS_INT, at);
}

static value write_range(writer *w, const cr_rule *r)
{
    const char *i = variable(w, "int64_t"), *at = array(w, 0), *n = write_range_end(w, r);

    say_loop(w, i, n, true);
    say(w, "    %s[%s] = %s;", at, i, i);
    say(w, "}");
    return list_of(w, at, n);
}

static value write_index(writer *w, const cr_rule *r)
{
    value v = write_rule(w, r->args[0]);
    bool tensors = kind_of(v) == IS_TENSORS, reals = v.param && v.param->type == CR_T_FLOATS;
    const char *list = reals ? "" : tensors ? as_tensors(w, v) : as_list(w, v);
    const char *i = as_int(w, write_rule(w, r->args[1]));

    if (reals)
        return given_by(w, IS_REAL, "double", in_room(w, "rule_real_at(&%s, %s", v.c, i));
    if (tensors)
        return item_at(
            w, list, given_by(w, IS_INT, "int64_t", in_room(w, "rule_item(%s, %s", list, i)).c);
    return given_by(w, IS_INT, "int64_t", in_room(w, "rule_at(%s, %s", list, i));
}

static value write_reduced(writer *w, const cr_rule *r)
{
    const char *t = as_tensor(w, write_rule(w, r->args[0]));
    const char *dim = boxed(w, write_rule(w, r->args[1]));
    const char *keep = r->count > 2 ? as_truth(w, write_rule(w, r->args[2])) : "false";

    return given_by(w, IS_LIST, "rule_list",
                    in_room(w, "rule_reduced(%s, %s, %s, %s", t, dim, keep, array(w, 0)));
}

/* --- sizes of another entry's result --- */

static value preset_of(writer *w, const cr_param *p)
{
    const cr_value *v = &p->preset;

    switch (v->tag) {
    case CR_NONE: return of(IS_NONE, "");
    case CR_INT: return of(IS_INT, in_room(w, "%" PRId64, v->i));
    case CR_TRUTH: return of(IS_TRUTH, v->i ? "true" : "false");
    default: return without_c(w);
    }
}

/* An argument of the other entry; sizes stand for a tensor of the dtype of the caller's first
 * argument. */
static value argument_of(writer *w, const cr_rule *call, const cr_param *p, unsigned i)
{
    value v = i < call->count ? write_rule(w, call->args[i]) : preset_of(w, p);

    if (p->type != CR_T_TENSOR || kind_of(v) != IS_LIST)
        return v;
    value first = write_rule(
        w, &(cr_rule){.kind = CR_RULE_NAME, .name = w->scope->op->param[0].name, .slot = 0});
    const char *dtype = dtype_of(w, first), *list = as_list(w, v);
    return given_by(w, IS_TENSOR, "rule_tensor", in_room(w, "rule_stands(%s, %s", list, dtype));
}

/* By a function: it takes values. */
static value size_by_function(writer *w, const cr_op *op, const value *given)
{
    const char *arg = in_room(w, "v%d", w->variables++), *shape = variable(w, "cr_shape");

    if (op->words & CR_WORD_SIZED_BY_VALUES || op->result_count > 1)
        return without_c(w);
    cr_text_printf(&w->declared, "    cr_value %s[%d];\n", arg, op->param_count);
    for (int i = 0; i < op->param_count; i++) {
        bool tensor = kind_of(given[i]) == IS_TENSOR;
        const char *view = tensor ? variable(w, "cr_view") : "";
        if (tensor && given[i].param)
            say(w, "%s[%d] = rule_given(&%s, &%s);", arg, i, given[i].c, view);
        else if (tensor)
            say(w, "%s[%d] = rule_given_sizes(%s, &%s);", arg, i, given[i].c, view);
        else
            say(w, "%s[%d] = %s;", arg, i, boxed(w, given[i]));
    }
    say(w, "if (%s(%s, &%s))", op->sizes.name, arg, shape);
    say(w, "    return false;");
    return list_of(w, in_room(w, "%s.size", shape), in_room(w, "%s.ndim", shape));
}

static void write_condition(writer *w, const cr_rule *when)
{
    const char *truth = as_truth(w, write_rule(w, when));

    say(w, "if (%s)", truth);
    say(w, "    return false;");
}

static void write_checks(writer *w, const cr_op *op)
{
    for (int i = 0; i < op->check_count && !w->fails; i++)
        write_condition(w, op->checks[i].when);
}

static value write_result_size(writer *w, const cr_rule *call)
{
    const cr_op *op = call->op;
    scope *caller = w->scope, *s;
    value v;

    if (call->kind != CR_RULE_CALL || !op || !(op->sizes.name || op->sizes.rule[0]) ||
        call->count > op->param_count || !(s = cr_arena_get(&w->room, sizeof *s)))
        return without_c(w);
    *s = (scope){.op = op, .depth = w->depth};
    for (int i = 0; i < op->param_count; i++) {
        s->slot[i] = argument_of(w, call, &op->param[i], (unsigned)i);
        s->known |= (uint64_t)1 << i;
    }
    if (w->fails)
        return of(IS_OTHER, "0");
    if (op->sizes.name)
        return size_by_function(w, op, s->slot);
    w->scope = s;
    write_checks(w, op);
    v = w->fails ? of(IS_OTHER, "0") : write_rule(w, op->sizes.rule[0]);
    w->scope = caller;
    return v;
}

/* --- calls --- */

static value write_promote(writer *w, const cr_rule *r)
{
    const char *all = in_room(w, "v%d", w->variables++), *out = variable(w, "cr_dtype");

    cr_text_printf(&w->declared, "    cr_value %s[%d];\n", all, (int)r->count);
    for (unsigned i = 0; i < r->count; i++) {
        value v = write_rule(w, r->args[i]);
        say(w, "%s[%u] = %s;", all, i, boxed(w, v));
    }
    say(w, "if (cr_promote_values(&%s, %s, %u))", out, all, (unsigned)r->count);
    say(w, "    return false;");
    return of(IS_DTYPE, out);
}

static value write_category(writer *w, const cr_rule *r)
{
    const char *t = dtype_of(w, write_rule(w, r->args[0]));

    if (r->builtin == CR_BUILTIN_is_float8)
        return named(w, IS_TRUTH, "bool",
                     in_room(w, "%s != CR_DTYPE_NONE && cr_dtype_is_float8(%s)", t, t));
    const char *of_category = r->builtin == CR_BUILTIN_is_complex
                                  ? "CR_CAT_COMPLEX, CR_CAT_COMPLEX"
                              : r->builtin == CR_BUILTIN_is_float ? "CR_CAT_FLOAT, CR_CAT_FLOAT"
                                                                  : "CR_CAT_BOOL, CR_CAT_INT";

    return named(w, IS_TRUTH, "bool", in_room(w, "rule_is_category(%s, %s)", t, of_category));
}

static value write_size(writer *w, const cr_rule *r)
{
    const char *t = as_tensor(w, write_rule(w, r->args[0]));

    if (r->count == 1)
        return list_of(w, in_room(w, "%s.size", t), in_room(w, "%s.ndim", t));
    return given_by(w, IS_INT, "int64_t",
                    in_room(w, "rule_size(%s, %s", t, as_int(w, write_rule(w, r->args[1]))));
}

/* All sizes, when there is such a dim. */
static value write_along(writer *w, const cr_rule *r)
{
    const char *t = as_tensor(w, write_rule(w, r->args[0]));

    given_by(w, IS_INT, "int64_t",
             in_room(w, "rule_size(%s, %s", t, as_int(w, write_rule(w, r->args[1]))));
    return list_of(w, in_room(w, "%s.size", t), in_room(w, "%s.ndim", t));
}

/* The rule of a list of those items of another one for which a condition holds, or NULL. */
static const cr_rule *kept_items(const writer *w, const cr_rule *r)
{
    const cr_op *op = w->scope->op;
    int let = r->slot - op->slots.let;

    if (r->kind == CR_RULE_NAME && r->slot >= 0 && let >= 0 && let < op->let_count &&
        !(w->scope->known >> r->slot & 1))
        r = op->lets[let].rule;
    return r->kind == CR_RULE_EACH && r->count > 2 && r->args[1]->kind == CR_RULE_NAME &&
                   r->args[1]->slot == r->slot
               ? r
               : NULL;
}

static value write_len(writer *w, const cr_rule *r)
{
    const cr_rule *kept = kept_items(w, r->args[0]);
    value v = kept ? write_each(w, kept, EACH_COUNTED, NULL) : write_rule(w, r->args[0]);

    if (kept)
        return v;
    if (!v.param || (kind_of(v) == IS_LIST && !v.param->optional))
        return of(IS_INT, in_room(w, "%s.n", as_list(w, v)));
    if (kind_of(v) == IS_TENSORS && !v.param->optional)
        return of(IS_INT, in_room(w, "%s.n", as_tensors(w, v)));
    say(w, "if (%s.tag < CR_INTS || %s.tag == CR_GENERATOR)", v.c, v.c);
    say(w, "    return false;");
    return of(IS_INT, in_room(w, "(int64_t)%s.len", v.c));
}

/* Of an argument as a value. */
static value write_test(writer *w, const cr_rule *r, const char *function)
{
    value v = write_rule(w, r->args[0]);

    if (!v.param)
        return without_c(w);
    return named(w, IS_TRUTH, "bool", in_room(w, "%s(&%s)", function, v.c));
}

static value write_device(writer *w, const cr_rule *r)
{
    value v = write_rule(w, r->args[0]);

    if (!v.param)
        return without_c(w);
    return given_by(w, IS_DEVICE, "int64_t", in_room(w, "rule_device(&%s", v.c));
}

static value write_sparse_count(writer *w, const cr_rule *r, const char *function)
{
    value v = write_rule(w, r->args[0]);

    if (!v.param)
        return without_c(w);
    return named(w, IS_INT, "int64_t", in_room(w, "%s(&%s)", function, v.c));
}

static value write_values_fit(writer *w, const cr_rule *r)
{
    value t = write_rule(w, r->args[0]), values = write_rule(w, r->args[1]);

    if (!t.param || !values.param)
        return without_c(w);
    return named(w, IS_TRUTH, "bool", in_room(w, "rule_values_fit(&%s, &%s)", t.c, values.c));
}

static value write_list_function(writer *w, const cr_rule *r)
{
    if (r->builtin == CR_BUILTIN_total && r->args[0]->kind == CR_RULE_EACH)
        return write_each(w, r->args[0], EACH_ADDED, NULL);
    const char *list = as_list(w, write_rule(w, r->args[0]));

    return given_by(w, IS_INT, "int64_t",
                    in_room(w, "%s(%s",
                            r->builtin == CR_BUILTIN_product ? "rule_product" : "rule_total",
                            list));
}

static value write_greatest(writer *w, const cr_rule *r)
{
    const char *list = as_list(w, write_rule(w, r->args[0]));

    return named(w, IS_INT, "int64_t", in_room(w, "cr_greatest(%s.at, %s.n)", list, list));
}

static value write_integer(writer *w, const cr_rule *r)
{
    const char *x = as_real(w, write_rule(w, r->args[0]));

    return named(w, IS_INT, "int64_t", in_room(w, "cr_integer_of(%s)", x));
}

static value write_search(writer *w, const cr_rule *r)
{
    const char *x = as_int(w, write_rule(w, r->args[1])), *at, *list;

    if (r->args[0]->kind == CR_RULE_EACH) {
        at = write_each(w, r->args[0], EACH_SOUGHT, x).c;
    } else {
        list = as_list(w, write_rule(w, r->args[0]));
        at = named(w, IS_INT, "int64_t", in_room(w, "rule_first(%s, %s)", list, x)).c;
    }
    return r->builtin == CR_BUILTIN_has ? of(IS_TRUTH, in_room(w, "(%s >= 0)", at))
                                        : of(IS_INT, at);
}

static value write_wrap(writer *w, const cr_rule *r)
{
    const char *d = as_int(w, write_rule(w, r->args[0]));
    const char *n = as_int(w, write_rule(w, r->args[1]));

    return given_by(w, IS_INT, "int64_t", in_room(w, "rule_wrap(%s, %s", d, n));
}

static value write_geometry(writer *w, const cr_rule *r)
{
    const char *t = as_tensor(w, write_rule(w, r->args[0]));

    if (r->builtin == CR_BUILTIN_ndim)
        return of(IS_INT, in_room(w, "(int64_t)%s.ndim", t));
    return named(w, IS_INT, "int64_t", in_room(w, "cr_numel(%s.ndim, %s.size)", t, t));
}

static value write_call(writer *w, const cr_rule *r)
{
    switch (r->builtin) {
    case CR_BUILTIN_promote: return write_promote(w, r);
    case CR_BUILTIN_dtype: return of(IS_DTYPE, dtype_of(w, write_rule(w, r->args[0])));
    case CR_BUILTIN_device: return write_device(w, r);
    case CR_BUILTIN_size: return write_size(w, r);
    case CR_BUILTIN_along: return write_along(w, r);
    case CR_BUILTIN_ndim:
    case CR_BUILTIN_numel: return write_geometry(w, r);
    case CR_BUILTIN_dims:
    case CR_BUILTIN_range: return write_range(w, r);
    case CR_BUILTIN_wrap: return write_wrap(w, r);
    case CR_BUILTIN_len: return write_len(w, r);
    case CR_BUILTIN_has:
    case CR_BUILTIN_first: return write_search(w, r);
    case CR_BUILTIN_product:
    case CR_BUILTIN_total: return write_list_function(w, r);
    case CR_BUILTIN_greatest: return write_greatest(w, r);
    case CR_BUILTIN_integer: return write_integer(w, r);
    case CR_BUILTIN_reduced: return write_reduced(w, r);
    case CR_BUILTIN_result_size: return write_result_size(w, r->args[0]);
    case CR_BUILTIN_is_complex:
    case CR_BUILTIN_is_float:
    case CR_BUILTIN_is_float8:
    case CR_BUILTIN_is_integral: return write_category(w, r);
    case CR_BUILTIN_is_tensor: return write_test(w, r, "rule_is_tensor");
    case CR_BUILTIN_on_host: return write_test(w, r, "rule_on_host");
    case CR_BUILTIN_is_sparse: return write_test(w, r, "rule_is_sparse");
    case CR_BUILTIN_values_fit: return write_values_fit(w, r);
    case CR_BUILTIN_is_coo: return write_test(w, r, "rule_is_coo");
    case CR_BUILTIN_is_blocked: return write_test(w, r, "rule_is_blocked");
    case CR_BUILTIN_by_rows: return write_test(w, r, "rule_by_rows");
    case CR_BUILTIN_coalesced: return write_test(w, r, "rule_coalesced");
    case CR_BUILTIN_sparse_dims: return write_sparse_count(w, r, "rule_sparse_dims");
    case CR_BUILTIN_batch_dims: return write_sparse_count(w, r, "rule_batch_dims");
    case CR_BUILTIN_nnz:
        return given_by(w, IS_INT, "int64_t",
                        in_room(w, "rule_nnz(&%s", write_rule(w, r->args[0]).c));
    case CR_BUILTIN_default_dtype: return of(IS_DTYPE, "cr_default_dtype()");
    case CR_BUILTIN_and:
    case CR_BUILTIN_or:
    case CR_BUILTIN_not: return write_logic(w, r);
    case CR_BUILTIN_neg: return write_neg(w, r);
    default: break;
    }
    if (r->builtin >= CR_BUILTIN_eq && r->builtin <= CR_BUILTIN_ge)
        return write_comparison(w, r);
    return r->builtin >= CR_BUILTIN_add || r->builtin == CR_BUILTIN_least ||
                   r->builtin == CR_BUILTIN_most
               ? write_arithmetic(w, r)
               : without_c(w);
}

/* --- names --- */

static value write_constant(writer *w, const cr_rule *r)
{
    if (r->integer < 0)
        return without_c(w);
    if (r->integer)
        return of(IS_DTYPE, in_room(w, "(cr_dtype)%d", (int)r->integer - 1));
    return strcmp(r->name, "inf") ? without_c(w) : of(IS_REAL, "(double)INFINITY");
}

static value write_name(writer *w, const cr_rule *r)
{
    scope *s = w->scope;
    int let = r->slot - s->op->slots.let;
    value v;

    if (r->slot < 0)
        return write_constant(w, r);
    if (s->known >> r->slot & 1)
        return s->slot[r->slot];
    if (let < 0 || let >= s->op->let_count)
        return without_c(w);
    v = write_rule(w, s->op->lets[let].rule);
    if (w->depth == s->depth) {
        s->slot[r->slot] = v;
        s->known |= (uint64_t)1 << r->slot;
    }
    return v;
}

static value write_text(writer *w, const char *text)
{
    const char *name = in_room(w, "v%d", w->variables++);

    cr_text_printf(&w->declared,
                   "    static const cr_value %s = {.tag = CR_STRING, .len = %zu, .s =\n", name,
                   strlen(text));
    opgen_quote(&w->declared, text, strlen(text));
    cr_text_put(&w->declared, "};\n");
    return of(IS_TEXT, in_room(w, "&%s", name));
}

static value write_rule(writer *w, const cr_rule *r)
{
    if (w->fails)
        return of(IS_OTHER, "0");
    switch (r->kind) {
    case CR_RULE_NAME: return write_name(w, r);
    case CR_RULE_INT: return of(IS_INT, in_room(w, "INT64_C(%" PRId64 ")", r->integer));
    case CR_RULE_FLOAT: return of(IS_REAL, in_room(w, "%a", r->number));
    case CR_RULE_BOOL: return of(IS_TRUTH, r->integer ? "true" : "false");
    case CR_RULE_NONE: return of(IS_NONE, "");
    case CR_RULE_STRING: return write_text(w, r->name);
    case CR_RULE_LIST: return write_list(w, r);
    case CR_RULE_CALL: return write_call(w, r);
    case CR_RULE_CHOOSE: return write_choice(w, r);
    case CR_RULE_EACH: return write_each(w, r, EACH_STORED, NULL);
    case CR_RULE_INDEX: return r->count == 2 ? write_index(w, r) : without_c(w);
    }
    return without_c(w);
}

/* --- functions --- */

typedef struct {
    cr_text text, table;
    cr_map seen; /* text of a function -> its number, from 1 */
    int functions;
    cr_status st;
} rules_file;

static void start(writer *w, const cr_op *op)
{
    w->scope = cr_arena_get(&w->room, sizeof *w->scope);
    if (!w->scope) {
        w->fails = true;
        return;
    }
    *w->scope = (scope){.op = op};
    for (int i = 0; i < op->param_count; i++) {
        w->scope->slot[i] =
            (value){.kind = IS_OTHER, .c = in_room(w, "arg[%d]", i), .param = &op->param[i]};
        w->scope->known |= (uint64_t)1 << i;
    }
}

/* The function from its parameters on. */
static void put_function(cr_text *out, const writer *w, const char *parameters)
{
    cr_text_printf(out, "(%s)\n{\n%s\n", parameters, cr_text_str(&w->declared));
    cr_text_put(out, cr_text_str(&w->start));
    cr_text_put(out, cr_text_str(&w->code));
    cr_text_put(out, "    return true;\n}\n");
}

/* Two entries with one text have one function, whose number this is. */
static int keep(rules_file *f, const cr_text *function, const cr_op *op, const char *name)
{
    const char *text = cr_text_str(function);
    uintptr_t known = (uintptr_t)cr_map_get(&f->seen, text, function->len);

    if (!known) {
        known = (uintptr_t)++f->functions;
        f->st = f->st ? f->st : cr_map_set(&f->seen, text, function->len, (void *)known);
        cr_text_printf(&f->text, "\n/* %s%s%s */\nstatic bool %s_%d%s", op->name,
                       *op->overload ? "." : "", op->overload, name, (int)known, text);
    }
    return (int)known;
}

/* Keeps the function unless it cannot be written; its number, or 0. */
static int finish_function(rules_file *f, writer *w, const cr_op *op, const char *name,
                           const char *parameters)
{
    cr_text function = {0};
    int kept = 0;

    put_function(&function, w, parameters);
    f->st = f->st ? f->st : cr_text_status(&function);
    if (!w->fails && !f->st)
        kept = keep(f, &function, op, name);
    cr_text_drop(&function);
    cr_text_drop(&w->declared);
    cr_text_drop(&w->start);
    cr_text_drop(&w->code);
    cr_arena_drop(&w->room);
    return kept;
}

/* The same for this field of the entry. */
static void finish(rules_file *f, writer *w, const cr_op *op, const char *field)
{
    bool sizes = !strcmp(field, "sizes.compiled");
    const char *name = sizes ? "sizes" : "passes";
    int kept = finish_function(
        f, w, op, name, sizes ? "const cr_value *arg, cr_shape *out" : "const cr_value *arg");

    if (kept)
        cr_text_printf(&f->table, "    cr_ops_at(%d)->%s = %s_%d;\n", op->index, field, name,
                       kept);
}

/* Not of elementwise entries, whose records know the types that the checks let through last,
 * and of compositions, where the calls take far longer than the checks.  Those of sparse
 * tensors have many checks and few calls. */
static void put_checks(rules_file *f, const cr_op *op)
{
    writer w = {0};

    if (!op->check_count || op->does == CR_DOES_BODY)
        return;
    start(&w, op);
    write_checks(&w, op);
    finish(f, &w, op, "passes");
}

static void put_warnings(rules_file *f, const cr_op *op)
{
    writer w = {0};

    if (!op->warning_count)
        return;
    start(&w, op);
    for (int i = 0; i < op->warning_count && !w.fails; i++)
        write_condition(&w, op->warnings[i].say.when);
    finish(f, &w, op, "silent");
}

static void put_sizes(rules_file *f, const cr_op *op)
{
    writer w = {0};

    if (!op->sizes.rule[0] || op->sizes.name ||
        !(cr_op_on_views(op) || op->does == CR_DOES_FOLD))
        return;
    start(&w, op);
    for (int k = 0; k < op->result_count && !w.fails; k++) {
        if (!op->sizes.rule[k]) {
            say(&w, "out[%d] = out[0];", k);
            continue;
        }
        const char *list = as_list(&w, write_rule(&w, op->sizes.rule[k]));
        say(&w, "if (!rule_result(%s, &out[%d]))", list, k);
        say(&w, "    return false;");
    }
    finish(f, &w, op, "sizes.compiled");
}

/* Whether the C of a rule would take less time than its evaluation. */
static bool computes(const cr_rule *r)
{
    if (r->kind == CR_RULE_CALL && r->count == 1)
        return r->args[0]->kind != CR_RULE_NAME;
    return r->kind >= CR_RULE_LIST;
}

/* The value of a let, unless it is a float: numbers that may be integers are floats here, and
 * calls tell them apart. */
static int put_let(rules_file *f, const cr_op *op, int i)
{
    writer w = {0};
    value v;

    start(&w, op);
    v = write_rule(&w, op->lets[i].rule);
    if (v.param)
        w.fails = true;
    switch (w.fails ? IS_OTHER : v.kind) {
    case IS_INT: say(&w, "*out = cr_of_int(%s);", v.c); break;
    case IS_TRUTH: say(&w, "*out = cr_of_bool(%s);", v.c); break;
    case IS_DTYPE: say(&w, "*out = rule_type_value(%s);", v.c); break;
    case IS_LIST:
        say(&w, "if (!rule_list_value(f, %s, out))", v.c);
        say(&w, "    return false;");
        break;
    default: w.fails = true;
    }
    return finish_function(f, &w, op, "let", "cr_frame *f, const cr_value *arg, cr_value *out");
}

static void put_lets(rules_file *f, const cr_op *op)
{
    cr_text table = {0};
    bool any = false;

    if (op->does != CR_DOES_IS)
        return;
    for (int i = 0; i < op->let_count; i++) {
        int kept = computes(op->lets[i].rule) ? put_let(f, op, i) : 0;
        any |= kept != 0;
        if (kept)
            cr_text_printf(&table, "%slet_%d", i ? ", " : "", kept);
        else
            cr_text_put(&table, i ? ", NULL" : "NULL");
    }
    if (any) {
        cr_text_printf(&f->text, "\nstatic const cr_let_fn lets_%d[] = {%s};\n", op->index,
                       cr_text_str(&table));
        cr_text_printf(&f->table, "    cr_ops_at(%d)->let_code = lets_%d;\n", op->index,
                       op->index);
    }
    f->st = f->st ? f->st : cr_text_status(&table);
    cr_text_drop(&table);
}

cr_status opgen_rules(const char *folder)
{
    rules_file f = {0};

    cr_text_put(&f.text,
                "/* Generated by opgen: conditions of checks and warnings, rules of sizes. */\n"
                "#include \"jit/generated.h\"\n#include \"tensor/rule_code.h\"\n"
                "#include \"functions_shape.h\"\n");
    for (int i = 0; i < cr_ops_table_count(); i++) {
        put_checks(&f, cr_ops_at(i));
        put_warnings(&f, cr_ops_at(i));
        put_sizes(&f, cr_ops_at(i));
        put_lets(&f, cr_ops_at(i));
    }
    cr_text_printf(&f.text, "\nvoid cr_generated_rules(void)\n{\n%s}\n", cr_text_str(&f.table));
    cr_status st = f.st ? f.st : cr_text_status(&f.text);
    if (!st)
        st = opgen_save(folder, "rules.c", &f.text);
    printf("opgen: %d functions of rules\n", f.functions);
    cr_map_drop(&f.seen);
    cr_text_drop(&f.table);
    cr_text_drop(&f.text);
    return st;
}
