/* crc kernels - the kernels of entries in a dialect, as one file that compiles.
 *
 *     crc kernels cuda softmax sum > some.cu
 *
 * In CUDA C++, entries that reduce rows also have kernels that hold rows in registers.  A file
 * has kernels of one vector length: those with vectors of 8 bytes are in the file of `crc
 * kernels cuda_rows`.  `cuda_bf16`, `cuda_bf16_rows` and `cuda_bf16_wide` are kernels whose
 * float32 operands are stored as bfloat16, with vectors of 16, 8 and 32 bytes; `cuda_f16`
 * likewise.  `cuda_narrow` has the kernels for rows of at most 16 columns.
 *
 * Before each kernel a line says what it takes:
 *
 *     kernel sum_f32: results f32; arguments f32; parameters f32@0 */
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
    int vector;      /* bytes; 0: any */
    int lanes;       /* only kernels for rows of so many columns; 0: all others */
    cr_dtype halves; /* float32 operands are stored so; CR_BOOL: as they are */
    uint8_t stored[CR_EMIT_OPERANDS];
    cr_unit unit;
} kernels_job;

/* The files in CUDA C++. */
static const struct {
    const char *name;
    int vector;
    cr_dtype halves;
    int lanes;
} files[] = {{"cuda", 16, CR_BOOL, 0},          {"cuda_rows", 8, CR_BOOL, 0},
             {"cuda_narrow", 16, CR_BOOL, 16},  {"cuda_bf16", 16, CR_BF16, 0},
             {"cuda_bf16_rows", 8, CR_BF16, 0}, {"cuda_bf16_wide", 32, CR_BF16, 0},
             {"cuda_f16", 16, CR_F16, 0},       {"cuda_f16_rows", 8, CR_F16, 0},
             {"cuda_f16_wide", 32, CR_F16, 0}};

static void kernels_operands(kernels_job *j, cr_loop *l, cr_buffer_role role)
{
    cr_buffer *operand[MOST_OPERANDS];
    int n = cr_loop_operands(l, operand, MOST_OPERANDS);

    for (int k = 0; k < n; k++)
        if (operand[k]->role == role)
            cr_text_printf(
                &j->unit.body, " %s",
                cr_dtype_infos[j->stored[k] ? j->stored[k] : operand[k]->dtype].suffix);
}

/* Sets the dtypes of the loop's operands in memory; false if no operand is stored as halves. */
static bool kernels_store(kernels_job *j, cr_loop *l)
{
    cr_buffer *operand[MOST_OPERANDS];
    int n = cr_loop_operands(l, operand, MOST_OPERANDS);
    bool any = false;

    memset(j->stored, 0, sizeof j->stored);
    for (int k = 0; k < n && j->halves; k++)
        if (operand[k]->dtype == CR_F32)
            any = (j->stored[k] = (uint8_t)j->halves) != 0;
    return any;
}

static void kernels_head(kernels_job *j, cr_loop *l, const char *symbol)
{
    cr_text *out = &j->unit.body;

    cr_text_printf(out, "/* kernel %s: results", symbol);
    kernels_operands(j, l, CR_BUFFER_OUTPUT);
    cr_text_put(out, "; arguments");
    kernels_operands(j, l, CR_BUFFER_INPUT);
    cr_text_put(out, "; parameters");
    for (size_t i = 0; i < l->params.len; i++)
        cr_text_printf(out, " %s@%d", cr_dtype_infos[l->params.at[i]->dtype].suffix,
                       l->params.at[i]->slot);
    cr_text_put(out, " */\n");
}

/* Emits a kernel if the file has kernels of its vector length. */
static void kernels_put(kernels_job *j, cr_loop *l, const cr_nest *n, const char *symbol,
                        const cr_dialect *d, const cr_emit_choice *choice)
{
    cr_unit unit = {.launch.params = 0};

    cr_emit(&unit, d, n, symbol, choice);
    cr_unit_drop(&unit);
    if (j->vector && unit.launch.vector != j->vector)
        return;
    kernels_head(j, l, symbol);
    cr_emit(&j->unit, d, n, symbol, choice);
}

/* Emits a kernel for each number of steps, for rows of at most 64 * steps columns; 16 steps
 * take CR_FOLD_ROW columns: "sum_f32_rows16", and "sum_f32_whole16" for whole chunks. */
static void kernels_emit_rows(kernels_job *j, cr_loop *l, const cr_nest *n, const char *symbol,
                              const uint8_t *stored)
{
    static const cr_emit_choice choices[] = {{.steps = 1},
                                             {.steps = 4},
                                             {.steps = 16},
                                             {.steps = 1, .whole = true},
                                             {.steps = 12, .whole = true},
                                             {.steps = 16, .whole = true}};

    for (size_t i = 0; i < CR_LEN(choices); i++) {
        cr_emit_choice c = choices[i];
        bool narrow = j->lanes && !c.whole;
        const char *name = cr_session_printf(l->session, "%s_%s%d", symbol,
                                             narrow    ? "narrow"
                                             : c.whole ? "whole"
                                                       : "rows",
                                             narrow ? j->lanes : c.steps);
        if (j->lanes && (c.steps > 1 || c.whole))
            continue;
        c.lanes = (uint8_t)j->lanes;
        c.stored = stored;
        kernels_put(j, l, n, name, &cr_dialect_cuda_rows, &c);
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
    const uint8_t *stored = kernels_store(j, l) ? j->stored : NULL;
    cr_emit_choice choice = {.stored = stored};
    if (j->halves && !stored)
        return;
    if (j->dialect != &cr_dialect_c && cr_nest_fits_registers(n))
        kernels_emit_rows(j, l, n, symbol, stored);
    if (!j->lanes && (!stored || !n->keeps))
        kernels_put(j, l, n, symbol, j->dialect, &choice);
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
            if (j->op->does != CR_DOES_LOOP && cr_loop_has_form(j->op, j->form) &&
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

    if (j->vector)
        cr_text_printf(&includes, "#define CV_BYTES %d\n", j->vector);
    if (j->lanes)
        cr_text_printf(&includes, "#define CK_ROW_LANES %d\n", j->lanes);
    cr_emit_includes(&includes, j->dialect, &j->unit);
    fputs(cr_text_str(&includes), stdout);
    fputs(cr_text_str(&j->unit.body), stdout);
    cr_text_drop(&includes);
}

int crc_kernels(int argc, char **argv)
{
    kernels_job j = {.dialect = &cr_dialect_cuda};
    cr_status st = crc_read_table();
    size_t file = 0;

    while (argc > 1 && file < CR_LEN(files) && strcmp(argv[1], files[file].name))
        file++;
    if (argc > 1 && file < CR_LEN(files)) {
        j.vector = files[file].vector;
        j.halves = files[file].halves;
        j.lanes = files[file].lanes;
    } else if (argc > 1 && !strcmp(argv[1], "c")) {
        j.dialect = &cr_dialect_c;
    } else {
        fputs("usage: crc kernels c|cuda[_bf16|_f16][_rows|_wide]|cuda_narrow [ENTRY...]\n",
              stderr);
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
