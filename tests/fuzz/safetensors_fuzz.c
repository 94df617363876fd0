/* Mutates safetensors files and parses them: safetensors_fuzz [SECONDS] [SEED]
 *
 * Every input must fail with a message or give tensors whose bytes can all be read.  Run it
 * under asan and ubsan.  Prints the seed, so that a failure can be repeated. */
#include "io/safetensors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 2048 };

static uint64_t state;

static uint32_t draw(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % n;
}

static const char *const headers[] = {
    "{}",
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}",
    "{\"__metadata__\":{\"format\":\"pt\",\"k\\u00e9\":\"\\ud83d\\ude00\"},"
    "\"a\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]},"
    "\"b\":{\"dtype\":\"I64\",\"shape\":[1,2],\"data_offsets\":[2,18]},"
    "\"c\":{\"dtype\":\"BOOL\",\"shape\":[0,7],\"data_offsets\":[18,18]}}",
};
static const char *const pieces[] = {"\"",
                                     "\\",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     ",",
                                     ":",
                                     "0",
                                     "18446744073709551615",
                                     "9223372036854775807",
                                     "\\u0000",
                                     "\\ud800",
                                     "\xff",
                                     "\xe2\x82",
                                     "\"__metadata__\":{",
                                     "\"dtype\":\"U8\"",
                                     "-1",
                                     "1e3",
                                     " "};

/* Makes a file with one of the headers.  Returns its length. */
static size_t seed_file(unsigned char *out)
{
    const char *h = headers[draw(CR_LEN(headers))];
    size_t n = strlen(h), data = draw(24);

    memset(out, 0, MOST);
    memcpy(out + 8, h, n);
    for (int i = 0; i < 8; i++)
        out[i] = (unsigned char)((uint64_t)n >> (8 * i));
    return 8 + n + data;
}

static size_t insert(unsigned char *b, size_t len, const char *piece)
{
    size_t n = strlen(piece), at = 8 + draw((uint32_t)(len - 7));

    if (len + n > MOST)
        return len;
    memmove(b + at + n, b + at, len - at);
    memcpy(b + at, piece, n);
    b[0] = (unsigned char)(b[0] + (draw(4) ? n : 0)); /* mostly a correct length */
    return len + n;
}

static size_t cut(unsigned char *b, size_t len)
{
    size_t at = 8 + draw((uint32_t)(len - 7)), n = draw(6);

    if (at + n > len)
        return len;
    memmove(b + at, b + at + n, len - at - n);
    b[0] = (unsigned char)(b[0] - (draw(4) ? n : 0));
    return len - n;
}

static size_t mutate(unsigned char *b, size_t len)
{
    switch (draw(5)) {
    case 0: b[draw((uint32_t)len)] ^= (unsigned char)(1u << draw(8)); return len;
    case 1: b[draw((uint32_t)len)] = (unsigned char)draw(256); return len;
    case 2: return insert(b, len, pieces[draw(CR_LEN(pieces))]);
    case 3: return cut(b, len);
    default: return len > 8 && !draw(4) ? draw((uint32_t)len) + 1 : len;
    }
}

/* Reads every byte of every tensor, so that the sanitizer finds wrong bounds. */
static unsigned long use(const cr_safetensors *s)
{
    unsigned long sum = 0;

    for (int i = 0; i < cr_safetensors_count(s); i++) {
        cr_tensor *t = NULL;
        if (cr_safetensors_tensor(&t, s, i))
            continue;
        for (int64_t k = 0; k < t->numel * (int64_t)cr_dtype_size((cr_dtype)t->dtype); k++)
            sum += (unsigned char)t->address[k];
        cr_drop(t);
    }
    return sum;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 5;
    time_t end = time(NULL) + (time_t)seconds;
    unsigned long tried = 0, taken = 0, sum = 0;
    unsigned char bytes[MOST];

    state = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)state);
    do {
        for (int i = 0; i < 1000; i++) {
            cr_safetensors *s = NULL;
            size_t len = seed_file(bytes);
            for (uint32_t m = draw(6); m > 0 && len > 8; m--)
                len = mutate(bytes, len);
            cr_status st = cr_safetensors_parse(&s, bytes, len);
            if (st && (st != CR_VALUE || !*cr_error_message())) {
                printf("status %d: %s\n", (int)st, cr_error_message());
                return 1;
            }
            taken += !st;
            sum += st ? 0 : use(s);
            cr_safetensors_drop(s);
            tried++;
        }
    } while (time(NULL) < end);
    printf("%lu files, %lu accepted, byte sum %lu\n", tried, taken, sum);
    return 0;
}
