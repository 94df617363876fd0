/* Running a nest by tiles or by native code. */
#include "jit/fused.h"
#include "base/env.h"
#include "base/log.h"
#include "base/parallel.h"
#include "jit/oracle.h"
#include "jit/tile.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

const char *const cr_schedule_names[CR_SCHEDULES] = {
#define CR_SCHEDULE(name, stream, unroll) #name,
#include "jit/schedules.def"
#undef CR_SCHEDULE
};

static const cr_emit_choice choices[CR_SCHEDULES] = {
#define CR_SCHEDULE(name, streams, vectors) {.stream = streams, .unroll = vectors},
#include "jit/schedules.def"
#undef CR_SCHEDULE
};

/* The kernel of one schedule. */
typedef struct {
    cr_unit unit;                    /* empty: the same kernel as PLAIN */
    _Atomic(cr_jit_kernel *) kernel; /* NULL: not requested */
} variant;

struct cr_fused {
    cr_session session;
    cr_loop_maker make;
    const cr_dialect *dialect;
    void *context;
    cr_nest *nest;
    cr_tile *tile; /* NULL when a step has no prebuilt kernel */
    cr_unit unit;
    cr_jit_kernel *kernel;
    variant *variant; /* CR_SCHEDULES entries, or NULL */
    cr_text text;     /* the program before all passes, when CR_ORACLE is set */
};

enum { GRAIN = 16384, PATIENCE_SECONDS = 120 };

static void fused_build(cr_session *s, void *context)
{
    cr_fused *f = context;
    cr_loop *l = f->make(s, f->context);

    if (cr_oracle_wanted())
        cr_loop_print(&f->text, l);
    cr_loop_fuse_whole(l);
    f->nest = cr_nest_schedule(l);
    cr_emit(&f->unit, f->dialect, f->nest, l->name, NULL);
}

static void fused_plan(cr_session *s, void *context)
{
    cr_fused *f = context;

    (void)s;
    f->tile = cr_tile_plan(f->nest);
}

/* A program with few operations per element is urgent, because its tiles lose the most time. */
static cr_jit_urgency urgency(const cr_fused *f)
{
    int cost = 0;

    for (int k = 0; k < f->nest->sweeps; k++)
        cost += f->nest->sweep[k].cost;
    return !f->tile || cost < CR_COST_HEAVY ? CR_JIT_CHEAP : CR_JIT_COSTLY;
}

static cr_status fused_new(cr_fused **out, cr_loop_maker make, void *context,
                           const cr_dialect *dialect)
{
    cr_fused *f = cr_alloc_zero(sizeof *f);
    cr_status st;

    CR_NEED(f);
    f->make = make;
    f->context = context;
    f->dialect = dialect;
    CR_GO(cr_session_run(&f->session, fused_build, f));
    if (dialect != &cr_dialect_c || !cr_env_int(CR_ENV_CR_TILES)) {
        f->tile = NULL;
    } else if (cr_session_run(&f->session, fused_plan, f)) {
        f->tile = NULL;
        cr_log_line("jit", 2, "%s has no tiles: %s", f->nest->loop->name, cr_error_message());
    }
    CR_GO(cr_jit_request(&f->kernel, &f->unit, f->nest->loop->name, urgency(f)));
    *out = f;
    return CR_OK;
done:
    cr_fused_drop(f);
    return st;
}

cr_status cr_fused_new(cr_fused **out, cr_loop_maker make, void *context)
{
    return fused_new(out, make, context, &cr_dialect_c);
}

cr_status cr_fused_new_across(cr_fused **out, cr_loop_maker make, void *context)
{
    return fused_new(out, make, context, &cr_dialect_across);
}

void cr_fused_drop(cr_fused *f)
{
    if (!f)
        return;
    for (int s = 0; f->variant && s < CR_SCHEDULES; s++)
        cr_unit_drop(&f->variant[s].unit);
    cr_free(f->variant);
    cr_unit_drop(&f->unit);
    cr_text_drop(&f->text);
    cr_session_drop(&f->session);
    cr_free(f);
}

typedef struct {
    const cr_fused *f;
    cr_kernel native;
    void *const *ptr;
    const int64_t *stride;
    int64_t columns;
    const void *param;
    _Atomic int status;
} job;

enum { MOST_OPERANDS = 32 };

static void fused_rows(void *context, int64_t begin, int64_t end);

/* Threads divide a program of one axis into spans of this many elements, unless it uses the
 * columns' numbers. */
enum { SPAN = 4096 };

static bool is_flat(const cr_nest *n)
{
    return n->one_row && !n->counts_columns && !n->sweep[0].reduces.count && n->sweeps == 1 &&
           !n->scans.count;
}

static void fused_spans(void *context, int64_t begin, int64_t end)
{
    job *j = context,
        part = {.f = j->f, .native = j->native, .stride = j->stride, .param = j->param};
    void *ptr[MOST_OPERANDS];
    cr_buffer *operand[MOST_OPERANDS];
    int n = cr_loop_operands(j->f->nest->loop, operand, MOST_OPERANDS);

    for (int k = 0; k < n; k++)
        ptr[k] = (char *)j->ptr[k] + begin * SPAN * j->stride[2 * k + 1];
    part.ptr = ptr;
    part.columns = end * SPAN < j->columns ? (end - begin) * SPAN : j->columns - begin * SPAN;
    fused_rows(&part, 0, 1);
    if (atomic_load(&part.status))
        atomic_store(&j->status, atomic_load(&part.status));
}

static void fused_rows(void *context, int64_t begin, int64_t end)
{
    job *j = context;
    int64_t size[3] = {end - begin, j->columns, begin};
    void *ptr[MOST_OPERANDS];
    cr_buffer *operand[MOST_OPERANDS];
    int n = cr_loop_operands(j->f->nest->loop, operand, MOST_OPERANDS);

    for (int k = 0; k < n; k++)
        ptr[k] = (char *)j->ptr[k] + begin * j->stride[2 * k];
    if (j->native) {
        j->native(ptr, j->stride, size, j->param);
        return;
    }
    cr_status st = cr_tile_run(j->f->tile, ptr, j->stride, size, j->param);
    if (st)
        atomic_store(&j->status, (int)st);
}

cr_status cr_fused_run_by(const cr_fused *f, cr_tier tier, void *const *ptr,
                          const int64_t *stride, int64_t rows, int64_t columns,
                          const void *param)
{
    job j = {.f = f, .ptr = ptr, .stride = stride, .columns = columns, .param = param};
    int64_t grain = f->nest->scans_rows ? rows
                    : columns >= GRAIN  ? 1
                                        : GRAIN / (columns > 0 ? columns : 1);

    if (tier != CR_TIER_TILES)
        j.native = cr_jit_function(f->kernel);
    if (!j.native && tier == CR_TIER_BEST && !f->tile) {
        cr_jit_wait(f->kernel, PATIENCE_SECONDS);
        j.native = cr_jit_function(f->kernel);
    }
    if (!j.native && (tier == CR_TIER_NATIVE || !f->tile))
        return cr_fail(CR_RUNTIME, "there is no native code for %s", f->nest->loop->name);
    if (is_flat(f->nest) && rows == 1)
        cr_parallel_for((columns + SPAN - 1) / SPAN, GRAIN / SPAN, fused_spans, &j);
    else
        cr_parallel_for(rows, grain, fused_rows, &j);
    CR_TRY((cr_status)atomic_load(&j.status));
    return f->text.len ? cr_oracle_check(f->text.at, ptr, stride, rows, columns, param) : CR_OK;
}

cr_status cr_fused_run(const cr_fused *f, void *const *ptr, const int64_t *stride, int64_t rows,
                       int64_t columns, const void *param)
{
    return cr_fused_run_by(f, CR_TIER_BEST, ptr, stride, rows, columns, param);
}

/* --- in parts --- */

static cr_status fused_begin(cr_fused_call *out, const cr_fused *f, cr_tier tier)
{
    *out = (cr_fused_call){f, tier == CR_TIER_TILES ? NULL : cr_jit_function(f->kernel)};
    if (!out->native && (tier == CR_TIER_NATIVE || !f->tile))
        return cr_fail(CR_RUNTIME, "there is no native code for %s", f->nest->loop->name);
    return CR_OK;
}

cr_status cr_fused_part(const cr_fused_call *c, void *const *ptr, const int64_t *stride,
                        const int64_t *size, const void *param)
{
    if (c->native)
        c->native(ptr, stride, size, param);
    else
        CR_TRY(cr_tile_run(c->f->tile, ptr, stride, size, param));
    return c->f->text.len ? cr_oracle_check(c->f->text.at, ptr, stride, size[0], size[1], param)
                          : CR_OK;
}

bool cr_fused_has_tiles(const cr_fused *f) { return f->tile; }

/* --- other dialects --- */

typedef struct {
    const cr_fused *f;
    const cr_dialect *dialect;
    const cr_emit_choice *choice;
    cr_unit *unit;
} print_job;

static void print_again(cr_session *s, void *context)
{
    print_job *j = context;

    (void)s;
    cr_emit(j->unit, j->dialect, j->f->nest, j->f->nest->loop->name, j->choice);
}

cr_status cr_fused_print(cr_unit *out, const cr_fused *f, const cr_dialect *d,
                         const cr_emit_choice *choice)
{
    static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;
    print_job j = {.f = f, .dialect = d, .choice = choice, .unit = out};

    /* One thread at a time, because printing makes expressions in the program's session. */
    pthread_mutex_lock(&printing);
    cr_status st = cr_session_run((cr_session *)(uintptr_t)&f->session, print_again, &j);
    pthread_mutex_unlock(&printing);
    return st;
}

/* --- schedules --- */

static void print_schedules(cr_session *s, void *context)
{
    cr_fused *f = context;

    (void)s;
    for (int k = CR_SCHEDULE_PLAIN + 1; k < CR_SCHEDULES; k++) {
        cr_unit *u = &f->variant[k].unit;
        cr_emit(u, &cr_dialect_c, f->nest, f->nest->loop->name, &choices[k]);
        if (!strcmp(cr_text_str(&u->body), cr_text_str(&f->unit.body)))
            cr_unit_drop(u);
    }
}

cr_status cr_fused_add_schedules(cr_fused *f)
{
    if (f->variant || f->dialect != &cr_dialect_c)
        return CR_OK;
    f->variant = cr_alloc_zero(CR_SCHEDULES * sizeof *f->variant);
    return f->variant ? cr_session_run(&f->session, print_schedules, f) : CR_MEMORY;
}

bool cr_fused_has_schedule(const cr_fused *f, cr_schedule s)
{
    return s == CR_SCHEDULE_PLAIN || (f->variant && f->variant[s].unit.body.len);
}

static cr_jit_kernel *fused_kernel(const cr_fused *f, cr_schedule s)
{
    return s == CR_SCHEDULE_PLAIN ? f->kernel
           : f->variant           ? atomic_load(&f->variant[s].kernel)
                                  : NULL;
}

cr_status cr_fused_ask(cr_fused *f, cr_schedule s, cr_jit_urgency urgency_of_it)
{
    cr_jit_kernel *k = fused_kernel(f, s);

    if (k || !cr_fused_has_schedule(f, s))
        return CR_OK;
    CR_TRY(cr_jit_request(&k, &f->variant[s].unit, f->nest->loop->name, urgency_of_it));
    /* threads that ask at the same time get the same kernel */
    atomic_store(&f->variant[s].kernel, k);
    return CR_OK;
}

cr_jit_state cr_fused_state(const cr_fused *f, cr_schedule s)
{
    const cr_jit_kernel *k = fused_kernel(f, s);

    return k ? cr_jit_state_of(k) : CR_JIT_WAITING;
}

cr_status cr_fused_begin_schedule(cr_fused_call *out, const cr_fused *f, cr_schedule s)
{
    const cr_jit_kernel *k = fused_kernel(f, s);
    cr_kernel native = k ? cr_jit_function(k) : NULL;

    if (!native)
        return fused_begin(out, f, CR_TIER_BEST);
    *out = (cr_fused_call){f, native};
    return CR_OK;
}

bool cr_fused_cuts_rows(const cr_fused *f)
{
    return !f->nest->counts_columns && !f->nest->sweep[0].reduces.count &&
           f->nest->sweeps == 1 && !f->nest->scans.count;
}

bool cr_fused_is_checked(const cr_fused *f) { return f->text.len > 0; }

const cr_unit *cr_fused_unit(const cr_fused *f) { return &f->unit; }
cr_jit_kernel *cr_fused_kernel(const cr_fused *f) { return f->kernel; }
const cr_nest *cr_fused_nest(const cr_fused *f) { return f->nest; }
const char *cr_fused_source(const cr_fused *f) { return cr_text_str(&f->unit.body); }
