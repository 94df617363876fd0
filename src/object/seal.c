/* Sums and seals. */
#include "object/seal.h"
#include <string.h>

enum { LANES = 8 };
static const uint64_t FACTOR = 0x9E3779B97F4A7C15u;

static uint64_t step(uint64_t h, uint64_t word)
{
    h = (h ^ word) * FACTOR;
    return h ^ h >> 32;
}

static uint64_t sum_of(const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    uint64_t lane[LANES], word, out = n;
    size_t done = 0;

    for (int i = 0; i < LANES; i++)
        lane[i] = FACTOR + (uint64_t)i;
    for (; done + sizeof lane <= n; done += sizeof lane)
        for (int i = 0; i < LANES; i++) {
            memcpy(&word, at + done + 8 * i, 8);
            lane[i] = step(lane[i], word);
        }
    for (; done < n; done += 8) {
        word = 0;
        memcpy(&word, at + done, n - done < 8 ? n - done : 8);
        lane[done / 8 % LANES] = step(lane[done / 8 % LANES], word);
    }
    for (int i = 0; i < LANES; i++)
        out = step(out, lane[i]);
    return out;
}

/* Numbers are little-endian, 8 bytes each. */
static void put(unsigned char *to, uint64_t x)
{
    for (int i = 0; i < 8; i++)
        to[i] = (unsigned char)(x >> 8 * i);
}

static uint64_t get(const unsigned char *from)
{
    uint64_t x = 0;

    for (int i = 0; i < 8; i++)
        x |= (uint64_t)from[i] << 8 * i;
    return x;
}

static const char magic[8] = "CRAOT\0\0\1";

void cr_object_seal(unsigned char *out, const cr_object_record *record, const char *isa)
{
    memset(out, 0, CR_OBJECT_SEAL_BYTES);
    memcpy(out, magic, sizeof magic);
    strncpy((char *)out + 8, isa, 15);
    for (int i = 0; i < CR_OBJECT_RECORDS; i++) {
        put(out + 24 + 16 * i, record[i].n);
        put(out + 32 + 16 * i, sum_of(record[i].bytes, record[i].n));
    }
    put(out + CR_OBJECT_SEAL_BYTES - 8, sum_of(out, CR_OBJECT_SEAL_BYTES - 8));
}

bool cr_object_seal_holds(const unsigned char *seal)
{
    return !memcmp(seal, magic, sizeof magic) &&
           get(seal + CR_OBJECT_SEAL_BYTES - 8) == sum_of(seal, CR_OBJECT_SEAL_BYTES - 8);
}

const char *cr_object_seal_isa(const unsigned char *seal) { return (const char *)seal + 8; }

bool cr_object_seal_fits(const unsigned char *seal, int k, const cr_object_record *r)
{
    return get(seal + 24 + 16 * k) == r->n && get(seal + 32 + 16 * k) == sum_of(r->bytes, r->n);
}
