/* Spaces against the enumeration of their elements: random sizes and steps, among them dims of
 * one element and of none, repeated, turned and gapped operands, long steps and 64 dims. */
#include "base/test.h"
#include "space/space.h"
#include <stdlib.h>

enum { OPERANDS = 3, MOST = 4096, ROUNDS = 20000 };
static const int64_t LONG = INT64_C(1) << 40;

typedef struct {
    int ndim;
    int64_t size[CR_MAX_DIMS], step[OPERANDS][CR_MAX_DIMS];
} layout;

/* Addresses of the operands at each position. */
typedef struct {
    int64_t n, at[MOST][OPERANDS];
} visits;

static uint64_t state;

static int64_t draw(int64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)below);
}

/* Row-major steps, of which some are repeated, turned, or further apart. */
static void draw_steps(layout *l, int k)
{
    int64_t step = draw(4) ? 1 : draw(2) ? 8 : LONG;

    for (int d = l->ndim - 1; d >= 0; d--) {
        int64_t kind = draw(12);
        l->step[k][d] = kind == 0 ? 0 : kind == 1 && step < LONG ? -step : step;
        step *= l->size[d] + (kind == 2 && l->size[d] > 1);
    }
}

static void swap_dims(layout *l, int a, int b)
{
    int64_t t = l->size[a];

    l->size[a] = l->size[b];
    l->size[b] = t;
    for (int k = 0; k < OPERANDS; k++) {
        t = l->step[k][a];
        l->step[k][a] = l->step[k][b];
        l->step[k][b] = t;
    }
}

static void draw_layout(layout *l)
{
    l->ndim = (int)(draw(50) ? draw(6) : CR_MAX_DIMS);
    for (int d = 0; d < l->ndim; d++)
        l->size[d] = l->ndim > 6 ? 1 + (draw(9) == 0) : draw(30) ? 1 + draw(4) : 0;
    for (int k = 0; k < OPERANDS; k++)
        draw_steps(l, k);
    for (int i = (int)draw(3); i > 0 && l->ndim > 1; i--)
        swap_dims(l, (int)draw(l->ndim), (int)draw(l->ndim));
}

static int64_t count_elements(const layout *l)
{
    int64_t n = 1;

    for (int d = 0; d < l->ndim; d++)
        n *= l->size[d];
    return n;
}

static void enumerate(visits *v, const layout *l)
{
    v->n = count_elements(l);
    for (int64_t i = 0; i < v->n; i++)
        for (int k = 0; k < OPERANDS; k++) {
            int64_t rest = i, at = 0;
            for (int d = l->ndim - 1; d >= 0; rest /= l->size[d--])
                at += rest % l->size[d] * l->step[k][d];
            v->at[i][k] = at;
        }
}

static void make_space(cr_space *s, const layout *l)
{
    cr_space_start(s, OPERANDS);
    for (int d = 0; d < l->ndim; d++) {
        int64_t *step = cr_space_add(s, l->size[d], d);
        for (int k = 0; k < OPERANDS; k++)
            step[k] = l->step[k][d];
    }
}

static char origin[1];

static void visit_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    visits *v = context;

    for (int64_t i = 0; i < n; i++, v->n++)
        for (int k = 0; k < OPERANDS; k++)
            v->at[v->n][k] = at[k] - origin + i * step[k];
}

/* Walks ranges that begin and end anywhere. */
static void walk_space(visits *v, const cr_space *s)
{
    int64_t n = cr_space_count(s, s->ndim), end;
    char *const at[OPERANDS] = {origin, origin, origin};

    v->n = 0;
    for (int64_t begin = 0; begin < n; begin = end) {
        end = begin + 1 + draw(draw(3) ? n : 5);
        end = end < n ? end : n;
        cr_space_walk(s, s->ndim, at, begin, end, visit_row, v);
    }
}

static int compare_visits(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(int64_t[OPERANDS]));
}

static void sort_visits(visits *v)
{
    qsort(v->at, (size_t)v->n, sizeof *v->at, compare_visits);
}

static bool same_visits(const visits *a, const visits *b)
{
    return a->n == b->n && !memcmp(a->at, b->at, (size_t)a->n * sizeof *a->at);
}

static bool has_no_ones(const cr_space *s)
{
    for (int d = 0; d < s->ndim; d++)
        if (s->dim[d].size == 1)
            return false;
    return true;
}

/* By decreasing steps of operand 0, equal ones as they were added. */
static bool is_ordered(const cr_space *s)
{
    for (int d = 1; d < s->ndim; d++) {
        int64_t outer = llabs(s->dim[d - 1].step[0]), inner = llabs(s->dim[d].step[0]);
        if (outer < inner || (outer == inner && s->dim[d - 1].number > s->dim[d].number))
            return false;
    }
    return true;
}

/* No neighbours remain that are one dim for all operands and may be merged. */
static bool is_merged(const cr_space *s)
{
    for (int d = 1; d < s->ndim; d++) {
        bool one = true;
        for (int k = 0; k < OPERANDS; k++)
            one = one && s->dim[d - 1].step[k] == s->dim[d].step[k] * s->dim[d].size;
        if (one)
            return false;
    }
    return true;
}

static visits expected, found;

TEST(a_merged_space_has_the_elements_in_row_major_order)
{
    layout l;
    cr_space s;

    state = 1;
    for (int i = 0; i < ROUNDS; i++) {
        draw_layout(&l);
        if (count_elements(&l) > MOST)
            continue;
        make_space(&s, &l);
        cr_space_merge(&s, 0);
        enumerate(&expected, &l);
        walk_space(&found, &s);
        CHECK(same_visits(&expected, &found));
        CHECK(has_no_ones(&s) && is_merged(&s));
    }
}

TEST(an_ordered_space_has_the_same_elements_with_the_first_operand_in_order)
{
    layout l;
    cr_space s;

    state = 2;
    for (int i = 0; i < ROUNDS; i++) {
        draw_layout(&l);
        if (count_elements(&l) > MOST)
            continue;
        make_space(&s, &l);
        cr_space_order(&s);
        CHECK(is_ordered(&s));
        cr_space_merge(&s, 0);
        enumerate(&expected, &l);
        walk_space(&found, &s);
        sort_visits(&expected);
        sort_visits(&found);
        CHECK(same_visits(&expected, &found));
    }
}

TEST(dims_that_are_kept_apart_are_not_merged_and_keep_their_numbers)
{
    layout l;
    cr_space s;

    state = 3;
    for (int i = 0; i < ROUNDS; i++) {
        int kept = 0;
        draw_layout(&l);
        make_space(&s, &l);
        int ndim = s.ndim;
        cr_space_merge(&s, ~(uint64_t)0);
        EQ(s.ndim, ndim);
        for (int d = 0; d < l.ndim; d++)
            if (l.size[d] != 1)
                kept += s.dim[kept].number == d && s.dim[kept].size == l.size[d];
        EQ(kept, ndim);
    }
}

TEST(steps_and_sizes_at_their_limits_are_merged_without_overflow)
{
    const int64_t most = INT64_C(1) << 62;
    layout l = {3, {4, 2, most}, {{most, 1, 0}, {most, most, 0}, {0, most, 1}}};
    cr_space s;

    make_space(&s, &l);
    cr_space_merge(&s, 0);
    EQ(s.ndim, 3);
    EQ(s.dim[0].step[0], most);
    EQ(s.dim[2].size, most);
}

TEST(moving_and_removing_dims_keeps_the_others_in_order)
{
    layout l = {3, {2, 3, 4}, {{12, 4, 1}, {1, 2, 6}, {0, 1, 3}}};
    cr_space s;

    make_space(&s, &l);
    EQ(cr_space_last(&s, 2)->size, 2);
    EQ(cr_space_last(&s, 3)->size, 1);
    EQ(cr_space_last(&s, 3)->step[1], 0);
    cr_space_move(&s, 0, 2);
    enumerate(&expected, &l);
    walk_space(&found, &s);
    sort_visits(&expected);
    sort_visits(&found);
    CHECK(same_visits(&expected, &found));
    EQ(s.dim[0].size, 3);
    EQ(s.dim[1].size, 4);
    EQ(s.dim[2].number, 0);
    cr_space_remove(&s, 1);
    EQ(s.ndim, 2);
    EQ(s.dim[1].size, 2);
    EQ(s.dim[1].step[0], 12);
}

TEST(the_place_after_the_last_is_the_first)
{
    layout l = {3, {2, 1, 3}, {{3, 7, 1}, {1, 7, 2}, {0, 7, -1}}};
    char *const at[OPERANDS] = {origin, origin, origin};
    cr_space s;
    cr_place p, q;

    make_space(&s, &l);
    cr_place_seek(&p, &s, s.ndim, at, 0);
    for (int64_t i = 0; i < 6; i++, cr_place_next(&p, &s, s.ndim)) {
        cr_place_seek(&q, &s, s.ndim, at, i);
        CHECK(!memcmp(p.at, q.at, sizeof at) && p.index[0] == q.index[0]);
    }
    EQ(p.at[0] - origin, 0);
    EQ(p.index[0], 0);
    EQ(p.index[1], 0);
}

TEST(an_operand_with_fewer_dims_or_dims_of_one_element_is_broadcast)
{
    const int64_t size[] = {1, 5}, stride[] = {9, 2};

    EQ(cr_broadcast_step(2, size, stride, 3, 0), 0);
    EQ(cr_broadcast_step(2, size, stride, 3, 1), 0);
    EQ(cr_broadcast_step(2, size, stride, 3, 2), 2);
}

TEST(a_run_has_the_innermost_positions_with_one_step)
{
    layout l = {3, {2, 3, 4}, {{12, 4, 1}, {24, 8, 3}, {0, 0, 0}}};
    cr_space s;

    make_space(&s, &l);
    EQ(cr_space_run(&s, 0), 24);
    EQ(cr_space_run(&s, 1), 4);
    EQ(cr_space_run(&s, 2), 24);
    cr_space_start(&s, OPERANDS);
    EQ(cr_space_run(&s, 0), 1);
}
