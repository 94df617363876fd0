#include "base/memory.h"
#include "base/test.h"
#include "io/zip.h"
#include <stdlib.h>

static cr_status append(void *to, const void *bytes, size_t len)
{
    cr_text_put_n(to, bytes, len);
    return cr_text_status(to);
}

/* An archive "a" of x (empty), y ("hello") and data/0 (100 bytes), and the writer's two
 * records. */
static void make_archive(cr_text *out)
{
    char data[100];
    cr_zip_writer w;

    memset(data, 7, sizeof data);
    cr_zip_begin(&w, "a", append, out);
    OK(cr_zip_add(&w, "x", "", 0));
    OK(cr_zip_add(&w, "y", "hello", 5));
    OK(cr_zip_add(&w, "data/0", data, sizeof data));
    OK(cr_zip_end(&w));
    cr_zip_writer_drop(&w);
}

static cr_status open_bytes(cr_zip **out, char *bytes, size_t len)
{
    cr_source *s;
    cr_status st = cr_source_memory(&s, bytes, len, NULL, NULL);

    if (st)
        return st;
    st = cr_zip_open(out, s);
    cr_source_drop(s);
    return st;
}

TEST(records_are_found_by_name_and_aligned_to_64)
{
    cr_text t = {0};
    cr_zip *z = NULL;
    char text[100];

    make_archive(&t);
    OK(open_bytes(&z, t.at, t.len));
    const cr_zip_entry *e = cr_zip_find(z, "y");
    CHECK(e && e->size == 5 && e->at % 64 == 0);
    OK(cr_zip_read(z, e, text));
    CHECK(!memcmp(text, "hello", 5));
    e = cr_zip_find(z, "data/0");
    CHECK(e && e->size == 100 && e->at % 64 == 0);
    OK(cr_zip_read(z, e, text));
    EQ(text[99], 7);
    CHECK(cr_zip_find(z, "x")->size == 0);
    CHECK(cr_zip_find(z, "version")->size == 2);
    CHECK(cr_zip_find(z, ".data/serialization_id")->size == 40);
    CHECK(!cr_zip_find(z, "a/y"));
    FAILS(CR_RUNTIME, cr_zip_need(&e, z, "z"));
    cr_zip_drop(z);
    cr_text_drop(&t);
}

TEST(an_archive_cut_anywhere_is_refused)
{
    cr_text t = {0};

    make_archive(&t);
    for (size_t n = 0; n < t.len; n++) {
        /* A block of exactly n bytes, so that reading past them is seen. */
        char *cut = malloc(n + !n);
        cr_zip *z = NULL;
        memcpy(cut, t.at, n);
        FAILS(CR_RUNTIME, open_bytes(&z, cut, n));
        EQ(z, NULL);
        free(cut);
    }
    cr_text_drop(&t);
}

/* Opens the archive with the bytes at `at` replaced by `bytes`. */
static cr_status patched(const cr_text *t, size_t at, const char *bytes, size_t n)
{
    char *copy = malloc(t->len);
    cr_zip *z = NULL;

    memcpy(copy, t->at, t->len);
    memcpy(copy + at, bytes, n);
    cr_status st = open_bytes(&z, copy, t->len);
    cr_zip_drop(z);
    free(copy);
    return st;
}

static size_t find(const cr_text *t, const char *what, size_t from)
{
    while (memcmp(t->at + from, what, 4))
        from++;
    return from;
}

TEST(false_directories_are_refused)
{
    static const char full[8] = {-1, -1, -1, -1, -1, -1, -1, 127};
    cr_text t = {0};

    make_archive(&t);
    size_t first = find(&t, "PK\1\2", 0), second = find(&t, "PK\1\2", first + 1);
    size_t wide = find(&t, "PK\6\6", 0), locator = find(&t, "PK\6\7", 0);
    FAILS(CR_RUNTIME, patched(&t, wide + 32, full, 8)); /* entries */
    FAILS(CR_RUNTIME, patched(&t, wide + 40, full, 8)); /* bytes */
    FAILS(CR_RUNTIME, patched(&t, wide + 48, full, 8)); /* place */
    FAILS(CR_RUNTIME, patched(&t, locator + 8, full, 8));
    FAILS(CR_RUNTIME, patched(&t, second + 20, full, 4));  /* packed size */
    FAILS(CR_RUNTIME, patched(&t, second + 24, full, 4));  /* size */
    FAILS(CR_RUNTIME, patched(&t, second + 28, full, 2));  /* name */
    FAILS(CR_RUNTIME, patched(&t, second + 30, full, 2));  /* extra field */
    FAILS(CR_RUNTIME, patched(&t, second + 42, full, 3));  /* local header */
    FAILS(CR_RUNTIME, patched(&t, second + 10, "\14", 1)); /* another method */
    FAILS(CR_RUNTIME, patched(&t, second + 8, "\1", 1));   /* encrypted */
    FAILS(CR_RUNTIME, patched(&t, second + 46, "\0", 1));  /* a NUL in a name */
    /* Two entries of the same bytes. */
    size_t third = find(&t, "PK\1\2", second + 1);
    FAILS(CR_RUNTIME, patched(&t, third + 42, t.at + second + 42, 4));
    OK(patched(&t, second + 16, t.at + second + 16, 4));
    cr_text_drop(&t);
}

TEST(a_checksum_is_compared_unless_it_is_zero)
{
    cr_text t = {0};
    cr_zip *z = NULL;
    char text[8];

    make_archive(&t);
    OK(open_bytes(&z, t.at, t.len));
    const cr_zip_entry *e = cr_zip_find(z, "y");
    t.at[e->at] = 'j';
    FAILS(CR_RUNTIME, cr_zip_read(z, e, text));
    CHECK(strstr(cr_error_message(), "failed reading file y: CRC-32 check failed. "));
    cr_zip_drop(z);
    z = NULL;
    memset(t.at + find(&t, "PK\1\2", find(&t, "PK\1\2", 0) + 1) + 16, 0, 4);
    OK(open_bytes(&z, t.at, t.len));
    OK(cr_zip_read(z, cr_zip_find(z, "y"), text));
    EQ(text[0], 'j');
    cr_zip_drop(z);
    cr_text_drop(&t);
}

static cr_status fail_late(void *to, const void *bytes, size_t len)
{
    size_t *left = to;

    (void)bytes;
    if (len > *left)
        return cr_fail(CR_IO, "full");
    *left -= len;
    return CR_OK;
}

TEST(a_full_disk_is_reported_at_every_write)
{
    for (size_t room = 0; room < 550; room += 7) {
        size_t left = room;
        cr_zip_writer w;
        cr_zip_begin(&w, "a", fail_late, &left);
        cr_status st = cr_zip_add(&w, "y", "hello", 5);
        if (!st)
            st = cr_zip_end(&w);
        EQ(st, CR_IO);
        cr_zip_writer_drop(&w);
    }
}
