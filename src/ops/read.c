/* The table's reader.
 *
 * `op` at the margin starts an entry, and two blanks start a clause.  A line with more blanks
 * continues the line above it.  Each clause has one function below. */
#include "base/map.h"
#include "ops/lex.h"
#include "ops/ops.h"
#include <string.h>
#include <strings.h>

static struct {
    cr_arena arena;
    CR_VEC(cr_op *) ops;
    int entries;    /* of the table; in-place forms follow them */
    cr_map by_name; /* "add", "max.dim" */
    cr_map names;   /* of all kinds, in the arena */
} table = {.arena = {.tight = true}};

int cr_ops_count(void) { return (int)table.ops.len; }

int cr_ops_table_count(void) { return table.entries; }

cr_op *cr_ops_at(int index) { return table.ops.at[index]; }

cr_op *cr_ops_find(const char *name) { return cr_map_get(&table.by_name, name, strlen(name)); }

/* Compares the first letters itself: most names differ there, and start-up looks for tens of
 * thousands. */
int cr_op_find_param(const cr_op *op, const char *name)
{
    for (int i = 0; i < op->param_count; i++)
        if (*op->param[i].name == *name && !strcmp(op->param[i].name, name))
            return i;
    return -1;
}

/* --- clauses --- */

/* The rest of a clause, without trailing blanks and newlines. */
static cr_clause_text rest_of_clause(const lexer *x)
{
    const char *end = x->end;

    while (end > x->at && (end[-1] == ' ' || end[-1] == '\n'))
        end--;
    return (cr_clause_text){x->at, (size_t)(end - x->at)};
}

void cr_clause_put(cr_text *out, cr_clause_text text)
{
    const char *p = text.at, *end = text.at + text.len, *eol;

    for (; p < end && (eol = memchr(p, '\n', (size_t)(end - p))) != NULL; p = eol) {
        cr_text_put_n(out, p, (size_t)(eol - p));
        cr_text_char(out, ' ');
        while (eol < end && (*eol == '\n' || *eol == ' '))
            eol++;
    }
    cr_text_put_n(out, p, (size_t)(end - p));
}

/* The words of a clause in the arena. */
static cr_status rest_as_words(lexer *x, const char **out)
{
    cr_text joined = {0};
    cr_status st;

    cr_clause_put(&joined, rest_of_clause(x));
    CR_GO(cr_text_status(&joined));
    *out = cr_arena_text(x->arena, cr_text_str(&joined), joined.len);
    st = *out ? CR_OK : CR_MEMORY;
done:
    cr_text_drop(&joined);
    return st;
}

static cr_status set_rest(lexer *x, cr_clause_text *out)
{
    *out = rest_of_clause(x);
    return CR_OK;
}

static cr_status read_doc(lexer *x, cr_op *op) { return set_rest(x, &op->text.doc); }
static cr_status read_ref(lexer *x, cr_op *op) { return set_rest(x, &op->text.ref); }
static cr_status read_sample(lexer *x, cr_op *op) { return set_rest(x, &op->text.sample); }
static cr_status read_example(lexer *x, cr_op *op) { return set_rest(x, &op->text.example); }
static cr_status read_sizes(lexer *x, cr_op *op) { return set_rest(x, &op->text.sizes); }
static cr_status read_tags(lexer *x, cr_op *op) { return rest_as_words(x, &op->text.tags); }
static cr_status read_also(lexer *x, cr_op *op) { return rest_as_words(x, &op->text.also); }

typedef struct {
    const char *name;
    unsigned bit;
} word;

/* Reads a list of words into a bit set. */
static cr_status read_words(lexer *x, const word *words, size_t n, unsigned *bits)
{
    while (x->kind != TOKEN_END) {
        size_t i = 0;
        while (i < n && !lex_is(x, words[i].name))
            i++;
        if (i == n)
            return lex_error(x, "'%.*s' is not allowed here", (int)x->len, x->text);
        *bits |= words[i].bit;
        CR_TRY(lex_next(x));
    }
    return CR_OK;
}

static cr_status read_forms(lexer *x, cr_op *op)
{
    static const word words[] = {
        {"function", CR_AS_FUNCTION}, {"method", CR_AS_METHOD}, {"inplace", CR_AS_INPLACE},
        {"out", CR_AS_OUT},           {"nn", CR_AS_NN},         {"c", CR_AS_C},
        {"copied", CR_AS_COPIED}};
    return read_words(x, words, CR_LEN(words), &op->forms);
}

static cr_status read_autocast(lexer *x, cr_op *op)
{
    static const word words[] = {{"lower", CR_AUTOCAST_LOWER},
                                 {"float32", CR_AUTOCAST_FLOAT32},
                                 {"promote", CR_AUTOCAST_PROMOTE}};
    unsigned way = 0;

    CR_TRY(read_words(x, words, CR_LEN(words), &way));
    op->autocast.host = op->autocast.cuda = (uint8_t)way;
    return CR_OK;
}

/* After `autocast`, which it replaces on CUDA. */
static cr_status read_autocast_cuda(lexer *x, cr_op *op)
{
    static const word words[] = {{"none", CR_AUTOCAST_AS_GIVEN},
                                 {"lower", CR_AUTOCAST_LOWER},
                                 {"float32", CR_AUTOCAST_FLOAT32},
                                 {"promote", CR_AUTOCAST_PROMOTE}};
    unsigned way = 0;

    CR_TRY(read_words(x, words, CR_LEN(words), &way));
    op->autocast.cuda = (uint8_t)way;
    return CR_OK;
}

const cr_word_info cr_word_infos[CR_WORD_COUNT] = {
#define CR_WORD(NAME, name, promise) {#name, promise},
#include "ops/words.def"
#undef CR_WORD
};

static cr_status read_promises(lexer *x, cr_op *op)
{
    static const word words[] = {
#define CR_WORD(NAME, name, promise) {#name, CR_WORD_##NAME},
#include "ops/words.def"
#undef CR_WORD
    };
    return read_words(x, words, CR_LEN(words), &op->words);
}

enum {
    FLOATS = 1u << CR_F16 | 1u << CR_BF16 | 1u << CR_F32 | 1u << CR_F64,
    COMPLEXES = 1u << CR_C64 | 1u << CR_C128,
    INTS = 1u << CR_U8 | 1u << CR_I8 | 1u << CR_I16 | 1u << CR_I32 | 1u << CR_I64,
    BOOLS = 1u << CR_BOOL,
    ALL_DTYPES = FLOATS | COMPLEXES | INTS | BOOLS,
    UNSIGNED = 1u << CR_U16 | 1u << CR_U32 | 1u << CR_U64,
    FLOAT8 = 1u << CR_E4M3FN | 1u << CR_E5M2 | 1u << CR_E4M3FNUZ | 1u << CR_E5M2FNUZ,
    STORED = UNSIGNED | FLOAT8 | 1u << CR_C32 | 1u << CR_E8M0FNU
};

static cr_status read_dtype_words(lexer *x, unsigned *dtypes)
{
    static const word words[] = {
        {"float", FLOATS},      {"complex", COMPLEXES}, {"int", INTS},   {"bool", BOOLS},
        {"unsigned", UNSIGNED}, {"float8", FLOAT8},     {"all", STORED},
#define CR_DTYPE(NAME, suffix, ctype, bytes, category, torch, legacy, alias)                   \
    {#suffix, 1u << CR_##NAME},
#include "num/dtype.def"
#undef CR_DTYPE
    };
    *dtypes = 0;
    return read_words(x, words, CR_LEN(words), dtypes);
}

static cr_status read_dtypes(lexer *x, cr_op *op) { return read_dtype_words(x, &op->dtypes); }

static bool makes_float(const cr_op *op)
{
    return op->type && op->type->kind == CR_RULE_CALL && !strcmp(op->type->name, "float");
}

/* Functions and parts of an entry that states all dtypes may refuse some. */
static bool dtypes_are_known(const cr_op *op)
{
    bool by_rule = op->does == CR_DOES_BODY || op->does == CR_DOES_FOLD ||
                   op->does == CR_DOES_MAP || op->does == CR_DOES_LOOP ||
                   op->does == CR_DOES_SCAN;

    return op->tensor_params && (by_rule || (op->dtypes & ALL_DTYPES) != ALL_DTYPES);
}

void cr_op_print_dtypes(cr_text *out, const cr_op *op)
{
    static const word classes[] = {
        {"bool", BOOLS},        {"integer", INTS},      {"floating", FLOATS},
        {"complex", COMPLEXES}, {"unsigned", UNSIGNED}, {"float8", FLOAT8},
#define CR_DTYPE(NAME, suffix, ctype, bytes, category, torch, legacy, alias)                   \
    {torch, 1u << CR_##NAME},
#include "num/dtype.def"
#undef CR_DTYPE
    };
    const char *between = "";
    unsigned left = dtypes_are_known(op) ? op->dtypes : 0;

    for (size_t i = 0; i < CR_LEN(classes); i++)
        if (left && (left & classes[i].bit) == classes[i].bit) {
            cr_text_printf(out, "%s%s", between, classes[i].name);
            between = ", ";
            left &= ~classes[i].bit;
        }
    cr_text_put(out, *between && makes_float(op) ? "; others become floating" : "");
}

static cr_status read_stored(lexer *x, cr_op *op) { return read_dtype_words(x, &op->stored); }

static cr_status read_refuses(lexer *x, cr_op *op)
{
    CR_TRY(lex_name(x, &op->refuses));
    return x->kind == TOKEN_END ? CR_OK : lex_error(x, "one name expected");
}

static cr_status take_param(lexer *x, const cr_op *op, int *out)
{
    const char *name;

    CR_TRY(lex_name(x, &name));
    *out = cr_op_find_param(op, name);
    return *out < 0 ? lex_error(x, "%s has no parameter '%s'", op->name, name) : CR_OK;
}

/* The index of a result by its name; a result without a name is called `result`. */
static int find_result(const cr_op *op, const char *name)
{
    for (int i = 0; i < op->result_count; i++)
        if (!strcmp(*op->result[i].name ? op->result[i].name : "result", name))
            return i;
    return -1;
}

static cr_status take_result(lexer *x, const cr_op *op, int *out)
{
    const char *name;

    CR_TRY(lex_name(x, &name));
    *out = find_result(op, name);
    return *out < 0 ? lex_error(x, "%s has no result '%s'", op->name, name) : CR_OK;
}

static cr_status read_number_params(lexer *x, cr_op *op)
{
    while (x->kind != TOKEN_END) {
        int i;
        CR_TRY(take_param(x, op, &i));
        op->param[i].number = true;
    }
    return CR_OK;
}

static cr_status read_rounds(lexer *x, cr_op *op)
{
    while (x->kind != TOKEN_END) {
        int i;
        CR_TRY(take_param(x, op, &i));
        op->rounds |= 1u << i;
    }
    return CR_OK;
}

static cr_status read_factors(lexer *x, cr_op *op)
{
    CR_TRY(lex_take(x, "real", &op->factors_real));
    while (x->kind != TOKEN_END) {
        int i;
        CR_TRY(take_param(x, op, &i));
        op->factors |= 1u << i;
    }
    return CR_OK;
}

static cr_status read_fits(lexer *x, cr_op *op)
{
    static const word ways[] = {
        {"exact", CR_FITS_EXACT}, {"negated", CR_FITS_NEGATED}, {"any", CR_FITS_ANY}};
    unsigned way = 0;

    CR_TRY(read_words(x, ways, CR_LEN(ways), &way));
    op->fits = (uint8_t)way;
    return CR_OK;
}

static cr_status read_list(lexer *x, cr_rule **rules, int most, int *count)
{
    bool more = true;

    for (*count = 0; more; ++*count) {
        if (*count == most)
            return lex_error(x, "more than %d expressions", most);
        CR_TRY(rule_parse(x, &rules[*count]));
        CR_TRY(lex_take(x, ",", &more));
    }
    return CR_OK;
}

/* `inverse NAME`, `inverse NAME DTYPE...` */
static cr_status read_inverse(lexer *x, cr_op *op)
{
    CR_TRY(lex_dotted(x, &op->inverse.name));
    return read_dtype_words(x, &op->inverse.dtypes);
}

/* `neutral PARAM = NUMBER` */
static cr_status read_neutral(lexer *x, cr_op *op)
{
    bool minus;
    int param;

    CR_TRY(take_param(x, op, &param));
    op->neutral.param = (int8_t)param;
    CR_TRY(lex_expect(x, "="));
    CR_TRY(lex_take(x, "-", &minus));
    if (x->kind != TOKEN_INT && x->kind != TOKEN_FLOAT)
        return lex_error(x, "a number expected");
    op->neutral.number = x->kind == TOKEN_INT ? (double)x->integer : x->number;
    op->neutral.number = minus ? -op->neutral.number : op->neutral.number;
    return lex_next(x);
}

/* `functional PARAM`, `functional NAME(PARAM, ...)` */
static cr_status read_functional(lexer *x, cr_op *op)
{
    CR_TRY(rule_parse(x, &op->functional));
    if (op->functional->kind != CR_RULE_NAME && op->functional->kind != CR_RULE_CALL)
        return lex_error(x, "a parameter or a call expected");
    for (int i = 0; i < op->functional->count; i++)
        if (op->functional->args[i]->kind != CR_RULE_NAME || op->functional->keyword[i])
            return lex_error(x, "the call takes parameters by place");
    return CR_OK;
}

/* `expanded "EXAMPLE" EXPR` */
static cr_status read_expanded(lexer *x, cr_op *op)
{
    if (x->kind != TOKEN_STRING)
        return lex_error(x, "expected an example");
    op->expanded_example = x->text;
    CR_TRY(lex_next(x));
    return rule_parse(x, &op->expanded);
}

static cr_status read_scatter(lexer *x, cr_op *op) { return lex_dotted(x, &op->scatter.name); }

/* `sparse NAME [inplace NAME]` */
static cr_status read_sparse(lexer *x, cr_op *op)
{
    bool inplace;

    CR_TRY(lex_dotted(x, &op->sparse.name));
    CR_TRY(lex_take(x, "inplace", &inplace));
    return inplace ? lex_dotted(x, &op->sparse.inplace_name) : CR_OK;
}

static cr_status read_batches(lexer *x, cr_op *op)
{
    (void)x;
    op->sparse.batches = true;
    return CR_OK;
}

/* `updates PARAM... when PARAM` */
static cr_status read_updates(lexer *x, cr_op *op)
{
    bool condition = false;
    int param;

    while (!condition && x->kind != TOKEN_END) {
        CR_TRY(take_param(x, op, &param));
        if (op->param[param].type != CR_T_TENSOR)
            return lex_error(x, "'%s' is no tensor", op->param[param].name);
        op->updates.params |= 1u << param;
        CR_TRY(lex_take(x, "when", &condition));
    }
    CR_TRY(take_param(x, op, &param));
    op->updates.when = (int8_t)param;
    return op->param[param].type == CR_T_BOOL
               ? CR_OK
               : lex_error(x, "'%s' is no bool", op->param[param].name);
}

/* `unread PARAM...` */
static cr_status read_unread(lexer *x, cr_op *op)
{
    int param;

    while (x->kind != TOKEN_END) {
        CR_TRY(take_param(x, op, &param));
        if (op->param[param].type != CR_T_TENSOR)
            return lex_error(x, "'%s' is no tensor", op->param[param].name);
        op->defer.unread |= 1u << param;
    }
    return CR_OK;
}

/* `counts PARAM...`, of an entry with a list as its result */
static cr_status read_counts(lexer *x, cr_op *op)
{
    int param;

    if (op->result_count != 1 || op->result[0].type != CR_T_TENSORS ||
        cr_op_find_param(op, "dim") < 0)
        return lex_error(x, "`counts` is about a list along `dim`");
    while (x->kind != TOKEN_END) {
        CR_TRY(take_param(x, op, &param));
        op->counts |= 1u << param;
    }
    return CR_OK;
}

/* `format channels_last TENSOR...`, `format images TENSOR...`, `format like TENSOR`,
 * `format columns RESULT...`, `format transform TENSOR`, `format picked TENSORS`, `format
 * operands`, and of a body `format last TENSOR`, `format row_major` */
static cr_status read_format(lexer *x, cr_op *op)
{
    static const char *const names[] = {[CR_FORMAT_RULE_CHANNELS] = "channels_last",
                                        [CR_FORMAT_RULE_IMAGES] = "images",
                                        [CR_FORMAT_RULE_LIKE] = "like",
                                        [CR_FORMAT_RULE_COLUMNS] = "columns",
                                        [CR_FORMAT_RULE_TRANSFORM] = "transform",
                                        [CR_FORMAT_RULE_STACKED] = "stacked",
                                        [CR_FORMAT_RULE_PICKED] = "picked",
                                        [CR_FORMAT_RULE_OPERANDS] = "operands",
                                        [CR_FORMAT_RULE_LAST] = "last",
                                        [CR_FORMAT_RULE_ROW_MAJOR] = "row_major"};
    bool found = false;
    int param;

    for (int i = CR_FORMAT_RULE_CHANNELS; i <= CR_FORMAT_RULE_ROW_MAJOR && !found; i++) {
        CR_TRY(lex_take(x, names[i], &found));
        op->format.rule = (uint8_t)i;
    }
    if (!found)
        return lex_error(
            x,
            "channels_last, images, like, columns, transform, stacked, picked, operands, last "
            "or row_major expected");
    if (op->format.rule == CR_FORMAT_RULE_ROW_MAJOR ||
        op->format.rule == CR_FORMAT_RULE_OPERANDS)
        return CR_OK;
    bool results = op->format.rule == CR_FORMAT_RULE_COLUMNS;
    do {
        CR_TRY(results ? take_result(x, op, &param) : take_param(x, op, &param));
        if (!results && op->param[param].type != CR_T_TENSOR &&
            op->param[param].type != CR_T_TENSORS)
            return lex_error(x, "'%s' is no tensor", op->param[param].name);
        op->format.params |= 1u << param;
    } while (x->kind != TOKEN_END);
    return CR_OK;
}

/* `filled NUMBER`, `filled PARAM` */
static cr_status read_filled(lexer *x, cr_op *op)
{
    CR_TRY(rule_parse(x, &op->filled));
    if (op->filled->kind != CR_RULE_INT && op->filled->kind != CR_RULE_NAME)
        return lex_error(x, "an integer or a parameter expected");
    return CR_OK;
}

static cr_status read_node_clause(lexer *x, cr_op *op) { return rule_parse(x, &op->node); }

static cr_status read_flops(lexer *x, cr_op *op) { return rule_parse(x, &op->flops); }

/* Calls whose names begin with a capital are ONNX's operators. */
static cr_status read_onnx(lexer *x, cr_op *op)
{
    cr_rule *rule[CR_MAX_RESULTS];

    CR_TRY(read_list(x, rule, CR_MAX_RESULTS, &op->onnx_count));
    op->onnx = cr_arena_get(x->arena, (size_t)op->onnx_count * sizeof *rule);
    CR_NEED(op->onnx);
    memcpy(op->onnx, rule, (size_t)op->onnx_count * sizeof *rule);
    return CR_OK;
}

/* `dispatch call`, `dispatch EXPR` */
static cr_status read_dispatch(lexer *x, cr_op *op)
{
    CR_TRY(lex_take(x, "call", &op->dispatch.call));
    return op->dispatch.call ? CR_OK : rule_parse(x, &op->dispatch.calls);
}

static cr_status read_type(lexer *x, cr_op *op) { return rule_parse(x, &op->type); }

static cr_status read_returns(lexer *x, cr_op *op)
{
    int n;
    return read_list(x, op->returns, CR_MAX_RESULTS, &n);
}

static cr_status read_shape(lexer *x, cr_op *op)
{
    bool external;
    int n;

    CR_TRY(lex_take(x, "extern", &external));
    if (external)
        return lex_name(x, &op->sizes.name);
    return read_list(x, op->sizes.rule, CR_MAX_RESULTS, &n);
}

static cr_status read_let(lexer *x, cr_op *op)
{
    while (x->kind != TOKEN_END) {
        cr_let *wide = cr_arena_get(x->arena, (size_t)(op->let_count + 1) * sizeof *wide);
        CR_NEED(wide);
        if (op->let_count)
            memcpy(wide, op->lets, (size_t)op->let_count * sizeof *wide);
        op->lets = wide;
        cr_let *l = &wide[op->let_count];
        CR_TRY(lex_name(x, &l->name));
        CR_TRY(lex_expect(x, "="));
        CR_TRY(rule_parse(x, &l->rule));
        op->let_count++;
    }
    return CR_OK;
}

/* The kind of that name in kinds.def, in any case; CR_OK when there is none. */
static cr_status kind_named(const char *name)
{
    static const struct {
        const char *name;
        cr_status kind;
    } kinds[] = {
#define CR_KIND(name, pyclass) {#name, CR_##name},
#include "base/kinds.def"
#undef CR_KIND
    };
    for (size_t i = 0; i < CR_LEN(kinds); i++)
        if (!strcasecmp(kinds[i].name, name))
            return kinds[i].kind;
    return CR_OK;
}

/* `"message", ARG, ...` */
static cr_status read_message(lexer *x, cr_check *c)
{
    cr_rule *args[8];
    bool more;

    if (x->kind != TOKEN_STRING)
        return lex_error(x, "expected a message");
    c->message = x->text;
    CR_TRY(lex_next(x));
    CR_TRY(lex_take(x, ",", &more));
    if (more)
        CR_TRY(read_list(x, args, (int)CR_LEN(args), &c->count));
    c->args = cr_arena_get(x->arena, (size_t)c->count * sizeof *args);
    CR_NEED(c->args);
    memcpy(c->args, args, (size_t)c->count * sizeof *args);
    return CR_OK;
}

/* `: KIND "message", ARG, ...` */
static cr_status read_error(lexer *x, cr_check *c)
{
    const char *kind;

    CR_TRY(lex_expect(x, ":"));
    CR_TRY(lex_name(x, &kind));
    c->kind = (uint8_t)kind_named(kind);
    if (!c->kind)
        return lex_error(x, "expected an error kind and a message");
    return read_message(x, c);
}

static cr_status read_one_check(lexer *x, cr_op *op)
{
    cr_check *wide = cr_arena_get(x->arena, (size_t)(op->check_count + 1) * sizeof *wide);

    CR_NEED(wide);
    if (op->check_count)
        memcpy(wide, op->checks, (size_t)op->check_count * sizeof *wide);
    op->checks = wide;
    CR_TRY(rule_parse(x, &wide[op->check_count].when));
    CR_TRY(read_error(x, &wide[op->check_count]));
    op->check_count++;
    return CR_OK;
}

static cr_status read_check(lexer *x, cr_op *op)
{
    while (x->kind != TOKEN_END)
        CR_TRY(read_one_check(x, op));
    return CR_OK;
}

/* `[once] CONDITION : "message", ARG, ...` */
static cr_status read_one_warning(lexer *x, cr_op *op)
{
    size_t had = (size_t)op->warning_count;
    cr_warning *wide = cr_arena_get(x->arena, (had + 1) * sizeof *wide);

    if (!wide)
        return CR_MEMORY;
    if (had == CR_MAX_WARNINGS)
        return lex_error(x, "%s has too many warnings", op->name);
    if (had)
        memcpy(wide, op->warnings, had * sizeof *wide);
    op->warnings = wide;
    CR_TRY(lex_take(x, "once", &wide[had].once));
    CR_TRY(rule_parse(x, &wide[had].say.when));
    CR_TRY(lex_expect(x, ":"));
    CR_TRY(read_message(x, &wide[had].say));
    op->warning_count++;
    return CR_OK;
}

static cr_status read_warn(lexer *x, cr_op *op)
{
    while (x->kind != TOKEN_END)
        CR_TRY(read_one_warning(x, op));
    return CR_OK;
}

static unsigned out_word(const lexer *x)
{
    static const word words[] = {{"exact", CR_OUT_EXACT}, {"any", CR_OUT_ANY},
                                 {"typed", CR_OUT_TYPED}, {"aligned", CR_OUT_ALIGNED},
                                 {"apart", CR_OUT_APART}, {"bools", CR_OUT_BOOLS}};

    for (size_t i = 0; i < CR_LEN(words); i++)
        if (lex_is(x, words[i].name))
            return words[i].bit;
    return 0;
}

/* `out WORD... [KIND] ["text"]` */
static cr_status read_out(lexer *x, cr_op *op)
{
    const char *kind;
    unsigned bit;

    for (; x->kind == TOKEN_NAME && (bit = out_word(x)) != 0;) {
        op->out.rule |= (uint8_t)bit;
        CR_TRY(lex_next(x));
    }
    op->out.error = CR_RUNTIME;
    if (x->kind == TOKEN_NAME) {
        CR_TRY(lex_name(x, &kind));
        op->out.error = (uint8_t)kind_named(kind);
        if (!op->out.error)
            return lex_error(x, "no kind of error is called '%s'", kind);
    }
    if (x->kind != TOKEN_STRING)
        return CR_OK;
    op->out.message = x->text;
    return lex_next(x);
}

static cr_status does(lexer *x, cr_op *op, cr_does what)
{
    if (op->does != 0xff)
        return lex_error(x, "a second clause says what %s does", op->name);
    op->does = (uint8_t)what;
    return CR_OK;
}

static cr_status read_body(lexer *x, cr_op *op)
{
    CR_TRY(does(x, op, CR_DOES_BODY));
    return read_list(x, op->body, CR_MAX_RESULTS, &op->body_count);
}

static cr_status read_is(lexer *x, cr_op *op)
{
    CR_TRY(does(x, op, CR_DOES_IS));
    return read_list(x, op->body, CR_MAX_RESULTS, &op->body_count);
}

static cr_status read_fold(lexer *x, cr_op *op)
{
    CR_TRY(does(x, op, CR_DOES_FOLD));
    CR_TRY(rule_parse(x, &op->fold.rule));
    if (op->fold.rule->kind != CR_RULE_CALL)
        return lex_error(x, "a fold is COMBINE(ELEMENT)");
    op->fold.index = !strcmp(op->fold.rule->name, "index") && op->fold.rule->count == 1;
    if (op->fold.index)
        op->fold.rule = op->fold.rule->args[0];
    return CR_OK;
}

/* An entry that writes self makes no view: self takes the geometry. */
static cr_status read_map(lexer *x, cr_op *op)
{
    op->fn.remaps = op->param_count && op->param[0].written;
    CR_TRY(does(x, op, op->fn.remaps ? CR_DOES_WHOLE : CR_DOES_MAP));
    return lex_name(x, &op->fn.name);
}

static cr_status read_extern(lexer *x, cr_op *op)
{
    CR_TRY(does(x, op, CR_DOES_EXTERN));
    return lex_name(x, &op->fn.name);
}

/* --- loops --- */

/* `NAME` or, for a pack, `NAME..` */
static cr_status read_axis(lexer *x, cr_op *op)
{
    cr_loop_axis *a = &op->loop.axis[op->loop.axis_count++];
    bool second = true;

    if (op->loop.axis_count > CR_LOOP_AXES)
        return lex_error(x, "more than %d axes", CR_LOOP_AXES);
    if (x->kind != TOKEN_NAME)
        return lex_error(x, "the name of an axis expected");
    CR_TRY(lex_name(x, &a->name));
    CR_TRY(lex_take(x, ".", &a->pack));
    if (a->pack)
        CR_TRY(lex_take(x, ".", &second));
    return second ? CR_OK : lex_error(x, "a pack is written `%s..`", a->name);
}

/* `with NAME = COUNT`: the number of axes of a pack, or the size of an axis. */
static cr_status read_axis_count(lexer *x, cr_op *op)
{
    const char *name;

    CR_TRY(lex_name(x, &name));
    CR_TRY(lex_expect(x, "="));
    for (int i = 0; i < op->loop.axis_count; i++)
        if (!strcmp(op->loop.axis[i].name, name))
            return rule_parse(x, &op->loop.axis[i].count);
    return lex_error(x, "no axis is called '%s'", name);
}

/* `axes o.. i n.. with o = COUNT`, of a loop; of another entry the text is kept. */
static cr_status read_axes(lexer *x, cr_op *op)
{
    int open = 0;
    bool with = false;

    if (lex_is(x, "(") || lex_is(x, "along") || lex_is(x, "each")) {
        x->at = x->text;
        x->kind = TOKEN_END;
        return set_rest(x, &op->text.axes);
    }
    op->loop.axis = cr_arena_get(x->arena, CR_LOOP_AXES * sizeof *op->loop.axis);
    CR_NEED(op->loop.axis);
    while (x->kind != TOKEN_END && !lex_is(x, "with"))
        CR_TRY(read_axis(x, op));
    CR_TRY(lex_take(x, "with", &with));
    while (with && x->kind != TOKEN_END)
        CR_TRY(read_axis_count(x, op));
    for (int i = 0; i < op->loop.axis_count; i++)
        open += op->loop.axis[i].pack && !op->loop.axis[i].count;
    return open <= 1 ? CR_OK : lex_error(x, "only one pack takes the axes that others leave");
}

/* `RESULT = START ;` before the elements that are written. */
static cr_status read_loop_start(lexer *x, cr_op *op)
{
    if (op->loop.target->kind != CR_RULE_NAME)
        return CR_OK;
    CR_TRY(lex_expect(x, "="));
    CR_TRY(rule_parse(x, &op->loop.start));
    CR_TRY(lex_expect(x, ";"));
    return rule_parse(x, &op->loop.target);
}

static const char *const window_folds[CR_WINDOW_COUNT] = {"add", "above_last_nan"};

/* The fold that the next tokens, `NAME [`, name; or CR_WINDOW_COUNT. */
static int window_fold(const lexer *x)
{
    lexer ahead = *x;
    int how = 0;

    while (how < CR_WINDOW_COUNT && !lex_is(x, window_folds[how]))
        how++;
    return lex_next(&ahead) == CR_OK && lex_is(&ahead, "[") ? how : CR_WINDOW_COUNT;
}

/* `(VALUE)` or `(INSIDE : VALUE)` */
static cr_status read_window_value(lexer *x, cr_op *op)
{
    bool guarded;

    CR_TRY(lex_expect(x, "("));
    CR_TRY(rule_parse(x, &op->loop.value));
    CR_TRY(lex_take(x, ":", &guarded));
    if (guarded) {
        op->loop.window->inside = op->loop.value;
        CR_TRY(rule_parse(x, &op->loop.value));
    }
    return lex_expect(x, ")");
}

/* `FOLD[AXIS.. < SIZES](INSIDE : VALUE) / DIVISOR` */
static cr_status read_window(lexer *x, cr_op *op, cr_rule *index)
{
    bool divided;
    int how = window_fold(x);

    if (how == CR_WINDOW_COUNT || !op->loop.axis)
        return lex_error(x, "a fold over a window expected");
    op->loop.window = cr_arena_get(x->arena, sizeof *op->loop.window);
    CR_NEED(op->loop.window);
    op->loop.window->how = (cr_window_how)how;
    op->loop.window->index = index;
    CR_TRY(lex_next(x));
    CR_TRY(lex_expect(x, "["));
    CR_TRY(read_axis(x, op));
    CR_TRY(lex_expect(x, "<"));
    CR_TRY(rule_parse(x, &op->loop.axis[op->loop.axis_count - 1].count));
    CR_TRY(lex_expect(x, "]"));
    CR_TRY(read_window_value(x, op));
    CR_TRY(lex_take(x, "/", &divided));
    return divided ? rule_parse(x, &op->loop.window->divisor) : CR_OK;
}

/* `loop RESULT[AXIS, ...] = VALUE`, `loop RESULT = START; RESULT[INDEX, ...] += VALUE`, or
 * `loop RESULT[AXIS, ...], RESULT[AXIS, ...] = FOLD...` */
static cr_status read_loop(lexer *x, cr_op *op)
{
    cr_rule *index = NULL;
    bool two;

    CR_TRY(does(x, op, CR_DOES_LOOP));
    CR_TRY(rule_parse(x, &op->loop.target));
    CR_TRY(read_loop_start(x, op));
    if (op->loop.target->kind != CR_RULE_INDEX)
        return lex_error(x, "a loop defines an element of the result");
    CR_TRY(lex_take(x, ",", &two));
    if (two)
        CR_TRY(rule_parse(x, &index));
    CR_TRY(lex_take(x, "+=", &op->loop.adds));
    if (!op->loop.adds)
        CR_TRY(lex_expect(x, "="));
    if (!two && (op->loop.start || window_fold(x) == CR_WINDOW_COUNT))
        return rule_parse(x, &op->loop.value);
    return read_window(x, op, index);
}

/* `combine NAME [fresh COND]`: the operation that combines a written element with the present
 * one, or, where COND is true, with the operation's identity. */
static cr_status read_combine(lexer *x, cr_op *op)
{
    bool fresh;

    if (!op->loop.start || op->loop.adds)
        return lex_error(x, "`combine` stands after a loop with a start and `=`");
    CR_TRY(rule_parse(x, &op->loop.combine));
    CR_TRY(lex_take(x, "fresh", &fresh));
    return fresh ? rule_parse(x, &op->loop.fresh) : CR_OK;
}

/* HIGH, or LOW, HIGH */
static cr_status read_bounds(lexer *x, cr_rule **low, cr_rule **high)
{
    bool two;

    CR_TRY(rule_parse(x, high));
    CR_TRY(lex_take(x, ",", &two));
    if (!two)
        return CR_OK;
    *low = *high;
    return rule_parse(x, high);
}

/* `index PARAM in HIGH : KIND "message", ...`, or `in LOW, HIGH` */
static cr_status read_index(lexer *x, cr_op *op)
{
    cr_loop_index *c;
    bool in;

    if (!op->loop.index)
        op->loop.index = cr_arena_get(x->arena, CR_LOOP_INDICES * sizeof *op->loop.index);
    CR_NEED(op->loop.index);
    if (op->loop.index_count == CR_LOOP_INDICES)
        return lex_error(x, "more than %d index tensors", CR_LOOP_INDICES);
    c = &op->loop.index[op->loop.index_count++];
    CR_TRY(take_param(x, op, &c->param));
    CR_TRY(lex_take(x, "in", &in));
    if (!in || op->param[c->param].type != CR_T_TENSOR)
        return lex_error(x, "`index TENSOR in SIZE` expected");
    CR_TRY(read_bounds(x, &c->low, &c->high));
    return read_error(x, &c->error);
}

/* `within TENSOR in [LOW,] HIGH [spares PARAM]`, `within TENSORS over TENSOR` */
static cr_status read_within(lexer *x, cr_op *op)
{
    cr_within *w = op->defer.within = cr_arena_get(x->arena, sizeof *w);
    bool in, over, spares;
    int param;

    CR_NEED(w);
    w->spared = w->each = -1;
    CR_TRY(take_param(x, op, &w->param));
    CR_TRY(lex_take(x, "over", &over));
    if (over) {
        CR_TRY(take_param(x, op, &param));
        w->each = (int8_t)param;
        return CR_OK;
    }
    CR_TRY(lex_take(x, "in", &in));
    if (!in || op->param[w->param].type != CR_T_TENSOR)
        return lex_error(x, "`within TENSOR in SIZE` expected");
    CR_TRY(read_bounds(x, &w->low, &w->high));
    CR_TRY(lex_take(x, "spares", &spares));
    if (!spares)
        return CR_OK;
    CR_TRY(take_param(x, op, &param));
    w->spared = (int8_t)param;
    return CR_OK;
}

static cr_status read_scan(lexer *x, cr_op *op)
{
    CR_TRY(does(x, op, CR_DOES_SCAN));
    return rule_parse(x, &op->scan.rule);
}

static cr_status read_scan_back(lexer *x, cr_op *op)
{
    op->scan.back = true;
    return read_scan(x, op);
}

/* `kernel cpu NAME`: a faster function beside a loop or a composition; `kernel cpu NAME
 * DTYPE...` beside a composition, for results of these dtypes.  `kernel devices`: the host
 * computes the composition, devices may have kernels. */
static cr_status read_kernel(lexer *x, cr_op *op)
{
    if (op->does == CR_DOES_IS && lex_is(x, "devices")) {
        op->does = CR_DOES_STEPS;
        return lex_expect(x, "devices");
    }
    CR_TRY(lex_expect(x, "cpu"));
    if (op->does != CR_DOES_LOOP && op->does != CR_DOES_IS)
        return lex_error(x, "a kernel follows the loop or the composition that states it");
    CR_TRY(lex_name(x, &op->fn.name));
    if (op->does == CR_DOES_LOOP)
        return CR_OK;
    op->does = CR_DOES_STEPS;
    return read_dtype_words(x, &op->fn.dtypes);
}

/* `whole NAME`, `whole NAME by calls` */
static cr_status read_whole(lexer *x, cr_op *op)
{
    CR_TRY(does(x, op, CR_DOES_WHOLE));
    CR_TRY(lex_name(x, &op->fn.name));
    CR_TRY(lex_take(x, "by", &op->defer.by_calls));
    return op->defer.by_calls ? lex_expect(x, "calls") : CR_OK;
}

static cr_status read_operand(lexer *x, cr_op *op)
{
    const char *name;
    cr_operand kind = CR_OPERAND_FULL;

    CR_TRY(lex_name(x, &name));
    CR_TRY(lex_expect(x, ":"));
    if (lex_is(x, "row"))
        kind = CR_OPERAND_ROW;
    else if (lex_is(x, "column"))
        kind = CR_OPERAND_COLUMN;
    else if (!lex_is(x, "full"))
        return lex_error(x, "expected full, row or column");
    CR_TRY(lex_next(x));
    int p = cr_op_find_param(op, name), r = find_result(op, name);
    if (p >= 0)
        op->rows.operand[p] = (uint8_t)kind;
    else if (r >= 0)
        op->rows.result[r] = (uint8_t)kind;
    else
        return lex_error(x, "%s has no parameter or result '%s'", op->name, name);
    return CR_OK;
}

static cr_status read_fused(lexer *x, cr_op *op)
{
    op->fused = true;
    CR_TRY(take_param(x, op, &op->rows.dim));
    while (x->kind != TOKEN_END)
        CR_TRY(read_operand(x, op));
    return CR_OK;
}

static cr_status read_grad(lexer *x, cr_op *op)
{
    while (x->kind != TOKEN_END) {
        cr_derivative *wide =
            cr_arena_get(x->arena, (size_t)(op->grad_count + 1) * sizeof *wide);
        CR_NEED(wide);
        if (op->grad_count)
            memcpy(wide, op->grads, (size_t)op->grad_count * sizeof *wide);
        op->grads = wide;
        cr_derivative *d = &wide[op->grad_count];
        CR_TRY(take_param(x, op, &d->arg));
        d->input = op->param[d->arg].name;
        CR_TRY(lex_expect(x, "="));
        CR_TRY(rule_parse(x, &d->rule));
        if (d->rule->kind == CR_RULE_NONE)
            d->rule = NULL;
        op->grad_count++;
    }
    op->differentiable = true;
    return CR_OK;
}

/* Results that carry no gradient. */
static cr_status read_constant(lexer *x, cr_op *op)
{
    while (x->kind != TOKEN_END) {
        const char *name;
        CR_TRY(lex_name(x, &name));
        int r = find_result(op, name), p = cr_op_find_param(op, name);
        if (r < 0 && p < 0)
            return lex_error(x, "%s has no result or parameter '%s'", op->name, name);
        if (r >= 0)
            op->result[r].constant = true;
        else
            op->param[p].constant = true;
    }
    return CR_OK;
}

static cr_status read_ulp(lexer *x, cr_op *op)
{
    op->ulp = x->number;
    return lex_next(x);
}

static const struct {
    const char *name;
    cr_status (*read)(lexer *x, cr_op *op);
} clauses[] = {
    {"doc", read_doc},
    {"ref", read_ref},
    {"sample", read_sample},
    {"example", read_example},
    {"sizes", read_sizes},
    {"tags", read_tags},
    {"forms", read_forms},
    {"words", read_promises},
    {"dtypes", read_dtypes},
    {"stored", read_stored},
    {"refuses", read_refuses},
    {"numbers", read_number_params},
    {"rounds", read_rounds},
    {"factors", read_factors},
    {"fits", read_fits},
    {"type", read_type},
    {"returns", read_returns},
    {"shape", read_shape},
    {"let", read_let},
    {"check", read_check},
    {"warn", read_warn},
    {"body", read_body},
    {"fold", read_fold},
    {"scan", read_scan},
    {"scan_back", read_scan_back},
    {"map", read_map},
    {"is", read_is},
    {"extern", read_extern},
    {"whole", read_whole},
    {"axes", read_axes},
    {"loop", read_loop},
    {"combine", read_combine},
    {"index", read_index},
    {"kernel", read_kernel},
    {"fused", read_fused},
    {"grad", read_grad},
    {"ulp", read_ulp},
    {"constant", read_constant},
    {"also", read_also},
    {"autocast", read_autocast},
    {"autocast_cuda", read_autocast_cuda},
    {"node", read_node_clause},
    {"inverse", read_inverse},
    {"neutral", read_neutral},
    {"filled", read_filled},
    {"format", read_format},
    {"functional", read_functional},
    {"expanded", read_expanded},
    {"scatter", read_scatter},
    {"sparse", read_sparse},
    {"batches", read_batches},
    {"updates", read_updates},
    {"unread", read_unread},
    {"within", read_within},
    {"aten", overload_read},
    {"aten_out", overload_read_out},
    {"flops", read_flops},
    {"counts", read_counts},
    {"onnx", read_onnx},
    {"dispatch", read_dispatch},
    {"out", read_out},
};

static bool is_free_text(const char *name)
{
    return !strcmp(name, "doc") || !strcmp(name, "ref") || !strcmp(name, "sample") ||
           !strcmp(name, "example") || !strcmp(name, "sizes") || !strcmp(name, "tags") ||
           !strcmp(name, "also");
}

static cr_status read_clause(cr_op *op, const char *file, int line, const char *text,
                             size_t len)
{
    size_t n = strcspn(text, " \n"), i = 0;
    lexer x;

    if (n > len)
        n = len;
    while (i < CR_LEN(clauses) && !(*clauses[i].name == *text &&
                                    !strncmp(clauses[i].name, text, n) && !clauses[i].name[n]))
        i++;
    if (i == CR_LEN(clauses))
        return cr_fail(CR_VALUE, "%s:%d: no clause is called '%.*s'", file, line, (int)n, text);
    if (is_free_text(clauses[i].name)) { /* free text has no tokens */
        while (n < len && text[n] == ' ')
            n++;
        x = (lexer){.file = file,
                    .line = line,
                    .at = text + n,
                    .end = text + len,
                    .arena = &table.arena};
        return clauses[i].read(&x, op);
    }
    CR_TRY(lex_start(&x, file, line, text + n, len - n, &table.arena));
    x.names = &table.names;
    CR_TRY(clauses[i].read(&x, op));
    if (x.kind != TOKEN_END)
        return lex_error(&x, "unexpected '%.*s' in %s", (int)x.len, x.text, clauses[i].name);
    return CR_OK;
}

/* --- entries --- */

/* The default of `dtypes`: the dtypes that the type rule can give. */
static unsigned implied_dtypes(const cr_op *op)
{
    return makes_float(op) ? (unsigned)(FLOATS | COMPLEXES) : (unsigned)ALL_DTYPES;
}

/* Lists a record under its names: "max.dim", and "max" for the first of that name. */
static cr_status table_name(cr_op *op, bool first)
{
    cr_text key = {0};
    cr_status st;

    cr_text_put(&key, op->name);
    cr_text_char(&key, '.');
    cr_text_put(&key, *op->overload ? op->overload : "default");
    CR_GO(cr_text_status(&key));
    CR_GO(cr_ops_find(key.at) ? cr_fail(CR_VALUE, "%s:%d: %s is in the table twice",
                                        op->text.file, op->text.line, key.at)
                              : CR_OK);
    CR_GO(cr_map_set(&table.by_name, key.at, key.len, op));
    if (first)
        CR_GO(cr_map_set(&table.by_name, op->name, strlen(op->name), op));
done:
    cr_text_drop(&key);
    return st;
}

static cr_status table_enter(cr_op *op)
{
    cr_op *first = cr_ops_find(op->name);

    CR_TRY(cr_vec_reserve(&table.ops, 1));
    CR_TRY(table_name(op, !first));
    op->index = (uint16_t)table.ops.len;
    cr_vec_put(&table.ops, op);
    while (first && first->next)
        first = (cr_op *)first->next;
    if (first)
        first->next = op;
    return CR_OK;
}

/* --- words that exclude each other --- */

enum {
    /* Words about the elements of the result. */
    OF_ELEMENTS = CR_WORD_IDENTITY | CR_WORD_CAST | CR_WORD_RESHAPE | CR_WORD_PERMUTE |
                  CR_WORD_EXPAND | CR_WORD_JOIN | CR_WORD_SPLIT | CR_WORD_ABSOLUTE |
                  CR_WORD_UNDEFINED,
    /* Words about the memory of the result. */
    OF_MEMORY = CR_WORD_VIEW | CR_WORD_COPY | CR_WORD_ITSELF,
    /* Words for entries whose first parameter is a tensor and that have one result. */
    OF_SELF = CR_WORD_VIEW | CR_WORD_IDENTITY | CR_WORD_CAST | CR_WORD_RESHAPE |
              CR_WORD_PERMUTE | CR_WORD_EXPAND | CR_WORD_ITSELF | CR_WORD_ABSOLUTE |
              CR_WORD_IDEMPOTENT
};

static bool several(unsigned words) { return (words & (words - 1)) != 0; }

static int first_type(const cr_op *op) { return op->param_count ? op->param[0].type : -1; }

static const char *contradiction(const cr_op *op)
{
    unsigned w = op->words;
    bool from_tensor = first_type(op) == CR_T_TENSOR;
    bool to_tensor = op->result_count && op->result[0].type == CR_T_TENSOR;
    bool to_list = op->result_count && op->result[0].type == CR_T_TENSORS;

    if (several(w & OF_ELEMENTS))
        return "words say twice which elements the result has";
    if (several(w & OF_MEMORY))
        return "words say twice what memory the result has";
    if ((w & OF_SELF) && !from_tensor)
        return "a word is about self, and the first parameter is no tensor";
    if ((w & (OF_SELF & ~(unsigned)CR_WORD_VIEW)) && (!to_tensor || op->result_count > 1))
        return "a word is about one result, a tensor";
    if ((w & CR_WORD_ITSELF) && !(w & (CR_WORD_IDENTITY | CR_WORD_CAST | CR_WORD_RESHAPE)))
        return "`itself` goes with identity, cast or reshape";
    if ((w & CR_WORD_JOIN) &&
        (first_type(op) != CR_T_TENSORS || cr_op_find_param(op, "dim") < 0 || !to_tensor))
        return "`join` is for (Tensor[], int dim) -> Tensor";
    if ((w & CR_WORD_SPLIT) && (!from_tensor || cr_op_find_param(op, "dim") < 0 || !to_list))
        return "`split` is for (Tensor, ..., int dim) -> Tensor[]";
    if ((w & CR_WORD_COPY) && op->result_count && op->result[0].alias)
        return "the schema says that the result may be a view, and `copy` that it is not";
    if (op->inverse.name && (!from_tensor || !to_tensor))
        return "`inverse` is for a tensor made of a tensor";
    if (op->expanded && !(op->forms & CR_AS_INPLACE))
        return "`expanded` is for an entry with the form inplace";
    if (op->functional && !(op->param_count && op->param[0].written))
        return "`functional` is for an entry that writes self";
    if ((w & CR_WORD_RESETS) && !(op->param_count && op->param[0].written))
        return "`resets` is for an entry that writes self";
    if ((w & CR_WORD_OTHER_ORDER) && !(op->does == CR_DOES_STEPS && op->fn.name))
        return "`other_order` is for a composition with a function of the host";
    if ((op->forms & CR_AS_OUT) && (op->forms & CR_AS_COPIED))
        return "`out` and `copied` exclude each other";
    if (op->out.rule && !(op->forms & (CR_AS_OUT | CR_AS_INPLACE)))
        return "`out` is for an entry with the form out or inplace";
    if (op->format.rule && !cr_op_on_views(op) && op->does != CR_DOES_BODY)
        return "`format` is for an entry whose results are allocated: a body, a loop or a C "
               "function on views";
    if (op->format.rule > CR_FORMAT_RULE_OPERANDS && op->does != CR_DOES_BODY)
        return "`format last` and `format row_major` are for a body";
    if (op->format.rule && op->format.rule != CR_FORMAT_RULE_LIKE &&
        op->format.rule <= CR_FORMAT_RULE_OPERANDS && op->does == CR_DOES_BODY)
        return "`format` of a body is like, last or row_major";
    if ((op->out.rule & CR_OUT_TYPED) && cr_op_find_param(op, "dtype") < 0)
        return "`out typed` is for an entry with the parameter dtype";
    if (op->neutral.param >= 0 && (!from_tensor || !to_tensor || op->neutral.param == 0))
        return "`neutral` is about another parameter than self";
    return NULL;
}

static cr_status check_words(cr_op *op)
{
    const char *wrong;

    op->words |= op->does == CR_DOES_MAP ? (unsigned)CR_WORD_VIEW : 0;
    wrong = contradiction(op);
    return wrong ? cr_fail(CR_VALUE, "%s:%d: %s: %s", op->text.file, op->text.line, op->name,
                           wrong)
                 : CR_OK;
}

bool cr_op_may_view(const cr_op *op)
{
    for (int k = 0; k < op->result_count; k++)
        if (op->result[k].alias && !op->result[k].written)
            return true;
    return (op->words & CR_WORD_VIEW) != 0;
}

/* Numbers are checked where the compute type is known.  Without tensors the clause decides. */
static bool checks_numbers(const cr_op *op)
{
    return op->fits != CR_FITS_ANY && (op->fits || op->tensor_params) &&
           op->does != CR_DOES_MAP && op->does != CR_DOES_WHOLE &&
           (op->does != CR_DOES_IS || op->type);
}

static cr_status finish_entry(cr_op *op)
{
    if (op->does == 0xff)
        return cr_fail(CR_VALUE, "%s:%d: nothing says what %s does", op->text.file,
                       op->text.line, op->name);
    CR_TRY(check_words(op));
    if (!op->out.error)
        op->out.error = CR_RUNTIME;
    if (op->forms & CR_AS_COPIED)
        op->out.rule |=
            cr_op_find_param(op, "dtype") >= 0 && cr_op_find_param(op, "device") >= 0
                ? CR_OUT_TYPED
                : CR_OUT_EXACT;
    if (op->does == CR_DOES_BODY)
        op->out.rule |= CR_OUT_ALIGNED;
    if (!op->dtypes)
        op->dtypes = implied_dtypes(op);
    if (!checks_numbers(op))
        op->scalar_params = 0;
    if ((op->dtypes | op->stored) & ~STORED & ~op->dtypes)
        return cr_fail(CR_VALUE, "%s:%d: %s: clause stored is for dtypes without kernels",
                       op->text.file, op->text.line, op->name);
    op->dtypes |= op->stored;
    CR_TRY(overload_imply(op, &table.arena));
    CR_TRY(overload_imply_out(op, &table.arena));
    CR_TRY(table_enter(op));
    table.entries = (int)table.ops.len;
    return CR_OK;
}

cr_status ops_add_inplace(cr_op *op)
{
    cr_op *made = cr_arena_get(&table.arena, sizeof *made);
    cr_param *params = cr_arena_get(&table.arena, op->param_count * sizeof *params);
    char *name = cr_arena_get(&table.arena, strlen(op->name) + 2);

    CR_NEED(made && params && name);
    *made = *op;
    memcpy(params, op->param, op->param_count * sizeof *params);
    params[0].name = "self"; /* torch's name of what an in-place form writes */
    params[0].written = true;
    params[0].alias = 'a';
    params[0].number = false;
    strcat(strcpy(name, op->name), "_");
    made->name = name;
    made->param = params;
    made->does = CR_DOES_INPLACE;
    made->forms = 0;
    made->result[0].alias = 'a';
    made->result[0].written = true;
    made->next = NULL;
    made->inplace_of = op;
    made->words &= ~(unsigned)(OF_ELEMENTS | OF_MEMORY | OF_SELF);
    made->inverse.op = NULL;
    made->neutral.param = -1;
    made->filled = NULL;
    made->scatter.op = NULL;
    made->autocast.host = made->autocast.cuda = 0;
    made->aten.list = NULL;
    made->aten.out = NULL;
    made->aten.count = made->aten.out_count = 0;
    op->inplace = made;
    CR_TRY(overload_imply_inplace(made, &table.arena));
    return table_enter(made);
}

static cr_kernel no_kernels[CR_DTYPE_KERNELS][CR_FORM_COUNT];

const void *const cr_ops_constants[CR_OPS_CONSTANT_COUNT] = {no_kernels, rule_no_keywords};

cr_arena *cr_ops_arena(void) { return &table.arena; }

cr_status cr_op_add_kernels(cr_op *op)
{
    if (op->kernel != no_kernels)
        return CR_OK;
    cr_kernel(*made)[CR_FORM_COUNT] = cr_arena_get(&table.arena, sizeof no_kernels);
    op->kernel = made ? made : op->kernel;
    return made ? CR_OK : CR_MEMORY;
}

/* The end of the block at `p`: of the lines that are indented deeper. */
static const char *block_end(const char *p, const char *end, int indent, int *lines)
{
    for (;;) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        const char *next = eol ? eol + 1 : end;
        int blanks = 0;
        ++*lines;
        while (next + blanks < end && next[blanks] == ' ')
            blanks++;
        bool empty = next + blanks >= end || next[blanks] == '\n' || next[blanks] == '#';
        if (!eol || next == end)
            return end;
        if (!empty && blanks <= indent)
            return next;
        if (empty && blanks <= indent)
            return next;
        p = next;
    }
}

static cr_status start_entry(cr_op **out, const char *file, int line, const char *text,
                             size_t len)
{
    cr_op *op = cr_arena_get(&table.arena, sizeof *op);
    lexer x;

    CR_NEED(op);
    op->does = 0xff;
    op->neutral.param = -1;
    op->text.file = file;
    op->text.line = line;
    op->text.tags = op->text.also = "";
    op->text.doc.at = op->text.ref.at = op->text.sample.at = op->text.example.at = "";
    op->text.sizes.at = op->text.axes.at = "";
    op->kernel = no_kernels;
    CR_TRY(lex_start(&x, file, line, text, len, &table.arena));
    x.names = &table.names;
    CR_TRY(schema_parse(&x, op));
    *out = op;
    return CR_OK;
}

cr_status cr_schema_read(cr_op *op, cr_arena *arena, const char *schema)
{
    lexer x;

    CR_TRY(lex_start(&x, schema, 1, schema, strlen(schema), arena));
    return schema_parse(&x, op);
}

cr_status cr_ops_read(const char *file, const char *text, size_t len)
{
    const char *p = text, *end = text + len;
    cr_op *op = NULL;
    int line = 1;

    file = cr_arena_text(&table.arena, file, strlen(file));
    CR_NEED(file);
    while (p < end) {
        int blanks = 0, lines = 0;
        while (p + blanks < end && p[blanks] == ' ')
            blanks++;
        if (p + blanks >= end || p[blanks] == '\n' || p[blanks] == '#') {
            const char *eol = memchr(p, '\n', (size_t)(end - p));
            p = eol ? eol + 1 : end;
            line++;
            continue;
        }
        /* a continuation of an entry's first line is indented deeper than a clause */
        const char *stop = block_end(p, end, blanks ? blanks : 3, &lines);
        if (blanks == 0 && end - p > 3 && !memcmp(p, "op ", 3)) {
            if (op)
                CR_TRY(finish_entry(op));
            op = NULL;
            CR_TRY(start_entry(&op, file, line, p + 3, (size_t)(stop - p - 3)));
        } else if (blanks == 2 && op) {
            CR_TRY(read_clause(op, file, line, p + 2, (size_t)(stop - p - 2)));
        } else {
            return cr_fail(CR_VALUE, "%s:%d: expected an entry or a clause", file, line);
        }
        p = stop;
        line += lines;
    }
    return op ? finish_entry(op) : CR_OK;
}

static void follow_link(const cr_ops_image *m, uint64_t *link)
{
    const char *part[] = {[CR_OPS_WORDS] = (const char *)m->words,
                          [CR_OPS_FIXED] = (const char *)m->fixed,
                          [CR_OPS_TEXTS] = m->texts};
    uint64_t distance = *link >> 2;

    *link = (uintptr_t)((*link & 3) == CR_OPS_CONSTANTS ? cr_ops_constants[distance]
                                                        : part[*link & 3] + distance);
}

cr_status cr_ops_load(const cr_ops_image *m)
{
    for (size_t i = 0; i < (m->count + 63) / 64; i++)
        for (uint64_t left = m->links[i]; left; left &= left - 1)
            follow_link(m, &m->words[64 * i + (size_t)__builtin_ctzll(left)]);
    CR_TRY(ops_reserve());
    for (int i = 0; i < m->op_count; i++) {
        cr_op *op = (cr_op *)((char *)m->words + m->ops[i]);
        CR_TRY(table_name(op, !cr_ops_find(op->name)));
        cr_vec_put(&table.ops, op);
    }
    table.entries = m->entries;
    return CR_OK;
}

cr_status ops_reserve(void) { return cr_vec_reserve(&table.ops, CR_MOST_OPS - table.ops.len); }

/* The program's schema has no file; the message's place is the schema itself. */
static cr_status added_entry(cr_op *op, const char *name, cr_call_fn stage)
{
    op->name = cr_arena_text(&table.arena, name, strlen(name));
    CR_NEED(op->name);
    op->does = CR_DOES_WHOLE;
    op->forms = CR_AS_C;
    op->custom = CR_CUSTOM_INLINE;
    op->kernel_stage = stage;
    op->dtypes = ~0u;
    CR_TRY(overload_imply(op, &table.arena));
    return ops_resolve_one(op);
}

cr_status cr_ops_add(cr_op **out, const char *name, const char *schema, cr_call_fn stage)
{
    const char *text = cr_arena_text(&table.arena, schema, strlen(schema));
    cr_op *op;

    CR_NEED(text);
    if (table.ops.len == CR_MOST_OPS)
        return cr_fail(CR_RUNTIME, "a program may add %d operators",
                       CR_MOST_OPS - table.entries);
    CR_TRY(start_entry(&op, text, 1, text, strlen(text)));
    CR_TRY(added_entry(op, name, stage));
    CR_TRY(table_enter(op));
    *out = op;
    return CR_OK;
}

/* --- derivatives --- */

/* True if the rule only gives dtypes without derivatives. */
static bool names_discrete_dtype(const cr_rule *r)
{
    if (r && r->kind == CR_RULE_CHOOSE)
        return names_discrete_dtype(r->args[1]) && names_discrete_dtype(r->args[2]);
    cr_dtype t = r && r->kind == CR_RULE_NAME ? cr_dtype_find(r->name) : CR_DTYPE_NONE;
    return t != CR_DTYPE_NONE && !cr_dtype_is_float(t) && !cr_dtype_is_complex(t);
}

static bool result_has_derivative(const cr_op *op, int k)
{
    const cr_result *r = &op->result[k];

    return (r->type == CR_T_TENSOR || r->type == CR_T_TENSORS) && !r->constant && !r->written &&
           (!op->dtypes || (op->dtypes & (FLOATS | COMPLEXES))) &&
           !names_discrete_dtype(op->returns[0] ? op->returns[k] : op->type);
}

/* True for entries that autograd cannot record as calls of other entries. */
static bool computes_itself(const cr_op *op)
{
    bool reads = false;

    for (int i = 0; i < op->param_count; i++)
        reads |= op->param[i].type == CR_T_TENSOR || op->param[i].type == CR_T_TENSORS;
    return reads &&
           (op->does == CR_DOES_BODY || op->does == CR_DOES_FOLD || cr_op_on_views(op));
}

cr_status cr_op_check_derivative(const cr_op *op)
{
    for (int k = 0; k < op->result_count && !op->differentiable && computes_itself(op); k++)
        if (result_has_derivative(op, k))
            return cr_fail(CR_VALUE,
                           "%s:%d: %s has no clause `grad`, and `constant` does not name its "
                           "result '%s'",
                           op->text.file, op->text.line, op->name,
                           *op->result[k].name ? op->result[k].name : "result");
    return CR_OK;
}
