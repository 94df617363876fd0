/* torch's names of an entry's overloads.
 *
 * Where torch has an overload for `Tensor other` and another for `Scalar other`, the table has
 * one entry that takes both.  The rule: an entry without such a parameter has one overload,
 * named as the entry says or "default".  An entry with such a parameter has the overloads
 * "Tensor" and "Scalar"; in the second the last such parameter is a scalar.  "Tensor_mode"
 * comes with "Scalar_mode".  Clause `aten` states exceptions, as in `default(-dim) dim(+dim)
 * Scalar(other) Tensor(=other)`: -dim, the parameter does not exist; +dim, it has no default;
 * other, it is a Scalar; =other, it is a Tensor, and torch prefers numbers.  -Scalar: torch's
 * Python has no signature of this overload under the entry's own name.
 *
 * An entry of the form `out` or `copied` also has overloads that write to given tensors, one
 * for each of the others: "out" for "default", and "Scalar_out" for "Scalar".  The tensor's
 * name is "out".  Those of several results have the results' names, or "out0", "out1" where the
 * form is `copied` or the results have no names.  Clause `aten_out` states all such overloads
 * of an entry for which this does not hold, as in `out=Tensor dim_max=dim(max max_values)`. */
#include "ops/lex.h"
#include "ops/ops.h"
#include <string.h>

static cr_status add_overload(cr_overload **list, int *count, cr_arena *arena, cr_overload one)
{
    cr_overload *wide = cr_arena_get(arena, (size_t)(*count + 1) * sizeof *wide);

    CR_NEED(wide);
    if (*count)
        memcpy(wide, *list, (size_t)*count * sizeof *wide);
    wide[(*count)++] = one;
    *list = wide;
    return CR_OK;
}

/* name, -name, +name, =name or *name. */
static cr_status read_difference(lexer *x, const cr_op *op, cr_overload *one)
{
    const char *name;
    bool minus, plus, equals, star;
    int i;

    CR_TRY(lex_take(x, "-", &minus));
    CR_TRY(lex_take(x, "+", &plus));
    CR_TRY(lex_take(x, "=", &equals));
    CR_TRY(lex_take(x, "*", &star));
    CR_TRY(lex_name(x, &name));
    i = cr_op_find_param(op, name);
    if (i < 0)
        return lex_error(x, "%s has no parameter '%s'", op->name, name);
    *(minus    ? &one->absent
      : plus   ? &one->required
      : equals ? &one->numbers
      : star   ? &one->positional
               : &one->scalars) |= 1u << i;
    return CR_OK;
}

static cr_status read_differences(lexer *x, const cr_op *op, cr_overload *one)
{
    bool more;

    CR_TRY(lex_take(x, "(", &more));
    while (more && !lex_is(x, ")"))
        CR_TRY(read_difference(x, op, one));
    return more ? lex_next(x) : CR_OK;
}

cr_status overload_read(lexer *x, cr_op *op)
{
    bool inplace = false;

    while (x->kind != TOKEN_END) {
        cr_overload one = {0};
        CR_TRY(lex_take(x, "-", &one.unlisted));
        CR_TRY(lex_name(x, &one.name));
        if (!strcmp(one.name, "backwards")) {
            op->aten.backwards = true;
            continue;
        }
        if (!strcmp(one.name, "inplace")) {
            inplace = true;
            continue;
        }
        CR_TRY(read_differences(x, op, &one));
        if (inplace)
            CR_TRY(add_overload(&op->aten.inplace, &op->aten.inplace_count, x->arena, one));
        else
            CR_TRY(add_overload(&op->aten.list, &op->aten.count, x->arena, one));
    }
    return CR_OK;
}

/* The last parameter that takes numbers, as a bit; 0 when there is none. */
static uint32_t last_number(const cr_op *op)
{
    uint32_t bit = 0;

    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].number)
            bit = 1u << i;
    return bit;
}

/* "Tensor_mode" to "Scalar_mode". */
static const char *scalar_name(const char *name, cr_arena *arena)
{
    char *made = cr_arena_text(arena, name, strlen(name));

    if (made && !strncmp(made, "Tensor", 6))
        memcpy(made, "Scalar", 6);
    return made;
}

cr_status overload_imply(cr_op *op, cr_arena *arena)
{
    uint32_t number = last_number(op);
    cr_overload one = {.name = *op->overload ? op->overload : number ? "Tensor" : "default"};

    if (op->aten.count)
        return CR_OK;
    CR_TRY(add_overload(&op->aten.list, &op->aten.count, arena, one));
    if (!number)
        return CR_OK;
    one = (cr_overload){.name = scalar_name(one.name, arena), .scalars = number};
    return one.name ? add_overload(&op->aten.list, &op->aten.count, arena, one) : CR_MEMORY;
}

cr_status overload_imply_inplace(cr_op *made, cr_arena *arena)
{
    const cr_op *op = made->inplace_of;

    made->aten.list = op->aten.inplace;
    made->aten.count = op->aten.inplace_count;
    for (int i = 0; i < op->aten.count && !op->aten.inplace_count; i++)
        if (!(op->aten.list[i].scalars & 1))
            CR_TRY(add_overload(&made->aten.list, &made->aten.count, arena, op->aten.list[i]));
    return CR_OK;
}

/* --- overloads that write to given tensors --- */

static cr_status add_out(cr_op *op, cr_arena *arena, cr_out_overload one)
{
    cr_out_overload *wide =
        cr_arena_get(arena, (size_t)(op->aten.out_count + 1) * sizeof *wide);

    CR_NEED(wide);
    if (op->aten.out_count)
        memcpy(wide, op->aten.out, (size_t)op->aten.out_count * sizeof *wide);
    wide[op->aten.out_count++] = one;
    op->aten.out = wide;
    return CR_OK;
}

/* (values indices): a name for each result. */
static cr_status read_given(lexer *x, const cr_op *op, cr_out_overload *one)
{
    const char **names;
    bool more;

    CR_TRY(lex_take(x, "(", &more));
    if (!more)
        return CR_OK;
    names = cr_arena_get(x->arena, (size_t)op->result_count * sizeof *names);
    CR_NEED(names);
    for (int i = 0; i < op->result_count; i++)
        CR_TRY(lex_name(x, &names[i]));
    one->given = names;
    return lex_expect(x, ")");
}

cr_status overload_read_out(lexer *x, cr_op *op)
{
    bool none, more;

    op->aten.out_stated = true;
    CR_TRY(lex_take(x, "none", &none));
    while (!none && x->kind != TOKEN_END) {
        cr_out_overload one = {0};
        CR_TRY(lex_name(x, &one.name));
        CR_TRY(lex_take(x, "=", &more));
        if (more)
            CR_TRY(lex_name(x, &one.from));
        CR_TRY(read_given(x, op, &one));
        CR_TRY(add_out(op, x->arena, one));
    }
    return CR_OK;
}

/* "out" for "default", or else "Scalar_out" for "Scalar". */
static const char *out_name(const char *of, cr_arena *arena)
{
    size_t n = strlen(of);
    char *made;

    if (!strcmp(of, "default"))
        return "out";
    made = cr_arena_get(arena, n + sizeof "_out");
    if (!made)
        return NULL;
    memcpy(made, of, n);
    strcpy(made + n, "_out");
    return made;
}

static cr_status name_given(const cr_op *op, cr_out_overload *one, cr_arena *arena)
{
    static const char *const number[CR_MAX_RESULTS] = {"out0", "out1", "out2", "out3",
                                                       "out4", "out5", "out6", "out7"};
    bool copied = op->forms & CR_AS_COPIED;
    const char **names = cr_arena_get(arena, CR_MAX_RESULTS * sizeof *names);

    CR_NEED(names);
    for (int i = 0; i < op->result_count; i++)
        names[i] = copied || !*op->result[i].name ? number[i] : op->result[i].name;
    if (op->result_count == 1)
        names[0] = "out";
    one->given = names;
    return CR_OK;
}

static const cr_overload *find_overload(const cr_op *op, const char *name)
{
    for (int i = 0; i < op->aten.count; i++)
        if (!name || !strcmp(op->aten.list[i].name, name))
            return &op->aten.list[i];
    return NULL;
}

cr_status overload_imply_out(cr_op *op, cr_arena *arena)
{
    bool implied = (op->forms & (CR_AS_OUT | CR_AS_COPIED)) && !op->aten.out_stated;

    for (int i = 0; implied && i < op->aten.count; i++) {
        cr_out_overload one = {.name = out_name(op->aten.list[i].name, arena),
                               .from = op->aten.list[i].name};
        CR_NEED(one.name);
        CR_TRY(add_out(op, arena, one));
    }
    for (int i = 0; i < op->aten.out_count; i++) {
        cr_out_overload *one = &op->aten.out[i];
        one->of = find_overload(op, one->from);
        if (!one->of)
            return cr_fail(CR_VALUE, "%s:%d: %s has no overload '%s'", op->text.file,
                           op->text.line, op->name, one->from);
        if (!one->given)
            CR_TRY(name_given(op, one, arena));
    }
    return CR_OK;
}
