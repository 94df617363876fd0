/* The C text of one kernel. */
#include "jit/entry.h"
#include "base/isa.h"
#include "loop/build.h"
#include "loop/nest.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct cr_kernel_source {
    const cr_dialect *dialect;
    cr_unit unit;
    char *name; /* as given to cr_emit */
    uint8_t stored[CR_EMIT_OPERANDS];
    cr_text text, symbol, program;
};

enum { PATIENCE_SECONDS = 300 };

/* --- making --- */

static cr_status kernel_source_new(cr_kernel_source **out, const cr_dialect *d,
                                   const char *name)
{
    cr_kernel_source *s = cr_alloc_zero(sizeof *s);

    if (!s || !(s->name = cr_alloc(strlen(name) + 1))) {
        cr_free(s);
        return CR_MEMORY;
    }
    strcpy(s->name, name);
    s->dialect = d;
    *out = s;
    return CR_OK;
}

/* Prints the loop's nest.  When `stored` is set, operands may be halves in memory.  A nest that
 * reduces rows is then printed by cr_dialect_cuda_rows, the only dialect that keeps the row in
 * registers: the source's own dialect may have no such kernel. */
static void source_emit(cr_kernel_source *s, cr_loop *l, const uint8_t *stored)
{
    cr_loop_print(&s->program, l);
    const cr_nest *n = cr_nest_schedule(l);
    bool rows = stored && cr_nest_fits_registers(n);
    cr_emit_choice choice = {.steps = rows, .stored = stored};

    if (stored)
        memcpy(s->stored, stored, sizeof s->stored);
    cr_emit(&s->unit, rows ? &cr_dialect_cuda_rows : s->dialect, n, s->name, &choice);
}

/* Sets the symbol to which CK(name) expands when CK_ISA is `device`. */
static cr_status source_finish(cr_kernel_source **out, cr_kernel_source *s)
{
    cr_text_put(&s->text, "#define CK_ISA device\n");
    cr_jit_source(&s->text, &s->unit);
    cr_text_printf(&s->symbol, "ck_device_%s", s->name);
    if (s->text.failed || s->symbol.failed || s->program.failed) {
        cr_kernel_source_drop(s);
        return CR_MEMORY;
    }
    *out = s;
    return CR_OK;
}

/* Finishes the source that `emit` fills from `job`. */
static cr_status source_make(cr_kernel_source **out, cr_kernel_source *source,
                             void (*emit)(cr_session *, void *), void *job)
{
    cr_session s = {0};
    cr_status st = cr_session_run(&s, emit, job);

    cr_session_drop(&s);
    if (!st)
        return source_finish(out, source);
    cr_kernel_source_drop(source);
    return st;
}

typedef struct {
    cr_kernel_source *source;
    const cr_op *op;
    cr_dtype dtype;
    cr_form form;
    const uint8_t *stored;
} entry_job;

static void entry_emit(cr_session *s, void *context)
{
    entry_job *j = context;
    cr_loop *l = cr_loop_of_op(s, j->op, j->dtype, j->form);

    cr_loop_simplify(l);
    source_emit(j->source, l, j->stored);
}

cr_status cr_entry_source(cr_kernel_source **out, const cr_dialect *d, const cr_op *op,
                          cr_dtype dtype, cr_form form, const uint8_t *stored)
{
    entry_job j = {.op = op, .dtype = dtype, .form = form, .stored = stored};

    /* A plain fold has no kernel that joins partial results: the kernel that computed the
     * partial results folds them, too. */
    bool both = cr_op_keeps_index(op);
    if (op->does == CR_DOES_FOLD && form >= CR_FORM_JOIN && !cr_loop_has_form(op, form) &&
        !both)
        j.form = form = form == CR_FORM_JOIN ? CR_FORM_MAIN : CR_FORM_COLUMNS;
    if (!both && !cr_loop_has_form(op, form))
        return cr_fail(CR_VALUE, "%s has no kernel of form %d", op->name, (int)form);
    CR_TRY(kernel_source_new(&j.source, d, op->name));
    return source_make(out, j.source, entry_emit, &j);
}

/* A program and the source that it becomes. */
typedef struct {
    cr_kernel_source *source;
    const char *program;
} group_job;

static void group_emit(cr_session *s, void *context)
{
    group_job *j = context;
    cr_loop *l = cr_loop_parse(s, j->program);

    cr_loop_fuse_whole(l);
    source_emit(j->source, l, NULL);
}

cr_status cr_group_source(cr_kernel_source **out, const char *program)
{
    group_job j = {.program = program};

    CR_TRY(kernel_source_new(&j.source, &cr_dialect_c, "group"));
    return source_make(out, j.source, group_emit, &j);
}

/* A loop program that is printed as CUDA C++. */
typedef struct {
    cr_kernel_source *source;
    const char *program;
    const cr_emit_choice *choice;
    uint32_t flexible;
} cuda_job;

static void cuda_emit(cr_session *s, void *context)
{
    cuda_job *j = context;
    cr_loop *l = cr_loop_parse(s, j->program);
    cr_buffer *operand[CR_EMIT_OPERANDS];
    int n = cr_loop_operands(l, operand, CR_EMIT_OPERANDS);

    for (int k = 0; k < n; k++)
        operand[k]->flexible = j->flexible >> k & 1;
    cr_emit(&j->source->unit, j->choice->steps ? &cr_dialect_cuda_rows : &cr_dialect_cuda,
            cr_nest_schedule(l), j->source->name, j->choice);
}

cr_status cr_cuda_source(cr_kernel_source **out, const char *program,
                         const cr_emit_choice *choice, uint32_t flexible)
{
    cuda_job j = {.program = program, .choice = choice, .flexible = flexible};

    CR_TRY(kernel_source_new(&j.source, &cr_dialect_cuda, "rows"));
    return source_make(out, j.source, cuda_emit, &j);
}

cr_status cr_unit_source(cr_kernel_source **out, const cr_dialect *d, const cr_unit *u,
                         const cr_loop *l, const uint8_t *stored)
{
    cr_kernel_source *s;

    CR_TRY(kernel_source_new(&s, d, l->name));
    cr_loop_print(&s->program, l);
    if (stored)
        memcpy(s->stored, stored, sizeof s->stored);
    s->unit = *u;
    s->unit.body = (cr_text){0};
    cr_text_put_n(&s->unit.body, cr_text_str(&u->body), u->body.len);
    return source_finish(out, s);
}

void cr_kernel_source_drop(const cr_kernel_source *source)
{
    cr_kernel_source *s = (cr_kernel_source *)(uintptr_t)source;

    if (!s)
        return;
    cr_unit_drop(&s->unit);
    cr_text_drop(&s->text);
    cr_text_drop(&s->symbol);
    cr_text_drop(&s->program);
    cr_free(s->name);
    cr_free(s);
}

const cr_emit_launch *cr_kernel_launch(const cr_kernel_source *s) { return &s->unit.launch; }

const uint8_t *cr_kernel_stored(const cr_kernel_source *s)
{
    return s->unit.halves ? s->stored : NULL;
}

/* --- the functions of cresset_backend.h --- */

const char *cr_kernel_text(const cr_kernel_source *s) { return cr_text_str(&s->text); }

const char *cr_kernel_program(const cr_kernel_source *s) { return cr_text_str(&s->program); }

const char *cr_kernel_symbol(const cr_kernel_source *s) { return cr_text_str(&s->symbol); }

static char flags[512];

static void flags_print(void)
{
    snprintf(flags, sizeof flags, "-std=gnu11 -O2 -fPIC -shared -ffp-contract=off %s",
             cr_isa_flags(cr_isa_chosen()));
}

const char *cr_kernel_flags(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, flags_print);
    return flags;
}

const char *cr_kernel_compile(cr_kernel_function *out, const cr_kernel_source *s)
{
    cr_jit_kernel *k;

    if (cr_jit_request(&k, &s->unit, s->name, CR_JIT_AWAITED))
        return cr_error_message();
    cr_jit_wait(k, PATIENCE_SECONDS);
    *out = cr_jit_function(k);
    if (*out)
        return NULL;
    cr_fail(CR_RUNTIME, "the kernel %s could not be compiled (CR_LOG=jit says why)", s->name);
    return cr_error_message();
}
