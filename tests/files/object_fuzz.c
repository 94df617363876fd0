/* Loads and runs mutated compiled models: object_fuzz COUNT SEED FILE...
 *
 * A mutation changes, removes or repeats bytes of an archive, often in its headers, or changes
 * its weights and text and corrects the seal.  The code is never changed under a correct seal:
 * it is a program.  Each file must be refused with a message, or run.  Run it under asan and
 * ubsan. */
#include "base/text.h"
#include "io/zip.h"
#include "object/object.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_FILES = 64, MOST_ARRAYS = 16, MOST_BYTES = 1 << 20 };

typedef struct {
    unsigned char *bytes;
    size_t n;
} source;

static uint64_t seed;

static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static source read_source(const char *path)
{
    source s = {NULL, 0};
    FILE *f = fopen(path, "rb");
    long n;

    if (!f || fseek(f, 0, SEEK_END) || (n = ftell(f)) < 64 || fseek(f, 0, SEEK_SET))
        exit(2);
    s.n = (size_t)n;
    s.bytes = malloc(s.n);
    if (!s.bytes || fread(s.bytes, 1, s.n, f) != s.n)
        exit(2);
    fclose(f);
    return s;
}

/* --- mutations --- */

/* Where a header of an archive begins, or any place. */
static size_t some_place(const source *s)
{
    size_t at = (size_t)(next() % (s->n - 4)), field = (size_t)(next() % 60), i, k;

    for (i = 0; i < s->n - 4 && next() % 8; i++) {
        k = (at + i) % (s->n - 4);
        if (s->bytes[k] == 'P' && s->bytes[k + 1] == 'K')
            return k + field < s->n ? k + field : k;
    }
    return at;
}

static void change(source *s)
{
    static const uint64_t edges[] = {0, 1, 46, 64, 0xffff, 0xffffffff, INT64_MAX, UINT64_MAX};
    size_t at = some_place(s), n = (size_t)(next() % 64), width = (size_t)1 << next() % 4;
    uint64_t value = next() % 3 ? edges[next() % 8] : next() % s->n;

    switch (next() % 6) {
    case 0: s->bytes[at] ^= (unsigned char)(1u << next() % 8); break;
    case 1:
        for (size_t i = 0; i < width && at + i < s->n; i++)
            s->bytes[at + i] = (unsigned char)(value >> 8 * i);
        break;
    case 2: /* removes bytes */
        if (at + n < s->n && s->n - n > 64) {
            memmove(s->bytes + at, s->bytes + at + n, s->n - at - n);
            s->n -= n;
        }
        break;
    case 3: /* repeats them over others */
        if (at + 2 * n < s->n)
            memcpy(s->bytes + at + n, s->bytes + at, n);
        break;
    case 4: s->n = next() % 8 ? s->n : 64 + next() % (s->n - 64); break;
    default: s->bytes[at] = (unsigned char)next(); break;
    }
}

/* A record of the archive; exits if there is none. */
static unsigned char *record(const cr_zip *z, unsigned char *file, const char *name, size_t *n)
{
    char path[128];

    snprintf(path, sizeof path, "data/aotinductor/model/model.%s", name);
    const cr_zip_entry *e = cr_zip_find(z, path);
    if (!e)
        exit(2);
    *n = (size_t)e->size;
    return file + e->at;
}

/* Changes weights or text, and makes the seal fit. */
static void change_sealed(source *s)
{
    static const char *const names[] = {"so", "weights", "spec"};
    cr_object_record r[CR_OBJECT_RECORDS];
    unsigned char *at, *seal;
    char isa[16];
    size_t n, changes = 1 + next() % 4;
    cr_source *source = NULL;
    cr_zip *z = NULL;

    if (cr_source_memory(&source, s->bytes, s->n, NULL, NULL) || cr_zip_open(&z, source))
        exit(2);
    at = record(z, s->bytes, names[1 + next() % 2], &n);
    while (n && changes--)
        at[next() % n] = (unsigned char)next();
    for (int k = 0; k < CR_OBJECT_RECORDS; k++)
        r[k].bytes = record(z, s->bytes, names[k], &r[k].n);
    seal = record(z, s->bytes, "seal", &n);
    snprintf(isa, sizeof isa, "%s", cr_object_seal_isa(seal));
    cr_object_seal(seal, r, isa);
    cr_zip_drop(z);
    cr_source_drop(source);
}

/* --- runs --- */

/* Memory of one array at its least sizes; false if it has too many bytes. */
static int take(const cr_aot_array *a, cr_aot_value *v)
{
    int64_t bytes = a->item_bytes;

    for (int d = 0; d < a->ndim; d++) {
        if (a->least[d] < 0 || a->least[d] > MOST_BYTES)
            return 0;
        bytes *= a->least[d];
        if (bytes > MOST_BYTES)
            return 0;
    }
    *v = (cr_aot_value){malloc((size_t)bytes + 1), a->dtype, a->ndim, a->least};
    for (int64_t i = 0; v->data && i < bytes; i++)
        ((unsigned char *)v->data)[i] = (unsigned char)(i % 8 ? 0 : next() % 3);
    return v->data != NULL;
}

static int run(cr_aot *m)
{
    cr_aot_value in[MOST_ARRAYS] = {{0}}, out[MOST_ARRAYS] = {{0}};
    void *to[MOST_ARRAYS] = {0};
    int inputs = cr_aot_inputs(m), outputs = cr_aot_outputs(m), k,
        fits = inputs <= MOST_ARRAYS && outputs <= MOST_ARRAYS, done = 0;

    for (k = 0; k < inputs && fits; k++)
        fits = take(cr_aot_input(m, k), &in[k]);
    for (k = 0; k < outputs && fits; k++) {
        fits = take(cr_aot_output(m, k), &out[k]);
        to[k] = out[k].data;
    }
    if (fits)
        done = !cr_aot_run(m, in, inputs, to, outputs);
    for (k = 0; k < MOST_ARRAYS; k++) {
        free(in[k].data);
        free(out[k].data);
    }
    return done;
}

int main(int argc, char **argv)
{
    static source files[MOST_FILES];
    long count = argc > 3 ? atol(argv[1]) : 0, i, accepted = 0, ran = 0;
    int n = argc - 3 < MOST_FILES ? argc - 3 : MOST_FILES, k, fd = memfd_create("fuzz", 0);
    char path[64];

    if (count <= 0 || fd < 0)
        return 2;
    seed = strtoull(argv[2], NULL, 10) * 2 + 0x9e3779b97f4a7c15u;
    for (k = 0; k < n; k++)
        files[k] = read_source(argv[3 + k]);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (i = 0; i < count; i++) {
        source s = files[next() % (uint64_t)n];
        unsigned char *bytes = malloc(s.n);
        cr_aot *m = NULL;

        if (!bytes)
            return 2;
        s.bytes = memcpy(bytes, s.bytes, s.n);
        if (next() % 64)
            for (k = (int)(next() % 3); k >= 0; k--)
                change(&s);
        else
            change_sealed(&s);
        if (ftruncate(fd, 0) || pwrite(fd, s.bytes, s.n, 0) != (ssize_t)s.n)
            return 2;
        if (!cr_aot_load(&m, path, 1)) {
            accepted++;
            ran += run(m);
        } else if (!*cr_error_message()) {
            printf("file %ld of this seed: refused without a message\n", i);
            abort();
        }
        cr_aot_free(m);
        free(bytes);
    }
    printf("%ld files, %ld accepted, %ld run\n", count, accepted, ran);
    return accepted == 0;
}
