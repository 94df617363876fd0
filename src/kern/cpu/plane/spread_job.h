/* spread_job.h - contributions to elements at computed places, as loops on a device get them.
 *
 * The host adds contributions one after the other.  A device numbers them in the same order and
 * gives each a key: its place in the upper bits, its number in the lower ones.  The keys are
 * sorted by place, and what belongs to one place is added in the order of the numbers, so that
 * results have the host's bits. */
#ifndef CR_KERN_SPREAD_JOB_H
#define CR_KERN_SPREAD_JOB_H

#include "kern/loops.h"

enum { SPREAD_CHANNELS = 8 /* whose sums a unit has */ };

typedef struct {
    uint64_t *keys;
    void *weight;      /* of each number */
    int64_t *first;    /* of each place: one more than the position of its first key, or 0 */
    int64_t n, places; /* contributions; places */
    int64_t from;      /* units before those of this list */
    int shift;         /* the lowest bit of the place in a key */
} spread_list;

/* A contribution to place -1 is left out. */
static inline void spread_put(const spread_list *s, int64_t number, int64_t place)
{
    s->keys[number] = (uint64_t)(place < 0 ? s->places : place) << s->shift | (uint64_t)number;
}
static inline int64_t spread_place(const spread_list *s, int64_t k)
{
    return (int64_t)(s->keys[k] >> s->shift);
}
static inline int64_t spread_number(const spread_list *s, int64_t k)
{
    return (int64_t)(s->keys[k] & (((uint64_t)1 << s->shift) - 1));
}
static inline bool spread_has(const spread_list *s, int64_t k, int64_t place)
{
    return k < s->n && spread_place(s, k) == place;
}
/* Notes sorted key k if it is the first one of a place. */
static inline void spread_mark(const spread_list *s, int64_t k)
{
    int64_t place = spread_place(s, k);

    if (place < s->places && (!k || spread_place(s, k - 1) != place))
        s->first[place] = k + 1;
}

#endif
