/* Entries that make sequences and patterns. */
#include "kern/entries.h"
#include "kern/factory.h"

static cr_scalar number(const cr_value *v) { return v->number; }

/* (start, end, step, ...) */
cr_status cr_kern_arange(const cr_value *arg, cr_view *out)
{
    cr_fill_arange(out, number(&arg[0]), number(&arg[2]));
    return CR_OK;
}

/* (start, end, steps, ...) and (start, end, steps, base, ...) */
cr_status cr_kern_linspace(const cr_value *arg, cr_view *out)
{
    cr_fill_linspace(out, number(&arg[0]), number(&arg[1]));
    return CR_OK;
}

cr_status cr_kern_logspace(const cr_value *arg, cr_view *out)
{
    cr_fill_logspace(out, number(&arg[0]), number(&arg[1]), arg[3].d);
    return CR_OK;
}

cr_status cr_kern_eye(const cr_value *arg, cr_view *out)
{
    (void)arg;
    cr_fill_eye(out);
    return CR_OK;
}

/* (row, col, offset, ...) */
cr_status cr_kern_tril_indices(const cr_value *arg, cr_view *out)
{
    cr_fill_triangle_indices(out, arg[0].i, arg[1].i, arg[2].i, false);
    return CR_OK;
}

cr_status cr_kern_triu_indices(const cr_value *arg, cr_view *out)
{
    cr_fill_triangle_indices(out, arg[0].i, arg[1].i, arg[2].i, true);
    return CR_OK;
}

/* The next choice in order, in place; false after the last. */
static bool next_choice(int64_t *choice, int64_t n, int64_t r, bool again)
{
    int64_t k = r - 1;

    while (k >= 0 && choice[k] == (again ? n - 1 : n - r + k))
        k--;
    if (k < 0)
        return false;
    choice[k]++;
    for (int64_t j = k + 1; j < r; j++)
        choice[j] = choice[j - 1] + !again;
    return true;
}

/* (n, r, with_replacement): each row starts as a copy of the one before. */
cr_status cr_kern_combinations(const cr_value *arg, cr_view *out)
{
    int64_t n = arg[0].i, r = arg[1].i, *row = (int64_t *)(void *)out->data;
    bool again = arg[2].i;

    for (int64_t i = 0; i < out->size[0]; i++, row += r) {
        for (int64_t k = 0; k < r; k++)
            row[k] = i ? row[k - r] : again ? 0 : k;
        if (i)
            (void)next_choice(row, n, r, again);
    }
    return CR_OK;
}
