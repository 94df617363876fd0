/* Reading exported programs: the graph is written as the source text of a class.
 *
 * A value NAME of the graph is the variable v_NAME, of a graph inside of it w1_NAME, w2_NAME
 * and so on; a symbol of sizes is n_NAME.  Names are checked to be names, and texts are quoted,
 * so a file states nothing but the calls of its graph.
 *
 * torch.cond is an `if` with both graphs in place; the graph of another grad mode is in place,
 * because results do not depend on it. */
#include "script/exported.h"
#include "io/checkpoint.h"
#include "io/json.h"
#include "script/code.h"
#include "script/operators.h"
#include "tensor/tensor.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { SCHEMA = 8, MOST_GRAPHS = 4096 };

typedef struct {
    cr_zip *zip;
    cr_arena arena;
    const cr_json *model, *graph, *specs, *weights, *constants;
    cr_text source, signature;
    int graphs; /* inside of the program's, so far */
} reader;

/* The variables of a graph, and where its statements stand. */
typedef struct {
    char prefix[16];
    int indent;
    const cr_json *graph;
} place;

static cr_status malformed(const char *what)
{
    return cr_fail(CR_RUNTIME, "torch.export.load: a field has another form than expected: %s",
                   what);
}

/* --- names --- */

static bool is_name(const char *s) { return s && cr_is_identifier(s); }

static cr_status name_in(const char **out, const cr_json *v, const char *key)
{
    *out = cr_json_text(cr_json_get(v, key));
    return is_name(*out) ? CR_OK : malformed("a value has no name");
}

/* {"tag": value}: the only item. */
static const cr_json *only(const cr_json *v)
{
    return v && v->kind == CR_JSON_OBJECT && v->count == 1 ? v->item : NULL;
}

static bool is(const cr_json *tagged, const char *tag)
{
    return tagged && !strcmp(tagged->key, tag);
}

static const cr_json *items(const cr_json *v, const char *key)
{
    const cr_json *list = cr_json_get(v, key);

    return list && list->kind == CR_JSON_LIST ? list->item : NULL;
}

/* --- numbers of the format --- */

#define CR_EXPORTED_DTYPE(number, name) [number] = name,
static const char *const dtypes[] = {
#include "script/exported_schema.def"
};

static cr_status dtype_of(cr_dtype *out, const cr_json *number)
{
    const char *name = number && number->kind == CR_JSON_INT && number->i > 0 &&
                               number->i < (int64_t)CR_LEN(dtypes)
                           ? dtypes[number->i]
                           : NULL;

    *out = name ? cr_dtype_find(name) : CR_DTYPE_NONE;
    return *out != CR_DTYPE_NONE ? CR_OK : malformed("an unknown dtype");
}

/* --- arguments --- */

static void put_quoted(cr_text *out, const char *s)
{
    cr_text_char(out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            cr_text_printf(out, "\\%c", c);
        else if (c == '\n')
            cr_text_put(out, "\\n");
        else if (c < 0x20)
            cr_text_printf(out, "\\x%02x", c);
        else
            cr_text_char(out, (char)c);
    }
    cr_text_char(out, '"');
}

static cr_status put_float(cr_text *out, const cr_json *v)
{
    const char *s = cr_json_text(v);

    if (s && (!strcmp(s, "Infinity") || !strcmp(s, "-Infinity") || !strcmp(s, "NaN"))) {
        cr_text_put(out, *s == 'N' ? "nan" : *s == '-' ? "(-inf)" : "inf");
        return CR_OK;
    }
    if (v->kind != CR_JSON_FLOAT && v->kind != CR_JSON_INT)
        return malformed("a number");
    if (v->d != v->d || v->d - v->d != 0) {
        cr_text_put(out, v->d != v->d ? "nan" : v->d > 0 ? "inf" : "(-inf)");
        return CR_OK;
    }
    char spelled[40];
    snprintf(spelled, sizeof spelled, "%.17g", v->d);
    cr_text_put(out, spelled);
    cr_text_put(out, strpbrk(spelled, ".e") ? "" : ".");
    return CR_OK;
}

static cr_status put_int(cr_text *out, const cr_json *v)
{
    if (v->kind != CR_JSON_INT)
        return malformed("an integer");
    cr_text_printf(out, "%lld", (long long)v->i);
    return CR_OK;
}

static cr_status put_variable(cr_text *out, const place *p, const cr_json *v, const char *key)
{
    const char *name;

    CR_TRY(name_in(&name, v, key));
    cr_text_printf(out, "%s_%s", p->prefix, name);
    return CR_OK;
}

static cr_status put_argument(cr_text *out, const place *p, const cr_json *tagged);

/* A list whose items are arguments, or values of the tag `item`. */
static cr_status put_list(cr_text *out, const place *p, const cr_json *list, const char *type,
                          const char *item)
{
    if (list->kind != CR_JSON_LIST)
        return malformed("a list");
    cr_text_printf(out, "annotate(List[%s], [", type);
    for (const cr_json *v = list->item; v; v = v->next) {
        cr_json one = *v;
        one.key = item ? item : v->key;
        const cr_json *tagged = item ? &one : only(v);
        if (!tagged)
            return malformed("an item of a list");
        CR_TRY(put_argument(out, p, tagged));
        cr_text_put(out, v->next ? ", " : "");
    }
    cr_text_put(out, "])");
    return CR_OK;
}

static cr_status put_symbol(cr_text *out, const place *p, const cr_json *v, const char *number)
{
    if (cr_json_get(v, "as_name"))
        return put_variable(out, p, v, "as_name");
    cr_json constant = {0};
    const cr_json *of = only(v);
    if (!of || strcmp(of->key, number))
        return malformed("a number that varies");
    constant = *of;
    return put_argument(out, p, &constant);
}

static cr_status put_numbered(cr_text *out, const cr_json *v, const int *meaning, int count)
{
    if (v->kind != CR_JSON_INT || v->i < 0 || v->i >= count || meaning[v->i] < 0)
        return malformed("an unknown layout or memory format");
    cr_text_printf(out, "%d", meaning[v->i]);
    return CR_OK;
}

static cr_status put_device(cr_text *out, const cr_json *v)
{
    const char *type = cr_json_text(cr_json_get(v, "type"));
    const cr_json *index = cr_json_get(v, "index");

    if (!is_name(type))
        return malformed("a device");
    cr_text_printf(out, "torch.device(\"%s", type);
    if (index && index->kind == CR_JSON_INT && index->i >= 0 && index->i < 1024)
        cr_text_printf(out, ":%d", (int)index->i);
    cr_text_put(out, "\")");
    return CR_OK;
}

/* Arguments of one value by their tags. */
static cr_status put_argument(cr_text *out, const place *p, const cr_json *v)
{
    static const int layouts[] = {-1, -1, -1, -1, -1, -1, -1, 0}, formats[] = {-1, 0, 2, 3, 1};
    static const struct {
        const char *tag, *type, *item;
    } lists[] = {{"as_tensors", "Tensor", "as_tensor"},
                 {"as_optional_tensors", "Optional[Tensor]", NULL},
                 {"as_ints", "int", "as_int"},
                 {"as_floats", "float", "as_float"},
                 {"as_bools", "bool", "as_bool"},
                 {"as_strings", "str", "as_string"},
                 {"as_sym_ints", "int", "as_sym_int"},
                 {"as_sym_floats", "float", "as_sym_float"},
                 {"as_sym_bools", "bool", "as_sym_bool"}};
    cr_dtype dtype;

    if (is(v, "as_tensor"))
        return put_variable(out, p, v, "name");
    if (is(v, "as_none"))
        return cr_text_put(out, "None"), CR_OK;
    if (is(v, "as_bool"))
        return cr_text_put(out, v->kind == CR_JSON_TRUE ? "True" : "False"), CR_OK;
    if (is(v, "as_int"))
        return put_int(out, v);
    if (is(v, "as_float"))
        return put_float(out, v);
    if (is(v, "as_string") && cr_json_text(v))
        return put_quoted(out, v->text), CR_OK;
    if (is(v, "as_sym_int"))
        return put_symbol(out, p, v, "as_int");
    if (is(v, "as_sym_float"))
        return put_symbol(out, p, v, "as_float");
    if (is(v, "as_sym_bool"))
        return put_symbol(out, p, v, "as_bool");
    if (is(v, "as_device"))
        return put_device(out, v);
    if (is(v, "as_layout"))
        return put_numbered(out, v, layouts, (int)CR_LEN(layouts));
    if (is(v, "as_memory_format"))
        return put_numbered(out, v, formats, (int)CR_LEN(formats));
    if (is(v, "as_scalar_type")) {
        CR_TRY(dtype_of(&dtype, v));
        cr_text_printf(out, "%d", cr_dtype_number(dtype));
        return CR_OK;
    }
    for (size_t i = 0; i < CR_LEN(lists); i++)
        if (is(v, lists[i].tag))
            return put_list(out, p, v, lists[i].type, lists[i].item);
    return cr_fail(CR_RUNTIME,
                   "the program has an argument of kind %s, which has no form without Python",
                   v ? v->key : "none");
}

/* --- calls --- */

/* Functions of numbers: `%1` and `%2` are the arguments. */
static const struct {
    const char *target, *form;
} number_functions[] = {
    {"_operator.add", "(%1 + %2)"},
    {"_operator.sub", "(%1 - %2)"},
    {"_operator.mul", "(%1 * %2)"},
    {"_operator.floordiv", "(%1 // %2)"},
    {"_operator.truediv", "(%1 / %2)"},
    {"_operator.mod", "(%1 % %2)"},
    {"_operator.pow", "(%1 ** %2)"},
    {"_operator.neg", "(-%1)"},
    {"_operator.pos", "%1"},
    {"_operator.eq", "(%1 == %2)"},
    {"_operator.ne", "(%1 != %2)"},
    {"_operator.lt", "(%1 < %2)"},
    {"_operator.le", "(%1 <= %2)"},
    {"_operator.gt", "(%1 > %2)"},
    {"_operator.ge", "(%1 >= %2)"},
    {"_operator.and_", "(%1 and %2)"},
    {"_operator.or_", "(%1 or %2)"},
    {"torch.sym_not", "(not %1)"},
    {"torch.sym_int", "int(%1)"},
    {"torch.sym_float", "float(%1)"},
    {"torch.sym_max", "ops.prim.max(%1, %2)"},
    {"torch.sym_min", "ops.prim.min(%1, %2)"},
    {"torch._sym_sqrt", "torch.sqrt(%1)"},
    {"torch.sym_sqrt", "torch.sqrt(%1)"},
    {"math.trunc", "int(%1)"},
    {"math.floor", "torch.floor(%1)"},
    {"math.ceil", "torch.ceil(%1)"},
    {"torch.ops.aten.sym_size.int", "torch.size(%1, %2)"},
    {"torch.ops.aten.sym_stride.int", "(torch.stride(%1))[%2]"},
    {"torch.ops.aten.sym_numel.default", "torch.numel(%1)"},
    {"torch.ops.aten.sym_storage_offset.default", "torch.storage_offset(%1)"}};

/* Statements about values that other conditions of the program have, too. */
static bool is_statement(const char *target)
{
    return !strncmp(target, "torch.ops.aten.sym_constrain_range", 34) ||
           !strncmp(target, "torch.ops.aten._assert_tensor_metadata", 38);
}

static void put_indent(cr_text *out, const place *p)
{
    cr_text_pad(out, (size_t)p->indent, ' ');
}

static cr_status put_form(cr_text *out, const place *p, const char *form, const cr_json *input)
{
    const cr_json *arg[2] = {input, input ? input->next : NULL};

    for (; *form; form++) {
        if (*form != '%' || (form[1] != '1' && form[1] != '2')) {
            cr_text_char(out, *form);
            continue;
        }
        const cr_json *given = arg[*++form - '1'];
        CR_TRY(put_argument(out, p, only(cr_json_get(given, "arg"))));
    }
    return CR_OK;
}

/* The function of an operator, as a program names it: torch.ops.NAMESPACE.NAME.OVERLOAD. */
static cr_status put_operator(cr_text *out, const char *target)
{
    char name[160], *dot, *last;
    cr_text full = {0};
    const cr_sschemas *known = NULL;
    cr_status st;

    if (strncmp(target, "torch.ops.", 10) || strlen(target) >= sizeof name)
        return cr_fail(CR_RUNTIME,
                       "torch.export.load: the function '%.100s' has no form "
                       "without Python",
                       target);
    strcpy(name, target + 10);
    dot = strchr(name, '.');
    last = dot ? strchr(dot + 1, '.') : NULL;
    if (!dot)
        return malformed("the name of an operator");
    *dot++ = 0;
    if (last)
        *last = 0;
    if (!is_name(name) || !is_name(dot))
        return malformed("the name of an operator");
    cr_text_printf(&full, "%s::%s", name, dot);
    CR_GO(cr_text_status(&full));
    CR_GO(cr_soperators(&known, full.at));
    if (!known->len && !cr_slibrary_has(full.at))
        CR_GO(
            cr_fail(CR_RUNTIME, "torch.export.load: there is no operator %.100s", target + 10));
    if (!strcmp(name, "aten"))
        cr_text_printf(out, "torch.%s(", dot);
    else
        cr_text_printf(out, "ops.%s.%s(", name, dot);
    st = CR_OK;
done:
    cr_text_drop(&full);
    return st;
}

static cr_status put_call(cr_text *out, const place *p, const char *target,
                          const cr_json *input)
{
    bool named = false;

    for (size_t i = 0; i < CR_LEN(number_functions); i++)
        if (!strcmp(target, number_functions[i].target))
            return put_form(out, p, number_functions[i].form, input);
    CR_TRY(put_operator(out, target));
    for (; input; input = input->next) {
        const cr_json *kind = cr_json_get(input, "kind");
        named = named || (kind && kind->i == 2);
        if (named) {
            const char *name;
            CR_TRY(name_in(&name, input, "name"));
            cr_text_printf(out, "%s=", name);
        }
        CR_TRY(put_argument(out, p, only(cr_json_get(input, "arg"))));
        cr_text_put(out, input->next ? ", " : "");
    }
    cr_text_char(out, ')');
    return CR_OK;
}

/* The variable of a result. */
static cr_status put_result(cr_text *out, const place *p, const cr_json *v)
{
    if (is(v, "as_tensor"))
        return put_variable(out, p, v, "name");
    if (is(v, "as_sym_int") || is(v, "as_sym_float") || is(v, "as_sym_bool"))
        return put_variable(out, p, v, "as_name");
    return malformed("a result");
}

/* The number that a program takes from an element. */
static const char *conversion(const char *target, const cr_json *result)
{
    if (strncmp(target, "torch.ops.aten.item", 19) &&
        strncmp(target, "torch.ops.aten._local_scalar_dense", 34))
        return NULL;
    return is(result, "as_sym_int")     ? "int"
           : is(result, "as_sym_float") ? "float"
           : is(result, "as_sym_bool")  ? "bool"
                                        : NULL;
}

static cr_status put_graph(reader *r, const place *p);

/* A graph of an argument: its inputs are values of `outer`, and its results get their names
 * there. */
static cr_status put_inner(reader *r, const place *outer, int indent, const cr_json *arg,
                           const cr_json *given, const cr_json *results)
{
    const cr_json *graph = cr_json_get(only(arg), "graph");
    place p = {.indent = indent, .graph = graph};
    const cr_json *in, *of;

    if (!is(only(arg), "as_graph") || !graph)
        return malformed("a graph");
    if (++r->graphs > MOST_GRAPHS)
        return malformed("too many graphs");
    snprintf(p.prefix, sizeof p.prefix, "w%d", r->graphs);
    for (in = items(graph, "inputs"), of = given; in; in = in->next, of = of->next) {
        if (!of)
            return malformed("the arguments of a graph");
        put_indent(&r->source, &p);
        CR_TRY(put_result(&r->source, &p, only(in)));
        cr_text_put(&r->source, " = ");
        CR_TRY(put_argument(&r->source, outer, only(of)));
        cr_text_char(&r->source, '\n');
    }
    CR_TRY(put_graph(r, &p));
    for (in = items(graph, "outputs"), of = results; in; in = in->next, of = of->next) {
        if (!of)
            return malformed("the results of a graph");
        put_indent(&r->source, &p);
        CR_TRY(put_result(&r->source, outer, only(of)));
        cr_text_put(&r->source, " = ");
        CR_TRY(put_argument(&r->source, &p, only(in)));
        cr_text_char(&r->source, '\n');
    }
    return CR_OK;
}

/* The values that a node gives to a graph: the items of a list, each with its tag. */
static cr_status operands(reader *r, const cr_json **out, const cr_json *arg)
{
    const cr_json *list = only(arg);
    cr_json **last = (cr_json **)(uintptr_t)out, *made, *inner;

    *out = NULL;
    if (is(list, "as_optional_tensors") || (list && list->kind != CR_JSON_LIST))
        return malformed("the operands of a graph");
    const char *tag = is(list, "as_tensors")    ? "as_tensor"
                      : is(list, "as_sym_ints") ? "as_sym_int"
                                                : NULL;
    for (const cr_json *v = list ? list->item : NULL; v; v = v->next) {
        made = cr_arena_get(&r->arena, sizeof *made);
        inner = cr_arena_get(&r->arena, sizeof *inner);
        CR_NEED(made && inner);
        *inner = tag ? *v : v->item ? *v->item : *v;
        inner->key = tag ? tag : inner->key;
        inner->next = NULL;
        if (!inner->key)
            return malformed("the operands of a graph");
        *made = (cr_json){.kind = CR_JSON_OBJECT, .count = 1, .item = inner};
        *last = made;
        last = &made->next;
    }
    return CR_OK;
}

/* The results of a node that are names of its graphs' results. */
static cr_status inner_results(reader *r, const cr_json **out, const cr_json *node)
{
    const cr_json *results = items(node, "outputs");

    *out = results;
    if (results && (is(only(results), "as_tensors") || is(only(results), "as_sym_ints")))
        return operands(r, out, results);
    return CR_OK;
}

/* torch.cond(predicate, graph, graph, operands) */
static cr_status put_cond(reader *r, const place *p, const cr_json *node)
{
    const cr_json *arg[4] = {NULL}, *given, *results, *in = items(node, "inputs");

    for (int k = 0; k < 4; k++, in = in->next)
        if (!in || !(arg[k] = cr_json_get(in, "arg")))
            return malformed("the arguments of torch.cond");
    CR_TRY(operands(r, &given, arg[3]));
    CR_TRY(inner_results(r, &results, node));
    put_indent(&r->source, p);
    cr_text_put(&r->source, "if bool(");
    CR_TRY(put_argument(&r->source, p, only(arg[0])));
    cr_text_put(&r->source, "):\n");
    for (int k = 1; k < 3; k++) {
        put_indent(&r->source, p);
        cr_text_put(&r->source, "  pass\n");
        CR_TRY(put_inner(r, p, p->indent + 2, arg[k], given, results));
        if (k == 1) {
            put_indent(&r->source, p);
            cr_text_put(&r->source, "else:\n");
        }
    }
    return CR_OK;
}

/* wrap_with_set_grad_enabled(mode, graph, arguments...) */
static cr_status put_wrapped(reader *r, const place *p, const cr_json *node)
{
    const cr_json *in = items(node, "inputs"), *graph, *results, *first = NULL;
    const cr_json **last = &first;

    in = in ? in->next : NULL;
    graph = cr_json_get(in, "arg");
    if (!graph)
        return malformed("the arguments of a graph");
    for (in = in->next; in; in = in->next) {
        const cr_json *arg = cr_json_get(in, "arg");
        cr_json *made = cr_arena_get(&r->arena, sizeof *made);
        CR_NEED(made);
        if (!arg)
            return malformed("the arguments of a graph");
        *made = *arg;
        made->next = NULL;
        *last = made;
        last = (const cr_json **)(uintptr_t)&made->next;
    }
    CR_TRY(inner_results(r, &results, node));
    return put_inner(r, p, p->indent, graph, first, results);
}

static cr_status put_assertion(reader *r, const place *p, const cr_json *node)
{
    const cr_json *condition = items(node, "inputs");
    const char *text =
        condition ? cr_json_text(only(cr_json_get(condition->next, "arg"))) : NULL;

    put_indent(&r->source, p);
    cr_text_put(&r->source, "assert bool(");
    CR_TRY(put_argument(&r->source, p, only(cr_json_get(condition, "arg"))));
    cr_text_put(&r->source, "), ");
    put_quoted(&r->source, text ? text : "a condition of the program does not hold");
    cr_text_char(&r->source, '\n');
    return CR_OK;
}

static cr_status put_node(reader *r, const place *p, const cr_json *node)
{
    const char *target = cr_json_text(cr_json_get(node, "target")), *as;
    const cr_json *results = items(node, "outputs"), *list = results ? only(results) : NULL;

    if (!target)
        return malformed("a node has no target");
    if (!strcmp(target, "torch.ops.higher_order.cond"))
        return put_cond(r, p, node);
    if (!strcmp(target, "torch.ops.higher_order.wrap_with_set_grad_enabled"))
        return put_wrapped(r, p, node);
    if (!strncmp(target, "torch.ops.aten._assert_scalar", 29) ||
        !strncmp(target, "torch.ops.aten._assert_async", 28))
        return put_assertion(r, p, node);
    if (is_statement(target))
        return CR_OK;
    put_indent(&r->source, p);
    as = conversion(target, list);
    if (is(list, "as_tensors") && list->kind == CR_JSON_LIST) {
        for (const cr_json *v = list->item; v; v = v->next) {
            CR_TRY(put_variable(&r->source, p, v, "name"));
            cr_text_put(&r->source, ", ");
        }
        cr_text_put(&r->source, list->item ? "= " : "");
    } else {
        for (const cr_json *v = results; v; v = v->next) {
            if (is(only(v), "as_none"))
                cr_text_put(&r->source, "_");
            else
                CR_TRY(put_result(&r->source, p, only(v)));
            cr_text_put(&r->source, results->next ? ", " : " ");
        }
        cr_text_put(&r->source, results ? "= " : "");
    }
    cr_text_printf(&r->source, "%s%s", as ? as : "", as ? "(" : "");
    CR_TRY(put_call(&r->source, p, target, items(node, "inputs")));
    cr_text_put(&r->source, as ? ")\n" : "\n");
    return CR_OK;
}

static cr_status put_graph(reader *r, const place *p)
{
    for (const cr_json *node = items(p->graph, "nodes"); node; node = node->next)
        CR_TRY(put_node(r, p, node));
    return CR_OK;
}

/* --- sizes --- */

static const cr_json *tensor_value(const reader *r, const char *name)
{
    return cr_json_get(cr_json_get(r->graph, "tensor_values"), name);
}

static size_t word_length(const char *s)
{
    size_t n = 0;

    while (isalnum((unsigned char)s[n]) || s[n] == '_')
        n++;
    return n;
}

static bool begins(const char **s, const char *word)
{
    size_t n = strlen(word);

    if (strncmp(*s, word, n))
        return false;
    *s += n;
    return true;
}

/* Symbol('s0', positive=True) and Integer(2): the text behind the bracket, up to its end. */
static bool put_atom(cr_text *out, const char **s)
{
    const char *at = *s + (**s == '\''), *end = strchr(at, ')');
    size_t n = (size_t)(*at == '-') + word_length(at + (*at == '-'));

    if (!n || !end)
        return false;
    cr_text_put_n(out, at, n);
    *s = end + 1;
    return true;
}

/* An expression that names its functions, as sums and products of symbols: Add(Integer(1),
 * Symbol('s0')) is (1+s0).  False: it has others. */
static bool put_sum(cr_text *out, const char **s, int depth)
{
    if (begins(s, "Symbol(") || begins(s, "Integer("))
        return put_atom(out, s);
    char sign = begins(s, "Add(") ? '+' : begins(s, "Mul(") ? '*' : 0;
    if (!sign || depth > 32)
        return false;
    cr_text_char(out, '(');
    for (bool first = true; **s != ')'; first = false) {
        while (!first && (**s == ',' || **s == ' '))
            ++*s;
        if (!first)
            cr_text_char(out, sign);
        if (!put_sum(out, s, depth + 1))
            return false;
    }
    ++*s;
    cr_text_char(out, ')');
    return true;
}

/* The spelling of a size: a number or an expression; NULL: of another form.  It is kept. */
static const char *size_text(reader *r, const cr_json *size)
{
    const cr_json *v = cr_json_get(size, "as_int");
    const char *s = cr_json_text(cr_json_get(cr_json_get(size, "as_expr"), "expr_str")),
               *at = s;
    cr_text text = {0};

    if (v && v->kind == CR_JSON_INT)
        cr_text_printf(&text, "%lld", (long long)v->i);
    else if (s && strchr(s, '(') && !(put_sum(&text, &at, 0) && !*at)) {
        text.len = 0;
        cr_text_put(&text, s);
    } else if (s && !strchr(s, '('))
        cr_text_put(&text, s);
    char *kept = text.len && !text.failed ? cr_arena_text(&r->arena, text.at, text.len) : NULL;
    cr_text_drop(&text);
    return kept;
}

static bool is_expression(const char *s)
{
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("_ +-*()", *s))
            return false;
    return true;
}

/* An expression whose symbols are the variables n_NAME. */
static void put_expression(cr_text *out, const char *s)
{
    for (bool inside = false; *s; s++) {
        bool letter = isalnum((unsigned char)*s) || *s == '_';
        if (letter && !inside && !isdigit((unsigned char)*s))
            cr_text_put(out, "n_");
        inside = letter;
        cr_text_char(out, *s);
    }
}

/* Whether the text already gives all symbols of the expression a value. */
static bool is_known(const reader *r, const char *s)
{
    cr_text find = {0};
    bool known = true;

    while (*s && known) {
        size_t n = word_length(s);
        if (n && !isdigit((unsigned char)*s)) {
            find.len = 0;
            cr_text_put(&find, "    n_");
            cr_text_put_n(&find, s, n);
            cr_text_put(&find, " = ");
            known = !find.failed && strstr(cr_text_str(&r->source), find.at);
        }
        s += n ? n : 1;
    }
    cr_text_drop(&find);
    return known;
}

static int64_t bound(const cr_json *range, const char *key, int64_t none)
{
    const cr_json *v = cr_json_get(range, key);

    return v && v->kind == CR_JSON_INT ? v->i : none;
}

/* The first size with a symbol gives it its value, which is compared with its bounds. */
static void put_symbol_of(reader *r, const char *name, int d, const char *symbol)
{
    const cr_json *range = cr_json_get(cr_json_get(r->model, "range_constraints"), symbol);
    int64_t least = bound(range, "min_val", 0), most = bound(range, "max_val", -1);

    most = most >= (1LL << 31) ? -1 : most;
    cr_text_printf(&r->source, "    n_%s = torch.size(v_%s, %d)\n", symbol, name, d);
    if (least > 0)
        cr_text_printf(
            &r->source,
            "    assert n_%s >= %lld, \"input %s: the size of dim %d must be at least "
            "%lld\"\n",
            symbol, (long long)least, name, d, (long long)least);
    if (most >= 0)
        cr_text_printf(
            &r->source,
            "    assert n_%s <= %lld, \"input %s: the size of dim %d must be at most "
            "%lld\"\n",
            symbol, (long long)most, name, d, (long long)most);
    cr_text_printf(&r->signature, "size %s %lld %lld", symbol, (long long)least,
                   (long long)most);
}

static void put_hint(reader *r, const cr_json *size)
{
    const cr_json *hint = cr_json_get(cr_json_get(size, "as_expr"), "hint");

    cr_text_printf(&r->signature, " %lld\n", (long long)bound(hint, "as_int", -1));
}

/* Symbols, in the first pass, and other sizes in the second. */
static cr_status put_sizes(reader *r, const char *name, const cr_json *value, bool symbols)
{
    int d = 0;

    for (const cr_json *size = items(value, "sizes"); size; size = size->next, d++) {
        const char *s = size_text(r, size);
        if (!s)
            return malformed("a size");
        if (symbols ? !is_name(s) || is_known(r, s) : !is_expression(s) || !is_known(r, s))
            continue;
        if (symbols) {
            put_symbol_of(r, name, d, s);
            put_hint(r, size);
            continue;
        }
        cr_text_printf(&r->source, "    assert torch.size(v_%s, %d) == (", name, d);
        put_expression(&r->source, s);
        cr_text_printf(&r->source, "), \"input %s: the size of dim %d must be %s\"\n", name, d,
                       s);
    }
    return CR_OK;
}

static cr_status put_kind(reader *r, const char *name, const cr_json *value)
{
    cr_dtype dtype;
    const cr_json *sizes = cr_json_get(value, "sizes");

    CR_TRY(dtype_of(&dtype, cr_json_get(value, "dtype")));
    if (!sizes || sizes->kind != CR_JSON_LIST)
        return malformed("sizes");
    cr_text_printf(&r->source,
                   "    assert ops.prim.dtype(v_%s) == %d, \"input %s: the dtype must be %s\"\n"
                   "    assert torch.dim(v_%s) == %zu, \"input %s: the number of dims must be "
                   "%zu\"\n",
                   name, cr_dtype_number(dtype), name, cr_dtype_name(dtype), name, sizes->count,
                   name, sizes->count);
    return CR_OK;
}

static cr_status put_line(reader *r, const char *kind, const char *name)
{
    const cr_json *value = tensor_value(r, name), *size;
    cr_dtype dtype;

    if (!value)
        return CR_OK;
    CR_TRY(dtype_of(&dtype, cr_json_get(value, "dtype")));
    cr_text_printf(&r->signature, "%s %s %s ", kind, name, cr_dtype_name(dtype));
    size = items(value, "sizes");
    cr_text_put(&r->signature, size ? "" : "-");
    for (; size; size = size->next) {
        const char *s = size_text(r, size);
        for (; s && *s; s++) /* a line is read by words */
            cr_text_put_n(&r->signature, s, *s != ' ' && *s != '\n');
        cr_text_put(&r->signature, size->next ? "," : "");
    }
    cr_text_char(&r->signature, '\n');
    return CR_OK;
}

/* --- the signature --- */

/* What an input is: the name of its value, and of its tensor; target NULL: the caller's. */
typedef struct {
    const char *name, *target;
    const cr_json *constant; /* tagged */
    bool parameter, number;
    const char *type;
} input;

static cr_status input_of(input *out, const cr_json *spec)
{
    const cr_json *v = only(spec), *arg = cr_json_get(v, "arg");

    *out = (input){.type = "Tensor"};
    if (is(v, "user_input")) {
        const cr_json *a = only(arg);
        static const char *const types[][2] = {
            {"as_sym_int", "int"}, {"as_sym_float", "float"}, {"as_sym_bool", "bool"}};
        for (size_t i = 0; i < CR_LEN(types); i++)
            if (is(a, types[i][0])) {
                out->type = types[i][1];
                out->number = true;
            }
        if (!out->number && !is(a, "as_tensor"))
            return malformed("an input");
        return name_in(&out->name, a, out->number ? "as_name" : "name");
    }
    if (is(v, "constant_input")) {
        out->constant = only(cr_json_get(v, "value"));
        return name_in(&out->name, v, "name");
    }
    out->parameter = is(v, "parameter");
    out->target = cr_json_text(cr_json_get(v, out->parameter    ? "parameter_name"
                                              : is(v, "buffer") ? "buffer_name"
                                                                : "tensor_constant_name"));
    if (!out->target)
        return cr_fail(CR_RUNTIME,
                       "the program has an input of kind %s, which has no form "
                       "without Python",
                       v ? v->key : "none");
    return name_in(&out->name, arg, "name");
}

/* The variable of the tensor `target`; NULL: there is none. */
static const char *variable_of(const reader *r, const char *target)
{
    input in;

    for (const cr_json *s = items(r->specs, "input_specs"); s; s = s->next)
        if (!input_of(&in, s) && in.target && target && !strcmp(in.target, target))
            return in.name;
    return NULL;
}

/* What an argument of `forward` has behind its name. */
static const char *suffix_of(const char *name)
{
    return cr_scode_is_reserved(name) || !strcmp(name, "self") ? "_" : "";
}

static cr_status put_attributes(reader *r)
{
    static const char *const heads[] = {"  __parameters__ = [", "  __buffers__ = ["};
    input in;

    cr_text_put(&r->source, "class Exported(Module):\n");
    for (int k = 0; k < 2; k++) {
        cr_text_put(&r->source, heads[k]);
        for (const cr_json *s = items(r->specs, "input_specs"); s; s = s->next) {
            CR_TRY(input_of(&in, s));
            if (in.target && in.parameter == !k)
                cr_text_printf(&r->source, "\"v_%s\", ", in.name);
        }
        cr_text_put(&r->source, "]\n");
    }
    for (const cr_json *s = items(r->specs, "input_specs"); s; s = s->next) {
        CR_TRY(input_of(&in, s));
        if (in.target)
            cr_text_printf(&r->source, "  v_%s : Tensor\n", in.name);
    }
    cr_text_put(&r->source, "  training : bool\n  signature : str\n"
                            "  def forward(self: __torch__.Exported");
    for (const cr_json *s = items(r->specs, "input_specs"); s; s = s->next) {
        CR_TRY(input_of(&in, s));
        if (!in.target && !in.constant)
            cr_text_printf(&r->source, ",\n    %s%s: %s", in.name, suffix_of(in.name), in.type);
    }
    return CR_OK;
}

static const char *result_type(const cr_json *v)
{
    return is(v, "as_tensor")                           ? "Tensor"
           : is(v, "as_sym_int") || is(v, "as_int")     ? "int"
           : is(v, "as_sym_float") || is(v, "as_float") ? "float"
           : is(v, "as_sym_bool") || is(v, "as_bool")   ? "bool"
           : is(v, "as_string")                         ? "str"
                                                        : "NoneType";
}

/* The results that the caller gets, or with `types` their types.  A single one is no tuple. */
static cr_status put_results(reader *r, const place *p, bool types)
{
    size_t n = 0, k = 0;

    for (const cr_json *s = items(r->specs, "output_specs"); s; s = s->next)
        n += is(only(s), "user_output") || is(only(s), "loss_output");
    if (n != 1)
        cr_text_put(&r->source, types ? n ? "Tuple[" : "NoneType" : n ? "(" : "None");
    const cr_json *value = items(r->graph, "outputs");
    for (const cr_json *s = items(r->specs, "output_specs"); s; s = s->next) {
        if (!value)
            return malformed("the graph's results are not those of its signature");
        if (is(only(s), "user_output") || is(only(s), "loss_output")) {
            const cr_json *v = only(value);
            if (types && is(v, "as_tensor") && cr_json_text(cr_json_get(v, "name")))
                CR_TRY(put_line(r, "output", cr_json_get(v, "name")->text));
            if (types)
                cr_text_put(&r->source, result_type(v));
            else
                CR_TRY(put_argument(&r->source, p, v));
            cr_text_put(&r->source, n == 1 ? "" : ++k < n || !types ? ", " : "");
        }
        value = value->next;
    }
    if (n > 1)
        cr_text_put(&r->source, types ? "]" : ")");
    return CR_OK;
}

static cr_status put_inputs(reader *r, const place *p)
{
    input in;

    for (const cr_json *s = items(r->specs, "input_specs"); s; s = s->next) {
        CR_TRY(input_of(&in, s));
        cr_text_printf(&r->source, "    v_%s = ", in.name);
        if (in.constant)
            CR_TRY(put_argument(&r->source, p, in.constant));
        else if (in.target)
            cr_text_printf(&r->source, "self.v_%s", in.name);
        else
            cr_text_printf(&r->source, "%s%s", in.name, suffix_of(in.name));
        cr_text_char(&r->source, '\n');
    }
    for (int pass = 0; pass < 3; pass++)
        for (const cr_json *s = items(r->specs, "input_specs"); s; s = s->next) {
            CR_TRY(input_of(&in, s));
            const cr_json *value = tensor_value(r, in.name);
            if (in.target || in.constant || in.number || !value)
                continue;
            if (!pass) {
                CR_TRY(put_line(r, "input", in.name));
                CR_TRY(put_kind(r, in.name, value));
            } else {
                CR_TRY(put_sizes(r, in.name, value, pass == 1));
            }
        }
    return CR_OK;
}

/* What the program changes is written at its end, where its graph does not write. */
static cr_status put_writes(reader *r, const place *p)
{
    static const char *const kinds[][2] = {{"buffer_mutation", "buffer_name"},
                                           {"parameter_mutation", "parameter_name"},
                                           {"user_input_mutation", "user_input_name"}};

    for (const cr_json *s = items(r->specs, "output_specs"); s; s = s->next)
        for (size_t i = 0; i < CR_LEN(kinds); i++) {
            const cr_json *v = only(s);
            if (!is(v, kinds[i][0]))
                continue;
            const char *target = cr_json_text(cr_json_get(v, kinds[i][1]));
            target = i < 2 ? variable_of(r, target) : target;
            if (!is_name(target))
                return malformed("the program writes what it does not have");
            cr_text_printf(&r->source, "    _ = torch.copy_(v_%s, ", target);
            CR_TRY(put_variable(&r->source, p, cr_json_get(v, "arg"), "name"));
            cr_text_put(&r->source, ")\n");
        }
    return CR_OK;
}

static cr_status put_class(reader *r)
{
    place p = {.prefix = "v", .indent = 4, .graph = r->graph};

    CR_TRY(put_attributes(r));
    cr_text_put(&r->source, ") -> ");
    CR_TRY(put_results(r, &p, true));
    cr_text_put(&r->source, ":\n");
    CR_TRY(put_inputs(r, &p));
    CR_TRY(put_graph(r, &p));
    CR_TRY(put_writes(r, &p));
    cr_text_put(&r->source, "    return ");
    CR_TRY(put_results(r, &p, false));
    cr_text_char(&r->source, '\n');
    CR_TRY(cr_text_status(&r->signature));
    return cr_text_status(&r->source);
}

/* --- tensors --- */

static cr_status numbers_of(int64_t *out, int *n, const cr_json *list)
{
    *n = 0;
    for (const cr_json *v = list; v; v = v->next) {
        const cr_json *number = cr_json_get(v, "as_int");
        if (!number || number->kind != CR_JSON_INT || *n == CR_MAX_DIMS)
            return malformed("the sizes of a tensor");
        out[(*n)++] = number->i;
    }
    return CR_OK;
}

/* The bytes of a record, as a storage. */
static cr_status read_storage(cr_storage **out, const reader *r, const char *folder,
                              const char *path)
{
    const cr_zip_entry *e;
    cr_text name = {0};
    cr_status st;
    char *to;

    *out = NULL;
    cr_text_printf(&name, "data/%s/%s", folder, path);
    CR_GO(cr_text_status(&name));
    CR_GO(cr_zip_need(&e, r->zip, name.at));
    CR_GO(cr_zip_unpack(r->zip, e));
    CR_GO(cr_storage_new(out, CR_HOST, (size_t)e->size));
    CR_GO(cr_reach_storage(&to, *out));
    if (e->size)
        CR_GO(cr_zip_read(r->zip, e, to));
done:
    cr_text_drop(&name);
    if (st) {
        cr_storage_drop(*out);
        *out = NULL;
    }
    return st;
}

static cr_status read_tensor(cr_tensor **out, const reader *r, const char *folder,
                             const cr_json *entry)
{
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
    const cr_json *meta = cr_json_get(entry, "tensor_meta"),
                  *pickled = cr_json_get(entry, "use_pickle"),
                  *offset = cr_json_get(cr_json_get(meta, "storage_offset"), "as_int"),
                  *layout = cr_json_get(meta, "layout");
    const char *path = cr_json_text(cr_json_get(entry, "path_name"));
    cr_storage *storage = NULL;
    int ndim, strides;
    cr_dtype dtype;

    if (!path || strchr(path, '/') || !meta || (offset && offset->kind != CR_JSON_INT))
        return malformed("a tensor");
    if ((pickled && pickled->kind == CR_JSON_TRUE) || (layout && layout->i != 7))
        return cr_fail(CR_RUNTIME,
                       "the program has a tensor that is no array of numbers: %.100s", path);
    CR_TRY(dtype_of(&dtype, cr_json_get(meta, "dtype")));
    CR_TRY(numbers_of(size, &ndim, items(meta, "sizes")));
    CR_TRY(numbers_of(stride, &strides, items(meta, "strides")));
    if (ndim != strides)
        return malformed("the strides of a tensor");
    CR_TRY(read_storage(&storage, r, folder, path));
    cr_status st =
        cr_checkpoint_tensor(out, storage, dtype, offset ? offset->i : 0, ndim, size, stride);
    cr_storage_drop(storage);
    return st;
}

static cr_status fill_slot(const reader *r, cr_iobject *o, const cr_sclass *cls,
                           const input *in)
{
    const cr_json *entry = cr_json_get(r->weights, in->target);
    const char *folder = entry ? "weights" : "constants";
    char name[300];
    cr_tensor *t;

    entry = entry ? entry : cr_json_get(r->constants, in->target);
    if (!entry)
        return cr_fail(CR_RUNTIME, "torch.export.load: the file has no tensor '%.100s'",
                       in->target);
    snprintf(name, sizeof name, "v_%s", in->name);
    int slot = cr_sclass_attribute(cls, name);
    if (slot < 0)
        return malformed("the name of a tensor");
    CR_TRY(read_tensor(&t, r, folder, entry));
    cr_ivalue_set(&o->slot[slot], cr_iv_tensor(t));
    return CR_OK;
}

static cr_status fill(const reader *r, cr_iobject *o, const cr_sclass *cls)
{
    cr_ivalue text;
    input in;

    for (const cr_json *s = items(r->specs, "input_specs"); s; s = s->next) {
        CR_TRY(input_of(&in, s));
        if (in.target)
            CR_TRY(fill_slot(r, o, cls, &in));
    }
    int training = cr_sclass_attribute(cls, "training"),
        signature = cr_sclass_attribute(cls, "signature");
    cr_ivalue_set(&o->slot[training], cr_iv_bool(false));
    CR_TRY(cr_istring_new(&text, cr_text_str(&r->signature), r->signature.len));
    cr_ivalue_set(&o->slot[signature], text);
    return CR_OK;
}

/* --- the program --- */

static cr_status read_json(reader *r, const cr_json **out, const char *name, bool needed)
{
    char *text = NULL;
    size_t len;

    *out = NULL;
    if (!needed && !cr_zip_find(r->zip, name))
        return CR_OK;
    CR_TRY(cr_zip_text(&text, &len, r->zip, name));
    cr_status st = cr_json_parse(out, &r->arena, text, len);
    if (st) {
        char why[200];
        snprintf(why, sizeof why, "%.180s", cr_error_message());
        st = cr_fail(CR_RUNTIME, "torch.export.load: %s is no JSON text: %s", name, why);
    }
    cr_free(text);
    return st;
}

static cr_status read_fields(reader *r)
{
    const cr_json *body, *version;

    CR_TRY(read_json(r, &r->model, "models/model.json", true));
    version = cr_json_get(cr_json_get(r->model, "schema_version"), "major");
    if (!version || version->i != SCHEMA)
        return cr_fail(CR_RUNTIME,
                       "Serialized schema version %lld does not match our current schema "
                       "version %d",
                       version ? (long long)version->i : -1, SCHEMA);
    body = cr_json_get(r->model, "graph_module");
    r->graph = cr_json_get(body, "graph");
    r->specs = cr_json_get(body, "signature");
    if (!r->graph || !r->specs)
        return malformed("the program has no graph");
    CR_TRY(read_json(r, &r->weights, "data/weights/model_weights_config.json", false));
    CR_TRY(read_json(r, &r->constants, "data/constants/model_constants_config.json", false));
    r->weights = cr_json_get(r->weights, "config");
    r->constants = cr_json_get(r->constants, "config");
    return CR_OK;
}

/* cr_sarchive.read */
static cr_status source_of(void *context, const char *qualifier, const char **text, size_t *len)
{
    reader *r = context;

    *text = strcmp(qualifier, "__torch__") ? NULL : cr_text_str(&r->source);
    *len = *text ? r->source.len : 0;
    return CR_OK;
}

static cr_status make(cr_ivalue *out, reader *r, cr_sunit *unit)
{
    cr_sarchive code = {.read = source_of, .context = r, .version = 10};
    cr_ivalue made = {0};
    cr_sclass *cls = NULL;
    char *text = cr_arena_text(&cr_sunit_session(unit)->keep, r->source.at, r->source.len);

    CR_NEED(text); /* which lives as long as the unit */
    size_t len = r->source.len;
    cr_text_drop(&r->source);
    r->source = (cr_text){.at = text, .len = len};
    cr_status st = cr_sunit_import(unit, &code, "__torch__.Exported", &cls);
    r->source = (cr_text){0};
    CR_TRY(st);
    CR_TRY(cr_iobject_new(&made, cls->type, unit, cls->attributes.len));
    st = fill(r, made.object, cls);
    CR_GIVE(st, out, made, cr_ivalue_drop);
}

cr_status cr_sexported_read(cr_ivalue *out, cr_source *source)
{
    reader r = {0};
    cr_sunit *unit = NULL;
    cr_status st;

    *out = (cr_ivalue){.kind = CR_IV_NONE};
    if (!cr_zip_begins(source))
        return CR_OK;
    CR_GO(cr_zip_open(&r.zip, source));
    if (!cr_zip_find(r.zip, "models/model.json"))
        goto done;
    CR_GO(read_fields(&r));
    CR_GO(put_class(&r));
    unit = cr_sunit_new();
    CR_GO(unit ? CR_OK : CR_MEMORY);
    CR_GO(make(out, &r, unit));
done:
    if (unit)
        cr_sunit_release(unit);
    cr_text_drop(&r.source);
    cr_text_drop(&r.signature);
    cr_arena_drop(&r.arena);
    cr_zip_drop(r.zip);
    return st;
}
