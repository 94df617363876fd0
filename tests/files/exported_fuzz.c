/* Reads mutated exported programs as modules of TorchScript: exported_fuzz COUNT SEED
 * FILE.pt2...
 *
 * A mutation changes values of an archive's JSON, bytes of one of its records, or bytes of the
 * archive.  Each file must be refused with a message, or give a module, which is called with
 * tensors of the sizes that it states.  Run it under asan and ubsan. */
#include "autograd/autograd.h"
#include "io/zip.h"
#include "script/code.h"
#include "script/execute.h"
#include "script/exported.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A mutated size may ask for more memory than there is: NULL, as from malloc. */
CR_API const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=64:detect_leaks=0";
}

enum { MOST_FILES = 32, MOST_ARGS = 8, MOST_ELEMENTS = 4096 };

typedef struct {
    char *name, *bytes;
    size_t len;
} record;
typedef struct {
    CR_VEC(record) records;
} archive;

static uint64_t state;
static archive files[MOST_FILES];

static uint32_t draw(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % n;
}

static void need(cr_status st, const char *what)
{
    if (st) {
        fprintf(stderr, "%s: %s\n", what, cr_error_message());
        exit(1);
    }
}

static void read_archive(archive *a, const char *path)
{
    cr_source *s = NULL;
    cr_zip *z = NULL;
    const cr_zip_entry *e;

    need(cr_source_open(&s, path), path);
    need(cr_zip_open(&z, s), path);
    for (size_t i = 0; (e = cr_zip_at(z, i)); i++) {
        record r = {.name = cr_strdup(e->name)};
        need(cr_zip_text(&r.bytes, &r.len, z, e->name), e->name);
        need(cr_vec_reserve(&a->records, 1), path);
        cr_vec_put(&a->records, r);
    }
    cr_zip_drop(z);
    cr_source_drop(s);
}

/* --- mutations --- */

static void replace(cr_text *t, size_t at, size_t cut, const char *put, size_t len)
{
    cr_text made = {0};

    cut = cut < t->len - at ? cut : t->len - at;
    cr_text_put_n(&made, t->at, at);
    cr_text_put_n(&made, put, len);
    cr_text_put_n(&made, t->at + at + cut, t->len - at - cut);
    cr_text_drop(t);
    *t = made;
}

static void change_byte(cr_text *t)
{
    size_t at = t->len ? draw((uint32_t)t->len) : 0;

    if (t->len)
        replace(t, at, draw(3) ? 1 : draw(40), &(char){(char)draw(256)}, draw(8) != 0);
}

/* The end of the value, or of the key with its value, that begins at `at`. */
static size_t value_end(const cr_text *t, size_t at)
{
    int depth = 0;
    bool quoted = false;

    for (; at < t->len; at++) {
        char c = t->at[at];
        if (c == '"' && t->at[at - 1] != '\\')
            quoted = !quoted;
        if (quoted)
            continue;
        if (!depth && (c == ',' || c == ']' || c == '}'))
            return at;
        depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    }
    return at;
}

/* Another value in the place of one; or an item behind another place. */
static void change_value(cr_text *t)
{
    static const char *const edges[] = {"null",
                                        "true",
                                        "0",
                                        "1",
                                        "-1",
                                        "2147483648",
                                        "9223372036854775807",
                                        "1e400",
                                        "-0.5",
                                        "NaN",
                                        "\"\"",
                                        "\"x\"",
                                        "\"s0\"",
                                        "\"u0 + s0\"",
                                        "\"Mod(s0, 0)\"",
                                        "\"s0*s0*s0*s0\"",
                                        "\"torch.ops.aten.add.Tensor\"",
                                        "\"torch.ops.aten.view.default\"",
                                        "\"_operator.mul\"",
                                        "\"_operator.floordiv\"",
                                        "\"a b\"",
                                        "\"\\u0000\"",
                                        "\"\\ud800\\udc00\"",
                                        "[]",
                                        "{}",
                                        "[0]",
                                        "{\"as_int\": 3}",
                                        "{\"as_name\": \"x\"}",
                                        "{\"as_none\": true}",
                                        "{\"as_tensor\": {\"name\": \"x\"}}",
                                        "{\"as_ints\": [-1, 2]}",
                                        "[[[[[[[[[["};
    size_t at = draw((uint32_t)t->len);

    while (at + 2 < t->len && !strchr(":,[", t->at[at]))
        at++;
    while (++at + 1 < t->len && t->at[at] == ' ')
        ;
    if (at >= t->len)
        return;
    size_t end = value_end(t, at);
    if (draw(4)) {
        const char *edge = edges[draw(CR_LEN(edges))];
        replace(t, at, end - at, edge, strlen(edge));
        return;
    }
    char *copy = malloc(end - at + 1);
    if (!copy)
        exit(1);
    memcpy(copy, t->at + at, end - at);
    size_t to = draw((uint32_t)t->len);
    while (to + 2 < t->len && !strchr(":,[", t->at[to]))
        to++;
    to++;
    replace(t, to, draw(2) ? value_end(t, to) - to : 0, copy, end - at);
    free(copy);
}

static void change_record(cr_text *t, const char *name)
{
    bool json = strstr(name, ".json") != NULL;

    for (uint32_t m = 1 + draw(3); m && t->len; m--)
        json &&draw(12) ? change_value(t) : change_byte(t);
}

static cr_status append(void *to, const void *bytes, size_t len)
{
    cr_text_put_n(to, bytes, len);
    return cr_text_status(to);
}

/* An archive with one record changed, most often the graph's, and right checksums. */
static void make_archive(cr_text *bytes, const archive *a)
{
    size_t chosen = draw((uint32_t)a->records.len);
    cr_zip_writer w;

    if (draw(4))
        for (size_t i = 0; i < a->records.len; i++)
            if (!strcmp(a->records.at[i].name, "models/model.json"))
                chosen = i;
    cr_zip_begin(&w, "a", append, bytes);
    for (size_t i = 0; i < a->records.len; i++) {
        const record *r = &a->records.at[i];
        cr_text made = {0};
        if (!strcmp(r->name, "version") || r->name[0] == '.')
            continue;
        cr_text_put_n(&made, r->bytes, r->len);
        if (i == chosen)
            change_record(&made, r->name);
        need(cr_zip_add(&w, r->name, made.at ? made.at : "", made.len), r->name);
        cr_text_drop(&made);
    }
    need(cr_zip_end(&w), "end");
    cr_zip_writer_drop(&w);
    if (!draw(8))
        for (uint32_t m = 1 + draw(3); m; m--)
            change_byte(bytes);
}

/* --- use of accepted programs --- */

/* A tensor of the dtype and sizes in "input NAME DTYPE SIZE,SIZE"; a size that is an expression
 * is 2.  None where it is too large. */
static cr_ivalue argument_of(const char *line, size_t len)
{
    char name[64], dtype[32], sizes[128] = "-", *at = sizes;
    int64_t size[CR_MAX_DIMS], count = 1;
    cr_tensor *x = NULL;
    char copy[256], *bytes;
    int ndim = 0;

    snprintf(copy, sizeof copy, "%.*s", (int)(len < 255 ? len : 255), line);
    if (sscanf(copy, "input %63s %31s %127[^\n]", name, dtype, sizes) < 2)
        return cr_iv_none();
    while (*at && *at != '-' && ndim < CR_MAX_DIMS) {
        size[ndim] = *at >= '0' && *at <= '9' ? (int64_t)strtol(at, NULL, 10) : 2;
        count = size[ndim] > MOST_ELEMENTS ? size[ndim] : count * size[ndim];
        if (count > MOST_ELEMENTS)
            return cr_iv_none();
        ndim++;
        at += strcspn(at, ",");
        at += *at == ',';
    }
    if (cr_dtype_find(dtype) == CR_DTYPE_NONE ||
        cr_tensor_new(&x, cr_dtype_find(dtype), CR_HOST, ndim, size))
        return cr_iv_none();
    need(cr_reach_storage(&bytes, x->storage), "bytes");
    if (count)
        memset(bytes, 0, (size_t)count * cr_dtype_size(x->dtype));
    return cr_iv_tensor(x);
}

static bool call(const cr_ivalue *self)
{
    const cr_sclass *cls = self->object->type->cls;
    int slot = cr_sclass_attribute(cls, "signature"), n = 1;
    cr_ivalue args[MOST_ARGS] = {cr_ivalue_keep(*self)}, result = cr_iv_none();
    cr_srun how = {.most_steps = 300};
    bool done = false;

    for (const char *at = self->object->slot[slot].string->at; *at && n < MOST_ARGS;) {
        size_t len = strcspn(at, "\n");
        if (!strncmp(at, "input ", 6))
            args[n++] = argument_of(at, len);
        at += len + (at[len] == '\n');
    }
    for (size_t i = 0; i < cls->method_count; i++)
        if (cls->method[i]->graph && cls->method[i]->schema.param_count == n)
            done |= !cr_sfunction_run(&result, cls->method[i], args, n, &how);
    cr_ivalue_drop(result);
    cr_ivalues_drop(args, (size_t)n);
    return done;
}

int main(int argc, char **argv)
{
    long count = argc > 3 ? atol(argv[1]) : 0, accepted = 0, ran = 0;
    int n = argc - 3 < MOST_FILES ? argc - 3 : MOST_FILES;

    if (count <= 0)
        return 2;
    state = strtoull(argv[2], NULL, 10);
    need(cr_tensor_start(), "start");
    need(cr_autograd_start(), "start");
    for (int k = 0; k < n; k++)
        read_archive(&files[k], argv[3 + k]);
    for (long i = 0; i < count; i++) {
        cr_text bytes = {0};
        cr_source *s = NULL;
        cr_ivalue v = cr_iv_none();
        make_archive(&bytes, &files[draw((uint32_t)n)]);
        need(cr_source_memory(&s, bytes.at, bytes.len, NULL, NULL), "source");
        if (cr_sexported_read(&v, s)) {
            if (!*cr_error_message()) {
                printf("file %ld of this seed: refused without a message\n", i);
                abort();
            }
        } else if (v.kind == CR_IV_OBJECT) {
            accepted++;
            ran += call(&v);
            cr_iobject_clear(v.object);
        }
        cr_ivalue_drop(v);
        cr_source_drop(s);
        cr_text_drop(&bytes);
    }
    printf("%ld files, %ld accepted, %ld run\n", count, accepted, ran);
    return accepted == 0;
}
