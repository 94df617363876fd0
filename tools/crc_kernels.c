/* crc kernels - the kernels of entries in a dialect, as one file that compiles.
 *
 *     crc kernels cuda softmax sum > some.cu
 *
 * In CUDA C++, entries that reduce rows also have kernels that hold rows in registers; those
 * with vectors of 8 bytes are in the file of `crc kernels cuda_rows`.
 *
 * Before each kernel a line says what it takes:
 *
 *     kernel sum_f32: results f32; arguments f32; parameters f32@0
 */
#include "crc.h"
#include "emit/emit.h"
#include "loop/build.h"
#include "loop/libm.h"
#include <stdio.h>
#include <string.h>

enum { MOST_OPERANDS = 32 };

typedef struct {
    const cr_dialect *dialect;
    const cr_op *op;
    cr_dtype dtype;
    cr_form form;
    cr_unit unit;
} kernels_job;

static void kernels_operands(cr_text *out, cr_loop *l, cr_buffer_role role)
{
    cr_buffer *operand[MOST_OPERANDS];
    int n = cr_loop_operands(l, operand, MOST_OPERANDS);

    for (int k = 0; k < n; k++)
        if (operand[k]->role == role)
            cr_text_printf(out, " %s", cr_dtype_infos[operand[k]->dtype].suffix);
}

static void kernels_head(kernels_job *j, cr_loop *l, const char *symbol)
{
    cr_text *out = &j->unit.body;

    cr_text_printf(out, "/* kernel %s: results", symbol);
    kernels_operands(out, l, CR_BUFFER_OUTPUT);
    cr_text_put(out, "; arguments");
    kernels_operands(out, l, CR_BUFFER_INPUT);
    cr_text_put(out, "; parameters");
    for (size_t i = 0; i < l->params.len; i++)
        cr_text_printf(out, " %s@%d", cr_dtype_infos[l->params.at[i]->dtype].suffix,
                       l->params.at[i]->slot);
    cr_text_put(out, " */\n");
}

/* The bytes of a vector in the kernel. */
static int kernels_vector(const cr_nest *n, const cr_emit_choice *choice)
{
    cr_unit unit = {.launch.params = 0};

    cr_emit(&unit, &cr_dialect_cuda_rows, n, "k", choice);
    cr_unit_drop(&unit);
    return unit.launch.vector;
}

/* Emits a kernel for each number of steps, for rows of at most 64 * steps columns; 16 steps
 * take CR_FOLD_ROW columns: "sum_f32_rows16", and "sum_f32_whole16" for whole chunks.  A file
 * has kernels of one vector length. */
static void kernels_emit_rows(kernels_job *j, cr_loop *l, const cr_nest *n, const char *symbol)
{
    static const cr_emit_choice choices[] = {{.steps = 1},
                                             {.steps = 4},
                                             {.steps = 16},
                                             {.steps = 1, .whole = true},
                                             {.steps = 12, .whole = true},
                                             {.steps = 16, .whole = true}};

    for (size_t i = 0; i < CR_LEN(choices); i++) {
        const cr_emit_choice *c = &choices[i];
        const char *name = cr_session_printf(l->session, "%s_%s%d", symbol,
                                             c->whole ? "whole" : "rows", c->steps);
        if (kernels_vector(n, c) != (j->dialect == &cr_dialect_cuda ? 16 : 8))
            continue;
        kernels_head(j, l, name);
        cr_emit(&j->unit, &cr_dialect_cuda_rows, n, name, c);
    }
}

static void kernels_emit(cr_session *s, void *context)
{
    static const char *const form[] = {"", "_columns", "_join", "_join_columns"};
    kernels_job *j = context;
    cr_loop *l = cr_loop_of_op(s, j->op, j->dtype, j->form);
    cr_fn_set libm = {.count = 0};
    const char *symbol =
        cr_session_printf(s, "%s%s%s_%s%s", j->op->name, *j->op->overload ? "_" : "",
                          j->op->overload, cr_dtype_infos[j->dtype].suffix, form[j->form]);

    cr_loop_libm(&libm, l);
    cr_loop_simplify(l);
    cr_nest *n = cr_nest_schedule(l);
    if (libm.count) {
        cr_text_printf(&j->unit.body, "/* %s calls the C library */\n\n", symbol);
        return;
    }
    if (j->dialect != &cr_dialect_cuda_rows) {
        kernels_head(j, l, symbol);
        cr_emit(&j->unit, j->dialect, n, symbol, NULL);
    }
    if (j->dialect != &cr_dialect_c && cr_nest_fits_registers(n))
        kernels_emit_rows(j, l, n, symbol);
}

/* A kernel that the dtype does not have is left out. */
static cr_status kernels_one(kernels_job *j)
{
    cr_session s = {.status = CR_OK};
    size_t len = j->unit.body.len;
    cr_status st = cr_session_run(&s, kernels_emit, j);

    cr_session_drop(&s);
    if (st != CR_TYPE)
        return st;
    if (j->unit.body.at)
        j->unit.body.at[j->unit.body.len = len] = 0;
    return CR_OK;
}

static cr_status kernels_entry(kernels_job *j)
{
    static const cr_dtype dtypes[] = {CR_F32, CR_F64,  CR_I32, CR_I64,
                                      CR_U8,  CR_BOOL, CR_C64, CR_C128};

    for (size_t t = 0; t < CR_LEN(dtypes); t++)
        for (int form = 0; form < CR_FORM_COUNT; form++) {
            j->dtype = dtypes[t];
            j->form = (cr_form)form;
            if (!j->op->loop_value && cr_loop_has_form(j->op, j->form) &&
                cr_loop_wants(j->op, j->dtype))
                CR_TRY(kernels_one(j));
        }
    return CR_OK;
}

static bool kernels_wanted(const cr_op *op, int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (!strcmp(op->name, argv[i]))
            return true;
    return argc == 0;
}

/* CR_RUNTIME for a name that no entry has. */
static cr_status kernels_check_names(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (!cr_ops_find(argv[i]))
            return cr_fail(CR_RUNTIME, "no operator is called '%s'", argv[i]);
    return CR_OK;
}

static void kernels_print(const kernels_job *j)
{
    cr_text includes = {0};

    if (j->dialect == &cr_dialect_cuda_rows)
        cr_text_put(&includes, "#define CV_BYTES 8\n");
    cr_emit_includes(&includes, j->dialect, &j->unit);
    fputs(cr_text_str(&includes), stdout);
    fputs(cr_text_str(&j->unit.body), stdout);
    cr_text_drop(&includes);
}

int crc_kernels(int argc, char **argv)
{
    kernels_job j = {.dialect = argc > 1 ? cr_dialect_named(argv[1]) : NULL};
    cr_status st = crc_read_table();

    if (!j.dialect) {
        fputs("usage: crc kernels c|cuda|cuda_rows [ENTRY...]\n", stderr);
        return 2;
    }
    if (!st)
        st = kernels_check_names(argc - 2, argv + 2);
    for (int i = 0; i < cr_ops_count() && !st; i++) {
        j.op = cr_ops_at(i);
        if (kernels_wanted(j.op, argc - 2, argv + 2))
            st = kernels_entry(&j);
    }
    if (!st)
        kernels_print(&j);
    cr_unit_drop(&j.unit);
    return st ? crc_failed() : 0;
}
