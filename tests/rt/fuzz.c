/* Opens and runs mutated program files: fuzz COUNT SEED FILE...
 *
 * A mutation changes words of a file and corrects its sum, so that the runtime's other checks
 * decide.  What they accept is run, if it is not too long, on memory of exactly the sizes that
 * the program states.  Run it under asan and ubsan. */
#include "rt/format.h"
#include <cresset_rt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 256, MOST_OPERATIONS = 200000, MOST_BYTES = 1 << 22 };

typedef struct {
    int64_t *word;
    size_t bytes;
} source;

static uint64_t seed;

static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static void *get(size_t n)
{
    void *p = NULL;

    if (posix_memalign(&p, 16, n ? n : 1))
        exit(2);
    return p;
}

static source read_source(const char *path)
{
    source s = {NULL, 0};
    FILE *f = fopen(path, "rb");
    long n;

    if (!f || fseek(f, 0, SEEK_END) || (n = ftell(f)) < 64 || fseek(f, 0, SEEK_SET))
        exit(2);
    s.bytes = (size_t)n;
    s.word = get(s.bytes);
    if (fread(s.word, 1, s.bytes, f) != s.bytes)
        exit(2);
    fclose(f);
    return s;
}

static int64_t edge(void)
{
    static const int64_t edges[] = {0,     1,         2,         3,  4,  5,   7,
                                    8,     9,         16,        63, 64, 511, 1023,
                                    65535, INT32_MAX, INT64_MAX, -1, -4, -8,  -16};
    size_t k = next() % (sizeof edges / sizeof *edges + 2);

    if (k < sizeof edges / sizeof *edges)
        return edges[k];
    return k % 2 ? INT64_C(1) << next() % 63 : INT64_MIN >> next() % 63;
}

/* Changes a word: an edge, another word of the file, a small step, a bit, or a part. */
static void mutate_word(int64_t *word, size_t at, size_t words)
{
    uint64_t was = (uint64_t)word[at];
    int shift = (int)(next() % 4) * 16;

    switch (next() % 6) {
    case 0: word[at] = edge(); break;
    case 1: word[at] = word[next() % words]; break;
    case 2: word[at] = (int64_t)(was + next() % 33 - 16); break;
    case 3: word[at] = (int64_t)(was ^ UINT64_C(1) << next() % 64); break;
    case 4:
        word[at] = (int64_t)((was & ~(UINT64_C(0xffff) << shift)) | (next() % 160) << shift);
        break;
    default: word[at] = (int64_t)(was * (next() % 5)); break;
    }
}

/* A program mostly has its commands mutated, because its data decide nothing. */
static void mutate(int64_t *word, size_t words)
{
    size_t commands = (size_t)word[RT_HEAD_DATA], count = 1 + next() % 3;

    while (count--)
        mutate_word(word, next() % (next() % 16 ? commands : words), words);
    word[RT_HEAD_MAGIC] = RT_MAGIC;
    if (next() % 64)
        word[RT_HEAD_WORDS_ALL] = (int64_t)words;
    word[RT_HEAD_SUM] = rt_sum(word + RT_HEAD_SUM + 1, (int64_t)words - RT_HEAD_SUM - 1);
}

/* Bytes of inputs: small integers, or any. */
static void fill(unsigned char *at, size_t n)
{
    size_t i;
    int small = next() % 4 != 0;

    for (i = 0; i < n; i++)
        at[i] = (unsigned char)(small ? (i % 8 ? 0 : next() % 3) : next());
}

/* Runs an accepted program; returns whether it was not too long. */
static int run(const cr_rt *m)
{
    int k, count = cr_rt_count(m);
    void **array, *work;
    size_t bytes = cr_rt_work_bytes(m);

    for (k = 0; k < count; k++)
        bytes += cr_rt_at(m, k).bytes > MOST_BYTES ? MOST_BYTES : cr_rt_at(m, k).bytes;
    if (cr_rt_operations(m) > MOST_OPERATIONS || bytes >= MOST_BYTES)
        return 0;
    array = get((size_t)count * sizeof *array);
    for (k = 0; k < count; k++) {
        array[k] = get(cr_rt_at(m, k).bytes);
        fill(array[k], cr_rt_at(m, k).bytes);
    }
    work = get(cr_rt_work_bytes(m));
    memset(work, (int)next(), cr_rt_work_bytes(m));
    if (cr_rt_start(m, array) == CR_RT_OK)
        (void)cr_rt_run(m, array, work);
    free(work);
    for (k = 0; k < count; k++)
        free(array[k]);
    free(array);
    return 1;
}

int main(int argc, char **argv)
{
    static source files[MOST_FILES];
    long count = argc > 3 ? atol(argv[1]) : 0, i, accepted = 0, ran = 0;
    int n = argc - 3 < MOST_FILES ? argc - 3 : MOST_FILES, k;

    if (count <= 0)
        return 2;
    seed = strtoull(argv[2], NULL, 10) * 2 + 0x9e3779b97f4a7c15u;
    for (k = 0; k < n; k++)
        files[k] = read_source(argv[3 + k]);
    for (i = 0; i < count; i++) {
        const source *s = &files[next() % (uint64_t)n];
        int64_t *copy = get(s->bytes);
        cr_rt m;

        memcpy(copy, s->word, s->bytes);
        mutate(copy, s->bytes / 8);
        if (cr_rt_open(&m, copy, s->bytes) == CR_RT_OK) {
            accepted++;
            ran += run(&m);
        }
        free(copy);
    }
    printf("%ld files, %ld accepted, %ld run\n", count, accepted, ran);
    return accepted == 0;
}
