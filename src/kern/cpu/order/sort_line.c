/* Sorts lines.
 *
 * For types of up to four bytes, key and index are packed into one 64-bit item, the key in the
 * upper bits, so any sort of whole items is stable.  Other types use pairs.  Short arrays use
 * merge sort, long ones radix sort.
 *
 * torch's default sort is not stable.  Without ties that makes no difference.  So the stable
 * sort runs first, and introsort follows only when there are equal keys.  Lines from
 * LOOSE_BELOW elements on skip introsort, because radix sort is several times faster. */
#include "kern/cpu/order/sort_line.h"
#include "kern/cpu/element.h"

enum { RUN = 16, RADIX_FROM = 768, BUCKETS = 256, LOOSE_BELOW = 32768 };

/* --- keys --- */

static uint32_t float_key(uint32_t bits, uint32_t sign, uint32_t infinity)
{
    uint32_t magnitude = bits & (sign - 1);

    if (magnitude > infinity)
        return 2 * sign - 1;
    if (!magnitude)
        bits = 0;
    return bits & sign ? 2 * sign - 1 - bits : bits | sign;
}

static uint64_t double_key(uint64_t bits)
{
    uint64_t sign = 1ull << 63, magnitude = bits & ~sign;

    if (magnitude > 0x7ff0000000000000ull)
        return ~0ull;
    if (!magnitude)
        bits = 0;
    return bits & sign ? ~bits : bits | sign;
}

static uint32_t bits32(const char *p)
{
    uint32_t x;

    memcpy(&x, p, sizeof x);
    return x;
}

static uint64_t bits64(const char *p)
{
    uint64_t x;

    memcpy(&x, p, sizeof x);
    return x;
}

static inline uint32_t key_b8(const char *p) { return (uint32_t)load_b8(p); }
static inline uint32_t key_u8(const char *p) { return *(const uint8_t *)p; }
static inline uint32_t key_u16(const char *p) { return *(const uint16_t *)(const void *)p; }
static inline uint32_t key_u32(const char *p) { return bits32(p); }
static inline uint32_t key_i8(const char *p) { return (uint32_t)(*(const int8_t *)p + 128); }
static inline uint32_t key_i16(const char *p)
{
    return (uint32_t)(*(const int16_t *)p + 32768);
}
static inline uint32_t key_i32(const char *p) { return bits32(p) ^ 0x80000000u; }
static inline uint32_t key_f16(const char *p)
{
    return float_key(*(const uint16_t *)p, 0x8000, 0x7c00);
}
static inline uint32_t key_bf16(const char *p)
{
    return float_key(*(const uint16_t *)p, 0x8000, 0x7f80);
}
static inline uint32_t key_f32(const char *p)
{
    uint32_t bits = bits32(p), magnitude = bits & 0x7fffffffu;

    if (magnitude > 0x7f800000u)
        return 0xffffffffu;
    if (!magnitude)
        bits = 0;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
static inline uint64_t key_i64(const char *p) { return bits64(p) ^ (1ull << 63); }
static inline uint64_t key_f64(const char *p) { return double_key(bits64(p)); }

uint64_t cr_sort_key(cr_dtype t, const char *p)
{
    switch (t) {
    case CR_BOOL: return key_b8(p);
    case CR_U8: return key_u8(p);
    case CR_I8: return key_i8(p);
    case CR_I16: return key_i16(p);
    case CR_I32: return key_i32(p);
    case CR_I64: return key_i64(p);
    case CR_F16: return key_f16(p);
    case CR_BF16: return key_bf16(p);
    case CR_F32: return key_f32(p);
    case CR_U16: return key_u16(p);
    case CR_U32: return key_u32(p);
    case CR_U64: return bits64(p);
    default: return key_f64(p);
    }
}

/* --- items --- */

typedef struct {
    uint64_t key, at;
} pair;

#define ITEM         uint64_t
#define LESS(a, b)   ((a) < (b))
#define BEFORE(a, b) ((a) >> 32 < (b) >> 32)
#define DIGIT(a, d)  (((a) >> (32 + 8 * (d))) & 255)
#define DIGITS       4
#define NAME(f)      packed_##f
#include "kern/cpu/order/sort_intro.inc"
#include "kern/cpu/order/sort_items.inc"
#undef ITEM
#undef LESS
#undef BEFORE
#undef DIGIT
#undef DIGITS
#undef NAME
#define ITEM         pair
#define LESS(a, b)   ((a).key < (b).key || ((a).key == (b).key && (a).at < (b).at))
#define BEFORE(a, b) ((a).key < (b).key)
#define DIGIT(a, d)  (((a).key >> (8 * (d))) & 255)
#define DIGITS       8
#define NAME(f)      pair_##f
#include "kern/cpu/order/sort_intro.inc"
#include "kern/cpu/order/sort_items.inc"

/* The index must fit next to the key. */
static bool is_packed(cr_dtype t, int64_t n)
{
    return cr_dtype_size(t) <= 4 && n <= (int64_t)UINT32_MAX;
}

size_t cr_line_room(cr_dtype t, int64_t n)
{
    return 2 * (size_t)n * (is_packed(t, n) ? sizeof(uint64_t) : sizeof(pair));
}

#define PACK(suffix)                                                                           \
    static void pack_##suffix(uint64_t *to, const cr_line *l, uint32_t flip)                   \
    {                                                                                          \
        for (int64_t i = 0; i < l->n; i++)                                                     \
            to[i] =                                                                            \
                (uint64_t)(key_##suffix(l->data + i * l->step) ^ flip) << 32 | (uint64_t)i;    \
    }
PACK(b8)
PACK(u8)
PACK(i8)
PACK(i16)
PACK(i32)
PACK(f16)
PACK(bf16)
PACK(f32)
PACK(u16)
PACK(u32)

static void pack_keys(uint64_t *to, const cr_line *l)
{
    static void (*const fns[CR_DTYPE_COUNT])(uint64_t *, const cr_line *, uint32_t) = {
        [CR_BOOL] = pack_b8, [CR_U8] = pack_u8,   [CR_I8] = pack_i8,     [CR_I16] = pack_i16,
        [CR_I32] = pack_i32, [CR_F16] = pack_f16, [CR_BF16] = pack_bf16, [CR_F32] = pack_f32,
        [CR_U16] = pack_u16, [CR_U32] = pack_u32};

    fns[l->dtype](to, l, l->descending ? 0xffffffffu : 0);
}

static void make_pairs(pair *to, const cr_line *l)
{
    uint64_t flip = l->descending ? ~0ull : 0;

    for (int64_t i = 0; i < l->n; i++)
        to[i] = (pair){cr_sort_key(l->dtype, l->data + i * l->step) ^ flip, (uint64_t)i};
}

static void put_packed(int64_t *index, const uint64_t *item, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        index[i] = (int64_t)(item[i] & 0xffffffffu);
}

static void put_pairs(int64_t *index, const pair *item, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        index[i] = (int64_t)item[i].at;
}

static bool packed_ties(const uint64_t *item, int64_t n)
{
    bool ties = false;

    for (int64_t i = 1; i < n; i++)
        ties |= item[i] >> 32 == item[i - 1] >> 32;
    return ties;
}

static bool pair_ties(const pair *item, int64_t n)
{
    bool ties = false;

    for (int64_t i = 1; i < n; i++)
        ties |= item[i].key == item[i - 1].key;
    return ties;
}

static void sort_packed(const cr_line *l, int64_t *index, uint64_t *item, bool loose)
{
    pack_keys(item, l);
    packed_sort(item, item + l->n, l->n);
    if (loose && packed_ties(item, l->n)) {
        pack_keys(item, l);
        packed_intro_sort(item, l->n);
    }
    put_packed(index, item, l->n);
}

static void sort_pairs(const cr_line *l, int64_t *index, pair *item, bool loose)
{
    make_pairs(item, l);
    pair_sort(item, item + l->n, l->n);
    if (loose && pair_ties(item, l->n)) {
        make_pairs(item, l);
        pair_intro_sort(item, l->n);
    }
    put_pairs(index, item, l->n);
}

void cr_line_sort(const cr_line *l, int64_t *index, void *room)
{
    if (is_packed(l->dtype, l->n))
        sort_packed(l, index, room, false);
    else
        sort_pairs(l, index, room, false);
}

void cr_line_sort_loose(const cr_line *l, int64_t *index, void *room)
{
    bool loose = l->n > RUN && l->n < LOOSE_BELOW;

    if (is_packed(l->dtype, l->n))
        sort_packed(l, index, room, loose);
    else
        sort_pairs(l, index, room, loose);
}

/* torch uses a heap for few of many elements, otherwise a selection followed by a sort. */
static bool few(const cr_line *l, int64_t k) { return k * 64 <= l->n; }

static void top_packed(const cr_line *l, int64_t k, int64_t *index, uint64_t *item)
{
    pack_keys(item, l);
    if (few(l, k)) {
        packed_partial_sort(item, k, l->n);
    } else {
        packed_intro_select(item, l->n, k - 1);
        packed_intro_sort(item, k - 1);
    }
    put_packed(index, item, k);
}

static void top_pairs(const cr_line *l, int64_t k, int64_t *index, pair *item)
{
    make_pairs(item, l);
    if (few(l, k)) {
        pair_partial_sort(item, k, l->n);
    } else {
        pair_intro_select(item, l->n, k - 1);
        pair_intro_sort(item, k - 1);
    }
    put_pairs(index, item, k);
}

void cr_line_top(const cr_line *l, int64_t k, int64_t *index, void *room)
{
    if (k == 0)
        return;
    if (is_packed(l->dtype, l->n))
        top_packed(l, k, index, room);
    else
        top_pairs(l, k, index, room);
}

int64_t cr_line_rank(const cr_line *l, int64_t k, void *room)
{
    if (is_packed(l->dtype, l->n)) {
        uint64_t *item = room;
        pack_keys(item, l);
        packed_quick_select(item, l->n, k);
        return (int64_t)(item[k] & 0xffffffffu);
    }
    make_pairs(room, l);
    pair_quick_select(room, l->n, k);
    return (int64_t)((pair *)room)[k].at;
}

int64_t cr_line_middle(const cr_line *l, int64_t k, void *room)
{
    if (is_packed(l->dtype, l->n)) {
        uint64_t *item = room;
        pack_keys(item, l);
        packed_select(item, l->n, k);
        return (int64_t)(item[k] & 0xffffffffu);
    }
    make_pairs(room, l);
    pair_select(room, l->n, k);
    return (int64_t)((pair *)room)[k].at;
}

int64_t cr_line_nans(const cr_line *l)
{
    int64_t n = 0;

    if (!cr_dtype_is_float(l->dtype))
        return 0;
    for (int64_t i = 0; i < l->n; i++) {
        const char *p = l->data + i * l->step;
        switch (l->dtype) {
        case CR_F16: n += (*(const uint16_t *)p & 0x7fff) > 0x7c00; break;
        case CR_BF16: n += (*(const uint16_t *)p & 0x7fff) > 0x7f80; break;
        case CR_F32: n += *(const float *)p != *(const float *)p; break;
        default: n += *(const double *)p != *(const double *)p; break;
        }
    }
    return n;
}
