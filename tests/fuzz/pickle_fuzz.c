/* Mutates pickles and reads them as checkpoints: pickle_fuzz [SECONDS] [SEED]
 *
 * Each pickle is read in both modes, and is put into an archive with one storage and into the
 * old layout.  Accepted checkpoints must give tensors whose bytes can all be read.  The pickle
 * is also renamed, and the renamed pickle must be read like the original.  Run it under asan
 * and ubsan.  Prints the seed. */
#include "io/checkpoint.h"
#include "io/zip.h"
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

#define TEXT(n, s) "X" n "\0\0\0" s
#define STORAGE                                                                                \
    "(" TEXT("\7", "storage") "ctorch\nFloatStorage\n" TEXT("\1", "0") TEXT("\3", "cpu") "K\4" \
                                                                                         "tQ"
#define TENSOR                                                                                 \
    "ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE "K\0K\2K\2\x86K\2K\1\x86\x89"               \
    "ccollections\nOrderedDict\n)RtR"
#define PIECE(s)                                                                               \
    {                                                                                          \
        s, sizeof(s) - 1                                                                       \
    }
typedef struct {
    const char *at;
    size_t len;
} piece;

static const piece seeds[] = {
    PIECE("\x80\x02}q\0(X\1\0\0\0aq\1" TENSOR "q\2X\1\0\0\0bq\3h\2u."),
    PIECE("\x80\x02"
          "ccollections\nOrderedDict\nq\0)Rq\1(" TEXT("\1", "m") "}" TEXT(
              "\1", "w") "ctorch._utils\n_rebuild_parameter\n(" TENSOR
                         "\x88h\0)RtRsu}" TEXT("\1", "v") "K\1sb."),
    PIECE("\x80\x02](K\1M\1\2J\xff\xff\xff\xffG?"
          "\xf8\0\0\0\0\0\0\x8a\3\1\2\3NU\1aeK\1\x85\x86\x87\x8f)."),
    PIECE("\x80\x04\x95\x40\0\0\0\0\0\0\0]\x94("
          "\x8c\7cresset\x94\x8c\4Size\x94\x93\x94K\1K\2\x86\x94\x85\x94R\x94"
          "C\2ab\x94\x8f\x94(K\1K\2\x90(K\3\x91\x94"
          "e."),
    PIECE("(dp0\nS'a'\np1\nI1\nsS'b'\n(lp2\nL5L\naF1.5\nasVc\nI01\ns."),
    PIECE("(ctorch\nSize\no(ictorch\nSize\n0"
          "12K\1q\1"
          "0h\1."),
};
static const piece pieces[] = {
    PIECE("("),
    PIECE("."),
    PIECE("t"),
    PIECE("e"),
    PIECE("u"),
    PIECE("R"),
    PIECE("b"),
    PIECE("s"),
    PIECE("a"),
    PIECE("\x85"),
    PIECE("\x86"),
    PIECE("\x87"),
    PIECE("\x81"),
    PIECE("\x92"),
    PIECE("\x93"),
    PIECE("\x94"),
    PIECE("\x90"),
    PIECE("\x91"),
    PIECE("0"),
    PIECE("1"),
    PIECE("2"),
    PIECE("N"),
    PIECE("]"),
    PIECE("}"),
    PIECE(")"),
    PIECE("Q"),
    PIECE("h\0"),
    PIECE("h\1"),
    PIECE("q\0"),
    PIECE("r\xff\xff\xff\xff"),
    PIECE("j\xff\xff\xff\xff"),
    PIECE("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"),
    PIECE("\x8a\xff"),
    PIECE("\x8b\xff\xff\xff\x7f"),
    PIECE("X\xff\xff\xff\xff"),
    PIECE("\x8e\xff\xff\xff\xff\xff\xff\xff\xff"),
    PIECE("K\xff"),
    PIECE("J\0\0\0\x80"),
    PIECE(STORAGE),
    PIECE(TENSOR),
    PIECE("cos\nsystem\n"),
    PIECE("ctorch\nSize\n"),
    PIECE("ctorch\nLongStorage\n"),
    PIECE("ctorch.storage\nUntypedStorage\n"),
    PIECE("d"),
    PIECE("l"),
    PIECE("o"),
    PIECE("q\0h\0\x86q\0h\0\x86q\0h\0\x86"),
    PIECE("K\0K\1\x87"),
    PIECE("P\n"),
};

static size_t insert(unsigned char *b, size_t len, const piece *p)
{
    size_t at = draw((uint32_t)len + 1);

    if (len + p->len > MOST)
        return len;
    memmove(b + at + p->len, b + at, len - at);
    memcpy(b + at, p->at, p->len);
    return len + p->len;
}

static size_t cut(unsigned char *b, size_t len)
{
    size_t at = draw((uint32_t)len), n = draw(8);

    if (at + n > len)
        return len;
    memmove(b + at, b + at + n, len - at - n);
    return len - n;
}

static size_t mutate(unsigned char *b, size_t len)
{
    switch (draw(6)) {
    case 0: b[draw((uint32_t)len)] ^= (unsigned char)(1u << draw(8)); return len;
    case 1: b[draw((uint32_t)len)] = (unsigned char)draw(256); return len;
    case 2:
    case 3: return insert(b, len, &pieces[draw(CR_LEN(pieces))]);
    case 4: return cut(b, len);
    default: return draw(8) ? len : draw((uint32_t)len) + 1;
    }
}

/* --- reading a mutated pickle --- */
static unsigned long sum, accepted;

static cr_status allow_some(void *who, const char *module, const char *name, bool *allowed)
{
    (void)who;
    *allowed = (unsigned char)(module[0] ^ name[0]) % 2;
    return CR_OK;
}

static cr_status append(void *to, const void *bytes, size_t len)
{
    cr_text_put_n(to, bytes, len);
    return cr_text_status(to);
}

static const float values[] = {0, 1, 2, 3};

static void archive(cr_text *out, const void *pickle, size_t len)
{
    cr_zip_writer w;

    cr_zip_begin(&w, "a", append, out);
    if (cr_zip_add(&w, "data.pkl", pickle, len) ||
        cr_zip_add(&w, "data/0", values, sizeof values) || cr_zip_end(&w))
        abort();
    cr_zip_writer_drop(&w);
}

static void old_file(cr_text *out, const void *pickle, size_t len)
{
    static const char head[] = "\x80\x02\x8a\nl\xfc\x9c"
                               "F\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.}.";
    static const char keys[] = "](" TEXT("\1", "0") "e.\4\0\0\0\0\0\0";

    cr_text_put_n(out, head, sizeof head - 1);
    cr_text_put_n(out, pickle, len);
    cr_text_put_n(out, keys, sizeof keys);
    append(out, values, sizeof values) ? abort() : (void)0;
}

static void use(const cr_checkpoint *c)
{
    cr_named_tensors *n = NULL;

    if (cr_checkpoint_named(&n, c))
        return;
    for (int i = 0; i < cr_named_tensors_count(n); i++) {
        cr_tensor *t = cr_named_tensors_at(n, i);
        sum += strlen(cr_named_tensors_name(n, i));
        for (uint64_t k = 0; t->numel && k < t->storage->size; k++)
            sum += (unsigned char)t->storage->chunk[k];
        /* The last element of each dim. */
        int64_t last = 0;
        for (int d = 0; t->numel && d < t->ndim; d++)
            last += (t->size[d] - 1) * t->stride[d];
        if (t->numel)
            sum += (unsigned char)
                       t->address[(last + 1) * (int64_t)cr_dtype_size((cr_dtype)t->dtype) - 1];
    }
    cr_named_tensors_drop(n);
}

static void open_bytes(const cr_text *t, const cr_checkpoint_options *o)
{
    char *exact = malloc(t->len);
    cr_checkpoint *c = NULL;
    cr_source *s;

    memcpy(exact, t->at, t->len);
    if (cr_source_memory(&s, exact, t->len, free, exact))
        abort();
    cr_status st = cr_checkpoint_open(&c, s, o);
    accepted += !st;
    if (!st)
        use(c);
    cr_checkpoint_drop(c);
    cr_source_drop(s);
}

static void renamed(const unsigned char *b, size_t len, const cr_pickle_rules *rules)
{
    cr_pickle *before = NULL, *after = NULL;
    cr_text out = {0};
    cr_status first = cr_pickle_read(&before, b, len, rules),
              st = cr_pickle_rename(&out, b, len);

    /* Both spellings ask the same questions; both readers reject truncated pickles. */
    if (!st && !first && cr_pickle_read(&after, out.at, out.len, rules) &&
        cr_error_kind() != CR_UNPICKLING)
        abort();
    cr_pickle_drop(before);
    cr_pickle_drop(after);
    cr_text_drop(&out);
}

static void try_one(const unsigned char *bytes, size_t len)
{
    cr_checkpoint_options o = {
        .rules = {.weights_only = draw(2), .ask = draw(2) ? allow_some : NULL},
        .share = draw(2),
        .swapped = draw(8) == 0};
    unsigned char *exact = malloc(len + !len);
    cr_text t = {0};

    memcpy(exact, bytes, len);
    archive(&t, exact, len);
    open_bytes(&t, &o);
    cr_text_drop(&t);
    old_file(&t, exact, len);
    open_bytes(&t, &o);
    cr_text_drop(&t);
    renamed(exact, len, &o.rules);
    free(exact);
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
        for (int i = 0; i < 1000; i++) {
            const piece *p = &seeds[draw(CR_LEN(seeds))];
            size_t len = p->len;
            memcpy(bytes, p->at, len);
            for (uint32_t m = draw(8); m > 0 && len > 0; m--)
                len = mutate(bytes, len);
            try_one(bytes, len);
            tried++;
        }
    } while (time(NULL) < end);
    printf("%lu pickles, %lu of %lu files accepted, byte sum %lu\n", tried, accepted, 2 * tried,
           sum);
    return 0;
}
