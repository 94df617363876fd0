/* Measures the ways to run a group on running calls.
 *
 * There is a measurement for each number of threads.  It starts when the usual kernel is
 * compiled or has failed: only then are kernels of other schedules requested, so that they do
 * not delay the usual kernels of other groups.  A call while another thread measures takes the
 * usual way, and so does one in a profile, which takes time for each event.
 *
 * Invariant: all ways have equal results, bit for bit.
 *
 * A result of all schedules is stored beside the kernel on disk, one line for each processor,
 * number of threads and class of sizes.  A line that names no way of this group is ignored, and
 * the group is measured again. */
#include "base/clock.h"
#include "base/isa.h"
#include "base/log.h"
#include "base/parallel.h"
#include "compile/code.h"
#include "jit/cache.h"
#include "jit/measure.h"
#include "tensor/profile.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { FEW = 1024, SHARED = 1 << 18, MUCH = 4 << 20 }; /* elements, elements, bytes */

typedef struct measured {
    struct measured *next;
    int threads;
    const cr_way *way[CR_MEASURE_WAYS];
    cr_measure measure; /* under the tuner's lock */
    _Atomic int chosen; /* CR_MEASURE_NONE: not yet */
    bool asked;         /* kernels were requested; under the lock */
} measured;

struct cr_tuner {
    const cr_group_code *c;
    const cr_gnode *group;
    bool schedules; /* their kernels are measured, too */
    bool calls;     /* calls of the nodes are measured */
    int holders;    /* groups, all of one cr_compiled */
    pthread_mutex_t lock;
    _Atomic(measured *) first; /* by number of threads; dropped with the tuner */
};

/* --- ways --- */

static const cr_way ways[] = {
    {.name = "stream", .schedule = CR_SCHEDULE_STREAM, .grain = 16384, .tile = 2048},
    {.name = "narrow", .schedule = CR_SCHEDULE_NARROW, .grain = 16384, .tile = 2048},
    {.name = "wide", .schedule = CR_SCHEDULE_WIDE, .grain = 16384, .tile = 2048},
    {.name = "backwards", .backwards = true, .grain = 16384, .tile = 2048},
    {.name = "one thread", .grain = INT64_MAX, .tile = 2048},
    {.name = "more threads", .grain = 2048, .tile = 2048},
    {.name = "small tiles", .grain = 16384, .tile = 512},
    {.name = "large tiles", .grain = 16384, .tile = 8192},
    {.name = "calls", .calls = true, .grain = 16384, .tile = 2048},
};

static int64_t bytes_of(const cr_group_code *c, int from, int to)
{
    int64_t n = 0;

    for (int k = from; k < to; k++)
        n += (c->operand[k].row ? c->over.rows : c->over.rows * c->over.columns) *
             (int64_t)cr_dtype_size((cr_dtype)c->operand[k].dtype);
    return n;
}

/* True if the way differs from the usual one for this group, and may be faster. */
static bool may_gain(const cr_group_code *c, const cr_way *w, int threads)
{
    int64_t elements = c->over.rows * c->over.columns;

    if (w->schedule == CR_SCHEDULE_STREAM)
        return cr_fused_has_schedule(c->program->fused, w->schedule) && !c->over.staged &&
               !c->folds && bytes_of(c, 0, c->outputs) > cr_cpu_cache_bytes();
    if (w->schedule != CR_SCHEDULE_PLAIN)
        return cr_fused_has_schedule(c->program->fused, w->schedule) && elements >= FEW;
    if (w->backwards)
        return !c->folds && bytes_of(c, 0, c->operands) >= MUCH;
    if (w->grain > cr_usual_way.grain)
        return threads > 1 && !c->folds && elements > cr_usual_way.grain && elements <= SHARED;
    if (w->grain < cr_usual_way.grain)
        return threads > 1 && !c->folds && elements > 2 * w->grain &&
               elements < 4 * cr_usual_way.grain;
    return w->calls || (w->tile != cr_usual_way.tile && c->over.staged && elements > w->tile);
}

static int find_ways(const cr_way **out, const cr_tuner *t, int threads)
{
    int n = 0;

    out[n++] = &cr_usual_way;
    for (size_t i = 0; i < CR_LEN(ways); i++)
        if ((ways[i].calls ? t->calls : t->schedules) && may_gain(t->c, &ways[i], threads))
            out[n++] = &ways[i];
    return n;
}

/* --- stored results --- */

static int log2_of(int64_t n)
{
    int k = 0;

    while (n >>= 1)
        k++;
    return k;
}

static const char *key_of(const cr_tuner *t)
{
    return cr_jit_key(cr_fused_kernel(t->c->program->fused));
}

/* "<processor> t2 r0 c24 d1: " */
static void put_class(cr_text *out, const cr_tuner *t, int threads)
{
    const cr_group_code *c = t->c;

    cr_text_printf(out, "%016" PRIx64 " t%d r%d c%d d%d%s%s: ", cr_cpu_model(), threads,
                   log2_of(c->over.rows), log2_of(c->over.columns), c->over.ndim,
                   c->over.staged ? " staged" : "", c->folds ? " folds" : "");
}

/* The line of the class in a note, or NULL; *len is its length without the newline. */
static const char *find_line(const char *note, const char *class, size_t *len)
{
    for (; *note; note += *len + (note[*len] == '\n')) {
        *len = strcspn(note, "\n");
        if (!strncmp(note, class, strlen(class)))
            return note;
    }
    return NULL;
}

static void recall(cr_tuner *t, measured *m)
{
    cr_text note = {0}, class = {0};
    size_t len;

    put_class(&class, t, m->threads);
    const char *line = cr_cache_read_note(&note, key_of(t))
                           ? find_line(cr_text_str(&note), cr_text_str(&class), &len)
                           : NULL;
    for (int k = 0; line && k < m->measure.ways; k++)
        if (strlen(m->way[k]->name) == len - class.len &&
            !strncmp(line + class.len, m->way[k]->name, len - class.len))
            m->measure.chosen = k;
    cr_text_drop(&note);
    cr_text_drop(&class);
    if (m->measure.chosen >= 0)
        cr_log_line("autotune", 1, "%%%s: %s, from a stored measurement (%d threads)",
                    t->group->result[0]->name, m->way[m->measure.chosen]->name, m->threads);
}

/* Replaces the line of the class by the chosen way. */
static void remember(const cr_tuner *t, const measured *m)
{
    cr_text note = {0}, class = {0}, fresh = {0};
    size_t len;
    cr_status st;

    put_class(&class, t, m->threads);
    if (!cr_cache_read_note(&note, key_of(t))) {
        cr_text_drop(&note);
        note = (cr_text){0};
    }
    const char *all = cr_text_str(&note), *old = find_line(all, cr_text_str(&class), &len);
    cr_text_put_n(&fresh, all, old ? (size_t)(old - all) : note.len);
    if (old)
        cr_text_put(&fresh, old + len + (old[len] == '\n'));
    cr_text_printf(&fresh, "%s%s\n", cr_text_str(&class), m->way[m->measure.chosen]->name);
    st = cr_text_status(&fresh);
    st = st ? st : cr_cache_write_note(key_of(t), fresh.at, fresh.len);
    if (st)
        cr_log_line("cache", 1, "measurements are not stored: %s", cr_error_message());
    cr_text_drop(&fresh);
    cr_text_drop(&note);
    cr_text_drop(&class);
}

static void report(const cr_tuner *t, const measured *m)
{
    cr_text line = {0};

    for (int k = 0; k < m->measure.ways; k++)
        if (m->measure.calls[k])
            cr_text_printf(&line, "%s%s %.1f us", k ? ", " : "", m->way[k]->name,
                           m->measure.best[k] * 1e6);
    cr_log_line("autotune", 1,
                "%%%s (%s), %" PRId64 " rows of %" PRId64 ", %d threads: %s; %s stays",
                t->group->result[0]->name, cr_fused_nest(t->c->program->fused)->loop->name,
                t->c->over.rows, t->c->over.columns, m->threads, cr_text_str(&line),
                m->way[m->measure.chosen]->name);
    cr_text_drop(&line);
}

/* --- measuring --- */

static void ask(cr_tuner *t, measured *m, int k, cr_jit_urgency urgency)
{
    cr_status st = cr_fused_ask(t->c->program->fused, m->way[k]->schedule, urgency);

    if (st)
        cr_log_line("autotune", 1, "%s is left out: %s", m->way[k]->name, cr_error_message());
    if (st && k)
        cr_measure_leave_out(&m->measure, k);
}

/* In the lock. */
static measured *add_measured(cr_tuner *t, int threads)
{
    measured *m = cr_alloc_zero(sizeof *m);

    if (!m)
        return NULL;
    m->threads = threads;
    cr_measure_init(&m->measure, find_ways(m->way, t, threads));
    if (t->schedules)
        recall(t, m);
    if (m->measure.chosen > 0)
        ask(t, m, m->measure.chosen, CR_JIT_CHEAP);
    m->chosen = m->measure.chosen;
    m->next = atomic_load(&t->first);
    atomic_store(&t->first, m);
    return m;
}

static measured *find_measured(const cr_tuner *t, int threads)
{
    measured *m = atomic_load_explicit(&t->first, memory_order_acquire);

    while (m && m->threads != threads)
        m = m->next;
    return m;
}

/* The ways that can run now, as bits; removes ways whose kernel failed.  The caller holds the
 * lock. */
static unsigned ready_ways(cr_tuner *t, measured *m)
{
    unsigned ready = 0;

    if (cr_fused_state(t->c->program->fused, CR_SCHEDULE_PLAIN) == CR_JIT_WAITING)
        return 0;
    for (int k = 1; t->schedules && !m->asked && k < m->measure.ways; k++)
        ask(t, m, k, CR_JIT_SPARE);
    m->asked = true;
    for (int k = 0; k < m->measure.ways; k++) {
        cr_jit_state state = cr_fused_state(t->c->program->fused, m->way[k]->schedule);
        if (state == CR_JIT_FAILED && m->way[k]->schedule != CR_SCHEDULE_PLAIN &&
            !m->measure.out[k])
            cr_measure_leave_out(&m->measure, k);
        ready |= (unsigned)(state != CR_JIT_WAITING) << k; /* else it runs tiles */
    }
    return ready;
}

/* In the lock. */
static cr_status run_measured(cr_tuner *t, measured *m, cr_tensor *const *read,
                              cr_tensor **output)
{
    int k = cr_measure_next(&m->measure, ready_ways(t, m));
    double start = cr_seconds();

    CR_TRY(cr_group_run_way(t->c, m->way[k < 0 ? 0 : k], read, output));
    if (k >= 0)
        cr_measure_note(&m->measure, k, cr_seconds() - start);
    if (m->measure.chosen >= 0) {
        report(t, m);
        if (t->schedules)
            remember(t, m);
        atomic_store(&m->chosen, m->measure.chosen);
    }
    return CR_OK;
}

cr_status cr_tuner_run(cr_tuner *t, cr_tensor *const *read, cr_tensor **output)
{
    measured *m = find_measured(t, cr_threads());
    int chosen = m ? atomic_load_explicit(&m->chosen, memory_order_acquire) : CR_MEASURE_NONE;
    cr_status st;

    if (chosen >= 0)
        return cr_group_run_way(t->c, m->way[chosen], read, output);
    if (cr_in_parallel() || cr_profiling() || cr_fused_is_checked(t->c->program->fused) ||
        pthread_mutex_trylock(&t->lock))
        return cr_group_run_way(t->c, &cr_usual_way, read, output);
    m = find_measured(t, cr_threads());
    m = m ? m : add_measured(t, cr_threads());
    chosen = m ? atomic_load(&m->chosen)
               : CR_MEASURE_NONE; /* stored, or measured by another thread meanwhile */
    st = !m            ? CR_MEMORY
         : chosen >= 0 ? cr_group_run_way(t->c, m->way[chosen], read, output)
                       : run_measured(t, m, read, output);
    pthread_mutex_unlock(&t->lock);
    return st;
}

/* --- tuners --- */

bool cr_tuner_is_done(const cr_tuner *t)
{
    const measured *m = atomic_load_explicit(&t->first, memory_order_acquire);
    bool done = m;

    for (; m; m = m->next)
        done = done && atomic_load(&m->chosen) >= 0;
    return done;
}

cr_status cr_tuner_new(cr_tuner **out, const cr_group_code *c, const cr_gnode *group,
                       unsigned how)
{
    cr_tuner *t = cr_alloc_zero(sizeof *t);

    CR_NEED(t);
    t->c = c;
    t->group = group;
    t->schedules = how & CR_HOW_MEASURE;
    t->calls = !(how & CR_HOW_FAST);
    t->holders = 1;
    pthread_mutex_init(&t->lock, NULL);
    *out = t;
    return CR_OK;
}

cr_tuner *cr_tuner_keep(cr_tuner *t)
{
    if (t)
        t->holders++;
    return t;
}

void cr_tuner_drop(cr_tuner *t)
{
    if (!t || --t->holders)
        return;
    for (measured *m = atomic_load(&t->first), *next; m; m = next) {
        next = m->next;
        cr_free(m);
    }
    pthread_mutex_destroy(&t->lock);
    cr_free(t);
}
