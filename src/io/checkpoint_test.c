#include "base/test.h"
#include "io/checkpoint.h"
#include "io/output.h"
#include "io/zip.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TEXT(n, s) "X" n "\0\0\0" s
#define TENSOR(key, offset, rows, columns)                                                     \
    "ctorch._utils\n_rebuild_tensor_v2\n((" TEXT(                                              \
        "\7", "storage") "ctorch\nFloatStorage\n" TEXT("\1", key)                              \
        TEXT("\3", "cpu") "K\4tQK" offset "K" rows "K" columns "\x86K" columns                 \
                          "K\1\x86\x89)tR"
/* {"m": OrderedDict(w=a 2x2 tensor, b=its second row), "epoch": 3} */
static const char body[] =
    "\x80\x02}(" TEXT("\1", "m") "ccollections\nOrderedDict\n)R(" TEXT("\1", "w")
        TENSOR("0", "\0", "\2", "\2") TEXT("\1", "b")
            TENSOR("0", "\2", "\1", "\2") "u" TEXT("\5", "epoch") "K\3u.";
static const float values[] = {0, 1, 2, 3};

static cr_status append(void *to, const void *bytes, size_t len)
{
    cr_text_put_n(to, bytes, len);
    return cr_text_status(to);
}

static void archive(cr_text *out, const char *pickle, size_t len)
{
    cr_zip_writer w;

    cr_zip_begin(&w, "archive", append, out);
    OK(cr_zip_add(&w, "data.pkl", pickle, len));
    OK(cr_zip_add(&w, "byteorder", "little", 6));
    OK(cr_zip_add(&w, "data/0", values, sizeof values));
    OK(cr_zip_end(&w));
    cr_zip_writer_drop(&w);
}

static void old_file(cr_text *out, const char *pickle, size_t len)
{
    static const char head[] = "\x80\x02\x8a\nl\xfc\x9c"
                               "F\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.}.";
    static const char keys[] = "](" TEXT("\1", "0") "e.\4\0\0\0\0\0\0";

    cr_text_put_n(out, head, sizeof head - 1);
    cr_text_put_n(out, pickle, len);
    cr_text_put_n(out, keys, sizeof keys);
    cr_text_put_n(out, (const char *)values, sizeof values);
}

static cr_status open_bytes(cr_checkpoint **out, char *bytes, size_t len)
{
    cr_checkpoint_options o = {.rules.weights_only = true};
    cr_source *s;
    cr_status st = cr_source_memory(&s, bytes, len, NULL, NULL);

    if (st)
        return st;
    st = cr_checkpoint_open(out, s, &o);
    cr_source_drop(s);
    return st;
}

static void check_tensors(const cr_named_tensors *n)
{
    EQ(cr_named_tensors_count(n), 2);
    EQ_STR(cr_named_tensors_name(n, 0), "m.w");
    EQ_STR(cr_named_tensors_name(n, 1), "m.b");
    cr_tensor *w = cr_named_tensors_at(n, 0), *b = cr_named_tensors_at(n, 1);
    EQ(w->ndim, 2);
    EQ(w->size[1], 2);
    EQ(w->storage, b->storage);
    EQ(b->offset, 2);
    NEAR(((float *)b->address)[1], 3, 0);
}

static void reads(void (*make)(cr_text *, const char *, size_t))
{
    cr_text t = {0};
    cr_checkpoint *c = NULL;
    cr_named_tensors *n = NULL;

    make(&t, body, sizeof body - 1);
    OK(open_bytes(&c, t.at, t.len));
    EQ(cr_checkpoint_end(c), t.len);
    OK(cr_checkpoint_named(&n, c));
    check_tensors(n);
    cr_named_tensors_drop(n);
    cr_checkpoint_drop(c);
    cr_text_drop(&t);
}

TEST(both_layouts_give_tensors_by_name) { reads(archive), reads(old_file); }

static void every_cut_fails(void (*make)(cr_text *, const char *, size_t))
{
    cr_text t = {0};

    make(&t, body, sizeof body - 1);
    for (size_t n = 0; n < t.len; n++) {
        char *cut = malloc(n + !n);
        cr_checkpoint *c = NULL;
        memcpy(cut, t.at, n);
        CHECK(open_bytes(&c, cut, n) != CR_OK);
        EQ(c, NULL);
        free(cut);
    }
    cr_text_drop(&t);
}

TEST(a_file_cut_anywhere_is_refused) { every_cut_fails(archive), every_cut_fails(old_file); }

TEST(checkpoint_files_are_read)
{
    char path[] = "/tmp/cresset_checkpoint_XXXXXX";
    cr_text t = {0};
    cr_output o;
    cr_named_tensors *n = NULL;

    close(mkstemp(path));
    for (int old = 0; old < 2; old++) {
        (old ? old_file : archive)(&t, body, sizeof body - 1);
        OK(cr_output_open(&o, path));
        OK(cr_output_close(&o, cr_output_put(&o, t.at, t.len)));
        OK(cr_checkpoint_load(&n, path));
        check_tensors(n);
        cr_named_tensors_drop(n);
        n = NULL;
        cr_text_drop(&t);
    }
    unlink(path);
    FAILS(CR_IO, cr_checkpoint_load(&n, path));
    EQ(n, NULL);
}

static int names_found; /* by named(), when it succeeds */

static cr_status named(const char *pickle, size_t len)
{
    cr_text t = {0};
    cr_checkpoint *c = NULL;
    cr_named_tensors *n = NULL;

    archive(&t, pickle, len);
    cr_status st = open_bytes(&c, t.at, t.len);
    if (!st)
        st = cr_checkpoint_named(&n, c);
    names_found = st ? -1 : cr_named_tensors_count(n);
    cr_named_tensors_drop(n);
    cr_checkpoint_drop(c);
    cr_text_drop(&t);
    return st;
}
#define NAMED(text) named(text, sizeof text - 1)

TEST(tensors_outside_their_storage_are_refused)
{
    OK(NAMED("}" TEXT("\1", "a") TENSOR("0", "\0", "\2", "\2") "s."));
    FAILS(CR_RUNTIME, NAMED("}" TEXT("\1", "a") TENSOR("0", "\1", "\2", "\2") "s."));
    FAILS(CR_RUNTIME, NAMED("}" TEXT("\1", "a") TENSOR("0", "\0", "\3", "\2") "s."));
    FAILS(CR_RUNTIME, NAMED("}" TEXT("\1", "a") TENSOR("1", "\0", "\1", "\1") "s."));
}

TEST(a_dict_that_contains_itself_is_walked_once)
{
    OK(NAMED("}q\0" TEXT("\1", "a") "h\0s."));
    EQ(names_found, 0);
    OK(NAMED("}q\0" TEXT("\1", "a") "}q\1" TEXT("\1", "b") "h\0s" TEXT("\1", "t")
                 TENSOR("0", "\0", "\2", "\2") "ss."));
    EQ(names_found, 1);
}

TEST(extents_do_not_overflow)
{
    int64_t size[] = {2, 3}, stride[] = {3, 1}, huge[] = {INT64_MAX, 1};
    cr_storage *s;
    cr_tensor *t = NULL;

    OK(cr_storage_new(&s, CR_HOST, 24));
    OK(cr_checkpoint_tensor(&t, s, CR_F32, 0, 2, size, stride));
    cr_drop(t);
    t = NULL;
    FAILS(CR_RUNTIME, cr_checkpoint_tensor(&t, s, CR_F32, 1, 2, size, stride));
    FAILS(CR_RUNTIME, cr_checkpoint_tensor(&t, s, CR_F32, -1, 2, size, stride));
    FAILS(CR_RUNTIME, cr_checkpoint_tensor(&t, s, CR_F32, INT64_MAX, 2, size, stride));
    FAILS(CR_RUNTIME, cr_checkpoint_tensor(&t, s, CR_F32, 0, 2, huge, stride));
    FAILS(CR_RUNTIME, cr_checkpoint_tensor(&t, s, CR_F32, 0, 2, size, huge));
    EQ(t, NULL);
    cr_storage_drop(s);
}
