/* Running graphs: a function's graph is prepared once as steps over numbered registers.
 *
 * A step reads registers, calls a function and writes registers.  A register is cleared after
 * the last step that reads it, so tensors are freed as early as in eager programs.  A value
 * that a nested block reads stays until the end of the step that has the block.
 *
 * Some registers borrow their values: parameters, which the caller holds, constants, which the
 * code holds, and attributes that no function sets, which the run holds from the first time
 * that it reads them until its end.  So threads that run one program do not change the
 * reference counts of its weights in turn.
 *
 * Constants are in their registers before the first step.  Only lists, tuples and dicts, which
 * a program may change, and constants that have no value are made by steps.
 *
 * Invariant: between steps, the other registers own exactly the values that later steps may
 * read. */
#include "base/clock.h"
#include "script/execute_impl.h"
#include "script/passes.h"
#include "script/seen.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Graphs with more values run as they are: passes look at the readers of a value in all
 * nodes. */
enum { EXEC_PREPARED = 4096 };
enum { EXEC_DEEPEST = 500, EXEC_REGISTERS = 48, EXEC_ARGUMENTS = 32, EXEC_HELD = 32 };

typedef struct exec_step exec_step;

typedef struct {
    int count, input_count, output_count, clear_count;
    exec_step *step;
    uint32_t *input, *output; /* registers */
    uint32_t *clear;          /* registers that the block's end clears */
} exec_block;

struct exec_step {
    const cr_snode *node;
    uint8_t prim;
    cr_builtin_fn fn; /* OPERATOR without an entry */
    cr_sop *op;       /* OPERATOR with an entry */
    int slot;         /* GET_ATTR, SET_ATTR: of the static class */
    cr_sfunction *callee;
    bool borrows; /* GET_ATTR: its register borrows */
    int in_count, out_count, clear_count;
    uint32_t *in, *out, *clear;
    exec_block *block;
};

/* cr_sfunction.code */
typedef struct {
    cr_session session; /* of the copy of the graph */
    cr_arena arena;
    unsigned registers;
    cr_ivalue *start; /* the registers before the first step: constants, else None */
    int owning_count;
    uint32_t *owning; /* the registers that do not borrow */
    exec_block body;
    void *_Atomic kept; /* of cr_sfunction_kept */
    void (*_Atomic drop_kept)(void *kept);
} exec_code;

/* The place of a call that failed. */
typedef struct {
    const cr_sfunction *function;
    cr_srange range;
} exec_place;

/* One call from outside, with all calls inside it. */
typedef struct {
    bool limited;
    uint64_t steps_left;
    int depth;
    double next_poll;         /* cr_seconds of the next call of cr_script_poll; 0: not set */
    cr_sseen *seen;           /* notes what is read, or NULL */
    CR_VEC(exec_place) trace; /* innermost first */
    /* Values that the run holds, by their addresses: a table of `room` places. */
    size_t held_count, room;
    cr_ivalue *held, few[EXEC_HELD];
} exec_run;

/* --- preparing --- */

typedef struct {
    cr_arena *arena;
    const exec_step **last; /* by value: the last step of its home block that reads it */
    const cr_sblock **home; /* by value: the block that makes it */
    bool *borrowed;         /* by value */
    cr_ivalue *start;
} exec_preparer;

static cr_status exec_registers(exec_preparer *p, cr_svalue *const *value, int n,
                                uint32_t **out)
{
    *out = cr_arena_get(p->arena, (size_t)n * sizeof **out + 1);
    for (int i = 0; *out && i < n; i++)
        (*out)[i] = value[i]->id;
    return *out ? CR_OK : CR_MEMORY;
}

static void exec_borrow(exec_preparer *p, const cr_svalue *v) { p->borrowed[v->id] = true; }

static bool exec_is_changeable(const cr_sconstant *c)
{
    return c->type->kind == CR_STYPE_LIST || c->type->kind == CR_STYPE_TUPLE ||
           c->type->kind == CR_STYPE_DICT;
}

/* Stores constants in their registers.  One that has no value stays a step, which fails. */
static void exec_set_constants(exec_preparer *p, const cr_sblock *b)
{
    for (const cr_snode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->block_count; i++)
            exec_set_constants(p, n->block[i]);
        if (n->prim == CR_SPRIM_CONSTANT && !exec_is_changeable(n->value) &&
            !cr_ivalue_of_constant(&p->start[n->output[0]->id], n->value))
            exec_borrow(p, n->output[0]);
    }
}

/* Whether the node has no step. */
static bool exec_is_done(const exec_preparer *p, const cr_snode *n)
{
    return n->prim == CR_SPRIM_CONSTANT && p->borrowed[n->output[0]->id];
}

/* An operator that is missing is an error when it runs, because branches that never run may
 * have it. */
static cr_status exec_missing(cr_scall *c)
{
    return cr_fail(CR_RUNTIME, "Unknown builtin op: %s.", c->node->schema->name);
}

static cr_status exec_prepare_operator(exec_preparer *p, exec_step *s)
{
    const cr_sschema *schema = s->node->schema;

    if (schema->op)
        return cr_sop_prepare(&s->op, p->arena, schema);
    s->fn = cr_builtin_find(schema->name);
    s->fn = s->fn ? s->fn : exec_missing;
    return CR_OK;
}

static const cr_sclass *exec_class_of(const cr_svalue *v)
{
    return v->type->kind == CR_STYPE_CLASS ? v->type->cls : NULL;
}

static cr_status exec_prepare_step(exec_preparer *p, exec_step *s)
{
    const cr_snode *n = s->node;
    const cr_sclass *cls = n->input_count ? exec_class_of(n->input[0]) : NULL;

    s->slot = -1;
    switch ((cr_sprim)n->prim) {
    case CR_SPRIM_OPERATOR: return exec_prepare_operator(p, s);
    case CR_SPRIM_GET_ATTR:
        s->slot = cls ? cr_sclass_attribute(cls, n->name) : -1;
        /* values that replace each other are not held until the run ends */
        s->borrows = s->slot >= 0 && !cr_sclass_sets(cls, s->slot);
        if (s->borrows)
            exec_borrow(p, n->output[0]);
        break;
    case CR_SPRIM_SET_ATTR: s->slot = cls ? cr_sclass_attribute(cls, n->name) : -1; break;
    case CR_SPRIM_CALL_METHOD: s->callee = cls ? cr_sclass_method(cls, n->name) : NULL; break;
    case CR_SPRIM_CALL_FUNCTION:
        if (n->input[0]->by && n->input[0]->by->prim == CR_SPRIM_CONSTANT)
            s->callee = n->input[0]->by->value->function;
        break;
    case CR_SPRIM_PYTHON: s->callee = n->value ? n->value->function : NULL; break;
    default: break;
    }
    return CR_OK;
}

static cr_status exec_prepare_block(exec_preparer *p, exec_block *out, const cr_sblock *b);

/* The value is read while step `s` of block `b`, or a block inside it, runs. */
static void exec_note_reads(exec_preparer *p, const cr_sblock *b, const cr_sblock *inside,
                            const exec_step *s);

static void exec_note_node(exec_preparer *p, const cr_sblock *b, const cr_snode *n,
                           const exec_step *s)
{
    for (int i = 0; i < n->input_count; i++)
        if (p->home[n->input[i]->id] == b)
            p->last[n->input[i]->id] = s;
    for (int i = 0; i < n->block_count; i++)
        exec_note_reads(p, b, n->block[i], s);
}

static void exec_note_reads(exec_preparer *p, const cr_sblock *b, const cr_sblock *inside,
                            const exec_step *s)
{
    for (const cr_snode *n = inside->first; n; n = n->next)
        exec_note_node(p, b, n, s);
    for (int i = 0; i < inside->output_count; i++)
        if (p->home[inside->output[i]->id] == b)
            p->last[inside->output[i]->id] = s;
}

static void exec_set_home(exec_preparer *p, const cr_sblock *b, cr_svalue *v,
                          const exec_step *maker)
{
    p->home[v->id] = b;
    p->last[v->id] = maker;
}

static bool exec_is_output(const cr_sblock *b, const cr_svalue *v)
{
    for (int i = 0; i < b->output_count; i++)
        if (b->output[i] == v)
            return true;
    return false;
}

/* Adds the value to the list of the step that reads it last, or to the block's. */
static void exec_add_clear(exec_preparer *p, exec_block *out, const cr_sblock *b,
                           const cr_svalue *v)
{
    exec_step *s = (exec_step *)p->last[v->id];

    if (p->borrowed[v->id])
        return;
    if (!s || exec_is_output(b, v))
        out->clear[out->clear_count++] = v->id;
    else
        s->clear[s->clear_count++] = v->id;
}

static int exec_value_count(const cr_sblock *b)
{
    int n = b->input_count;

    for (const cr_snode *at = b->first; at; at = at->next)
        n += at->output_count;
    return n;
}

/* A step clears at most its results and the values that it and its blocks read. */
static int exec_reads_below(const cr_snode *n)
{
    int count = n->input_count + n->output_count;

    for (int i = 0; i < n->block_count; i++) {
        count += n->block[i]->output_count;
        for (const cr_snode *at = n->block[i]->first; at; at = at->next)
            count += exec_reads_below(at);
    }
    return count;
}

static cr_status exec_fill_step(exec_preparer *p, exec_step *s, const cr_snode *n)
{
    s->node = n;
    s->prim = n->prim;
    s->in_count = n->input_count;
    s->out_count = n->output_count;
    CR_TRY(exec_registers(p, n->input, n->input_count, &s->in));
    CR_TRY(exec_registers(p, n->output, n->output_count, &s->out));
    s->clear = cr_arena_get(p->arena, (size_t)exec_reads_below(n) * sizeof *s->clear + 1);
    s->block = cr_arena_get(p->arena, (size_t)n->block_count * sizeof *s->block + 1);
    CR_NEED(s->clear && s->block);
    return exec_prepare_step(p, s);
}

static void exec_find_clears(exec_preparer *p, exec_block *out, const cr_sblock *b)
{
    exec_step *s = out->step;

    for (int i = 0; i < b->input_count; i++)
        exec_set_home(p, b, b->input[i], NULL);
    for (const cr_snode *n = b->first; n; n = n->next) {
        if (exec_is_done(p, n))
            continue;
        for (int i = 0; i < n->output_count; i++)
            exec_set_home(p, b, n->output[i], s);
        exec_note_node(p, b, n, s++);
    }
    for (int i = 0; i < b->input_count; i++)
        exec_add_clear(p, out, b, b->input[i]);
    for (const cr_snode *n = b->first; n; n = n->next)
        for (int i = 0; i < n->output_count; i++)
            exec_add_clear(p, out, b, n->output[i]);
}

static cr_status exec_prepare_block(exec_preparer *p, exec_block *out, const cr_sblock *b)
{
    int n = 0;

    for (const cr_snode *at = b->first; at; at = at->next)
        n += !exec_is_done(p, at);
    *out = (exec_block){
        .count = n, .input_count = b->input_count, .output_count = b->output_count};
    out->step = cr_arena_get(p->arena, (size_t)n * sizeof *out->step + 1);
    out->clear = cr_arena_get(p->arena, (size_t)exec_value_count(b) * sizeof *out->clear + 1);
    CR_NEED(out->step && out->clear);
    CR_TRY(exec_registers(p, b->input, b->input_count, &out->input));
    CR_TRY(exec_registers(p, b->output, b->output_count, &out->output));
    exec_step *s = out->step;
    for (const cr_snode *at = b->first; at; at = at->next) {
        if (exec_is_done(p, at))
            continue;
        CR_TRY(exec_fill_step(p, s, at));
        for (int i = 0; i < at->block_count; i++)
            CR_TRY(exec_prepare_block(p, &s->block[i], at->block[i]));
        s++;
    }
    exec_find_clears(p, out, b);
    return CR_OK;
}

static void exec_drop_code(void *code)
{
    exec_code *c = code;

    if (!c)
        return;
    if (c->kept)
        c->drop_kept(c->kept);
    cr_ivalues_drop(c->start, c->start ? c->registers : 0);
    cr_arena_drop(&c->arena);
    cr_session_drop(&c->session);
    cr_free(c);
}

static cr_status exec_list_owning(const exec_preparer *p, exec_code *c)
{
    c->owning = cr_arena_get(p->arena, (size_t)c->registers * sizeof *c->owning + 1);
    for (unsigned i = 0; c->owning && i < c->registers; i++)
        if (!p->borrowed[i])
            c->owning[c->owning_count++] = i;
    return c->owning ? CR_OK : CR_MEMORY;
}

static void exec_run_passes(cr_session *s, void *context)
{
    const cr_sgraph **g = context;
    cr_sgraph *copy = cr_sgraph_copy(s, *g);

    cr_spass_wrapped(copy);
    if (copy->values <= EXEC_PREPARED)
        cr_spasses_prepare(copy);
    *g = copy;
}

static void exec_copy(cr_session *s, void *context)
{
    const cr_sgraph **g = context;
    cr_sgraph *copy = cr_sgraph_copy(s, *g);

    cr_sgraph_own_constants(copy);
    *g = copy;
}

/* The graph after the passes, in the code's session: without the numbers of values that went,
 * and without the memory of the passes. */
static cr_status exec_simplify(exec_code *c, const cr_sgraph **g)
{
    cr_session passes = {0};
    cr_status st = cr_session_run(&passes, exec_run_passes, g);

    st = st ? st : cr_session_run(&c->session, exec_copy, g);
    cr_session_drop(&passes);
    return st;
}

static cr_status exec_prepare_graph(exec_code *c, const cr_sgraph *g)
{
    exec_preparer p = {.arena = &c->arena};
    cr_arena temporary = {0};
    cr_status st = CR_MEMORY;

    c->registers = g->values;
    c->start = p.start = cr_arena_get(&c->arena, g->values * sizeof *p.start + 1);
    p.last = cr_arena_get(&temporary, g->values * sizeof *p.last + 1);
    p.home = cr_arena_get(&temporary, g->values * sizeof *p.home + 1);
    p.borrowed = cr_arena_get(&temporary, g->values * sizeof *p.borrowed + 1);
    if (p.start && p.last && p.home && p.borrowed) {
        exec_set_constants(&p, g->body);
        for (int i = 0; i < g->body->input_count; i++)
            exec_borrow(&p, g->body->input[i]);
        st = exec_prepare_block(&p, &c->body, g->body);
        st = st ? st : exec_list_owning(&p, c);
    }
    cr_arena_drop(&temporary);
    return st;
}

static cr_status exec_prepare(exec_code **out, const cr_sgraph *g)
{
    exec_code *c = cr_alloc_zero(sizeof *c);
    cr_status st = CR_OK;

    CR_NEED(c);
    st = exec_simplify(c, &g);
    st = st ? st : exec_prepare_graph(c, g);
    CR_GIVE(st, out, c, exec_drop_code);
}

static pthread_mutex_t exec_preparing = PTHREAD_MUTEX_INITIALIZER;

static cr_status exec_prepare_function(exec_code **out, cr_sfunction *f)
{
    exec_code *made = NULL;
    cr_status st = CR_OK;

    pthread_mutex_lock(&exec_preparing);
    made = __atomic_load_n(&f->code, __ATOMIC_ACQUIRE);
    if (!made) {
        st = exec_prepare(&made, f->graph);
        if (!st) {
            cr_sunit_set_drop(f->unit, exec_drop_code);
            __atomic_store_n(&f->code, made, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&exec_preparing);
    *out = made;
    return st;
}

static cr_status exec_code_of(exec_code **out, cr_sfunction *f)
{
    *out = __atomic_load_n(&f->code, __ATOMIC_ACQUIRE);
    if (*out)
        return CR_OK;
    if (!f->graph)
        return cr_fail(CR_RUNTIME, "'%s' has no code", f->qualified);
    return exec_prepare_function(out, f);
}

/* --- values that a run holds --- */

static bool exec_is_counted(const cr_ivalue *v)
{
    return v->kind == CR_IV_TENSOR || cr_iv_is_boxed(v);
}

/* The value's place in the table, or the free place for it. */
static cr_ivalue *exec_held_place(const exec_run *run, const void *address)
{
    size_t mask = run->room - 1, at = ((uintptr_t)address >> 4) * 0x9E3779B97F4A7C15u >> 32;

    while (exec_is_counted(&run->held[at & mask]) && run->held[at & mask].box != address)
        at++;
    return &run->held[at & mask];
}

static cr_status exec_hold_more(exec_run *run)
{
    exec_run old = *run;

    run->room = old.room ? 2 * old.room : EXEC_HELD;
    run->held = old.room ? cr_alloc_zero(run->room * sizeof *run->held) : run->few;
    if (!run->held) {
        run->held = old.held, run->room = old.room;
        return CR_MEMORY;
    }
    for (size_t i = 0; i < old.room; i++)
        if (exec_is_counted(&old.held[i]))
            *exec_held_place(run, old.held[i].box) = old.held[i];
    if (old.held != run->few)
        cr_free(old.held);
    return CR_OK;
}

/* Holds the value until the run ends.  On failure *v is None. */
static cr_status exec_hold(exec_run *run, cr_ivalue *v)
{
    if (!exec_is_counted(v))
        return CR_OK;
    if (2 * run->held_count >= run->room && exec_hold_more(run)) {
        *v = cr_iv_none();
        return CR_MEMORY;
    }
    cr_ivalue *place = exec_held_place(run, v->box);
    if (exec_is_counted(place))
        return CR_OK;
    *place = cr_ivalue_keep(*v);
    run->held_count++;
    return CR_OK;
}

static void exec_let_go(exec_run *run)
{
    cr_ivalues_drop(run->held, run->room);
    if (run->held != run->few)
        cr_free(run->held);
}

/* --- running --- */

typedef struct {
    exec_run *run;
    const cr_sfunction *function;
    cr_ivalue *reg;
} exec_frame;

static cr_status exec_call(exec_run *run, cr_sfunction *f, const cr_ivalue *args, int count,
                           cr_ivalue *out, int outs);
static cr_status exec_block_run(exec_frame *f, const exec_block *b);

static cr_status exec_wrong_kind(const char *wanted, const cr_ivalue *v)
{
    return cr_fail(CR_RUNTIME, "a value of type '%s' was expected, but the program has a '%s'",
                   wanted, cr_ivalue_kind_name(v));
}

static const cr_ivalue *exec_in(const exec_frame *f, const exec_step *s, int i)
{
    return &f->reg[s->in[i]];
}

static void exec_set(exec_frame *f, uint32_t r, cr_ivalue v) { cr_ivalue_set(&f->reg[r], v); }

/* Gathers the arguments of a step without counting them. */
static cr_status exec_gather(const exec_frame *f, const exec_step *s, int from,
                             cr_ivalue *local, cr_ivalue **out)
{
    int n = s->in_count - from;

    *out = n <= EXEC_ARGUMENTS ? local : cr_alloc((size_t)n * sizeof **out);
    for (int i = 0; *out && i < n; i++)
        (*out)[i] = f->reg[s->in[from + i]];
    return *out ? CR_OK : CR_MEMORY;
}

/* Stores results in their registers, or drops them. */
static void exec_store(exec_frame *f, const exec_step *s, cr_ivalue *out, cr_status st)
{
    for (int i = 0; i < s->out_count; i++)
        if (st)
            cr_ivalue_drop(out[i]);
        else
            exec_set(f, s->out[i], out[i]);
}

/* Room for the arguments and results of a step. */
typedef struct {
    cr_ivalue args[EXEC_ARGUMENTS], outs[8];
    cr_ivalue *arg, *out;
} exec_room;

static cr_status exec_room_make(exec_room *room, const exec_frame *f, const exec_step *s,
                                int from)
{
    size_t n = (size_t)s->out_count;

    room->arg = NULL;
    room->out = n <= CR_LEN(room->outs) ? room->outs : cr_alloc(n * sizeof *room->out);
    CR_NEED(room->out);
    for (size_t i = 0; i < n; i++)
        room->out[i] = cr_iv_none();
    return exec_gather(f, s, from, room->args, &room->arg);
}

static void exec_room_drop(exec_room *room)
{
    if (room->arg != room->args)
        cr_free(room->arg);
    if (room->out != room->outs)
        cr_free(room->out);
}

static cr_status exec_operator(exec_frame *f, const exec_step *s)
{
    exec_room room;
    cr_status st = exec_room_make(&room, f, s, 0);

    if (!st) {
        cr_scall c = {.arg = room.arg,
                      .count = s->in_count,
                      .out = room.out,
                      .outs = s->out_count,
                      .node = s->node};
        if (CR_UNLIKELY(f->run->seen != NULL))
            cr_sseen_call(f->run->seen, &c);
        st = s->op ? cr_sop_call(s->op, &c) : s->fn(&c);
        exec_store(f, s, room.out, st);
    }
    exec_room_drop(&room);
    return st;
}

static cr_status exec_call_step(exec_frame *f, const exec_step *s, cr_sfunction *callee,
                                int from)
{
    exec_room room;
    cr_status st = exec_room_make(&room, f, s, from);

    if (!st) {
        st = exec_call(f->run, callee, room.arg, s->in_count - from, room.out, s->out_count);
        exec_store(f, s, room.out, st);
    }
    exec_room_drop(&room);
    return st;
}

/* The method of the object's own class, which may be another one than the static class. */
static cr_status exec_method(exec_frame *f, const exec_step *s)
{
    const cr_ivalue *self = exec_in(f, s, 0);
    cr_sfunction *callee = s->callee;

    if (self->kind != CR_IV_OBJECT)
        return exec_wrong_kind("object", self);
    if (!callee || callee->owner != self->object->type->cls)
        callee = cr_sclass_method(self->object->type->cls, s->node->name);
    if (!callee)
        return cr_fail(CR_RUNTIME, "'%s' object has no method '%s'",
                       self->object->type->cls->name, s->node->name);
    return exec_call_step(f, s, callee, 0);
}

static cr_status exec_slot(const exec_frame *f, const exec_step *s, cr_ivalue **out)
{
    const cr_ivalue *self = exec_in(f, s, 0);
    int slot = s->slot;

    if (self->kind != CR_IV_OBJECT)
        return exec_wrong_kind("object", self);
    if (slot < 0 || self->object->type->cls != exec_class_of(s->node->input[0]))
        slot = cr_sclass_attribute(self->object->type->cls, s->node->name);
    if (slot < 0 || (size_t)slot >= self->object->len)
        return cr_fail(CR_RUNTIME, "'%s' object has no attribute '%s'",
                       self->object->type->cls->name, s->node->name);
    *out = &self->object->slot[slot];
    return CR_OK;
}

static void exec_note_attribute(const exec_frame *f, const exec_step *s, const cr_ivalue *slot)
{
    const cr_iobject *o = exec_in(f, s, 0)->object;

    if (s->borrows)
        cr_sseen_attribute(f->run->seen, o, (int)(slot - o->slot), slot);
    else
        cr_sseen_refuse(f->run->seen, "it reads an attribute that functions set");
}

static cr_status exec_get_attribute(exec_frame *f, const exec_step *s)
{
    cr_ivalue *slot;

    CR_TRY(exec_slot(f, s, &slot));
    if (CR_UNLIKELY(f->run->seen != NULL))
        exec_note_attribute(f, s, slot);
    if (s->borrows) {
        f->reg[s->out[0]] = *slot;
        return exec_hold(f->run, &f->reg[s->out[0]]);
    }
    exec_set(f, s->out[0], cr_islot_get(slot));
    return CR_OK;
}

/* modules[key] of a type that all modules inside have. */
static cr_status exec_module_index(exec_frame *f, const exec_step *s)
{
    const cr_ivalue *self = exec_in(f, s, 0), *key = exec_in(f, s, 1);
    char number[24];
    int slot;

    if (self->kind != CR_IV_OBJECT)
        return exec_wrong_kind("object", self);
    snprintf(number, sizeof number, "%lld", (long long)key->i);
    const char *name = key->kind == CR_IV_STRING ? key->string->at : number;
    slot = cr_sclass_attribute(self->object->type->cls, name);
    if (slot < 0 || (size_t)slot >= self->object->len)
        return cr_fail(CR_RUNTIME, "%s does not have a field with name '%s'",
                       cr_stype_annotation(self->object->type), name);
    exec_set(f, s->out[0], cr_islot_get(&self->object->slot[slot]));
    return CR_OK;
}

static cr_status exec_set_attribute(exec_frame *f, const exec_step *s)
{
    cr_ivalue *slot;

    CR_TRY(exec_slot(f, s, &slot));
    cr_islot_set(slot, cr_ivalue_keep(*exec_in(f, s, 1)));
    return CR_OK;
}

/* --- branches and loops --- */

static cr_status exec_truth(const cr_ivalue *v, bool *out)
{
    *out = v->i != 0;
    return v->kind == CR_IV_BOOL ? CR_OK : exec_wrong_kind("bool", v);
}

/* Copies the outputs of a block that ended to the registers of its step. */
static void exec_leave_block(exec_frame *f, const exec_block *b, const exec_step *s)
{
    for (int i = 0; i < s->out_count; i++)
        exec_set(f, s->out[i], cr_ivalue_keep(f->reg[b->output[i]]));
}

static void exec_clear(exec_frame *f, const uint32_t *reg, int n)
{
    for (int i = 0; i < n; i++)
        exec_set(f, reg[i], cr_iv_none());
}

static cr_status exec_if(exec_frame *f, const exec_step *s)
{
    bool taken;

    CR_TRY(exec_truth(exec_in(f, s, 0), &taken));
    const exec_block *b = &s->block[taken ? 0 : 1];
    CR_TRY(exec_block_run(f, b));
    exec_leave_block(f, b, s);
    exec_clear(f, b->clear, b->clear_count);
    return CR_OK;
}

/* The carried values of a loop, between its iterations. */
static cr_status exec_iterate(exec_frame *f, const exec_block *b, cr_ivalue *carried, int n,
                              int64_t i, bool *go_on)
{
    exec_set(f, b->input[0], cr_iv_int(i));
    for (int k = 0; k < n; k++) {
        exec_set(f, b->input[k + 1], carried[k]);
        carried[k] = cr_iv_none();
    }
    CR_TRY(exec_block_run(f, b));
    CR_TRY(exec_truth(&f->reg[b->output[0]], go_on));
    for (int k = 0; k < n; k++)
        carried[k] = cr_ivalue_keep(f->reg[b->output[k + 1]]);
    exec_clear(f, b->clear, b->clear_count);
    return CR_OK;
}

cr_status (*cr_script_poll)(void);
cr_status (*cr_script_call_out)(const cr_sfunction *f, const cr_ivalue *args, int count,
                                cr_ivalue *out);

/* Calls cr_script_poll if the last call, or the first iteration, was long ago: it takes a lock
 * that short runs do without. */
static cr_status exec_poll(exec_run *run)
{
    double now = cr_script_poll ? cr_seconds() : 0, due = run->next_poll;

    if (!cr_script_poll || (due && now < due))
        return CR_OK;
    run->next_poll = now + 0.05;
    return due ? cr_script_poll() : CR_OK;
}

static cr_status exec_count_step(exec_run *run)
{
    if (CR_LIKELY(!run->limited))
        return CR_OK;
    if (!run->steps_left)
        return cr_fail(CR_RUNTIME, "the call's limit of steps is reached");
    run->steps_left--;
    return CR_OK;
}

static cr_status exec_loop_run(exec_frame *f, const exec_step *s, cr_ivalue *carried, int n)
{
    const cr_ivalue *most = exec_in(f, s, 0);
    int64_t trips = most->i;
    bool go_on;

    if (most->kind != CR_IV_INT)
        return exec_wrong_kind("int", most);
    CR_TRY(exec_truth(exec_in(f, s, 1), &go_on));
    for (int k = 0; k < n; k++)
        carried[k] = cr_ivalue_keep(*exec_in(f, s, k + 2));
    for (int64_t i = 0; i < trips && go_on; i++) {
        CR_TRY(exec_poll(f->run));
        CR_TRY(exec_count_step(f->run)); /* a body may have no steps */
        CR_TRY(exec_iterate(f, s->block, carried, n, i, &go_on));
    }
    for (int k = 0; k < n; k++) {
        exec_set(f, s->out[k], carried[k]);
        carried[k] = cr_iv_none();
    }
    return CR_OK;
}

static cr_status exec_loop(exec_frame *f, const exec_step *s)
{
    cr_ivalue local[EXEC_ARGUMENTS] = {{0}};
    int n = s->out_count;
    cr_ivalue *carried =
        n <= EXEC_ARGUMENTS ? local : cr_alloc_zero((size_t)n * sizeof *carried);

    CR_NEED(carried);
    cr_status st = exec_loop_run(f, s, carried, n);
    cr_ivalues_drop(carried, (size_t)n);
    if (carried != local)
        cr_free(carried);
    return st;
}

/* --- containers --- */

static cr_status exec_list(exec_frame *f, const exec_step *s)
{
    cr_ivalue made;

    CR_TRY(cr_ilist_new(&made, s->node->output[0]->type, (size_t)s->in_count));
    for (int i = 0; i < s->in_count; i++)
        made.list->at[made.list->len++] = cr_ivalue_keep(*exec_in(f, s, i));
    exec_set(f, s->out[0], made);
    return CR_OK;
}

static cr_status exec_tuple(exec_frame *f, const exec_step *s)
{
    cr_ivalue made;

    CR_TRY(cr_ituple_new(&made, s->node->output[0]->type, (size_t)s->in_count));
    for (int i = 0; i < s->in_count; i++)
        made.list->at[i] = cr_ivalue_keep(*exec_in(f, s, i));
    exec_set(f, s->out[0], made);
    return CR_OK;
}

static cr_status exec_fill_dict(exec_frame *f, const exec_step *s, cr_idict *d)
{
    for (int i = 0; i + 1 < s->in_count; i += 2)
        CR_TRY(cr_idict_set(d, cr_ivalue_keep(*exec_in(f, s, i)),
                            cr_ivalue_keep(*exec_in(f, s, i + 1))));
    return CR_OK;
}

static cr_status exec_dict(exec_frame *f, const exec_step *s)
{
    cr_ivalue made;

    CR_TRY(cr_idict_new(&made, s->node->output[0]->type));
    cr_status st = exec_fill_dict(f, s, made.dict);
    if (st)
        cr_ivalue_drop(made);
    else
        exec_set(f, s->out[0], made);
    return st;
}

static cr_status exec_unpack(exec_frame *f, const exec_step *s)
{
    cr_ivalue from = *exec_in(f, s, 0);

    if (from.kind != CR_IV_LIST && from.kind != CR_IV_TUPLE)
        return exec_wrong_kind("tuple", &from);
    if (from.list->len != (size_t)s->out_count)
        return cr_fail(CR_RUNTIME, "Expected %d elements in a list but found %zu", s->out_count,
                       from.list->len);
    for (int i = 0; i < s->out_count; i++)
        exec_set(f, s->out[i], cr_ivalue_keep(from.list->at[i]));
    return CR_OK;
}

static cr_status exec_tuple_index(exec_frame *f, const exec_step *s)
{
    const cr_ivalue *from = exec_in(f, s, 0), *at = exec_in(f, s, 1);

    if (from->kind != CR_IV_TUPLE || at->kind != CR_IV_INT)
        return exec_wrong_kind("tuple", from);
    int64_t n = (int64_t)from->list->len, i = at->i < 0 ? at->i + n : at->i;
    if (i < 0 || i >= n)
        return cr_fail(CR_RUNTIME, "Tuple index out of range");
    exec_set(f, s->out[0], cr_ivalue_keep(from->list->at[i]));
    return CR_OK;
}

static cr_status exec_tuple_slice(exec_frame *f, const exec_step *s)
{
    const cr_ivalue *from = exec_in(f, s, 0);
    int64_t begin = s->node->slice.begin, end = s->node->slice.end;
    cr_ivalue made;

    if (from->kind != CR_IV_TUPLE)
        return exec_wrong_kind("tuple", from);
    int64_t n = (int64_t)from->list->len;
    end = end > n ? n : end;
    begin = begin < 0 ? 0 : begin > end ? end : begin;
    CR_TRY(cr_ituple_new(&made, s->node->output[0]->type, (size_t)(end - begin)));
    for (int64_t i = begin; i < end; i++)
        made.list->at[i - begin] = cr_ivalue_keep(from->list->at[i]);
    exec_set(f, s->out[0], made);
    return CR_OK;
}

static cr_status exec_new_object(exec_frame *f, const exec_step *s)
{
    cr_sclass *cls = s->node->output[0]->type->cls;
    cr_ivalue made;

    CR_TRY(cr_iobject_new(&made, cls->type, cls->unit, cls->attributes.len));
    exec_set(f, s->out[0], made);
    return CR_OK;
}

/* --- with --- */

static cr_status exec_enter(exec_frame *f, const exec_step *s)
{
    cr_sfunction *enter = cr_sclass_method(exec_class_of(s->node->input[0]), "__enter__");

    if (exec_in(f, s, 0)->kind != CR_IV_OBJECT)
        return exec_wrong_kind("object", exec_in(f, s, 0));
    return exec_call_step(f, s, enter, 0);
}

/* Calls __exit__(None, None, None). */
static cr_status exec_exit(exec_frame *f, const exec_step *s)
{
    cr_sfunction *leave = cr_sclass_method(exec_class_of(s->node->input[0]), "__exit__");
    cr_ivalue args[4] = {*exec_in(f, s, 0)}, result = cr_iv_none();

    for (int i = 1; i < 4; i++)
        args[i] = cr_iv_none();
    cr_status st = exec_call(f->run, leave, args, 4, &result, 1);
    cr_ivalue_drop(result);
    return st;
}

/* The block failed at step `at`: leaves the objects that it entered.  The first error stays. */
static void exec_leave_entered(exec_frame *f, const exec_block *b, int at, cr_status st)
{
    for (int i = at; i < b->count; i++) {
        const exec_step *s = &b->step[i];
        if (s->prim != CR_SPRIM_EXIT)
            continue;
        for (int k = 0; k < at; k++)
            if (b->step[k].prim == CR_SPRIM_ENTER && b->step[k].in[0] == s->in[0]) {
                char *message = cr_strdup(cr_error_message());
                (void)exec_exit(f, s);
                cr_fail(st, "%s", message ? message : "");
                cr_free(message);
                break;
            }
    }
}

/* --- other steps --- */

/* The block runs at once: the future has its value. */
static cr_status exec_fork(exec_frame *f, const exec_step *s)
{
    const exec_block *b = s->block;

    CR_TRY(exec_block_run(f, b));
    exec_leave_block(f, b, s);
    exec_clear(f, b->clear, b->clear_count);
    return CR_OK;
}

static cr_status exec_is_instance(exec_frame *f, const exec_step *s)
{
    cr_ivalue v = *exec_in(f, s, 0);
    bool is = false;

    for (int i = 0; !is && i < s->node->tests.type_count; i++)
        is = cr_ivalue_is(&v, s->node->tests.types[i]);
    exec_set(f, s->out[0], cr_iv_bool(is));
    return CR_OK;
}

static cr_status exec_enum(exec_frame *f, const exec_step *s)
{
    const cr_ivalue *v = exec_in(f, s, 0);

    if (v->kind != CR_IV_ENUM)
        return exec_wrong_kind("enum", v);
    exec_set(
        f, s->out[0],
        cr_ivalue_keep(s->prim == CR_SPRIM_ENUM_NAME ? v->member->name : v->member->value));
    return CR_OK;
}

static cr_status exec_constant(exec_frame *f, const exec_step *s)
{
    cr_ivalue v;

    CR_TRY(cr_ivalue_of_constant(&v, s->node->value));
    exec_set(f, s->out[0], v);
    return CR_OK;
}

/* `from`: the first input that is an argument. */
static cr_status exec_function(exec_frame *f, const exec_step *s, int from)
{
    if (!s->callee)
        return cr_fail(CR_RUNTIME, "a value that is not a function is called");
    return exec_call_step(f, s, s->callee, from);
}

static cr_status exec_step_run(exec_frame *f, const exec_step *s)
{
    if (CR_UNLIKELY(f->run->seen != NULL))
        cr_sseen_step(f->run->seen, s->node);
    switch ((cr_sprim)s->prim) {
    case CR_SPRIM_OPERATOR: return exec_operator(f, s);
    case CR_SPRIM_CONSTANT: return exec_constant(f, s);
    case CR_SPRIM_IF: return exec_if(f, s);
    case CR_SPRIM_LOOP: return exec_loop(f, s);
    case CR_SPRIM_GET_ATTR: return exec_get_attribute(f, s);
    case CR_SPRIM_SET_ATTR: return exec_set_attribute(f, s);
    case CR_SPRIM_MODULE_INDEX: return exec_module_index(f, s);
    case CR_SPRIM_CALL_METHOD:
    case CR_SPRIM_INTERFACE_METHOD: return exec_method(f, s);
    case CR_SPRIM_CALL_FUNCTION: return exec_function(f, s, 1);
    case CR_SPRIM_PYTHON: return exec_function(f, s, 0);
    case CR_SPRIM_CREATE_OBJECT: return exec_new_object(f, s);
    case CR_SPRIM_LIST_CONSTRUCT: return exec_list(f, s);
    case CR_SPRIM_TUPLE_CONSTRUCT: return exec_tuple(f, s);
    case CR_SPRIM_DICT_CONSTRUCT: return exec_dict(f, s);
    case CR_SPRIM_LIST_UNPACK:
    case CR_SPRIM_TUPLE_UNPACK: return exec_unpack(f, s);
    case CR_SPRIM_TUPLE_INDEX: return exec_tuple_index(f, s);
    case CR_SPRIM_TUPLE_SLICE: return exec_tuple_slice(f, s);
    case CR_SPRIM_ENTER: return exec_enter(f, s);
    case CR_SPRIM_EXIT: return exec_exit(f, s);
    case CR_SPRIM_FORK: return exec_fork(f, s);
    case CR_SPRIM_UNCHECKED_CAST:
        exec_set(f, s->out[0], cr_ivalue_keep(*exec_in(f, s, 0)));
        return CR_OK;
    case CR_SPRIM_IS_INSTANCE: return exec_is_instance(f, s);
    case CR_SPRIM_UNINITIALIZED: exec_set(f, s->out[0], cr_iv_none()); return CR_OK;
    case CR_SPRIM_ENUM_NAME:
    case CR_SPRIM_ENUM_VALUE: return exec_enum(f, s);
    default: return cr_fail(CR_RUNTIME, "%s is not supported", cr_snode_kind(s->node));
    }
}

/* Some operators are functions of library.def.  Their errors are reported as errors of the
 * operator, without the places inside of the function. */
static cr_status exec_operator_failed(cr_status st)
{
    const char *message = strstr(cr_error_message(), ": "); /* "builtins.ValueError: ..." */
    cr_text text = {0};

    if (st != CR_SCRIPT || !message)
        return st;
    cr_text_put(&text, message + 2);
    if (!cr_text_status(&text))
        st = cr_fail(CR_RUNTIME, "%s", text.at);
    cr_text_drop(&text);
    return st;
}

static cr_status exec_note_place(exec_frame *f, const exec_step *s, cr_status st)
{
    exec_place place = {f->function, s->node->from.range};

    if (f->function->stands_for)
        return exec_operator_failed(st);
    if (!cr_vec_reserve(&f->run->trace, 1))
        cr_vec_put(&f->run->trace, place);
    return st;
}

/* The steps that have blocks are not places of an error: the step inside is. */
static cr_status exec_block_run(exec_frame *f, const exec_block *b)
{
    for (int i = 0; i < b->count; i++) {
        const exec_step *s = &b->step[i];
        cr_status st = exec_count_step(f->run);
        st = st ? st : exec_step_run(f, s);
        if (CR_UNLIKELY(st)) {
            exec_leave_entered(f, b, i, st);
            bool inside = s->node->block_count > 0 && f->run->trace.len;
            return inside ? st : exec_note_place(f, s, st);
        }
        exec_clear(f, s->clear, s->clear_count);
    }
    return CR_OK;
}

/* --- calls --- */

static cr_status exec_results(exec_frame *f, const exec_block *b, cr_ivalue *out, int outs)
{
    if (b->output_count != outs)
        return cr_fail(CR_RUNTIME, "a function has %d results, and %d are used",
                       b->output_count, outs);
    for (int i = 0; i < outs; i++)
        out[i] = cr_ivalue_keep(f->reg[b->output[i]]);
    return CR_OK;
}

static cr_status exec_bind_preset(exec_run *run, cr_ivalue *out, const cr_sconstant *c)
{
    cr_ivalue made;

    CR_TRY(cr_ivalue_of_constant(&made, c));
    *out = made;
    cr_status st = exec_hold(run, out);
    cr_ivalue_drop(made);
    return st;
}

static cr_status exec_bind(exec_frame *f, cr_sfunction *callee, const exec_block *b,
                           const cr_ivalue *args, int count)
{
    const cr_sschema *s = &callee->schema;

    for (int i = 0; i < b->input_count; i++) {
        cr_ivalue *v = &f->reg[b->input[i]];
        if (i < count)
            *v = args[i];
        else if (i < s->param_count && s->param[i].preset)
            CR_TRY(exec_bind_preset(f->run, v, s->param[i].preset));
        else
            return cr_fail(CR_RUNTIME, "%s() is missing value for argument '%s'.", callee->name,
                           i < s->param_count ? s->param[i].name : "?");
    }
    return CR_OK;
}

static cr_status exec_in_frame(exec_frame *f, cr_sfunction *callee, const exec_code *code,
                               const cr_ivalue *args, int count, cr_ivalue *out, int outs)
{
    CR_TRY(exec_bind(f, callee, &code->body, args, count));
    CR_TRY(exec_block_run(f, &code->body));
    return exec_results(f, &code->body, out, outs);
}

static cr_status exec_call(exec_run *run, cr_sfunction *callee, const cr_ivalue *args,
                           int count, cr_ivalue *out, int outs)
{
    cr_ivalue local[EXEC_REGISTERS];
    exec_code *code = NULL;

    if (run->depth >= EXEC_DEEPEST)
        return cr_fail(CR_RUNTIME, "calls are nested more than %d deep", EXEC_DEEPEST);
    if (callee->caller && run->seen)
        cr_sseen_refuse(run->seen, "it calls a function of another language");
    if (callee->caller && outs == 1)
        return cr_script_call_out(callee, args, count, out);
    CR_TRY(exec_code_of(&code, callee));
    if (CR_UNLIKELY(run->seen != NULL))
        cr_sseen_constants(run->seen, code->start, code->registers);
    exec_frame f = {.run = run, .function = callee, .reg = local};
    if (code->registers > EXEC_REGISTERS)
        f.reg = cr_alloc(code->registers * sizeof *f.reg);
    CR_NEED(f.reg);
    memcpy(f.reg, code->start, code->registers * sizeof *f.reg);
    run->depth++;
    cr_status st = exec_in_frame(&f, callee, code, args, count, out, outs);
    run->depth--;
    for (int i = 0; i < code->owning_count; i++)
        cr_ivalue_drop(f.reg[code->owning[i]]);
    if (f.reg != local)
        cr_free(f.reg);
    return st;
}

/* --- errors --- */

static bool exec_is_serialized(const exec_run *run)
{
    const cr_ssource *s = run->trace.at[run->trace.len - 1].range.source;

    return s && s->name && !strncmp(s->name, "code/", 5);
}

/* torch's text: the places, outermost first, then the error. */
static cr_status exec_explain(exec_run *run, cr_status st)
{
    cr_text text = {0};

    if (!run->trace.len || st == CR_PYTHON)
        return st;
    cr_text_printf(&text,
                   "The following operation failed in the TorchScript interpreter.\n"
                   "Traceback of TorchScript%s (most recent call last):\n",
                   exec_is_serialized(run) ? ", serialized code" : "");
    for (size_t i = run->trace.len; i-- > 0;)
        cr_srange_mark_in(&text, run->trace.at[i].range, run->trace.at[i].function->name);
    if (st == CR_SCRIPT)
        cr_text_printf(&text, "%s\n", cr_error_message());
    else
        cr_text_printf(&text, "RuntimeError: %s\n", cr_error_message());
    if (!cr_text_status(&text))
        cr_fail(st == CR_SCRIPT ? CR_SCRIPT : CR_RUNTIME, "%s", text.at);
    cr_text_drop(&text);
    return st == CR_SCRIPT ? CR_SCRIPT : CR_RUNTIME;
}

static cr_status exec_one_result(cr_ivalue *out, cr_ivalue *made, int n)
{
    if (n == 1) {
        *out = made[0];
        return CR_OK;
    }
    CR_TRY(cr_ituple_new(out, NULL, (size_t)n));
    for (int i = 0; i < n; i++)
        out->list->at[i] = made[i];
    return CR_OK;
}

/* `seen`: NULL, or notes what the call reads. */
static cr_status exec_function_run(cr_ivalue *out, cr_sfunction *f, const cr_ivalue *args,
                                   int count, const cr_srun *how, cr_sseen *seen)
{
    exec_run run = {.limited = how && how->most_steps,
                    .steps_left = how ? how->most_steps : 0,
                    .seen = seen};
    cr_ivalue made[CR_MAX_RESULTS] = {{0}};
    int n = f->graph ? f->graph->body->output_count : 0;

    if (n > CR_MAX_RESULTS)
        return cr_fail(CR_RUNTIME, "'%s' has too many results", f->qualified);
    cr_status st = exec_call(&run, f, args, count, made, n);
    st = st ? exec_explain(&run, st) : n ? exec_one_result(out, made, n) : CR_OK;
    if (!st && !n)
        *out = cr_iv_none();
    cr_vec_drop(&run.trace);
    exec_let_go(&run);
    return st;
}

cr_sprogram_fn cr_script_program;

cr_status cr_sfunction_run(cr_ivalue *out, cr_sfunction *f, const cr_ivalue *args, int count,
                           const cr_srun *how)
{
    bool done = false;

    if (cr_script_program && !(how && how->most_steps)) {
        cr_status st = cr_script_program(&done, out, f, args, count);
        if (done)
            return st;
    }
    return exec_function_run(out, f, args, count, how, NULL);
}

cr_status cr_sfunction_steps(cr_ivalue *out, cr_sfunction *f, const cr_ivalue *args, int count)
{
    return exec_function_run(out, f, args, count, NULL, NULL);
}

cr_status cr_sfunction_watch(cr_ivalue *out, cr_sfunction *f, const cr_ivalue *args, int count,
                             cr_sseen *seen)
{
    seen->arg = args;
    seen->count = count;
    return exec_function_run(out, f, args, count, NULL, seen);
}

void *_Atomic *cr_sfunction_kept(cr_sfunction *f, void (*drop)(void *kept))
{
    exec_code *c = __atomic_load_n(&f->code, __ATOMIC_ACQUIRE);

    if (!c)
        return NULL;
    if (!atomic_load_explicit(&c->kept, memory_order_relaxed))
        atomic_store_explicit(&c->drop_kept, drop, memory_order_relaxed);
    return &c->kept;
}
