/* Plans as C99 files: elementwise commands on many elements.
 *
 * Commands that follow each other and compute lines of one length are a chain: the file
 * computes all of them for some elements, and then for the next ones, so that what they pass
 * on stays in the cache.  Buffers that nothing else uses have memory for these elements only.
 * Commands on single elements between them move before the chain if nothing in it depends on
 * them or they on it.
 *
 * Invariant: where an element of a buffer is written by one command of a chain and used by
 * another one, all commands use it at the same element of the line. */
#include "compile/c_job.h"
#include "compile/places.h"
#include <string.h>

/* Elements that a chain computes at a time; shorter lines are no chains. */
enum { BLOCK = 1024, WORD = 8 };

/* Bytes of a buffer that a command uses: from `at` to `end`; each element of its line `step`
 * further. */
typedef struct {
    size_t buffer;
    int64_t at, end, step;
    bool written;
} use;

typedef struct {
    use at[CR_PLAN_OPERANDS];
    int n;
    int64_t count; /* of the line; 1: a single element */
} uses;

static bool add_use(uses *u, const char *address, int64_t step, int64_t count, bool written)
{
    size_t b = address ? cr_plan_buffer_of(address) : SIZE_MAX;
    int64_t at = address ? cr_plan_offset_of(address) : 0;

    if (!address || step < 0 || (written && !step && count > 1))
        return false;
    u->at[u->n++] = (use){b, at, at + (step ? count * step : 2 * WORD), step, written};
    return true;
}

/* --- commands on lines --- */

static bool kernel_uses(cr_c_job *j, uses *u, const cr_launch *l)
{
    int outputs = 0;

    u->count = l->size[1];
    if (l->outer || l->size[0] != 1)
        return false;
    outputs = cr_c_line_outputs(j->s, l);
    for (int k = 0; k < l->operands && outputs; k++)
        if (!(l->numbers >> k & 1) &&
            !add_use(u, l->pointer[k], u->count == 1 ? 0 : l->stride[2 * k + 1], u->count,
                     k < outputs))
            return false;
    return outputs;
}

static int64_t items_of(const cr_array *a)
{
    int64_t n = 1;

    for (int d = 0; d < a->ndim; d++)
        n *= a->size[d];
    return n;
}

/* The step of an array of a move along the line of `to`'s elements; -1: there is none. */
static int64_t line_step(const cr_array *a, const cr_array *to)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)a->dtype);
    bool same = a->ndim == to->ndim;

    if (items_of(a) == 1)
        return 0;
    for (int d = 0; d < a->ndim; d++) {
        if (a->stride[d] && a->size[d] != 1)
            return same && cr_array_is_dense(a) &&
                           !memcmp(a->size, to->size, (size_t)a->ndim * sizeof *a->size)
                       ? item
                       : -1;
    }
    return 0;
}

static bool find_uses(cr_c_job *j, uses *u, const cr_command *c)
{
    *u = (uses){0};
    if (c->kind == CR_COMMAND_KERNEL)
        return kernel_uses(j, u, &c->kernel);
    if (c->kind != CR_COMMAND_MOVE && c->kind != CR_COMMAND_FILL)
        return false;
    const cr_array *to = c->kind == CR_COMMAND_FILL ? &c->fill.to : &c->move.to;
    u->count = items_of(to);
    return cr_array_is_dense(to) && u->count > 1 &&
           add_use(u, to->data, (int64_t)cr_dtype_size((cr_dtype)to->dtype), u->count, true) &&
           (c->kind == CR_COMMAND_FILL ||
            add_use(u, c->move.from.data, line_step(&c->move.from, to), u->count, false));
}

/* Whether commands with these uses must not change their order element by element. */
static bool are_tied(const uses *a, const uses *b)
{
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++) {
            const use *x = &a->at[i], *y = &b->at[k];
            bool meet = x->buffer == y->buffer && x->at < y->end && y->at < x->end,
                 alike = x->at == y->at && x->step == y->step && x->step;
            if (meet && (x->written || y->written) && !alike)
                return true;
        }
    return false;
}

/* --- groups --- */

typedef struct {
    const uses *of;        /* by command; count 0: it is none of these */
    size_t *chain, *moved; /* numbers of commands */
    size_t chains, moves, kept;
} search;

static bool ties_chain(const search *x, const uses *u)
{
    for (size_t i = 0; i < x->chains; i++)
        if (are_tied(&x->of[x->chain[i]], u))
            return true;
    return false;
}

/* The chain that begins with command i, of `n`. */
static void find_chain(search *x, size_t i, size_t n)
{
    x->chains = x->moves = x->kept = 0;
    x->chain[x->chains++] = i;
    for (size_t k = i + 1; k < n && !ties_chain(x, &x->of[k]); k++)
        if (x->of[k].count == x->of[i].count) {
            x->chain[x->chains++] = k;
            x->kept = x->moves;
        } else if (x->of[k].count == 1) {
            x->moved[x->moves++] = k;
        } else {
            return;
        }
}

static void add_group(cr_c_job *j, const size_t *command, size_t n)
{
    cr_c_group g = {j->order.len, n};

    for (size_t i = 0; i < n; i++)
        CR_PUSH(j->s, &j->order, command[i]);
    CR_PUSH(j->s, &j->group, g);
}

void cr_c_order(cr_c_job *j)
{
    size_t n = j->p->command.len;
    uses *of = CR_NEW_N(j->s, uses, n + 1);
    bool *done = CR_NEW_N(j->s, bool, n + 1);
    search x = {.of = of,
                .chain = CR_NEW_N(j->s, size_t, n + 1),
                .moved = CR_NEW_N(j->s, size_t, n + 1)};

    for (size_t i = 0; i < n && !j->how->threads; i++)
        if (!find_uses(j, &of[i], j->p->command.at[i]))
            of[i] = (uses){0};
    for (size_t i = 0; i < n; i++) {
        if (done[i])
            continue;
        x.chains = 0;
        if (of[i].count >= 2 * BLOCK)
            find_chain(&x, i, n);
        if (x.chains < 2) {
            add_group(j, &i, 1);
            continue;
        }
        for (size_t k = 0; k < x.kept; k++) {
            add_group(j, &x.moved[k], 1);
            done[x.moved[k]] = true;
        }
        add_group(j, x.chain, x.chains);
        for (size_t k = 0; k < x.chains; k++)
            done[x.chain[k]] = true;
    }
}

/* --- buffers of chains --- */

typedef struct {
    const cr_plan *p;
    int64_t *count;
} counting;

static void count_address(void *context, const char *address)
{
    counting *c = context;
    size_t b = address ? cr_plan_buffer_of(address) : SIZE_MAX;

    if (b < c->p->buffer.len)
        c->count[b]++;
}

/* Whether the chain alone uses the buffer, and at the same elements of its line. */
static bool is_own(cr_c_job *j, const cr_c_group *g, size_t buffer, int64_t all)
{
    int64_t found = 0;
    const use *first = NULL;
    uses u[2]; /* the first one's, and another one's */

    for (size_t i = 0; i < g->n; i++) {
        uses *now = &u[first != NULL];
        (void)find_uses(j, now, j->p->command.at[j->order.at[g->at + i]]);
        for (int k = 0; k < now->n; k++) {
            const use *x = &now->at[k];
            if (x->buffer != buffer)
                continue;
            found++;
            first = first ? first : x;
            if (x->at != first->at || x->step != first->step || !x->step || x->step > WORD)
                return false;
        }
    }
    return found == all && first->written;
}

void cr_c_count_uses(cr_c_job *j)
{
    counting c = {j->p, CR_NEW_N(j->s, int64_t, j->p->buffer.len + 1)};

    for (size_t i = 0; i < j->p->command.len; i++)
        cr_command_each_address(j->p->command.at[i], count_address, &c);
    for (size_t i = 0; i < j->p->output.len; i++)
        count_address(&c, j->p->output.at[i].data);
    j->memory.uses = c.count;
}

void cr_c_own_buffers(cr_c_job *j)
{
    j->memory.slot = CR_NEW_N(j->s, int, j->p->buffer.len + 1);
    for (size_t i = 0; i < j->group.len; i++) {
        const cr_c_group *g = &j->group.at[i];
        int slots = 0;
        for (size_t k = 0; k < g->n && g->n > 1; k++) {
            uses u;
            (void)find_uses(j, &u, j->p->command.at[j->order.at[g->at + k]]);
            for (int m = 0; m < u.n; m++) {
                size_t b = u.at[m].buffer;
                if (!j->p->buffer.at[b].input && !j->memory.slot[b] &&
                    is_own(j, g, b, j->memory.uses[b]))
                    j->memory.slot[b] = ++slots;
            }
        }
        cr_c_scratch(j, (int64_t)slots * BLOCK);
    }
}

/* --- the text --- */

/* The address of the element `at` of the line. */
static void put_place(cr_c_job *j, const char *address, int64_t step, bool written)
{
    size_t b = cr_plan_buffer_of(address);

    if (j->memory.slot[b]) {
        cr_text_printf(&j->body, "(unsigned char *)scratch + %d",
                       (j->memory.slot[b] - 1) * BLOCK * WORD);
        return;
    }
    cr_c_address(j, address, written);
    if (step)
        cr_text_printf(&j->body, " + at * %lld", (long long)step);
}

static void put_kernel(cr_c_job *j, const cr_launch *l)
{
    size_t k = cr_c_kernel_number(j, l);
    int outputs = j->kernel.at[k].outputs;

    cr_c_bytes(&j->body, "q", l->param, l->param_bytes);
    cr_c_numbers(j, l);
    cr_text_put(&j->body, "        unsigned char *p[32];\n\n");
    for (int i = 0; i < l->operands; i++) {
        cr_text_printf(&j->body, "        p[%d] = ", i);
        if (l->numbers >> i & 1)
            cr_text_printf(&j->body, "(unsigned char *)n%d", i);
        else
            put_place(j, l->pointer[i], l->stride[2 * i + 1], i < outputs);
        cr_text_put(&j->body, ";\n");
    }
    cr_text_printf(&j->body, "        kernel_%zu(p, 1, n, 0, q, scratch);\n", k);
}

static void put_move(cr_c_job *j, const cr_command *c)
{
    bool fills = c->kind == CR_COMMAND_FILL;
    const cr_array *to = fills ? &c->fill.to : &c->move.to;
    int from = fills ? to->dtype : c->move.from.dtype;
    int64_t step = fills ? 0 : line_step(&c->move.from, to),
            item = (int64_t)cr_dtype_size((cr_dtype)to->dtype), element[2] = {0};

    cr_c_integers(&j->body, "ts", &item, 1, 1);
    cr_c_integers(&j->body, "fs", &step, 1, 1);
    if (fills) {
        memcpy(element, c->fill.element, sizeof element);
        cr_c_integers(&j->body, "element", element, 2, 1);
    }
    cr_c_move_name(j, to->dtype, from);
    cr_text_put(&j->body, "(1, &n, ");
    put_place(j, to->data, item, true);
    cr_text_put(&j->body, ", ts, ");
    if (fills)
        cr_text_put(&j->body, "(const unsigned char *)element");
    else
        put_place(j, c->move.from.data, step, false);
    cr_text_put(&j->body, ", fs);\n");
}

void cr_c_chain(cr_c_job *j, const cr_c_group *g)
{
    uses u;

    (void)find_uses(j, &u, j->p->command.at[j->order.at[g->at]]);
    cr_text_printf(&j->body,
                   "    for (int64_t at = 0; at < %lld; at += %d) {\n"
                   "        const int64_t n = %lld - at < %d ? %lld - at : %d;\n\n",
                   (long long)u.count, BLOCK, (long long)u.count, BLOCK, (long long)u.count,
                   BLOCK);
    for (size_t i = 0; i < g->n; i++) {
        const cr_command *c = j->p->command.at[j->order.at[g->at + i]];
        cr_text_put(&j->body, "        {\n");
        if (c->kind == CR_COMMAND_KERNEL)
            put_kernel(j, &c->kernel);
        else
            put_move(j, c);
        cr_text_put(&j->body, "        }\n");
    }
    cr_text_put(&j->body, "    }\n");
}
