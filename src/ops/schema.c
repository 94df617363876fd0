/* Reads and prints the schema line, TorchScript's function schema. */
#include "ops/lex.h"
#include "ops/ops.h"
#include <string.h>

static const struct {
    const char *name;
    cr_type one, many;
} types[] = {
    {"Tensor", CR_T_TENSOR, CR_T_TENSORS},
    {"Scalar", CR_T_SCALAR, CR_T_SCALARS},
    {"int", CR_T_INT, CR_T_INTS},
    {"SymInt", CR_T_INT, CR_T_INTS},
    {"float", CR_T_FLOAT, CR_T_FLOATS},
    {"bool", CR_T_BOOL, CR_T_BOOLS},
    {"str", CR_T_STRING, CR_T_STRING},
    {"ScalarType", CR_T_DTYPE, CR_T_DTYPE},
    {"Layout", CR_T_LAYOUT, CR_T_LAYOUT},
    {"Device", CR_T_DEVICE, CR_T_DEVICE},
    {"MemoryFormat", CR_T_FORMAT, CR_T_FORMAT},
    {"Generator", CR_T_GENERATOR, CR_T_GENERATOR},
};

typedef struct {
    cr_type type;
    bool optional, item_optional, written;
    char alias;
    int fixed;
} type_spec;

static cr_status parse_alias(lexer *x, type_spec *t)
{
    const char *name;

    CR_TRY(lex_next(x));
    CR_TRY(lex_name(x, &name));
    t->alias = name[0];
    CR_TRY(lex_take(x, "!", &t->written));
    return lex_expect(x, ")");
}

static cr_status parse_type(lexer *x, type_spec *t)
{
    const char *name;
    size_t i = 0;
    bool list, question;

    *t = (type_spec){0};
    CR_TRY(lex_name(x, &name));
    while (i < CR_LEN(types) && strcmp(types[i].name, name))
        i++;
    if (i == CR_LEN(types))
        return lex_error(x, "no type is called '%s'", name);
    t->type = types[i].one;
    if (lex_is(x, "("))
        CR_TRY(parse_alias(x, t));
    CR_TRY(lex_take(x, "?", &question));
    CR_TRY(lex_take(x, "[", &list));
    t->optional = question;
    if (!list)
        return CR_OK;
    t->type = types[i].many;
    t->item_optional = question;
    if (x->kind == TOKEN_INT) {
        t->fixed = (int)x->integer;
        CR_TRY(lex_next(x));
    }
    CR_TRY(lex_expect(x, "]"));
    return lex_take(x, "?", &t->optional);
}

/* Names of integers in the defaults of ATen's schemas; contiguous_format is 0. */
static int64_t named_default(const char *name)
{
    return !strcmp(name, "Mean") ? 1 : !strcmp(name, "Sum") ? 2 : 0;
}

static cr_status parse_int_list(lexer *x, cr_param *p)
{
    int64_t *ints = cr_arena_get(x->arena, 8 * sizeof *ints);
    uint32_t n = 0;
    bool more;

    CR_NEED(ints);
    CR_TRY(lex_next(x));
    for (more = !lex_is(x, "]"); more && n < 8;) {
        bool minus;
        CR_TRY(lex_take(x, "-", &minus));
        ints[n++] = lex_is(x, "True") ? 1 : minus ? -x->integer : x->integer;
        CR_TRY(lex_next(x));
        CR_TRY(lex_take(x, ",", &more));
    }
    p->preset =
        (cr_value){.tag = p->type == CR_T_BOOLS ? CR_TRUTHS : CR_INTS, .len = n, .ints = ints};
    return lex_expect(x, "]");
}

static cr_value number_default(cr_param *p, bool whole, int64_t i, double d)
{
    switch (p->type) {
    case CR_T_FLOAT: return cr_of_float(d);
    case CR_T_SCALAR:
    case CR_T_TENSOR:
        p->preset_is_int = whole;
        return cr_of_number(whole ? cr_scalar_int(i) : cr_scalar_float(d));
    case CR_T_BOOL: return cr_of_bool(i != 0);
    case CR_T_FORMAT: return (cr_value){.tag = CR_FORMAT_VAL, .i = i};
    default: return cr_of_int(i);
    }
}

/* The single default of a list parameter, as in int[2] stride=1. */
static cr_status spread_default(lexer *x, cr_param *p, int64_t i)
{
    int n = p->fixed ? p->fixed : 1;
    int64_t *ints = cr_arena_get(x->arena, (size_t)n * sizeof *ints);

    CR_NEED(ints);
    for (int k = 0; k < n; k++)
        ints[k] = i;
    p->preset = (cr_value){
        .tag = p->type == CR_T_BOOLS ? CR_TRUTHS : CR_INTS, .len = (uint32_t)n, .ints = ints};
    return CR_OK;
}

static cr_status dtype_default(lexer *x, cr_param *p, const char *name)
{
    cr_dtype t = cr_dtype_find(name);

    if (t == CR_DTYPE_NONE)
        return lex_error(x, "no dtype is called %s", name);
    p->preset = cr_of_dtype(t);
    return CR_OK;
}

static cr_status parse_default(lexer *x, cr_param *p)
{
    bool minus;

    p->has_default = true;
    if (lex_is(x, "["))
        return parse_int_list(x, p);
    if (x->kind == TOKEN_STRING) {
        p->preset = (cr_value){.tag = CR_STRING, .len = (uint32_t)x->len, .s = x->text};
        return lex_next(x);
    }
    CR_TRY(lex_take(x, "-", &minus));
    if (x->kind == TOKEN_NAME) {
        const char *name;
        CR_TRY(lex_name(x, &name));
        if (!strcmp(name, "None")) {
            p->preset = cr_of_none();
            return CR_OK;
        }
        if (!strcmp(name, "inf")) {
            p->preset = number_default(p, false, 0, minus ? -__builtin_inf() : __builtin_inf());
            return CR_OK;
        }
        if (p->type == CR_T_DTYPE)
            return dtype_default(x, p, name);
        int64_t i = !strcmp(name, "True") ? 1 : named_default(name);
        p->preset = number_default(p, true, i, (double)i);
        return CR_OK;
    }
    int64_t i = minus ? -x->integer : x->integer;
    double d = minus ? -x->number : x->number;
    if (p->type == CR_T_INTS || p->type == CR_T_BOOLS)
        CR_TRY(spread_default(x, p, i));
    else
        p->preset = number_default(p, x->kind == TOKEN_INT, i, d);
    return lex_next(x);
}

static cr_status schema_param(lexer *x, cr_op *op, cr_param *p, bool keyword_only)
{
    type_spec t;
    bool preset;

    CR_TRY(parse_type(x, &t));
    *p = (cr_param){.type = (uint8_t)t.type,
                    .optional = t.optional,
                    .item_optional = t.item_optional,
                    .written = t.written,
                    .alias = t.alias,
                    .fixed = t.fixed,
                    .keyword_only = keyword_only};
    CR_TRY(lex_name(x, &p->name));
    CR_TRY(lex_take(x, "=", &preset));
    if (preset)
        CR_TRY(parse_default(x, p));
    if (p->type == CR_T_TENSOR || p->type == CR_T_TENSORS)
        op->tensor_params |= 1u << op->param_count;
    if (p->type == CR_T_SCALAR)
        op->scalar_params |= 1u << op->param_count;
    return CR_OK;
}

static cr_status parse_params(lexer *x, cr_op *op)
{
    cr_param params[CR_MAX_ARGS];
    bool more = !lex_is(x, ")"), star, keyword_only = false;

    while (more) {
        CR_TRY(lex_take(x, "*", &star));
        keyword_only |= star;
        if (!star) {
            if (op->param_count == CR_MAX_ARGS)
                return lex_error(x, "more than %d parameters", CR_MAX_ARGS);
            CR_TRY(schema_param(x, op, &params[op->param_count], keyword_only));
            op->param_count++;
        }
        CR_TRY(lex_take(x, ",", &more));
    }
    op->param = cr_arena_get(x->arena, op->param_count * sizeof *params);
    CR_NEED(op->param);
    memcpy(op->param, params, op->param_count * sizeof *params);
    return lex_expect(x, ")");
}

static cr_status parse_result(lexer *x, cr_op *op)
{
    type_spec t;

    if (op->result_count == CR_MAX_RESULTS)
        return lex_error(x, "more than %d results", CR_MAX_RESULTS);
    CR_TRY(parse_type(x, &t));
    cr_result *r = &op->result[op->result_count++];
    *r = (cr_result){
        .name = "", .type = (uint8_t)t.type, .alias = t.alias, .written = t.written};
    return x->kind == TOKEN_NAME ? lex_name(x, &r->name) : CR_OK;
}

static cr_status parse_results(lexer *x, cr_op *op)
{
    bool many, more;

    CR_TRY(lex_take(x, "(", &many));
    if (!many)
        return parse_result(x, op);
    for (more = !lex_is(x, ")"); more;) {
        CR_TRY(parse_result(x, op));
        CR_TRY(lex_take(x, ",", &more));
    }
    return lex_expect(x, ")");
}

cr_status schema_parse(lexer *x, cr_op *op)
{
    bool dot;

    CR_TRY(lex_name(x, &op->name));
    CR_TRY(lex_take(x, ".", &dot));
    op->overload = "";
    if (dot)
        CR_TRY(lex_name(x, &op->overload));
    CR_TRY(lex_expect(x, "("));
    CR_TRY(parse_params(x, op));
    CR_TRY(lex_expect(x, "->"));
    CR_TRY(parse_results(x, op));
    return x->kind == TOKEN_END ? CR_OK : lex_error(x, "the schema has text after its results");
}

const char *cr_schema_type(unsigned type, bool *list)
{
    for (size_t i = 0; i < CR_LEN(types); i++) {
        *list = types[i].many == type && types[i].one != type;
        if (types[i].one == type || types[i].many == type)
            return types[i].name;
    }
    return "?";
}

static void print_preset(cr_text *out, const cr_param *p)
{
    const cr_value *v = &p->preset;

    switch (v->tag) {
    case CR_NONE: cr_text_put(out, "None"); break;
    case CR_TRUTH: cr_text_put(out, v->i ? "True" : "False"); break;
    case CR_FORMAT_VAL:
    case CR_INT: cr_text_printf(out, "%lld", (long long)v->i); break;
    case CR_DTYPE_VAL: cr_text_printf(out, "%d", cr_dtype_number((cr_dtype)v->i)); break;
    case CR_FLOAT: cr_text_printf(out, "%.17g", v->d); break;
    case CR_STRING: cr_text_printf(out, "\"%.*s\"", (int)v->len, v->s); break;
    case CR_NUMBER:
        if (p->preset_is_int)
            cr_text_printf(out, "%lld", (long long)v->number.i);
        else
            cr_text_printf(out, "%.17g", v->number.d);
        break;
    default:
        for (uint32_t i = 0; i < v->len; i++)
            cr_text_printf(out, "%s%lld", i ? ", " : "[", (long long)v->ints[i]);
        cr_text_put(out, v->len ? "]" : "[]");
    }
}

static void print_param_type(cr_text *out, unsigned type, char alias, bool written)
{
    bool list;

    cr_text_put(out, cr_schema_type(type, &list));
    if (alias)
        cr_text_printf(out, "(%c%s)", alias, written ? "!" : "");
}

static void print_param(cr_text *out, const cr_param *p)
{
    bool list;

    cr_schema_type(p->type, &list);
    print_param_type(out, p->type, p->alias, p->written);
    if (list && p->item_optional)
        cr_text_put(out, "?");
    if (list && p->fixed)
        cr_text_printf(out, "[%d]", p->fixed);
    else if (list)
        cr_text_put(out, "[]");
    if (p->optional && !(list && p->item_optional && !p->has_default))
        cr_text_put(out, "?");
    cr_text_printf(out, " %s", p->name);
    if (p->has_default) {
        cr_text_put(out, "=");
        print_preset(out, p);
    }
}

bool cr_op_out_lacks(const cr_op *op, int i)
{
    const char *name = op->param[i].name;

    return cr_op_find_param(op, "device") >= 0 &&
           (!strcmp(name, "dtype") || !strcmp(name, "layout") || !strcmp(name, "device") ||
            !strcmp(name, "pin_memory"));
}

static void print_results(cr_text *out, const cr_op *op)
{
    cr_text_put(out, op->result_count == 1 ? ") -> " : ") -> (");
    for (int i = 0; i < op->result_count; i++) {
        const cr_result *r = &op->result[i];
        bool list;
        cr_text_put(out, i ? ", " : "");
        print_param_type(out, r->type, r->alias, r->written);
        cr_schema_type(r->type, &list);
        cr_text_put(out, list ? "[]" : "");
        if (*r->name && !(op->forms & CR_AS_COPIED))
            cr_text_printf(out, " %s", r->name);
    }
    if (op->result_count != 1)
        cr_text_put(out, ")");
}

/* The tensors of an overload that writes to them, and its results: these tensors. */
static void print_given(cr_text *out, const cr_op *op, const cr_out_overload *o,
                        const char *comma)
{
    bool several = op->result_count > 1, named = !(op->forms & CR_AS_COPIED);
    const char *list = op->result[0].type == CR_T_TENSORS ? "[]" : "";

    for (int i = 0; i < op->result_count; i++, comma = ", ")
        cr_text_printf(out, "%sTensor(%c!)%s %s", comma, 'a' + i, list, o->given[i]);
    if (*list) {
        cr_text_put(out, ") -> ()");
        return;
    }
    cr_text_put(out, several ? ") -> (" : ") -> ");
    for (int i = 0; i < op->result_count; i++)
        cr_text_printf(out, "%sTensor(%c!)%s%s", i ? ", " : "", 'a' + i,
                       several && named && *op->result[i].name ? " " : "",
                       several && named ? op->result[i].name : "");
    cr_text_put(out, several ? ")" : "");
}

/* `o` is NULL, or the overload that writes to tensors; `differs` is then the other. */
static void print_schema_params(cr_text *out, const cr_op *op, const cr_overload *differs,
                                const cr_out_overload *o)
{
    const char *comma = "";
    bool keywords = false;

    for (int i = 0; i < op->param_count; i++) {
        cr_param p = op->param[i];
        if (differs->absent >> i & 1 || (o && cr_op_out_lacks(op, i)))
            continue;
        if (differs->positional >> i & 1)
            p.keyword_only = false;
        cr_text_put(out, comma);
        cr_text_put(out, p.keyword_only && !keywords ? "*, " : "");
        if (differs->scalars >> i & 1)
            p.type = CR_T_SCALAR;
        if (differs->required >> i & 1)
            p.has_default = false;
        print_param(out, &p);
        keywords = p.keyword_only;
        comma = ", ";
    }
    if (!o) {
        print_results(out, op);
        return;
    }
    if (!keywords) {
        cr_text_printf(out, "%s*", comma);
        comma = ", ";
    }
    print_given(out, op, o, comma);
}

const char *cr_param_type_text(const cr_param *p)
{
    static const char *const text[] = {[CR_T_TENSOR] = "Tensor",
                                       [CR_T_TENSORS] = "tuple of Tensors",
                                       [CR_T_SCALAR] = "Number",
                                       [CR_T_SCALARS] = "tuple of Scalars",
                                       [CR_T_INT] = "int",
                                       [CR_T_INTS] = "tuple of ints",
                                       [CR_T_FLOAT] = "float",
                                       [CR_T_FLOATS] = "tuple of floats",
                                       [CR_T_BOOL] = "bool",
                                       [CR_T_BOOLS] = "tuple of bools",
                                       [CR_T_STRING] = "str",
                                       [CR_T_DTYPE] = "torch.dtype",
                                       [CR_T_LAYOUT] = "torch.layout",
                                       [CR_T_DEVICE] = "torch.device",
                                       [CR_T_FORMAT] = "torch.memory_format",
                                       [CR_T_GENERATOR] = "torch.Generator"};
    return text[p->type];
}

void cr_op_print_schema(cr_text *out, const cr_op *op)
{
    cr_text_printf(out, "%s%s%s(", op->name, *op->overload ? "." : "", op->overload);
    print_schema_params(out, op, &(cr_overload){0}, NULL);
}

static void print_qualified(cr_text *out, const char *name, const char *overload)
{
    bool named = strcmp(overload, "default") != 0;

    cr_text_printf(out, "%s%s%s%s(", strstr(name, "::") ? "" : "aten::", name, named ? "." : "",
                   named ? overload : "");
}

void cr_op_print_overload(cr_text *out, const cr_op *op, const char *name,
                          const cr_overload *overload)
{
    print_qualified(out, name, overload->name);
    print_schema_params(out, op, overload, NULL);
}

void cr_op_print_out_overload(cr_text *out, const cr_op *op, const char *name,
                              const cr_out_overload *overload)
{
    print_qualified(out, name, overload->name);
    print_schema_params(out, op, overload->of, overload);
}

bool cr_param_takes(const cr_param *p, cr_tag tag)
{
    if (tag == CR_NONE)
        return p->optional || (p->has_default && p->preset.tag == CR_NONE);
    switch ((cr_type)p->type) {
    case CR_T_TENSOR: return tag == CR_TENSOR || (tag == CR_NUMBER && p->number);
    case CR_T_TENSORS: return tag == CR_TENSORS;
    case CR_T_SCALAR: return tag == CR_NUMBER;
    case CR_T_SCALARS: return tag == CR_NUMBERS;
    case CR_T_INT: return tag == CR_INT;
    case CR_T_INTS: return tag == CR_INTS;
    case CR_T_FLOAT: return tag == CR_FLOAT;
    case CR_T_FLOATS: return tag == CR_FLOATS;
    case CR_T_BOOL: return tag == CR_TRUTH;
    case CR_T_BOOLS: return tag == CR_TRUTHS;
    case CR_T_STRING: return tag == CR_STRING;
    case CR_T_DTYPE: return tag == CR_DTYPE_VAL;
    case CR_T_LAYOUT: return tag == CR_LAYOUT_VAL;
    case CR_T_DEVICE: return tag == CR_DEVICE_VAL;
    case CR_T_FORMAT: return tag == CR_FORMAT_VAL;
    case CR_T_GENERATOR: return tag == CR_GENERATOR;
    }
    return false;
}
