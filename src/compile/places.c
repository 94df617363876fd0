/* The memory of a plan's buffers: each has the lowest place that no buffer has at the same
 * time. */
#include "compile/places.h"

typedef struct {
    const cr_plan *p;
    int64_t *first, *last, now; /* times between which each buffer is used */
} uses;

static void note_use(void *context, const char *address)
{
    uses *u = context;
    size_t b = address ? cr_plan_buffer_of(address) : SIZE_MAX;

    if (b < u->p->buffer.len) {
        if (u->first[b] < 0 || u->first[b] > u->now)
            u->first[b] = u->now;
        if (u->last[b] < u->now)
            u->last[b] = u->now;
    }
}

static void find_uses(uses *u, const int64_t *time)
{
    for (size_t i = 0; i < u->p->command.len; i++) {
        u->now = time ? time[i] : (int64_t)i;
        cr_command_each_address(u->p->command.at[i], note_use, u);
    }
    u->now = (int64_t)u->p->command.len;
    for (size_t i = 0; i < u->p->output.len; i++)
        note_use(u, u->p->output.at[i].data);
}

static bool meet(const uses *u, size_t a, size_t b)
{
    return u->first[a] >= 0 && u->first[b] >= 0 && u->first[a] <= u->last[b] &&
           u->first[b] <= u->last[a];
}

/* The lowest place for a buffer beside those before it that are used at the same time. */
static int64_t lowest_place(const uses *u, const int64_t *bytes, int alignment,
                            const int64_t *offset, size_t b)
{
    int64_t at = 0;
    bool moved = true;

    while (moved) {
        moved = false;
        for (size_t k = 0; k < b; k++) {
            int64_t end = bytes[k] < 0 ? 0 : offset[k] + bytes[k];
            if (bytes[k] < 0 || !meet(u, k, b) || at >= end || at + bytes[b] <= offset[k])
                continue;
            at = (end + alignment - 1) / alignment * alignment;
            moved = true;
        }
    }
    return at;
}

int64_t cr_plan_places(cr_session *s, const cr_plan *p, const int64_t *time,
                       const int64_t *bytes, int alignment, int64_t *offset)
{
    size_t n = p->buffer.len;
    uses u = {p, CR_NEW_N(s, int64_t, n + 1), CR_NEW_N(s, int64_t, n + 1), 0};
    int64_t total = 0;

    for (size_t b = 0; b < n; b++)
        u.first[b] = -1;
    find_uses(&u, time);
    for (size_t b = 0; b < n; b++) {
        offset[b] = bytes[b] < 0 ? -1 : lowest_place(&u, bytes, alignment, offset, b);
        if (bytes[b] >= 0 && offset[b] + bytes[b] > total)
            total = offset[b] + bytes[b];
    }
    return (total + alignment - 1) / alignment * alignment;
}

/* --- inputs --- */

typedef struct {
    const cr_plan *p;
    int *count, inputs;
} input_uses;

static void count_use(void *context, const char *address)
{
    input_uses *u = context;
    size_t b = address ? cr_plan_buffer_of(address) : SIZE_MAX;

    if (b < u->p->buffer.len && u->p->buffer.at[b].input &&
        u->p->buffer.at[b].number < u->inputs)
        u->count[u->p->buffer.at[b].number]++;
}

void cr_plan_input_uses(const cr_plan *p, int *count, int inputs)
{
    input_uses u = {p, count, inputs};

    for (int k = 0; k < inputs; k++)
        count[k] = 0;
    for (size_t i = 0; i < p->command.len; i++)
        cr_command_each_address(p->command.at[i], count_use, &u);
    for (size_t i = 0; i < p->output.len; i++)
        count_use(&u, p->output.at[i].data);
}
