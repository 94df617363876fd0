/* Parses the text that print.c writes.
 *
 * The line of a symbol may name a value that is defined later.  Such names are resolved at the
 * end. */
#include "graph/graph.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 200 };

typedef struct {
    cr_session *s;
    cr_graph *g;
    const char *at;
    int line;
    int depth; /* nesting depth of blocks */
    /* by symbol: the value whose size it is, or NULL */
    CR_VEC(const char *) sized;
} reader;

/* --- tokens --- */

CR_NORETURN static void reader_fail(reader *r, const char *what, const char *name)
{
    cr_bail(r->s, CR_VALUE, "line %d: %s%s%s", r->line, what, *name ? " " : "", name);
}

static void reader_skip(reader *r)
{
    for (;; r->at++) {
        if (*r->at == '#')
            while (*r->at && *r->at != '\n')
                r->at++;
        if (*r->at == '\n')
            r->line++;
        if (!*r->at || !isspace((unsigned char)*r->at))
            return;
    }
}

static bool reader_take(reader *r, const char *sign)
{
    size_t n = strlen(sign);

    reader_skip(r);
    if (strncmp(r->at, sign, n) || (isalnum((unsigned char)sign[n - 1]) &&
                                    (isalnum((unsigned char)r->at[n]) || r->at[n] == '_')))
        return false;
    r->at += n;
    return true;
}

static void reader_expect(reader *r, const char *sign)
{
    if (!reader_take(r, sign))
        reader_fail(r, "expected", sign);
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool is_namespace_sign(const char *p)
{
    return p[0] == ':' && p[1] == ':' && is_word(p[2]);
}

/* A name: x1, add.Tensor, torchvision::nms. */
static const char *word(reader *r)
{
    const char *from;

    reader_skip(r);
    from = r->at;
    while (is_word(*r->at) || (*r->at == '.' && is_word(r->at[1])) || is_namespace_sign(r->at))
        r->at += *r->at == ':' ? 2 : 1;
    if (r->at == from)
        reader_fail(r, "expected a name", "");
    return cr_session_printf(r->s, "%.*s", (int)(r->at - from), from);
}

/* Checks that an integer is not in the range of symbols. */
static int64_t checked(reader *r, int64_t i)
{
    if (cr_gnum_is_int(i))
        reader_fail(r, "an integer is out of range", "");
    return i;
}

static int64_t reader_integer(reader *r)
{
    char *end;

    reader_skip(r);
    int64_t i = strtoll(r->at, &end, 10);
    if (end == r->at)
        reader_fail(r, "expected an integer", "");
    r->at = end;
    return checked(r, i);
}

/* The number of a symbol, after its $. */
static int symbol(reader *r)
{
    int64_t k = isdigit((unsigned char)*r->at) ? reader_integer(r) : -1;

    if (k < 0 || (uint64_t)k >= r->g->numbers.list.len)
        reader_fail(r, "no such symbol was made before", "");
    return (int)k;
}

static int expect_symbol(reader *r)
{
    reader_expect(r, "$");
    return symbol(r);
}

/* --- values --- */

/* A name to be defined. */
static const char *new_name(reader *r)
{
    reader_expect(r, "%");
    const char *name = word(r);
    if (cr_graph_find(r->g, name))
        reader_fail(r, "a value is made twice:", name);
    return name;
}

static cr_gvalue *value(reader *r)
{
    const char *name;

    reader_expect(r, "%");
    name = word(r);
    cr_gvalue *v = cr_graph_find(r->g, name);
    if (!v)
        reader_fail(r, "no value is called", name);
    return v;
}

static bool find_dtype(const char *name, cr_dtype *out)
{
    for (int t = 0; t < CR_DTYPE_COUNT; t++)
        if (!strcmp(cr_dtype_name((cr_dtype)t), name)) {
            *out = (cr_dtype)t;
            return true;
        }
    return false;
}

static cr_dtype dtype(reader *r)
{
    const char *name = word(r);
    cr_dtype t;

    if (!find_dtype(name, &t))
        reader_fail(r, "no dtype is called", name);
    return t;
}

/* Encodes a device like CR_DEVICE_VAL. */
static int64_t device(reader *r, const char *name)
{
    int kind, index;

    if (cr_device_parse(name, &kind, &index))
        reader_fail(r, "no device is called", name);
    return cr_device_pack(kind, index);
}

/* demo:0 */
static const char *device_word(reader *r)
{
    const char *name = word(r), *from = r->at;

    if (*from != ':')
        return name;
    r->at++;
    while (*r->at >= '0' && *r->at <= '9')
        r->at++;
    return cr_session_printf(r->s, "%s%.*s", name, (int)(r->at - from), from);
}

static cr_device tensor_device(reader *r, const char *name)
{
    int64_t packed = device(r, name);
    int index = cr_packed_index(packed);

    return (cr_device){.kind = (uint8_t)cr_packed_kind(packed),
                       .index = (uint8_t)(index < 0 ? 0 : index)};
}

static const int64_t *int_list(reader *r, uint32_t *n)
{
    struct {
        size_t len, cap;
        int64_t *at;
    } list = {0};

    reader_expect(r, "[");
    if (!reader_take(r, "]")) {
        do
            CR_PUSH(r->s, &list, reader_integer(r));
        while (reader_take(r, ","));
        reader_expect(r, "]");
    }
    *n = (uint32_t)list.len;
    return list.at;
}

static cr_gtype type(reader *r)
{
    cr_gtype t = {.known = true};
    uint32_t n;

    t.dtype = (uint8_t)dtype(r);
    t.size = int_list(r, &n);
    if (n > CR_MAX_DIMS)
        reader_fail(r, "too many sizes", "");
    t.ndim = (uint8_t)n;
    if (reader_take(r, "by")) {
        t.stride = int_list(r, &n);
        if (n != t.ndim)
            reader_fail(r, "as many strides as sizes are needed", "");
    }
    if (reader_take(r, "on"))
        t.device = tensor_device(r, device_word(r));
    t.requires_grad = reader_take(r, "grad");
    return t;
}

static cr_gtype maybe_type(reader *r)
{
    return reader_take(r, ":") ? type(r) : (cr_gtype){.known = false};
}

/* --- literals --- */

static double real(reader *r)
{
    char *end;

    reader_skip(r);
    double d = strtod(r->at, &end);
    if (end == r->at)
        reader_fail(r, "expected a number", "");
    r->at = end;
    return isnan(d) ? (double)NAN : d; /* other NaNs may be symbols */
}

static cr_scalar reader_number(reader *r)
{
    const char *from;
    cr_scalar out = {.category = CR_CAT_COMPLEX};

    if (reader_take(r, "True") || reader_take(r, "False"))
        return (cr_scalar){.category = CR_CAT_BOOL, .i = r->at[-1] == 'e' && r->at[-2] == 'u'};
    if (reader_take(r, "complex")) {
        reader_expect(r, "(");
        out.c.re = real(r);
        reader_expect(r, ",");
        out.c.im = real(r);
        reader_expect(r, ")");
        return out;
    }
    if (reader_take(r, "$")) {
        int k = symbol(r);
        return cr_gnum_scalar(k, r->g->numbers.list.at[k].value);
    }
    reader_skip(r);
    from = r->at;
    double d = real(r);
    if (memchr(from, '.', (size_t)(r->at - from)) || isnan(d) || isinf(d) ||
        memchr(from, 'e', (size_t)(r->at - from)))
        return cr_scalar_float(d);
    return cr_scalar_int(checked(r, strtoll(from, NULL, 10)));
}

static cr_scalar plain_number(reader *r)
{
    cr_scalar s = reader_number(r);

    if (cr_gnum_of(s) >= 0)
        reader_fail(r, "a number is expected, not a symbol", "");
    return s;
}

static int64_t integer_or_symbol(reader *r)
{
    return reader_take(r, "$") ? cr_gnum_as_int(symbol(r)) : reader_integer(r);
}

static double real_or_symbol(reader *r)
{
    return reader_take(r, "$") ? cr_gnum_as_float(symbol(r)) : real(r);
}

static cr_garg string(reader *r)
{
    cr_text t = {0};
    cr_garg a = {.tag = CR_STRING};

    reader_expect(r, "\"");
    for (; *r->at && *r->at != '"'; r->at++) {
        if (*r->at == '\\' && r->at[1])
            r->at++;
        cr_text_char(&t, *r->at == 'n' && r->at[-1] == '\\' ? '\n' : *r->at);
    }
    a.len = (uint32_t)t.len;
    a.s = cr_session_printf(r->s, "%s", cr_text_str(&t));
    cr_text_drop(&t);
    reader_expect(r, "\"");
    return a;
}

static cr_garg read_literal(reader *r, const cr_param *p, cr_type t);

static cr_garg list(reader *r, const cr_param *p, cr_type item, cr_tag tag)
{
    struct {
        size_t len, cap;
        cr_garg *at;
    } items = {0};

    reader_expect(r, "[");
    if (!reader_take(r, "]")) {
        do
            CR_PUSH(r->s, &items, read_literal(r, p, item));
        while (reader_take(r, ","));
        reader_expect(r, "]");
    }
    return (cr_garg){.tag = (uint8_t)tag, .len = (uint32_t)items.len, .list = items.at};
}

/* A list of plain integers, bools or floats. */
static cr_garg plain_list(reader *r, const cr_param *p, cr_type item, cr_tag tag)
{
    cr_garg items = list(r, p, item, tag);
    int64_t *ints = CR_NEW_N(r->s, int64_t, items.len);
    double *floats = CR_NEW_N(r->s, double, items.len);

    for (uint32_t i = 0; i < items.len; i++) {
        ints[i] = items.list[i].tag == CR_FLOAT ? 0 : items.list[i].i;
        floats[i] = items.list[i].d;
    }
    if (tag == CR_FLOATS)
        return (cr_garg){.tag = CR_FLOATS, .len = items.len, .floats = floats};
    return (cr_garg){.tag = (uint8_t)tag, .len = items.len, .ints = ints};
}

static cr_garg format(reader *r)
{
    const char *name = word(r);

    for (size_t i = 0; i < CR_FORMAT_COUNT; i++)
        if (!strcmp(cr_format_names[i], name))
            return (cr_garg){.tag = CR_FORMAT_VAL, .i = (int64_t)i};
    reader_fail(r, "no memory format is called", name);
}

static cr_garg read_literal(reader *r, const cr_param *p, cr_type t)
{
    reader_skip(r);
    if (*r->at == '%')
        return cr_garg_value(value(r));
    if (reader_take(r, "None"))
        return (cr_garg){.tag = CR_NONE};
    switch (t) {
    case CR_T_TENSOR:
    case CR_T_SCALAR: return (cr_garg){.tag = CR_NUMBER, .number = reader_number(r)};
    case CR_T_INT: return (cr_garg){.tag = CR_INT, .i = integer_or_symbol(r)};
    case CR_T_FLOAT: return (cr_garg){.tag = CR_FLOAT, .d = real_or_symbol(r)};
    case CR_T_BOOL: return (cr_garg){.tag = CR_TRUTH, .i = plain_number(r).i};
    case CR_T_TENSORS: return list(r, p, CR_T_TENSOR, CR_TENSORS);
    case CR_T_SCALARS: return list(r, p, CR_T_SCALAR, CR_NUMBERS);
    case CR_T_INTS: return plain_list(r, p, CR_T_INT, CR_INTS);
    case CR_T_FLOATS: return plain_list(r, p, CR_T_FLOAT, CR_FLOATS);
    case CR_T_BOOLS: return plain_list(r, p, CR_T_BOOL, CR_TRUTHS);
    case CR_T_STRING: return string(r);
    case CR_T_DTYPE: return (cr_garg){.tag = CR_DTYPE_VAL, .i = dtype(r)};
    case CR_T_DEVICE: return (cr_garg){.tag = CR_DEVICE_VAL, .i = device(r, string(r).s)};
    case CR_T_LAYOUT: reader_expect(r, "strided"); return (cr_garg){.tag = CR_LAYOUT_VAL};
    case CR_T_FORMAT: return format(r);
    default: reader_fail(r, "no literal can be given for", p->name);
    }
}

/* --- nodes --- */

typedef struct {
    int count;
    const char **name;
    cr_gtype *type;
} results;

static results result_list(reader *r)
{
    results out = {0};
    size_t room = 0, types = 0;

    do {
        if ((size_t)out.count == room) {
            out.name =
                cr_session_grow(r->s, out.name, (size_t)out.count, &room, sizeof *out.name);
            out.type =
                cr_session_grow(r->s, out.type, (size_t)out.count, &types, sizeof *out.type);
        }
        out.name[out.count] = new_name(r);
        out.type[out.count++] = maybe_type(r);
    } while (reader_take(r, ","));
    reader_expect(r, "=");
    return out;
}

static int param_called(reader *r, const cr_op *op, const char *name)
{
    int i = cr_op_find_param(op, name);

    if (i < 0)
        reader_fail(r, "the operator has no parameter", name);
    return i;
}

/* Reads "name=" if it is next; otherwise returns NULL and reads nothing. */
static const char *keyword(reader *r)
{
    const char *from;

    reader_skip(r);
    from = r->at;
    while (is_word(*r->at))
        r->at++;
    if (r->at > from && *r->at == '=' && isalpha((unsigned char)*from)) {
        const char *name = cr_session_printf(r->s, "%.*s", (int)(r->at - from), from);
        r->at++;
        return name;
    }
    r->at = from;
    return NULL;
}

static void arguments(reader *r, const cr_op *op, cr_garg *arg)
{
    uint64_t given = 0;
    int next = 0;

    reader_expect(r, "(");
    if (!reader_take(r, ")")) {
        do {
            const char *name = keyword(r);
            int i = name ? param_called(r, op, name) : next++;
            if (i >= op->param_count)
                reader_fail(r, "too many arguments for", op->name);
            arg[i] = read_literal(r, &op->param[i], (cr_type)op->param[i].type);
            given |= (uint64_t)1 << i;
        } while (reader_take(r, ","));
        reader_expect(r, ")");
    }
    for (int i = 0; i < op->param_count; i++) {
        const cr_value *d = &op->param[i].preset;
        if (given >> i & 1)
            continue;
        if (!op->param[i].has_default)
            reader_fail(r, "an argument is missing:", op->param[i].name);
        arg[i] = (cr_garg){.tag = d->tag, .len = d->len};
        memcpy(&arg[i].number, &d->number, sizeof d->number);
    }
}

/* True when the rest of the text is long enough for this many values, so that errors allocate
 * little memory. */
static bool may_hold(const reader *r, const cr_gtype *t)
{
    int64_t n = 1;

    for (int d = 0; d < t->ndim; d++)
        if (t->size[d] < 0 || CR_MUL_OVERFLOW(n, t->size[d], &n))
            return false;
    return strnlen(r->at, (size_t)n) == (size_t)n;
}

static void read_constant_node(reader *r, cr_gblock *b, const results *to)
{
    cr_gtype t = to->count ? to->type[0] : (cr_gtype){0};
    cr_tensor *made = NULL;

    if (to->count != 1 || !t.known)
        reader_fail(r, "a constant has one result of a known type", "");
    reader_expect(r, "(");
    if (reader_take(r, "..."))
        reader_fail(r, "the constant's values are not in the text", "");
    if (!may_hold(r, &t))
        reader_fail(r, "the constant has more elements than values", "");
    cr_session_check(r->s, cr_tensor_new(&made, (cr_dtype)t.dtype, CR_HOST, t.ndim, t.size));
    cr_graph_constant(r->g, b, made, to->name[0]); /* the graph owns it from here on */
    cr_drop(made);
    char *to_bytes;
    cr_session_check(r->g->session, cr_reach(&to_bytes, made));
    for (int64_t i = 0; i < made->numel; i++) {
        if (i)
            reader_expect(r, ",");
        cr_scalar_store(plain_number(r), (cr_dtype)t.dtype,
                        to_bytes + (size_t)i * cr_dtype_size((cr_dtype)t.dtype));
    }
    reader_expect(r, ")");
}

static void check_result_count(reader *r, int count, const results *to)
{
    if (count != to->count)
        reader_fail(r, "the number of results is not the operator's", "");
}

static void set_types(const cr_gnode *n, const results *to)
{
    bool symbolic = n->kind == CR_GNODE_CALL && cr_gnode_sizes_vary(n);

    for (int k = 0; k < to->count; k++) {
        n->result[k]->type = to->type[k];
        n->result[k]->symbolic = symbolic ? UINT64_MAX : 0;
    }
}

static void block(reader *r, cr_gblock *b);

static void choice(reader *r, cr_gblock *b, const results *to)
{
    cr_gvalue *condition = value(r);
    cr_gblock *then = cr_graph_block(r->g), *other = cr_graph_block(r->g);

    reader_expect(r, "{");
    block(r, then);
    reader_expect(r, "}");
    reader_expect(r, "else");
    reader_expect(r, "{");
    block(r, other);
    reader_expect(r, "}");
    check_result_count(r, then->output_count, to);
    set_types(cr_graph_if(r->g, b, condition, then, other, to->name), to);
}

static void group(reader *r, cr_gblock *b, const results *to)
{
    cr_gblock *inner = cr_graph_block(r->g);

    reader_expect(r, "{");
    block(r, inner);
    reader_expect(r, "}");
    check_result_count(r, inner->output_count, to);
    set_types(cr_graph_group(r->g, b, inner, to->name), to);
}

static void read_call(reader *r, cr_gblock *b, const results *to)
{
    const char *name = word(r);
    const cr_op *op = cr_ops_find(name);
    cr_garg arg[CR_MAX_ARGS];

    if (!op)
        reader_fail(r, "no operator is called", name);
    arguments(r, op, arg);
    bool listed = op->result_count == 1 && op->result[0].type == CR_T_TENSORS;
    check_result_count(r, listed ? to->count : op->result_count, to);
    cr_gnode *n = cr_graph_call(r->g, b, op, arg, to->count, to->name);
    set_types(n, to);
    n->no_grad = reader_take(r, "no_grad");
    n->same = reader_take(r, "same");
}

static void read_node(reader *r, cr_gblock *b)
{
    results to = {0};

    reader_skip(r);
    if (*r->at == '%')
        to = result_list(r);
    if (reader_take(r, "constant"))
        read_constant_node(r, b, &to);
    else if (reader_take(r, "if"))
        choice(r, b, &to);
    else if (reader_take(r, "group"))
        group(r, b, &to);
    else
        read_call(r, b, &to);
}

static void block(reader *r, cr_gblock *b)
{
    struct {
        size_t len, cap;
        cr_garg *at;
    } out = {0};

    if (++r->depth > MOST_BLOCKS)
        reader_fail(r, "blocks are nested too deeply", "");
    while (!reader_take(r, "return"))
        read_node(r, b);
    r->depth--;
    reader_skip(r);
    if (*r->at != '}')
        do
            CR_PUSH(r->s, &out,
                    reader_take(r, "None") ? (cr_garg){.tag = CR_NONE}
                                           : cr_garg_value(value(r)));
        while (reader_take(r, ","));
    cr_gblock_return(r->g, b, out.at, (int)out.len);
}

/* --- symbols --- */

static int arithmetic_called(reader *r, const char *name)
{
    for (int fn = 0; fn < CR_GNUM_FN_COUNT; fn++)
        if (cr_gnum_fn_name[fn] && !strcmp(cr_gnum_fn_name[fn], name))
            return fn;
    reader_fail(r, "symbols have no arithmetic called", name);
}

/* Reads "number(0)", "size(%x, 0)" or "mul($0, $1)".  *of: the name of the value. */
static void read_origin(reader *r, cr_gnumber *n, const char **of)
{
    const char *name = word(r);

    reader_expect(r, "(");
    if (!strcmp(name, "number")) {
        int64_t a = reader_integer(r);
        if (a < 0 || a >= CR_GNUM_MOST)
            reader_fail(r, "a call has not so many numbers", "");
        n->fn = CR_GNUM_INPUT;
        n->a = (int)a;
        if (r->g->numbers.inputs <= n->a)
            r->g->numbers.inputs = n->a + 1;
    } else if (!strcmp(name, "size")) {
        n->fn = CR_GNUM_SIZE;
        reader_expect(r, "%");
        *of = word(r);
        reader_expect(r, ",");
        int64_t d = reader_integer(r);
        if (d < 0 || d >= CR_MAX_DIMS)
            reader_fail(r, "no such dimension", "");
        n->a = (int)d;
    } else {
        n->fn = (uint8_t)arithmetic_called(r, name);
        n->a = n->b = expect_symbol(r);
        if (!cr_gnum_is_unary((cr_gnum_fn)n->fn)) {
            reader_expect(r, ",");
            n->b = expect_symbol(r);
        }
    }
    reader_expect(r, ")");
}

static cr_scalar read_symbol_value(reader *r)
{
    cr_scalar s = plain_number(r);

    if (s.category != CR_CAT_INT && s.category != CR_CAT_FLOAT)
        reader_fail(r, "a symbol stands for an integer or a float", "");
    return s;
}

static void read_one_symbol(reader *r)
{
    cr_gnumber n = {.fn = CR_GNUM_CONST};
    const char *of = NULL;

    if (reader_integer(r) != (int64_t)r->g->numbers.list.len)
        reader_fail(r, "symbols are numbered from 0", "");
    if (reader_take(r, "=")) {
        n.value = read_symbol_value(r);
    } else {
        reader_expect(r, ":");
        n.value = read_symbol_value(r);
        reader_expect(r, "=");
        read_origin(r, &n, &of);
        if (n.fn == CR_GNUM_SIZE && n.value.category != CR_CAT_INT)
            reader_fail(r, "a size is an integer", "");
    }
    CR_PUSH(r->s, &r->g->numbers.list, n);
    CR_PUSH(r->s, &r->sized, of);
}

static void read_guard(reader *r)
{
    cr_gnum_guard g = {.holds = !reader_take(r, "not"), .test = CR_GNUM_EQ};

    g.a = expect_symbol(r);
    if (!reader_take(r, "=="))
        g.test = reader_take(r, "<=") ? CR_GNUM_LE : CR_GNUM_LT;
    if (g.test == CR_GNUM_LT)
        reader_expect(r, "<");
    g.b = expect_symbol(r);
    CR_PUSH(r->s, &r->g->numbers.guards, g);
}

static cr_gvalue *input_called(const cr_graph *g, const char *name)
{
    for (int i = 0; i < g->input_count; i++)
        if (!strcmp(g->input[i]->name, name))
            return g->input[i];
    return NULL;
}

/* Reads the symbols.  A size of an input is marked as varying. */
static void read_symbols(reader *r)
{
    for (;;) {
        if (reader_take(r, "$"))
            read_one_symbol(r);
        else if (reader_take(r, "guard"))
            read_guard(r);
        else
            break;
    }
    for (size_t k = 0; k < r->sized.len; k++) {
        cr_gvalue *v = r->sized.at[k] ? input_called(r->g, r->sized.at[k]) : NULL;
        if (v)
            v->symbolic |= (uint64_t)1 << r->g->numbers.list.at[k].a;
    }
}

static void find_sized(reader *r)
{
    for (size_t k = 0; k < r->sized.len; k++) {
        if (!r->sized.at[k])
            continue;
        const cr_gvalue *v = cr_graph_find(r->g, r->sized.at[k]);
        if (!v)
            reader_fail(r, "no value is called", r->sized.at[k]);
        if (v->type.known && r->g->numbers.list.at[k].a >= v->type.ndim)
            reader_fail(r, "a symbol is the size along a dimension that is not there, of",
                        v->name);
        r->g->numbers.list.at[k].of = v;
    }
}

static void read_graph(cr_session *s, void *context)
{
    reader *r = context;

    r->g = cr_graph_new(s);
    reader_expect(r, "graph");
    reader_expect(r, "(");
    if (!reader_take(r, ")")) {
        do {
            const char *name = new_name(r);
            cr_gtype t = maybe_type(r);
            cr_graph_input(r->g, name, &t);
        } while (reader_take(r, ","));
        reader_expect(r, ")");
    }
    reader_expect(r, "{");
    read_symbols(r);
    block(r, r->g->body);
    reader_expect(r, "}");
    find_sized(r);
    reader_skip(r);
    if (*r->at)
        reader_fail(r, "expected the end of the text", "");
}

cr_graph *cr_graph_parse(cr_session *s, const char *text)
{
    reader r = {.s = s, .at = text, .line = 1};
    cr_status st = cr_session_run(s, read_graph, &r);

    if (st)
        cr_graph_drop(r.g); /* the constants read so far */
    cr_session_check(s, st);
    return r.g;
}
