/* The operators as typed C functions.
 *
 * A function stores its arguments in values and makes a boxed call.  A function with Tensor[]
 * arguments first allocates the list's values. */
#include "opgen.h"
#include <stdio.h>
#include <string.h>

/* The declaration of a parameter of each type and its conversion to a value; `opt` is for
 * parameters that may be None.  @ stands for the parameter's name. */
static const struct {
    const char *declare, *value, *opt_declare, *opt_value;
} params[] = {
    [CR_T_TENSOR] = {"cr_tensor *@", "cr_of_tensor(@)", "cr_tensor *@", "cr_of_tensor(@)"},
    [CR_T_TENSORS] = {"cr_tensor *const *@, size_t @_len", "list_of(&st, &scope, @, @_len)",
                      "cr_tensor *const *@, size_t @_len",
                      "@ ? list_of(&st, &scope, @, @_len) : cr_of_none()"},
    [CR_T_SCALAR] = {"cr_scalar @", "cr_of_number(@)", "const cr_scalar *@",
                     "@ ? cr_of_number(*@) : cr_of_none()"},
    [CR_T_INT] = {"int64_t @", "cr_of_int(@)", "const int64_t *@",
                  "@ ? cr_of_int(*@) : cr_of_none()"},
    [CR_T_INTS] = {"const int64_t *@, size_t @_len", "cr_of_ints(@, @_len)",
                   "const int64_t *@, size_t @_len", "@ ? cr_of_ints(@, @_len) : cr_of_none()"},
    [CR_T_FLOAT] = {"double @", "cr_of_float(@)", "const double *@",
                    "@ ? cr_of_float(*@) : cr_of_none()"},
    [CR_T_FLOATS] = {"const double *@, size_t @_len", "floats_of(@, @_len)",
                     "const double *@, size_t @_len", "@ ? floats_of(@, @_len) : cr_of_none()"},
    [CR_T_BOOL] = {"bool @", "cr_of_bool(@)", "const bool *@",
                   "@ ? cr_of_bool(*@) : cr_of_none()"},
    [CR_T_STRING] = {"const char *@", "string_of(@)", "const char *@", "string_of(@)"},
    [CR_T_DTYPE] = {"cr_dtype @", "dtype_of(@)", "cr_dtype @", "dtype_of(@)"},
    [CR_T_GENERATOR] = {"cr_generator *@", "generator_of(@)", "cr_generator *@",
                        "generator_of(@)"},
    [CR_T_SCALARS] = {0},
    [CR_T_BOOLS] = {0},
    [CR_T_LAYOUT] = {0},
    [CR_T_DEVICE] = {0},
    [CR_T_FORMAT] = {0},
};

/* The declaration of a result and the statement that stores it: @ is its name, % the value. */
static const struct {
    const char *declare, *store;
} results[] = {
    [CR_T_TENSOR] = {"cr_tensor **@", "*@ = %.t;"},
    [CR_T_TENSORS] = {"cr_tensor ***@, size_t *@_len",
                      "if (@_len) { *@_len = %.len; } *@ = take_list(&%);"},
    [CR_T_SCALAR] = {"cr_scalar *@", "*@ = %.number;"},
    [CR_T_INT] = {"int64_t *@", "*@ = %.i;"},
    [CR_T_FLOAT] = {"double *@", "*@ = %.d;"},
    [CR_T_BOOL] = {"bool *@", "*@ = %.i != 0;"},
    [CR_T_GENERATOR] = {0},
};

/* One C function of an entry: in place or not, with numbers for the later operands or not. */
typedef struct {
    const cr_op *op;
    bool inplace, number;
} form;

/* True for parameters that C functions do not have.  They keep their default, or None. */
static bool stays_preset(const cr_param *p)
{
    return !params[p->type].declare || !strcmp(p->name, "pin_memory");
}

static cr_type type_of(const form *f, int i)
{
    const cr_param *p = &f->op->param[i];

    return f->number && i > 0 && p->number ? CR_T_SCALAR : (cr_type)p->type;
}

/* The declaration of a parameter in one form; NULL when the function does not have it. */
static const char *declaration(const form *f, int i)
{
    const cr_param *p = &f->op->param[i];

    return p->optional ? params[type_of(f, i)].opt_declare : params[type_of(f, i)].declare;
}

static const char *valuation(const form *f, int i)
{
    const cr_param *p = &f->op->param[i];

    return p->optional ? params[type_of(f, i)].opt_value : params[type_of(f, i)].value;
}

/* The parameter's name, changed when it is a keyword of C or C++. */
static const char *c_name(const char *name)
{
    static const char *const taken[] = {"default", "int",  "float",   "double", "long",
                                        "short",   "char", "bool",    "out",    "signed",
                                        "new",     "this", "template"};
    static char changed[64];

    for (size_t i = 0; i < CR_LEN(taken); i++)
        if (!strcmp(taken[i], name)) {
            snprintf(changed, sizeof changed, "%s_", name);
            return changed;
        }
    return name;
}

static void put_pattern(cr_text *out, const char *pattern, const char *name, const char *value)
{
    for (const char *p = pattern; *p; p++)
        if (*p == '@')
            cr_text_put(out, name);
        else if (*p == '%')
            cr_text_put(out, value);
        else
            cr_text_char(out, *p);
}

/* --- which entries, and their names --- */

static bool ends_in_place(const cr_op *op) { return op->name[strlen(op->name) - 1] == '_'; }

/* A result that is the written argument is not returned. */
static bool is_returned(const cr_op *op, int k) { return !op->result[k].written; }

static bool has_result_types(const cr_op *op)
{
    for (int k = 0; k < op->result_count; k++)
        if (op->result[k].type >= CR_LEN(results) || !results[op->result[k].type].declare)
            return false;
    return true;
}

static bool has_param_types(const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        if (stays_preset(&op->param[i]) && !op->param[i].has_default && !op->param[i].optional)
            return false;
    return true;
}

/* Derivative entries assume the sizes that autograd passes. */
static bool is_backward(const cr_op *op)
{
    const char *end = strstr(op->name, "_backward");

    return end && !strcmp(end, "_backward");
}

/* Names that start with _ are for Python only. */
bool opgen_has_c_function(const cr_op *op)
{
    return op->name[0] != '_' && !is_backward(op) && op->does != CR_DOES_INPLACE && op->forms &&
           has_result_types(op) && has_param_types(op);
}

/* True when an operand after the first may be a number. */
static bool takes_numbers(const cr_op *op)
{
    for (int i = 1; i < op->param_count; i++)
        if (op->param[i].number)
            return true;
    return false;
}

/* Appends the function's name: add, add_ (in place), max_dim, fill_Scalar_.  The _ of in-place
 * comes last. */
static void put_name(cr_text *out, const form *f)
{
    const cr_op *op = f->op;
    bool writes = f->inplace || ends_in_place(op);

    cr_text_printf(out, "cr_%.*s", (int)strlen(op->name) - (ends_in_place(op) ? 1 : 0),
                   op->name);
    if (*op->overload)
        cr_text_printf(out, "_%s", op->overload);
    cr_text_put(out, f->number ? "_Scalar" : "");
    cr_text_put(out, writes ? "_" : "");
}

static void put_result_name(cr_text *out, const cr_op *op, int k)
{
    if (*op->result[k].name)
        cr_text_printf(out, "out_%s", op->result[k].name);
    else if (op->result_count > 1)
        cr_text_printf(out, "out%d", k);
    else
        cr_text_put(out, "out");
}

/* --- text of one function --- */

enum { COLUMNS = 96 };

/* Appends `line`, broken after commas to lines of at most COLUMNS. */
static void put_wrapped(cr_text *out, const char *line)
{
    size_t column = 0;

    while (*line) {
        const char *comma = strstr(line, ", ");
        size_t n = comma ? (size_t)(comma - line) + 2 : strlen(line);
        if (column && column + n > COLUMNS) {
            out->len -= out->at[out->len - 1] == ' ';
            cr_text_put(out, "\n    ");
            column = 4;
        }
        cr_text_put_n(out, line, n);
        column += n;
        line += n;
    }
}

static void put_head(cr_text *out, const form *f)
{
    const cr_op *op = f->op;
    const char *comma = "";

    cr_text_put(out, "cr_status ");
    put_name(out, f);
    cr_text_char(out, '(');
    for (int k = 0; k < op->result_count && !f->inplace; k++) {
        cr_text name = {0};
        if (!is_returned(op, k))
            continue;
        put_result_name(&name, op, k);
        cr_text_put(out, comma);
        put_pattern(out, results[op->result[k].type].declare, cr_text_str(&name), "");
        cr_text_drop(&name);
        comma = ", ";
    }
    for (int i = 0; i < op->param_count; i++) {
        const cr_param *p = &op->param[i];
        if (stays_preset(p))
            continue;
        cr_text_put(out, comma);
        put_pattern(out, declaration(f, i), c_name(p->name), "");
        comma = ", ";
    }
    cr_text_put(out, *comma ? ")" : "void)");
}

static void put_args(cr_text *out, const form *f)
{
    const cr_op *op = f->op;

    cr_text_printf(out, "    cr_value arg[%d];\n", op->param_count ? op->param_count : 1);
    for (int i = 0; i < op->param_count; i++) {
        const cr_param *p = &op->param[i];
        cr_text_printf(out, "    arg[%d] = ", i);
        if (stays_preset(p))
            cr_text_printf(
                out, "op->param[%d].has_default ? op->param[%d].preset : cr_of_none()", i, i);
        else
            put_pattern(out, valuation(f, i), c_name(p->name), "");
        cr_text_put(out, ";\n");
    }
}

static bool takes_lists(const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].type == CR_T_TENSORS)
            return true;
    return false;
}

/* Checks that the compiler does not make: missing arguments, lists without elements, invalid
 * dtypes, NULL result pointers. */
static void put_checks(cr_text *out, const form *f)
{
    const cr_op *op = f->op;

    cr_text_printf(out, "    if (!st)\n        st = cr_check_args(op, arg);\n");
    for (int k = 0; k < op->result_count && !f->inplace; k++) {
        cr_text name = {0};
        if (!is_returned(op, k))
            continue;
        put_result_name(&name, op, k);
        cr_text_printf(out, "    if (!st && !%s)\n        st = no_place(op);\n",
                       cr_text_str(&name));
        cr_text_drop(&name);
    }
}

static void put_results(cr_text *out, const form *f)
{
    const cr_op *op = f->op;

    for (int k = 0; k < op->result_count; k++) {
        cr_text name = {0}, value = {0};
        cr_text_printf(&value, "result[%d]", k);
        put_result_name(&name, op, k);
        cr_text_put(out, "    ");
        if (f->inplace || !is_returned(op, k))
            cr_text_printf(out, "cr_drop_values(&%s, 1);", cr_text_str(&value));
        else
            put_pattern(out, results[op->result[k].type].store, cr_text_str(&name),
                        cr_text_str(&value));
        cr_text_char(out, '\n');
        cr_text_drop(&name);
        cr_text_drop(&value);
    }
}

static void put_function(cr_text *out, const form *f)
{
    const cr_op *op = f->op;

    put_head(out, f);
    cr_text_printf(out, "\n{\n    const cr_op *op = cr_ops_at(%d);\n", op->index);
    cr_text_printf(out, "    cr_value result[%d];\n    cr_status st = CR_OK;\n",
                   op->result_count ? op->result_count : 1);
    if (takes_lists(op))
        cr_text_put(out, "    cr_arena scope = {0};\n");
    put_args(out, f);
    put_checks(out, f);
    cr_text_printf(out, "    if (!st)\n        st = %s(op, arg, result);\n",
                   f->inplace ? "cr_call_inplace" : "cr_call");
    if (takes_lists(op))
        cr_text_put(out, "    cr_arena_drop(&scope);\n");
    cr_text_put(out, "    if (st)\n        return st;\n");
    put_results(out, f);
    cr_text_put(out, "    return CR_OK;\n}\n\n");
}

/* --- the files --- */

static const char *const code_head =
    "/* Generated by opgen: typed functions over cr_call. */\n"
    "/* An entry and a type of the library have this name. */\n"
    "#define cr_view cr_plain_view\n"
    "#include \"tensor/arg.h\"\n"
    "#undef cr_view\n"
    "#include \"num/generator.h\"\n"
    "#include \"cresset_ops.h\"\n#include <string.h>\n\n"
    "static CR_UNUSED cr_status no_place(const cr_op *op)\n{\n"
    "    return cr_fail(CR_TYPE, \"%s(): the place of a result is NULL\", op->name);\n}\n"
    "static CR_UNUSED cr_value string_of(const char *s)\n{\n"
    "    return s ? (cr_value){.tag = CR_STRING, .len = (uint32_t)strlen(s), .s = s}\n"
    "             : cr_of_none();\n}\n"
    "static CR_UNUSED cr_value dtype_of(cr_dtype t)\n{\n"
    "    return t == CR_DTYPE_NONE ? cr_of_none() : cr_of_dtype(t);\n}\n"
    "static CR_UNUSED cr_value floats_of(const double *v, size_t n)\n{\n"
    "    return (cr_value){.tag = CR_FLOATS, .len = (uint32_t)n, .floats = v};\n}\n"
    "static CR_UNUSED cr_value generator_of(cr_generator *g)\n{\n"
    "    return g ? (cr_value){.tag = CR_GENERATOR, .generator = g} : cr_of_none();\n}\n"
    "static CR_UNUSED cr_value list_of(cr_status *st, cr_arena *scope, cr_tensor *const *v, "
    "size_t n)\n{\n"
    "    cr_value *at = cr_arena_get(scope, (n ? n : 1) * sizeof *at);\n\n"
    "    if (!at)\n        *st = CR_MEMORY;\n"
    "    for (size_t i = 0; at && v && i < n; i++)\n        at[i] = cr_of_tensor(v[i]);\n"
    "    return (cr_value){.tag = CR_TENSORS, .len = (uint32_t)n, .list = at};\n}\n"
    "/* A pointer needs no more room than a value: the list becomes an array in its place. */\n"
    "static CR_UNUSED cr_tensor **take_list(cr_value *v)\n{\n"
    "    void *block = (void *)(uintptr_t)v->list;\n\n"
    "    for (uint32_t i = 0; i < v->len; i++) {\n"
    "        cr_tensor *t = v->list[i].t;\n"
    "        memcpy((char *)block + i * sizeof t, &t, sizeof t);\n    }\n"
    "    return block;\n}\n\n";

static const char *const header_head =
    "/* Generated by opgen: every operator as a C function.\n *\n"
    " * Arguments are borrowed; results are owned by the caller and untouched on failure.\n"
    " * NULL stands for None, CR_DTYPE_NONE for no dtype.  A name ending in _ works in\n * "
    "place; one with Scalar takes a number as its later operand.\n"
    " * A list result is an array to free with cr_free after its tensors were dropped. */\n"
    "#ifndef CRESSET_OPS_H\n#define CRESSET_OPS_H\n\n";

static void put_form(cr_text *header, cr_text *code, const form *f)
{
    cr_text head = {0};

    put_head(&head, f);
    cr_text_put(&head, ";\n");
    cr_text_put(header, "CR_API CR_MUST ");
    put_wrapped(header, cr_text_str(&head));
    cr_text_drop(&head);
    put_function(code, f);
}

static void put_entry(cr_text *header, cr_text *code, const cr_op *op)
{
    cr_text_put(header, "/* ");
    cr_clause_put(header, op->text.doc);
    cr_text_put(header, " */\n");
    for (int number = 0; number <= takes_numbers(op); number++) {
        put_form(header, code, &(form){op, false, number});
        if (op->inplace)
            put_form(header, code, &(form){op, true, number});
    }
}

cr_status opgen_api(const char *folder)
{
    cr_text header = {0}, code = {0};

    cr_text_put(&header, header_head);
    cr_text_put(&code, code_head);
    for (int i = 0; i < cr_ops_count(); i++) {
        const cr_op *op = cr_ops_at(i);
        if (opgen_has_c_function(op))
            put_entry(&header, &code, op);
    }
    cr_text_put(&header, "\n#endif\n");
    CR_TRY(opgen_save(folder, "cresset_ops.h", &header));
    CR_TRY(opgen_save(folder, "ops_api.c", &code));
    cr_text_drop(&header);
    cr_text_drop(&code);
    return CR_OK;
}
