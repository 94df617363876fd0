/* Mutates archives and reads them: zip_fuzz [SECONDS] [SEED]
 *
 * Every input must fail with a message or give records that can all be read.  Run it under asan
 * and ubsan.  Prints the seed, so that a failure can be repeated. */
#include "io/checkpoint.h"
#include "io/zip.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 4096 };

static uint64_t state;

static uint32_t draw(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % n;
}

static cr_status append(void *to, const void *bytes, size_t len)
{
    cr_text_put_n(to, bytes, len);
    return cr_text_status(to);
}

static const char *const names[] = {"data.pkl", "byteorder", "data/0", "data/1", "x"};

/* Makes an archive of some records. */
static void seed_archive(cr_text *out)
{
    static const char data[200] = "\x80\x02]K\1a.";
    cr_zip_writer w;
    cr_status st = CR_OK;

    cr_zip_begin(&w, draw(8) ? "archive" : "a/b", append, out);
    w.unchecked = draw(2);
    for (size_t i = 0; !st && i < CR_LEN(names); i++)
        if (draw(4))
            st = i == 1 ? cr_zip_add(&w, names[i], "little", draw(2) ? 6 : 3)
                        : cr_zip_add(&w, names[i], data, draw(sizeof data));
    if (st || cr_zip_end(&w))
        abort();
    cr_zip_writer_drop(&w);
}

static size_t find(const unsigned char *b, size_t len, const char *what)
{
    size_t hit = draw((uint32_t)len - 4), from = hit;

    for (size_t i = 0; i + 4 < len; i++, hit = (hit + 1) % (len - 4))
        if (!memcmp(b + hit, what, 4))
            return hit;
    return from;
}

/* Sets a field of one of the headers to another value, often a limit. */
static void lie(unsigned char *b, size_t len)
{
    static const char *const heads[] = {"PK\1\2", "PK\3\4", "PK\5\6",
                                        "PK\6\6", "PK\6\7", "PK\7\10"};
    static const uint64_t limits[] = {0, 1, 0xFFFF, 0xFFFFFFFF, INT64_MAX, UINT64_MAX, 46, 64};
    size_t at = find(b, len, heads[draw(CR_LEN(heads))]) + 4 + draw(56), width = 1u << draw(4);
    uint64_t v = draw(3) ? limits[draw(CR_LEN(limits))] : draw((uint32_t)len);

    for (size_t i = 0; i < width && at + i < len; i++)
        b[at + i] = (unsigned char)(v >> 8 * i);
}

static size_t cut(unsigned char *b, size_t len)
{
    size_t at = draw((uint32_t)len), n = draw(64);

    if (at + n > len || len - n < 8)
        return len;
    memmove(b + at, b + at + n, len - at - n);
    return len - n;
}

static size_t repeat(unsigned char *b, size_t len)
{
    size_t at = draw((uint32_t)len), n = draw(128);

    if (at + n > len || len + n > MOST)
        return len;
    memmove(b + at + n, b + at, len - at);
    return len + n;
}

static size_t mutate(unsigned char *b, size_t len)
{
    switch (draw(7)) {
    case 0: b[draw((uint32_t)len)] ^= (unsigned char)(1u << draw(8)); return len;
    case 1: b[draw((uint32_t)len)] = (unsigned char)draw(256); return len;
    case 2: return cut(b, len);
    case 3: return repeat(b, len);
    case 4: return len > 16 && !draw(4) ? 8 + draw((uint32_t)len - 8) : len;
    default: lie(b, len); return len;
    }
}

static unsigned long sum, accepted, opened;

static void use(const cr_zip *z)
{
    static const char *const all[] = {
        "data.pkl", "byteorder", "data/0", "data/1", "x", "version", ".data/serialization_id"};

    for (size_t i = 0; i < CR_LEN(all); i++) {
        const cr_zip_entry *e = cr_zip_find(z, all[i]);
        if (!e || e->size > MOST)
            continue;
        unsigned char *to = malloc(e->size + 1);
        if (!cr_zip_read(z, e, to))
            for (uint64_t k = 0; k < e->size; k++)
                sum += to[k];
        free(to);
    }
}

static void try_one(const unsigned char *bytes, size_t len)
{
    cr_checkpoint_options o = {.rules.weights_only = true};
    unsigned char *exact = malloc(len);
    cr_checkpoint *c = NULL;
    cr_zip *z = NULL;
    cr_source *s;

    memcpy(exact, bytes, len);
    if (cr_source_memory(&s, exact, len, free, exact))
        abort();
    cr_status st = cr_zip_open(&z, s);
    if (st && (st != CR_RUNTIME || !*cr_error_message())) {
        printf("status %d: %s\n", (int)st, cr_error_message());
        abort();
    }
    accepted += !st;
    if (!st)
        use(z);
    opened += !cr_checkpoint_open(&c, s, &o);
    cr_checkpoint_drop(c);
    cr_zip_drop(z);
    cr_source_drop(s);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 5;
    time_t end = time(NULL) + (time_t)seconds;
    unsigned long tried = 0;
    unsigned char bytes[MOST];

    state = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)state);
    do {
        for (int i = 0; i < 200; i++) {
            cr_text t = {0};
            seed_archive(&t);
            size_t len = t.len < MOST ? t.len : MOST;
            memcpy(bytes, t.at, len);
            cr_text_drop(&t);
            for (uint32_t m = draw(5); m > 0; m--)
                len = mutate(bytes, len);
            try_one(bytes, len);
            tried++;
        }
    } while (time(NULL) < end);
    printf("%lu archives, %lu accepted, %lu checkpoints, byte sum %lu\n", tried, accepted,
           opened, sum);
    return 0;
}
