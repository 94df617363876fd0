/* Copies of commands that outlive the call of a function of the table. */
#include "plan/plan.h"
#include <stdlib.h>
#include <string.h>

/* A block that is filled twice: first to measure it, with `at` NULL. */
typedef struct {
    char *at;
    size_t used;
    const cr_keeping *how;
} keeper;

/* The place of a copy of n bytes; NULL for NULL. */
static void *keep(keeper *k, const void *from, size_t n)
{
    char *to = k->at ? k->at + k->used : NULL;

    if (!from)
        return NULL;
    if (to)
        memcpy(to, from, n);
    k->used += (n + 15) / 16 * 16;
    return to;
}

static void *keep_words(keeper *k, const void *from, int64_t n)
{
    return keep(k, from, (size_t)n * sizeof(int64_t));
}

static void *keep_text(keeper *k, const char *text)
{
    return keep(k, text, text ? strlen(text) + 1 : 0);
}

/* An address of elements; it is looked up once, when the copy is filled. */
static void *keep_address(const keeper *k, const void *p)
{
    char *address = (char *)(uintptr_t)p;

    return p && k->at && k->how->map ? k->how->map(k->how->context, address) : address;
}

static cr_array keep_array(keeper *k, const cr_array *a)
{
    return (cr_array){.data = keep_address(k, a->data),
                      .dtype = a->dtype,
                      .ndim = a->ndim,
                      .size = keep_words(k, a->size, a->ndim),
                      .stride = keep_words(k, a->stride, a->ndim)};
}

/* --- each kind of command; the copy already has the same members --- */

static void keep_lone_array(keeper *k, void *made, const void *from)
{
    *(cr_array *)made = keep_array(k, from);
}

static void keep_move(keeper *k, cr_plan_move *m)
{
    m->to = keep_array(k, &m->to);
    m->from = keep_array(k, &m->from);
}

static void keep_indexed(keeper *k, cr_indexed *c)
{
    cr_array numbered;

    c->size = keep_words(k, c->size, c->ndim);
    c->dense_stride = keep_words(k, c->dense ? c->dense_stride : NULL, c->ndim);
    c->table_stride = keep_words(k, c->table_stride, c->ndim);
    c->index_stride = keep_words(k, c->index ? c->index_stride : NULL, c->ndim);
    c->dense = keep_address(k, c->dense);
    c->table = keep_address(k, c->table);
    c->index = keep_address(k, c->index);
    c->outside = keep_text(k, c->outside);
    if (c->numbered) {
        numbered = keep_array(k, c->numbered);
        c->numbered = keep(k, &numbered, sizeof numbered);
    }
}

static void keep_windows(keeper *k, cr_windows *c)
{
    c->result = keep_array(k, &c->result);
    c->which = keep_array(k, &c->which);
    c->from = keep_array(k, &c->from);
    c->prepared = NULL;
    for (int i = 0; i < 3; i++) {
        cr_window_axis *a = &c->dim[i];
        int64_t ranges = a->start[a->size];
        a->start = keep_words(k, a->start, a->size + 1);
        a->range = keep_words(k, a->range, 3 * ranges);
        a->count = keep_words(k, a->count, a->size);
        a->share = keep_words(k, a->share, a->in);
    }
}

static void keep_launch(keeper *k, cr_launch *l)
{
    void *const *given = l->pointer;
    void **pointer = keep(k, given, (size_t)l->operands * sizeof *given);

    for (int i = 0; i < l->operands; i++) {
        bool number = l->numbers >> i & 1;
        void *at = number ? keep(k, given[i], 16) : keep_address(k, given[i]);
        if (pointer)
            pointer[i] = at;
    }
    l->pointer = pointer;
    l->stride = keep_words(k, l->stride, 2 * l->operands);
    l->param = keep(k, l->param, l->param_bytes);
    l->outer_size = keep_words(k, l->outer_size, l->outer);
    l->outer_stride = keep_words(k, l->outer_stride, (int64_t)l->outer * l->operands);
}

static void keep_given(keeper *k, cr_given *g)
{
    const cr_given *list = g->list;
    cr_given *made;

    switch (g->kind) {
    case CR_GIVEN_ARRAY: g->array = keep_array(k, &g->array); break;
    case CR_GIVEN_INTS:
    case CR_GIVEN_FLOATS: g->ints = keep_words(k, g->ints, (int64_t)g->count); break;
    case CR_GIVEN_TEXT: g->text = keep(k, g->text, g->count); break;
    case CR_GIVEN_LIST:
        g->list = made = keep(k, list, g->count * sizeof *list);
        for (size_t i = 0; i < g->count; i++) {
            cr_given item = list[i];
            keep_given(k, &item);
            if (made)
                made[i] = item;
        }
        break;
    default: break;
    }
}

static void keep_library(keeper *k, cr_library *c)
{
    const cr_given *arg = c->arg;
    const cr_array *result = c->result;
    cr_given *args = keep(k, arg, (size_t)c->args * sizeof *arg);
    cr_array *results = keep(k, result, (size_t)c->results * sizeof *result);

    c->entry = keep_text(k, c->entry);
    for (int i = 0; i < c->args; i++) {
        cr_given g = arg[i];
        keep_given(k, &g);
        if (args)
            args[i] = g;
    }
    for (int i = 0; i < c->results; i++) {
        cr_array a = keep_array(k, &result[i]);
        if (results)
            results[i] = a;
    }
    c->arg = args;
    c->result = results;
}

static void keep_copy(keeper *k, cr_plan_copy *c)
{
    c->bytes = c->to && !c->from ? keep(k, c->bytes, c->n) : NULL;
    c->to = keep_address(k, c->to);
    c->from = keep_address(k, c->from);
}

static void keep_command(keeper *k, void *made, const void *from)
{
    cr_command *c = made;

    *c = *(const cr_command *)from;
    switch (c->kind) {
    case CR_COMMAND_KERNEL: keep_launch(k, &c->kernel); break;
    case CR_COMMAND_MOVE: keep_move(k, &c->move); break;
    case CR_COMMAND_FILL: c->fill.to = keep_array(k, &c->fill.to); break;
    case CR_COMMAND_INDEXED:
    case CR_COMMAND_COMBINE: keep_indexed(k, &c->indexed); break;
    case CR_COMMAND_WINDOWS: keep_windows(k, &c->windows); break;
    case CR_COMMAND_LIBRARY: keep_library(k, &c->library); break;
    case CR_COMMAND_COPY: keep_copy(k, &c->copy); break;
    case CR_COMMAND_WAIT:
    case CR_COMMAND_KINDS: break;
    }
}

/* Copies what `from` names, as `fill` does it, behind a copy of its n bytes. */
static void *keep_all(const void *from, size_t n, const cr_keeping *how,
                      void (*fill)(keeper *k, void *made, const void *from))
{
    keeper k = {.how = how};
    cr_command unused;

    keep(&k, from, n);
    fill(&k, &unused, from);
    k.at = how->get(how->from, k.used);
    k.used = 0;
    if (!k.at)
        return NULL;
    void *made = keep(&k, from, n);
    fill(&k, made, from);
    return made;
}

cr_command *cr_command_keep(const cr_command *c, const cr_keeping *how)
{
    return keep_all(c, sizeof *c, how, keep_command);
}

cr_array *cr_array_keep_by(const cr_array *a, const cr_keeping *how)
{
    return keep_all(a, sizeof *a, how, keep_lone_array);
}

/* --- the functions of cresset_backend.h: blocks that free() releases --- */

static char *by_distance(void *context, char *address)
{
    return address + *(const ptrdiff_t *)context;
}

static void *by_malloc(void *from, size_t size)
{
    (void)from;
    return malloc(size);
}

static cr_keeping far_away(ptrdiff_t *distance)
{
    return (cr_keeping){.map = by_distance, .context = distance, .get = by_malloc};
}

cr_array *cr_array_keep(const cr_array *a, ptrdiff_t distance)
{
    cr_keeping how = far_away(&distance);

    return cr_array_keep_by(a, &how);
}

/* The member of a copy of a command is where the copy begins, but for the kind. */
static void *member_keep(cr_command *c, ptrdiff_t distance, size_t at, size_t n)
{
    cr_keeping how = far_away(&distance);
    char *made = (char *)cr_command_keep(c, &how);

    return made ? memmove(made, made + at, n) : NULL;
}

cr_launch *cr_launch_keep(const cr_launch *l, ptrdiff_t distance)
{
    cr_command c = {.kind = CR_COMMAND_KERNEL, .kernel = *l};

    return member_keep(&c, distance, offsetof(cr_command, kernel), sizeof *l);
}

cr_indexed *cr_indexed_keep(const cr_indexed *i, ptrdiff_t distance)
{
    cr_command c = {.kind = CR_COMMAND_INDEXED, .indexed = *i};

    return member_keep(&c, distance, offsetof(cr_command, indexed), sizeof *i);
}

cr_windows *cr_windows_keep(const cr_windows *w, ptrdiff_t distance)
{
    cr_command c = {.kind = CR_COMMAND_WINDOWS, .windows = *w};

    return member_keep(&c, distance, offsetof(cr_command, windows), sizeof *w);
}
