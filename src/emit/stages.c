/* Loops over columns whose costly functions depend on one another, in stages.
 *
 * The functions of one vector are a chain of instructions, each of which waits for the one
 * before it, and a processor that looks 200 to 500 instructions ahead overlaps only as many
 * vectors as fit there.  A stage has one costly function of the chain.  It is computed for
 * STEPS vectors before the next stage begins; values that later stages read are in arrays
 * t<id>[] meanwhile.  All results are stored by the last stage, so an operand that is a result
 * at the same time is read before it is written. */
#include "emit/stages.h"
#include <string.h>

enum { STEPS = 16, MOST_KEPT = 8, UNKNOWN = 255 };

typedef struct {
    cr_printer *p;
    const cr_sweep *sweep;
    uint8_t *depth;  /* by id: costly functions in the longest chain that ends there */
    uint32_t *reads; /* by id: bit s: stage s reads the value, which an earlier one computes */
    cr_expr_set seen;
    const cr_expr *kept[MOST_KEPT];
    int keeps, last;
    bool fits;
} stages;

static bool stages_is_call(const stages *w, const cr_expr *e)
{
    return e->kind == CR_EXPR_CALL && cr_nest_scope(w->p->n, e) == CR_SCOPE_COLUMN &&
           !cr_nest_kept(w->p->n, e, w->p->at.sweep);
}

static int stages_depth(stages *w, const cr_expr *e)
{
    int most = 0;

    if (!stages_is_call(w, e))
        return 0;
    if (w->depth[e->id] != UNKNOWN)
        return w->depth[e->id];
    w->fits &= !cr_expr_takes_scalars(e);
    for (int i = 0; i < e->count && w->fits; i++) {
        int depth = stages_depth(w, e->args[i]);
        most = depth > most ? depth : most;
    }
    most += cr_fn_infos[e->fn].cost >= CR_COST_HEAVY;
    w->fits &= most < 32;
    return w->depth[e->id] = (uint8_t)most;
}

static int stages_of(stages *w, const cr_expr *e)
{
    int depth = stages_depth(w, e);

    return depth > 1 ? depth - 1 : 0;
}

/* Notes that stage s reads `e`. */
static void stages_read(stages *w, const cr_expr *e, int s)
{
    if (!stages_is_call(w, e) || stages_of(w, e) == s)
        return;
    if (!w->reads[e->id]) {
        w->fits &= w->keeps < MOST_KEPT;
        if (w->fits)
            w->kept[w->keeps++] = e;
    }
    w->reads[e->id] |= 1u << s;
}

static void stages_visit(stages *w, const cr_expr *e)
{
    if (!stages_is_call(w, e) || !cr_expr_set_add(&w->seen, e))
        return;
    for (int i = 0; i < e->count; i++) {
        stages_read(w, e->args[i], stages_of(w, e));
        stages_visit(w, e->args[i]);
    }
}

/* False where one stage is enough, and for what stages do not compute. */
static bool stages_find(stages *w)
{
    const cr_sweep *sweep = w->sweep;

    w->fits =
        !w->p->lanes.mixed && !w->p->lanes.complex && !w->p->at.phased && !sweep->reduces.count;
    for (int i = 0; i < sweep->stores && w->fits; i++) {
        int s = stages_of(w, sweep->store[i].value);
        w->last = s > w->last ? s : w->last;
    }
    if (!w->fits || !w->last)
        return false;
    for (int i = 0; i < sweep->stores; i++) {
        stages_read(w, sweep->store[i].value, w->last);
        stages_visit(w, sweep->store[i].value);
    }
    return w->fits;
}

static void stages_print(stages *w, int s, const char *end)
{
    cr_printer *p = w->p;
    const char *lane = cr_spell_dtype(p->lanes.lane);

    cr_print_open(p, "for (int k = 0; k < steps; k++)");
    cr_print_line(
        p, "const cv_s_i64 at = j + k * CV_LANES_%s, m = ck_least(%s - at, CV_LANES_%s);", lane,
        end, lane);
    cr_print_line(p, "(void)m;");
    p->inner = cr_expr_set_new(p->n->loop);
    for (int i = 0; i < w->keeps; i++)
        if (w->reads[w->kept[i]->id] >> s & 1) {
            cr_print_value(p, w->kept[i], cr_session_printf(p->s, "t%u[k]", w->kept[i]->id));
            cr_expr_set_add(&p->inner, w->kept[i]);
        }
    for (int i = 0; i < w->keeps; i++)
        if (stages_of(w, w->kept[i]) == s) {
            cr_print_column(p, w->kept[i]);
            cr_print_line(p, "t%u[k] = v%u;", w->kept[i]->id, w->kept[i]->id);
        }
    for (int i = 0; i < w->sweep->stores && s == w->last; i++)
        cr_print_column(p, w->sweep->store[i].value);
    for (int i = 0; i < w->sweep->stores && s == w->last; i++)
        p->dialect->store(p, &w->sweep->store[i]);
    cr_print_shut(p);
}

bool cr_print_stages(cr_printer *p, const char *end)
{
    size_t n = p->n->loop->nodes;
    stages w = {.p = p,
                .sweep = &p->n->sweep[p->at.sweep],
                .depth = CR_NEW_N(p->s, uint8_t, n),
                .reads = CR_NEW_N(p->s, uint32_t, n),
                .seen = cr_expr_set_new(p->n->loop)};
    const char *lane = cr_spell_dtype(p->lanes.lane);

    memset(w.depth, UNKNOWN, n);
    if (!stages_find(&w))
        return false;
    p->at.how = CR_ACCESS_EITHER;
    cr_print_open(
        p, cr_session_printf(p->s, "for (; j < %s; j += %d * CV_LANES_%s)", end, STEPS, lane));
    cr_print_line(
        p, "const int steps = (int)ck_least((%s - j + CV_LANES_%s - 1) / CV_LANES_%s, %d);",
        end, lane, lane, STEPS);
    for (int i = 0; i < w.keeps; i++)
        cr_print_line(p, "cv_%s t%u[%d];", cr_spell_vector(p, (cr_dtype)w.kept[i]->dtype),
                      w.kept[i]->id, STEPS);
    for (int s = 0; s <= w.last; s++)
        stages_print(&w, s, end);
    cr_print_shut(p);
    return true;
}
