/* Programs of TorchScript calls.
 *
 * The third call of a function with equal numbers and tensors of equal geometry is recorded, if
 * it is plain (script/seen.h), and its graph becomes a program: with fusion groups and packed
 * weights, and with the bits of the steps.  An attempt costs time, so programs must gain: when
 * the native code is ready, and compilers no longer take time from the steps, calls are timed
 * either way in turns.  A way stays until the other one is clearly faster, and both are timed
 * again later, because what else the machine does decides, too.
 *
 * An entry states what the call depends on: the thread's modes, arguments, attributes, the
 * geometry of tensors, and which tensors are the same.  It holds no tensor and no object: all
 * are reached again from the arguments of each call.
 *
 * A program that fails leaves nothing behind, because plain calls write nothing; the steps then
 * run, and raise the error with its place. */
#include "autograd/autograd.h"
#include "base/clock.h"
#include "base/log.h"
#include "compile/call.h"
#include "compile/compile.h"
#include "graph/graph.h"
#include "script/seen.h"
#include <pthread.h>
#include <string.h>

enum {
    SCRIPTED_ENTRIES = 4, /* of a function; the one used longest ago goes */
    SCRIPTED_MADE = 16,   /* entries that a function may make */
    SCRIPTED_SEEN = 2,    /* equal calls before the one that is recorded */
    SCRIPTED_TIMED = 9,   /* calls of each way that are timed */
    SCRIPTED_TURN = 3,    /* of them, one after the other */
    SCRIPTED_AGAIN = 256, /* calls until both ways are timed again; later up to */
    SCRIPTED_AGAIN_MOST = 4096,
    SCRIPTED_WAITS = 400, /* calls that wait for native code */
    SCRIPTED_NODES = 4096,
    SCRIPTED_INPUTS = 2048,
    SCRIPTED_PLACES = 4 * SCRIPTED_INPUTS, /* twice the tensors and constants of a call */
    SCRIPTED_OUTPUTS = 16
};

/* The other way is taken if its time is at most this part of the present one's. */
static const double scripted_gain = 0.95;

typedef struct {
    uint32_t include, exclude;
    uint8_t no_grad, inference, default_dtype;
    cr_device device;
} scripted_modes;

/* A tensor's geometry; sizes and strides are in the entry's arena. */
typedef struct {
    uint8_t dtype, ndim;
    bool requires_grad, inference;
    int64_t *size, *stride;
} scripted_tensor;

typedef enum {
    SCRIPTED_COUNTS,
    SCRIPTED_WAITING,
    SCRIPTED_TRIED,
    SCRIPTED_USED,
    SCRIPTED_LEFT
} scripted_state;

/* The times of both ways to run the function: its steps, or the program. */
typedef struct {
    int steps_timed, runs_timed;
    int since, again; /* calls since both ways were timed, and until they are again */
    bool uses;        /* the program was the faster way when both were timed last */
    double steps_best, run_best;
} scripted_timing;

/* The arguments of the recorded call, and what it read of them. */
typedef struct {
    cr_ivalue *arg;   /* tensors and objects: addresses without references */
    uint64_t *number; /* of an argument's class */
    int args;
    cr_sseen seen; /* of the recorded call: attributes; owned from then on */
    int *first; /* by argument, then by read: the first one that is the same tensor or object */
    int arguments, tensors; /* arguments that are tensors; with the attributes that are */
    scripted_tensor *tensor;
} scripted_recorded;

/* The program, and where its inputs come from. */
typedef struct {
    cr_compiled_call *call;
    int inputs, outputs;
    int *input;           /* by input of the program: a tensor, or ~(a constant) */
    cr_tensor **constant; /* counted */
    int constants;
} scripted_runs;

/* A recorded call of a scripted function.
 * Invariant: state, calls, waits, tries and timed change in the function's lock.
 * program.input has program.inputs entries, and program.constant program.constants. */
typedef struct {
    _Atomic int count; /* references */
    scripted_state state;
    int calls, waits, tries; /* these and the next are in the function's lock */
    scripted_timing timed;
    uint64_t used;
    scripted_modes modes;
    scripted_recorded was;
    scripted_runs program;
    uint32_t version[SCRIPTED_OUTPUTS]; /* of results that the steps made; else 0 */
    uint8_t result;                     /* CR_IV_TENSOR, CR_IV_TUPLE or CR_IV_LIST */
    const struct cr_stype *result_type;
    cr_arena arena;
} scripted_entry;

typedef struct {
    pthread_mutex_t lock;
    _Atomic bool off;
    bool busy; /* a thread records */
    int made;
    uint64_t clock;
    scripted_entry *entry[SCRIPTED_ENTRIES];
} scripted;

static _Atomic int scripted_mode = CR_SCRIPTED_OFF;

static CR_THREAD int scripted_mode_here = CR_SCRIPTED_SHARED;

int cr_scripted_set_mode(int mode) { return atomic_exchange(&scripted_mode, mode); }

int cr_scripted_set_mode_here(int mode)
{
    int was = scripted_mode_here;

    scripted_mode_here = mode;
    return was;
}

static int scripted_mode_now(void)
{
    return scripted_mode_here == CR_SCRIPTED_SHARED ? scripted_mode : scripted_mode_here;
}

/* --- what a call depends on --- */

static scripted_modes scripted_modes_now(void)
{
    scripted_modes m;

    memset(&m, 0, sizeof m); /* compared as bytes */
    m.include = cr_thread.include;
    m.exclude = cr_thread.exclude;
    m.no_grad = cr_thread.no_grad;
    m.inference = cr_thread.inference;
    m.default_dtype = (uint8_t)cr_default_dtype();
    m.device = cr_thread.device;
    return m;
}

/* Whether calls of operators only compute now: no one watches or changes them. */
static bool scripted_is_quiet(void)
{
    uint32_t watched = CR_STAGE_BIT(PROFILE) | CR_STAGE_BIT(CAPTURE) | CR_STAGE_BIT(AUTOCAST) |
                       CR_STAGE_BIT(PYTHON) | CR_STAGE_BIT(DEFER) | CR_STAGE_BIT(FAKE);

    return !(cr_thread.include & watched) && !cr_thread.fakes && !cr_thread.derives &&
           !cr_recorder_active() && !atomic_load_explicit(&cr_deferring, memory_order_relaxed);
}

/* A tensor with bytes on the host, whose calls record no gradient.  Graphs do not know views
 * that were made without gradients of a result that has a gradient: these require one through
 * their base only. */
static bool scripted_takes(const cr_tensor *t)
{
    return !(t->stages & ~CR_STAGE_BIT(AUTOGRAD)) && t->address && !t->conj && !t->neg &&
           t->layout == CR_LAYOUT_STRIDED && t->device.kind == CR_HOST.kind &&
           !t->device.fake && t->requires_grad == cr_requires_grad(t) &&
           (cr_thread.no_grad || !t->requires_grad);
}

static bool scripted_is_argument(const cr_ivalue *v)
{
    switch ((cr_iv_kind)v->kind) {
    case CR_IV_TENSOR: return scripted_takes(v->t);
    case CR_IV_NONE:
    case CR_IV_INT:
    case CR_IV_FLOAT:
    case CR_IV_BOOL:
    case CR_IV_DEVICE:
    case CR_IV_OBJECT: return true;
    default: return false;
    }
}

static bool scripted_has_geometry(const scripted_tensor *x, const cr_tensor *t)
{
    return x->dtype == t->dtype && x->ndim == t->ndim &&
           x->requires_grad == cr_requires_grad(t) && x->inference == t->inference &&
           !memcmp(x->size, t->size, t->ndim * sizeof *x->size) &&
           !memcmp(x->stride, t->stride, t->ndim * sizeof *x->stride);
}

/* The tensors and objects of a call by address, in open addressing. */
typedef struct {
    size_t mask;
    const void *at[SCRIPTED_PLACES];
    uint16_t place[SCRIPTED_PLACES];
} scripted_places;

static void scripted_places_start(scripted_places *p, size_t most)
{
    size_t n = 16;

    while (n < 2 * most)
        n *= 2;
    p->mask = n - 1;
    memset(p->at, 0, n * sizeof *p->at);
}

/* The first place of the key, which is now also at `place`. */
static int scripted_place_of(scripted_places *p, const void *key, int place)
{
    size_t i = (size_t)((uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15) >> 40);

    for (i &= p->mask; p->at[i] && p->at[i] != key; i = (i + 1) & p->mask)
        ;
    if (!p->at[i]) {
        p->at[i] = key;
        p->place[i] = (uint16_t)place;
    }
    return p->place[i];
}

/* The first place of the value, which is now also at `place`; `place` for other values than
 * tensors and objects. */
static int scripted_first(scripted_places *p, const cr_ivalue *v, int place)
{
    if (v->kind == CR_IV_TENSOR)
        return scripted_place_of(p, v->t, place);
    return v->kind == CR_IV_OBJECT ? scripted_place_of(p, v->object, place) : place;
}

static bool scripted_fits_tensor(const scripted_entry *e, int k, const cr_tensor *t)
{
    return scripted_takes(t) && scripted_has_geometry(&e->was.tensor[k], t);
}

/* Whether the same places have the same tensors and objects as in the recorded call. */
static bool scripted_fits_identity(const scripted_entry *e, const cr_ivalue *args,
                                   const cr_ivalue *const *value)
{
    int reads = (int)e->was.seen.read.len;
    scripted_places p;

    scripted_places_start(&p, (size_t)(e->was.args + reads));
    for (int i = 0; i < e->was.args; i++)
        if (scripted_first(&p, &args[i], i) != e->was.first[i])
            return false;
    for (int i = 0; i < reads; i++)
        if (scripted_first(&p, value[i], e->was.args + i) != e->was.first[e->was.args + i])
            return false;
    return true;
}

/* Whether the attributes are those of the recorded call; adds their tensors. */
static bool scripted_fits_reads(const scripted_entry *e, const cr_ivalue *args, cr_tensor **t,
                                int n)
{
    const cr_ivalue *value[SCRIPTED_INPUTS];

    for (size_t i = 0; i < e->was.seen.read.len; i++) {
        const cr_sread *r = &e->was.seen.read.at[i];
        value[i] = cr_sread_again(r, args, value);
        if (!value[i])
            return false;
        if (r->value.kind == CR_IV_TENSOR && value[i]->kind == CR_IV_TENSOR) {
            t[n] = value[i]->t;
            if (!scripted_fits_tensor(e, n, t[n]))
                return false;
            n++;
        } else if (r->value.kind == CR_IV_OBJECT ? cr_ivalue_class(value[i]) != r->number
                                                 : !cr_ivalue_same(&r->value, value[i])) {
            return false;
        }
    }
    return scripted_fits_identity(e, args, value);
}

/* Whether the entry serves the call; t[] gets its tensors. */
static bool scripted_fits(const scripted_entry *e, const scripted_modes *now,
                          const cr_ivalue *args, int count, cr_tensor **t)
{
    int n = 0;

    if (count != e->was.args || memcmp(now, &e->modes, sizeof *now))
        return false;
    for (int i = 0; i < count; i++) {
        if (e->was.arg[i].kind != args[i].kind || e->was.number[i] != cr_ivalue_class(&args[i]))
            return false;
        if (args[i].kind == CR_IV_TENSOR) {
            t[n] = args[i].t;
            if (!scripted_fits_tensor(e, n, t[n]))
                return false;
            n++;
        } else if (!cr_ivalue_same(&e->was.arg[i], &args[i])) {
            return false;
        }
    }
    return scripted_fits_reads(e, args, t, n);
}

/* --- entries --- */

static scripted_entry *scripted_keep(scripted_entry *e)
{
    atomic_fetch_add(&e->count, 1);
    return e;
}

static void scripted_drop(scripted_entry *e)
{
    if (!e || atomic_fetch_sub(&e->count, 1) != 1)
        return;
    if (e->program.call)
        cr_compiled_call_drop(e->program.call);
    for (int i = 0; i < e->program.constants; i++)
        cr_drop(e->program.constant[i]);
    cr_sseen_drop(&e->was.seen);
    cr_arena_drop(&e->arena);
    cr_free(e);
}

static void scripted_drop_all(void *kept)
{
    scripted *s = kept;

    for (int i = 0; i < SCRIPTED_ENTRIES; i++)
        scripted_drop(s->entry[i]);
    pthread_mutex_destroy(&s->lock);
    cr_free(s);
}

/* Notes the geometry of the next tensor. */
static bool scripted_add_tensor(scripted_entry *e, cr_tensor **t, cr_tensor *one)
{
    scripted_tensor *x = &e->was.tensor[e->was.tensors];
    size_t bytes = one->ndim * sizeof *x->size;

    if (!scripted_takes(one))
        return false;
    *x = (scripted_tensor){.dtype = one->dtype,
                           .ndim = one->ndim,
                           .requires_grad = cr_requires_grad(one),
                           .inference = one->inference,
                           .size = cr_arena_get(&e->arena, bytes + 1),
                           .stride = cr_arena_get(&e->arena, bytes + 1)};
    if (!x->size || !x->stride)
        return false;
    memcpy(x->size, one->size, bytes);
    memcpy(x->stride, one->stride, bytes);
    t[e->was.tensors++] = one;
    return true;
}

/* Notes which arguments and attributes are the same tensor or object. */
static bool scripted_note_identity(scripted_entry *e)
{
    int reads = (int)e->was.seen.read.len, *first;
    scripted_places p;

    if (e->was.args + reads > SCRIPTED_INPUTS)
        return false;
    first = cr_arena_get(&e->arena, (size_t)(e->was.args + reads) * sizeof *first + 1);
    if (!first)
        return false;
    scripted_places_start(&p, (size_t)(e->was.args + reads));
    for (int i = 0; i < e->was.args; i++)
        first[i] = scripted_first(&p, &e->was.arg[i], i);
    for (int i = 0; i < reads; i++)
        first[e->was.args + i] =
            scripted_first(&p, &e->was.seen.read.at[i].value, e->was.args + i);
    e->was.first = first;
    return true;
}

/* An entry for calls with such arguments; NULL: there is none. */
static scripted_entry *scripted_entry_new(const scripted_modes *now, const cr_ivalue *args,
                                          int count)
{
    scripted_entry *e = cr_alloc_zero(sizeof *e);
    cr_tensor *t[SCRIPTED_INPUTS];
    bool fits = e != NULL;

    if (!e)
        return NULL;
    atomic_store(&e->count, 1);
    e->modes = *now;
    e->was.args = count;
    e->was.arg = cr_arena_get(&e->arena, (size_t)count * sizeof *e->was.arg + 1);
    e->was.number = cr_arena_get(&e->arena, (size_t)count * sizeof *e->was.number + 1);
    e->was.tensor = cr_arena_get(&e->arena, (size_t)count * sizeof *e->was.tensor + 1);
    fits = e->was.arg && e->was.number && e->was.tensor && count <= SCRIPTED_INPUTS;
    for (int i = 0; fits && i < count; i++) {
        e->was.arg[i] = args[i];
        e->was.number[i] = cr_ivalue_class(&args[i]);
        fits = scripted_is_argument(&args[i]) &&
               (args[i].kind != CR_IV_TENSOR || scripted_add_tensor(e, t, args[i].t));
    }
    e->was.arguments = e->was.tensors;
    if (fits && scripted_note_identity(e))
        return e;
    scripted_drop(e);
    return NULL;
}

/* --- recording --- */

typedef struct {
    scripted_entry *e;
    cr_recorder *recorder;
    cr_tensor *tensor[SCRIPTED_INPUTS];
    uint32_t version[SCRIPTED_INPUTS]; /* of the arguments before the call */
} scripted_recording;

/* The arguments are inputs; the attributes become constants, and then inputs. */
static cr_status scripted_begin(scripted_recording *r, const cr_ivalue *args, int count)
{
    int n = 0;

    CR_TRY(cr_recorder_new(&r->recorder, true));
    cr_recorder_borrow(r->recorder);
    for (int i = 0; i < count; i++) {
        if (args[i].kind != CR_IV_TENSOR)
            continue;
        r->tensor[n] = args[i].t;
        r->version[n++] = args[i].t->storage->version;
        if (r->e->was.first[i] == i)
            CR_TRY(cr_recorder_input(r->recorder, args[i].t, NULL));
    }
    return cr_recorder_start(r->recorder);
}

/* The tensors of a result: a tensor, or a tuple or list of tensors. */
static int scripted_results(scripted_entry *e, const cr_ivalue *made, cr_tensor **out)
{
    bool one = made->kind == CR_IV_TENSOR;
    const cr_ivalue *item = made;
    size_t n = 1;

    if (!one && made->kind != CR_IV_TUPLE && made->kind != CR_IV_LIST)
        return 0;
    if (!one)
        item = made->list->at, n = made->list->len;
    for (size_t i = 0; i < n; i++) {
        if (n > SCRIPTED_OUTPUTS || item[i].kind != CR_IV_TENSOR)
            return 0;
        out[i] = item[i].t;
    }
    e->result = made->kind;
    e->result_type = one ? NULL : made->list->type;
    e->program.outputs = (int)n;
    return e->program.outputs;
}

static int scripted_place(cr_tensor *const *t, int n, const cr_tensor *one)
{
    for (int i = 0; i < n; i++)
        if (t[i] == one)
            return i;
    return -1;
}

/* Where an input of the graph comes from in each call. */
static bool scripted_bind(scripted_recording *r, cr_graph *g, const int *arg_place)
{
    cr_origins from = cr_graph_lift(g);
    scripted_entry *e = r->e;
    const cr_sseen *seen = &e->was.seen;

    e->program.inputs = g->input_count;
    e->program.input =
        cr_arena_get(&e->arena, (size_t)e->program.inputs * sizeof *e->program.input + 1);
    e->program.constant =
        cr_arena_get(&e->arena, (size_t)e->program.inputs * sizeof *e->program.constant + 1);
    if (!e->program.input || !e->program.constant)
        return false;
    for (int k = 0; k < e->program.inputs; k++) {
        cr_tensor *t = from.constant[k];
        int at = t ? scripted_place(r->tensor, e->was.tensors, t) : arg_place[from.from[k]];
        if (at < 0) {
            if (scripted_place(seen->constant.at, (int)seen->constant.len, t) < 0)
                return false;
            e->program.constant[e->program.constants] = cr_keep(t);
            at = ~e->program.constants++;
        }
        e->program.input[k] = at;
    }
    return true;
}

static const int scripted_words[] = {CR_WORD_BIT_RANDOM, CR_WORD_BIT_SIZED_BY_VALUES,
                                     CR_WORD_BIT_CHECKS, CR_WORD_BIT_RESETS,
                                     CR_WORD_BIT_SPARSE};

/* Whether the recorded call changed an argument or attribute, or another thread did. */
static bool scripted_wrote(const scripted_recording *r)
{
    for (int i = 0; i < r->e->was.arguments; i++)
        if (r->tensor[i]->storage->version != r->version[i])
            return true;
    return cr_sseen_wrote(&r->e->was.seen);
}

typedef struct {
    const bool *own; /* by value: its memory was made by the graph's nodes */
    bool all;
} scripted_owning;

static void scripted_ask_own(void *context, cr_gvalue *v)
{
    scripted_owning *x = context;

    x->all = x->all && x->own[v->id];
}

static bool scripted_owns(const cr_garg *a, const bool *own)
{
    scripted_owning x = {own, true};

    cr_garg_each(a, scripted_ask_own, &x);
    return x.all;
}

/* Whether a node writes only to tensors that nodes made; notes its results. */
static bool scripted_node_writes_own(const cr_gnode *n, bool *own)
{
    bool all = true, fresh = !cr_op_may_share(n->op), writes = cr_gnode_writes(n);

    for (int i = 0; i < n->arg_count; i++) {
        bool is_own = scripted_owns(&n->arg[i], own), written = n->op->param[i].written;
        if (!is_own && writes && (written || n->op->updates.params >> i & 1))
            return false;
        all = all && is_own;
        fresh = fresh || written;
    }
    for (int k = 0; k < n->result_count; k++)
        own[n->result[k]->id] = fresh || all;
    return true;
}

/* Whether the graph as it was recorded, without inputs for attributes, writes to no argument,
 * attribute or constant, and to no tensor that shares memory with one. */
static bool scripted_writes_own(const cr_graph *g)
{
    bool *own = CR_NEW_N(g->session, bool, g->values);

    for (size_t i = 0; i < g->body->len; i++) {
        const cr_gnode *n = g->body->at[i];
        if (n->kind == CR_GNODE_CALL ? !scripted_node_writes_own(n, own) : cr_gnode_writes(n))
            return false;
    }
    return true;
}

/* Whether a graph of an equal call is the same and has no effect. */
static bool scripted_is_plain(const cr_graph *g)
{
    if (g->body->len > SCRIPTED_NODES)
        return false;
    for (size_t i = 0; i < g->body->len; i++) {
        const cr_gnode *n = g->body->at[i];
        if (cr_gnode_has_effect(n))
            return false;
        for (size_t k = 0; n->kind == CR_GNODE_CALL && k < CR_LEN(scripted_words); k++)
            if (n->op->custom || cr_op_reaches(n->op, scripted_words[k]))
                return false;
    }
    return true;
}

typedef struct {
    scripted_recording *r;
    cr_graph *g, *functional;
    const int *arg_place;
    bool bound;
} scripted_binding;

static void scripted_bind_in(cr_session *s, void *context)
{
    scripted_binding *b = context;

    (void)s;
    if (b->g->body->len > SCRIPTED_NODES || !scripted_writes_own(b->g))
        return;
    b->functional = cr_graph_functional(b->g);
    b->bound =
        scripted_is_plain(b->functional) && scripted_bind(b->r, b->functional, b->arg_place);
}

/* The number of the tensor that is input i of the recording. */
static void scripted_argument_places(const scripted_entry *e, int *place)
{
    int n = 0, tensor = 0;

    for (int i = 0; i < e->was.args; i++) {
        if (e->was.arg[i].kind != CR_IV_TENSOR)
            continue;
        if (e->was.first[i] == i)
            place[n++] = tensor;
        tensor++;
    }
}

/* Whether a result requires a gradient that no program gives it: a view made without gradients
 * of a leaf that requires one. */
static bool scripted_makes_leaf(const scripted_recording *r, cr_tensor *const *output, int n)
{
    for (int i = 0; i < n; i++)
        if (cr_requires_grad(output[i]) &&
            scripted_place(r->tensor, r->e->was.tensors, output[i]) < 0)
            return true;
    return false;
}

/* Whether two tensors begin at one address.  The recorder takes a second tensor over the same
 * elements for the first one (graph/record.c), which it may not be in other calls.  An argument
 * may be a constant itself, because a result was, and another tensor in other calls. */
static bool scripted_has_twins(const scripted_recording *r)
{
    const cr_sseen *seen = &r->e->was.seen;
    scripted_places p;
    int n = 0;

    scripted_places_start(&p, (size_t)r->e->was.tensors + seen->constant.len);
    for (; n < r->e->was.tensors; n++)
        if (r->tensor[scripted_place_of(&p, r->tensor[n]->address, n)] != r->tensor[n])
            return true;
    for (size_t i = 0; i < seen->constant.len; i++) {
        const cr_tensor *t = seen->constant.at[i];
        int at = scripted_place_of(&p, t->address ? t->address : (const void *)t, n + (int)i);
        if (at < n || seen->constant.at[at - n] != t)
            return true;
    }
    return false;
}

/* Notes how often the steps wrote to each result that they made: a program gives it the same
 * version. */
static void scripted_note_versions(scripted_recording *r, cr_tensor *const *output, int n)
{
    const cr_sseen *seen = &r->e->was.seen;

    for (int i = 0; i < n; i++) {
        bool own = true;
        for (int k = 0; own && k < r->e->was.tensors; k++)
            own = r->tensor[k]->storage != output[i]->storage;
        for (size_t k = 0; own && k < seen->constant.len; k++)
            own = seen->constant.at[k]->storage != output[i]->storage;
        r->e->version[i] = own ? output[i]->storage->version : 0;
    }
}

/* Makes the program of a call that was recorded. */
static cr_status scripted_finish(scripted_recording *r, const cr_ivalue *made)
{
    scripted_entry *e = r->e;
    cr_tensor *output[SCRIPTED_OUTPUTS];
    int place[SCRIPTED_INPUTS], n = scripted_results(e, made, output);
    scripted_binding b = {.r = r, .arg_place = place};

    if (!n)
        return cr_fail(CR_RUNTIME, "its result is no tensor, and no tuple or list of tensors");
    if (scripted_makes_leaf(r, output, n))
        return cr_fail(CR_RUNTIME, "a result is a view of a leaf that requires a gradient");
    if (scripted_has_twins(r))
        return cr_fail(CR_RUNTIME, "arguments or attributes share elements");
    if (scripted_wrote(r))
        return cr_fail(CR_RUNTIME, "an argument or attribute was written");
    scripted_argument_places(e, place);
    scripted_note_versions(r, output, n);
    CR_TRY(cr_recorder_finish(&b.g, r->recorder, output, n));
    CR_TRY(cr_session_run(b.g->session, scripted_bind_in, &b));
    if (!b.bound)
        return cr_fail(CR_RUNTIME, "its graph depends on more than sizes and attributes");
    CR_TRY(cr_compiled_call_new(&e->program.call, b.functional, false, 0));
    return cr_compiled_call_make(e->program.call);
}

/* The entry then serves any attributes, by steps. */
static void scripted_forget_reads(scripted_entry *e)
{
    e->was.tensors = e->was.arguments;
    cr_sseen_drop(&e->was.seen);
    memset(&e->was.seen, 0, sizeof e->was.seen);
}

/* Notes the attributes that the call read; without them the entry serves any attributes. */
static cr_status scripted_note_reads(scripted_recording *r)
{
    scripted_entry *e = r->e;
    size_t most = (size_t)e->was.tensors + e->was.seen.read.len;
    scripted_tensor *all = cr_arena_get(&e->arena, most * sizeof *all + 1);
    bool fits = all && most <= SCRIPTED_INPUTS;

    if (all) {
        memcpy(all, e->was.tensor, (size_t)e->was.tensors * sizeof *all);
        e->was.tensor = all;
    }
    for (size_t i = 0; fits && i < e->was.seen.read.len; i++) {
        const cr_ivalue *v = &e->was.seen.read.at[i].value;
        fits = v->kind != CR_IV_TENSOR || scripted_add_tensor(e, r->tensor, v->t);
    }
    if (fits && scripted_note_identity(e))
        return e->was.seen.why ? cr_fail(CR_RUNTIME, "%s (%s)", e->was.seen.why,
                                         e->was.seen.step ? e->was.seen.step : "")
                               : CR_OK;
    scripted_forget_reads(e);
    return cr_fail(CR_RUNTIME,
                   "it reads too many tensors, or not dense ones without gradients");
}

/* Runs the call by its steps, and makes the program of `e`, if there is one. */
static cr_status scripted_watch(cr_ivalue *out, scripted_recording *r, cr_sfunction *f,
                                const cr_ivalue *args, int count)
{
    cr_status made = scripted_begin(r, args, count);
    cr_status st = cr_sfunction_watch(out, f, args, count, &r->e->was.seen);

    if (cr_recorder_active() == r->recorder)
        cr_recorder_stop(r->recorder);
    r->e->was.seen.arg = NULL;
    if (st) {
        cr_sseen_let_go(&r->e->was.seen);
        return st;
    }
    if (made)
        scripted_forget_reads(r->e);
    made = made ? made : scripted_note_reads(r);
    made = made ? made : scripted_finish(r, out);
    cr_sseen_let_go(&r->e->was.seen);
    r->e->state = made                                        ? SCRIPTED_LEFT
                  : scripted_mode_now() == CR_SCRIPTED_ALWAYS ? SCRIPTED_USED
                                                              : SCRIPTED_WAITING;
    if (made)
        cr_log_line("graph", 1, "%s runs by its steps: %s", f->qualified, cr_error_message());
    return CR_OK;
}

/* The entry gets its program, if there is one, in the place of `was`. */
static cr_status scripted_record(cr_ivalue *out, scripted *s, scripted_entry *was,
                                 cr_sfunction *f, const cr_ivalue *args, int count)
{
    scripted_recording *r = cr_alloc_zero(sizeof *r);
    scripted_entry *e = r ? scripted_entry_new(&was->modes, args, count) : NULL;
    cr_status st;

    if (e) {
        r->e = e;
        e->state = SCRIPTED_LEFT;
        st = scripted_watch(out, r, f, args, count);
        cr_recorder_drop(r->recorder);
    } else {
        st = cr_sfunction_steps(out, f, args, count);
    }
    cr_free(r);
    pthread_mutex_lock(&s->lock);
    s->busy = false;
    for (int i = 0; e && !st && i < SCRIPTED_ENTRIES; i++)
        if (s->entry[i] == was) {
            e->used = was->used;
            s->entry[i] = scripted_keep(e);
            scripted_drop(was);
        }
    pthread_mutex_unlock(&s->lock);
    scripted_drop(e);
    return st;
}

/* --- running --- */

static cr_status scripted_pack(cr_ivalue *out, const scripted_entry *e, cr_tensor **output)
{
    cr_status st;

    if (e->result == CR_IV_TENSOR) {
        *out = cr_iv_tensor(output[0]);
        return CR_OK;
    }
    st = e->result == CR_IV_TUPLE
             ? cr_ituple_new(out, e->result_type, (size_t)e->program.outputs)
             : cr_ilist_new(out, e->result_type, (size_t)e->program.outputs);
    for (int i = 0; i < e->program.outputs; i++) {
        if (st)
            cr_drop(output[i]);
        else
            out->list->at[i] = cr_iv_tensor(output[i]);
    }
    if (!st)
        out->list->len = (size_t)e->program.outputs;
    return st;
}

/* Fails without results; the steps then say why. */
static cr_status scripted_run(cr_ivalue *out, const scripted_entry *e, cr_tensor *const *t)
{
    cr_tensor *input[SCRIPTED_INPUTS], *output[SCRIPTED_OUTPUTS] = {NULL};

    for (int k = 0; k < e->program.inputs; k++)
        input[k] = e->program.input[k] >= 0 ? t[e->program.input[k]]
                                            : e->program.constant[~e->program.input[k]];
    CR_TRY(cr_compiled_call_run(e->program.call, input, NULL, output));
    for (int i = 0; i < e->program.outputs; i++)
        if (e->version[i])
            output[i]->storage->version = e->version[i];
    return scripted_pack(out, e, output);
}

/* --- choosing --- */

/* Asked at every eighth call, because it looks at each kernel. */
static bool scripted_is_ready(scripted_entry *e)
{
    const cr_program *p = cr_compiled_call_forward(e->program.call);

    return e->waits++ % 8 == 0 &&
           (e->waits > SCRIPTED_WAITS || cr_program_wait(p, 0) == cr_program_groups(p));
}

/* Whether both ways have been timed and are to be timed again. */
static bool scripted_is_due(scripted_entry *e)
{
    return e->timed.again && (e->state == SCRIPTED_USED || e->state == SCRIPTED_LEFT) &&
           ++e->timed.since > e->timed.again;
}

static void scripted_try_again(scripted_entry *e)
{
    e->state = SCRIPTED_TRIED;
    e->tries = e->timed.steps_timed = e->timed.runs_timed = e->timed.since = 0;
}

/* Both ways have been timed: the way that stays. */
static void scripted_decide(scripted_entry *e, const cr_sfunction *f)
{
    e->timed.uses = e->timed.uses ? e->timed.steps_best > scripted_gain * e->timed.run_best
                                  : e->timed.run_best <= scripted_gain * e->timed.steps_best;
    e->state = e->timed.uses ? SCRIPTED_USED : SCRIPTED_LEFT;
    e->timed.again = !e->timed.again                            ? SCRIPTED_AGAIN
                     : 4 * e->timed.again < SCRIPTED_AGAIN_MOST ? 4 * e->timed.again
                                                                : SCRIPTED_AGAIN_MOST;
    cr_log_line("graph", 1, "%s: steps %.1f us, program %.1f us", f->qualified,
                1e6 * e->timed.steps_best, 1e6 * e->timed.run_best);
}

typedef struct {
    bool records, program, timed;
} scripted_way;

/* In the function's lock: how the call runs. */
static scripted_way scripted_choose(scripted *s, scripted_entry *e)
{
    bool always = scripted_mode_now() == CR_SCRIPTED_ALWAYS;
    scripted_way w = {0};

    w.records =
        e->state == SCRIPTED_COUNTS && e->calls++ >= (always ? 0 : SCRIPTED_SEEN) && !s->busy;
    s->busy = s->busy || w.records;
    if (always && (e->state == SCRIPTED_WAITING || e->state == SCRIPTED_TRIED))
        e->state = SCRIPTED_USED;
    if (e->state == SCRIPTED_WAITING && scripted_is_ready(e))
        e->state = SCRIPTED_TRIED;
    else if (!always && scripted_is_due(e))
        scripted_try_again(e);
    w.timed = e->state == SCRIPTED_TRIED;
    w.program = w.timed ? e->tries++ / SCRIPTED_TURN % 2 == 0 : e->state == SCRIPTED_USED;
    return w;
}

static void scripted_note_time(scripted *s, scripted_entry *e, const cr_sfunction *f,
                               bool program, double seconds)
{
    int *timed = program ? &e->timed.runs_timed : &e->timed.steps_timed;
    double *best = program ? &e->timed.run_best : &e->timed.steps_best;

    pthread_mutex_lock(&s->lock);
    *best = !(*timed)++ || seconds < *best ? seconds : *best;
    if (e->state == SCRIPTED_TRIED && e->timed.runs_timed >= SCRIPTED_TIMED &&
        e->timed.steps_timed >= SCRIPTED_TIMED)
        scripted_decide(e, f);
    pthread_mutex_unlock(&s->lock);
}

static bool scripted_is_useful(const scripted_entry *e)
{
    return e && (e->state == SCRIPTED_USED || e->timed.uses);
}

static bool scripted_uses_any(const scripted *s)
{
    for (int i = 0; i < SCRIPTED_ENTRIES; i++)
        if (scripted_is_useful(s->entry[i]))
            return true;
    return false;
}

/* Whether `a` goes before `b`: free places, then entries without a program that is used, then
 * those used longest ago. */
static bool scripted_goes_before(const scripted_entry *a, const scripted_entry *b)
{
    bool a_used = scripted_is_useful(a), b_used = scripted_is_useful(b);

    if (!a || !b)
        return !a && b;
    return a_used != b_used ? b_used : a->used < b->used;
}

/* Puts an entry for such calls in the place of another one. */
static scripted_entry *scripted_add(scripted *s, const scripted_modes *now,
                                    const cr_ivalue *args, int count)
{
    scripted_entry *e;
    int place = 0;

    if (s->made == SCRIPTED_MADE) {
        s->off = !scripted_uses_any(s);
        return NULL;
    }
    s->made++;
    e = scripted_entry_new(now, args, count);
    if (!e)
        return NULL;
    for (int i = 1; i < SCRIPTED_ENTRIES; i++)
        if (scripted_goes_before(s->entry[i], s->entry[place]))
            place = i;
    scripted_drop(s->entry[place]);
    s->entry[place] = e;
    return e;
}

/* The entry of the call, with a reference, and its tensors; NULL: the call has none.  A caller
 * holds its arguments; the tensors of attributes get references, because other threads may
 * replace them. */
static scripted_entry *scripted_find(scripted *s, const cr_ivalue *args, int count,
                                     cr_tensor **t)
{
    scripted_modes now = scripted_modes_now();
    scripted_entry *e = NULL;

    for (int i = 0; !e && i < SCRIPTED_ENTRIES; i++)
        if (s->entry[i] && scripted_fits(s->entry[i], &now, args, count, t))
            e = s->entry[i];
    if (e)
        for (int k = e->was.arguments; k < e->was.tensors; k++)
            cr_keep(t[k]);
    else
        e = scripted_add(s, &now, args, count);
    if (!e)
        return NULL;
    e->used = ++s->clock;
    return scripted_keep(e);
}

static void scripted_let_go(scripted_entry *e, cr_tensor **t)
{
    for (int k = e->was.arguments; k < e->was.tensors; k++)
        cr_drop(t[k]);
    scripted_drop(e);
}

/* Runs a call of a known entry; in no lock. */
static cr_status scripted_call(cr_ivalue *out, scripted *s, scripted_entry *e, scripted_way w,
                               cr_tensor *const *t, cr_sfunction *f, const cr_ivalue *args,
                               int count)
{
    double start = w.timed ? cr_seconds() : 0;
    bool ran = w.program && !scripted_run(out, e, t);

    if (!ran)
        CR_TRY(cr_sfunction_steps(out, f, args, count));
    if (w.timed && ran == w.program)
        scripted_note_time(s, e, f, ran, cr_seconds() - start);
    return CR_OK;
}

static scripted *scripted_of(cr_sfunction *f)
{
    void *_Atomic *kept = cr_sfunction_kept(f, scripted_drop_all);
    void *made = kept ? atomic_load_explicit(kept, memory_order_acquire) : NULL, *none = NULL;

    if (!kept || made)
        return made;
    scripted *s = cr_alloc_zero(sizeof *s);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    if (atomic_compare_exchange_strong(kept, &none, (void *)s))
        return s;
    scripted_drop_all(s);
    return none;
}

static cr_status scripted_program(bool *done, cr_ivalue *out, cr_sfunction *f,
                                  const cr_ivalue *args, int count)
{
    cr_tensor *t[SCRIPTED_INPUTS];
    scripted *s = scripted_of(f);
    scripted_way w = {0};

    if (!s || atomic_load_explicit(&s->off, memory_order_relaxed) ||
        scripted_mode_now() == CR_SCRIPTED_OFF || !scripted_is_quiet())
        return CR_OK;
    pthread_mutex_lock(&s->lock);
    scripted_entry *e = scripted_find(s, args, count, t);
    if (e)
        w = scripted_choose(s, e);
    pthread_mutex_unlock(&s->lock);
    if (!e)
        return CR_OK;
    *done = true;
    cr_status st = w.records ? scripted_record(out, s, e, f, args, count)
                             : scripted_call(out, s, e, w, t, f, args, count);
    scripted_let_go(e, t);
    return st;
}

/* --- inspection --- */

cr_status cr_scripted_print(cr_text *out, cr_sfunction *f)
{
    static const char *const states[] = {"counts", "waits", "is tried", "is used", "is left"};
    void *_Atomic *kept = cr_sfunction_kept(f, scripted_drop_all);
    scripted *s = kept ? atomic_load(kept) : NULL;

    if (!s)
        return CR_OK;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < SCRIPTED_ENTRIES; i++) {
        const scripted_entry *e = s->entry[i];
        if (!e)
            continue;
        cr_text_printf(out, "%s: steps %.1f us, program %.1f us\n", states[e->state],
                       1e6 * e->timed.steps_best, 1e6 * e->timed.run_best);
        if (e->program.call)
            cr_graph_print(out, cr_program_graph(cr_compiled_call_forward(e->program.call)));
    }
    pthread_mutex_unlock(&s->lock);
    return cr_text_status(out);
}

void cr_scripted_start(void) { cr_script_program = scripted_program; }
