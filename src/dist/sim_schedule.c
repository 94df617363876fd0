/* Lists of actions of pipelines: made from numbers, or read from a file. */
#include "base/memory.h"
#include "dist/simulate.h"
#include <stdio.h>
#include <string.h>

static cr_status schedule_new(cr_sim_schedule *out, int ranks, int stages, int parts)
{
    cr_sim_schedule s = {.ranks = ranks, .stages = stages, .parts = parts};

    s.at = cr_alloc_zero((size_t)ranks * sizeof *s.at + 1);
    s.len = cr_alloc_zero((size_t)ranks * sizeof *s.len + 1);
    if (!s.at || !s.len) {
        cr_sim_schedule_drop(&s);
        return CR_MEMORY;
    }
    *out = s;
    return CR_OK;
}

static cr_status add(cr_sim_schedule *s, int rank, cr_sim_action a)
{
    cr_sim_action *more =
        cr_realloc(s->at[rank], (size_t)(s->len[rank] + 1) * sizeof *s->at[rank]);

    if (!more)
        return CR_MEMORY;
    s->at[rank] = more;
    s->at[rank][s->len[rank]++] = a;
    return CR_OK;
}

/* The k-th forward or backward of a rank with `chunks` stages: parts go through the stages in
 * rounds of `each`, backwards from the last stage on. */
static cr_sim_action nth(const cr_sim_schedule *s, int rank, int each, int k, char kind)
{
    int chunks = s->stages / s->ranks, round = k / (chunks * each),
        inside = k % (chunks * each);
    int chunk = inside / each;

    chunk = kind == 'F' ? chunk : chunks - 1 - chunk;
    return (cr_sim_action){rank + chunk * s->ranks, round * each + inside % each, kind};
}

/* `ahead` forwards, then a backward and a forward in turn. */
static cr_status fill_rank(cr_sim_schedule *s, int rank, int each, int ahead)
{
    int all = s->parts * (s->stages / s->ranks), forward = 0;

    ahead = ahead < all ? ahead : all;
    while (forward < ahead)
        CR_TRY(add(s, rank, nth(s, rank, each, forward++, 'F')));
    for (int k = 0; k < all; k++) {
        if (s->stages > s->ranks && forward < all)
            CR_TRY(add(s, rank, nth(s, rank, each, forward++, 'F')));
        CR_TRY(add(s, rank, nth(s, rank, each, k, 'B')));
        if (s->stages == s->ranks && forward < all)
            CR_TRY(add(s, rank, nth(s, rank, each, forward++, 'F')));
    }
    return CR_OK;
}

static cr_status fill_all(cr_sim_schedule *s, bool gpipe)
{
    int chunks = s->stages / s->ranks, rounds = s->parts / s->ranks;
    int each = gpipe || chunks == 1 ? s->parts : s->parts / (rounds ? rounds : 1);

    for (int r = 0; r < s->ranks; r++) {
        int ahead = gpipe         ? s->parts
                    : chunks == 1 ? s->ranks - r
                                  : (chunks - 1) * each + 2 * (s->ranks - 1 - r);
        CR_TRY(fill_rank(s, r, each, ahead));
    }
    return CR_OK;
}

cr_status cr_sim_schedule_make(cr_sim_schedule *out, const char *name, int ranks, int chunks,
                               int parts)
{
    bool gpipe = !strcmp(name, "gpipe"), interleaved = !strcmp(name, "interleaved");
    int rounds = parts / (ranks > 0 ? ranks : 1);

    if (!gpipe && !interleaved && strcmp(name, "1f1b"))
        return cr_fail(CR_VALUE, "no schedule is called '%s': gpipe, 1f1b or interleaved",
                       name);
    if (ranks < 1 || chunks < 1 || parts < 1)
        return cr_fail(CR_VALUE, "a schedule needs ranks, stages and parts");
    if (!interleaved && chunks > 1)
        return cr_fail(CR_VALUE, "schedule %s has one stage a rank, not %d", name, chunks);
    if (interleaved && rounds && parts % rounds)
        return cr_fail(CR_VALUE,
                       "Interleaved 1F1B requires the number of microbatches to be a multiple "
                       "of the number of rounds (%d), but got %d.",
                       rounds, parts);
    CR_TRY(schedule_new(out, ranks, ranks * chunks, parts));
    cr_status st = fill_all(out, gpipe);
    if (st)
        cr_sim_schedule_drop(out);
    return st;
}

/* --- files --- */

static cr_status read_action(cr_sim_schedule *s, int rank, const char *text)
{
    cr_sim_action a = {0};
    int end = 0;

    if (!*text)
        return CR_OK; /* an idle step */
    if (sscanf(text, "%d%c%d%n", &a.stage, &a.kind, &a.part, &end) != 3 || text[end] ||
        !strchr("FBIW", a.kind) || a.stage < 0 || a.part < 0 || a.stage > 4095 || a.part > 4095)
        return cr_fail(CR_VALUE,
                       "Invalid action string: %s, should be formatted as [stage][action "
                       "type][(microbatch)] e.g. 2F0",
                       text);
    s->stages = a.stage >= s->stages ? a.stage + 1 : s->stages;
    s->parts = a.part >= s->parts ? a.part + 1 : s->parts;
    return add(s, rank, a);
}

static cr_status read_rank(cr_sim_schedule *s, int rank, const char *text, size_t len)
{
    for (size_t from = 0; from <= len;) {
        char one[32];
        size_t n = 0;
        while (from + n < len && text[from + n] != ',')
            n++;
        if (n >= sizeof one)
            return cr_fail(CR_VALUE, "rank %d of the schedule has an action of %zu bytes", rank,
                           n);
        memcpy(one, text + from, n);
        one[n && text[from + n - 1] == '\r' ? n - 1 : n] = 0;
        CR_TRY(read_action(s, rank, one));
        from += n + 1;
    }
    return CR_OK;
}

cr_status cr_sim_schedule_read(cr_sim_schedule *out, const char *text)
{
    int ranks = 0;
    cr_status st = CR_OK;

    for (const char *c = text; *c; c++)
        ranks += *c == '\n' || !c[1];
    if (!ranks)
        return cr_fail(CR_VALUE, "the schedule is empty");
    CR_TRY(schedule_new(out, ranks, 0, 0));
    for (int r = 0; r < ranks && !st; r++) {
        size_t len = strcspn(text, "\n");
        st = read_rank(out, r, text, len);
        text += len + (text[len] == '\n');
    }
    if (st)
        cr_sim_schedule_drop(out);
    return st;
}

void cr_sim_schedule_drop(cr_sim_schedule *s)
{
    for (int r = 0; s->at && r < s->ranks; r++)
        cr_free(s->at[r]);
    cr_free(s->at);
    cr_free(s->len);
    *s = (cr_sim_schedule){0};
}
