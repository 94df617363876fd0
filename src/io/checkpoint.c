/* Opening checkpoints: finds the layout, reads the pickle and locates each storage. */
#include "io/checkpoint.h"
#include "base/map.h"
#include "io/zip.h"
#include "tensor/geometry.h"
#include <string.h>

#define UNSAFE                                                                                 \
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in "          \
    "`torch.load` from `False` to `True`. Re-running `torch.load` with `weights_only` set to " \
    "`False` will likely succeed, but it can result in arbitrary code execution. Do it only "  \
    "if "                                                                                      \
    "you got the file from a trusted source."

struct cr_checkpoint {
    cr_source *source;
    cr_zip *zip; /* NULL for the old layout */
    bool owns_zip;
    const char *folder; /* of the archive's storages */
    char *bytes;        /* the pickle of an archive, owned */
    cr_pickle *pickle;
    uint64_t *at; /* position of each storage in the source */
    uint64_t end;
    bool share, swapped;
};

/* --- archives --- */
static cr_status check_version_text(const char *text, int *version)
{
    int64_t v = 0;
    const char *p = text;

    while (*p >= '0' && *p <= '9' && v < 1000000)
        v = v * 10 + (*p++ - '0');
    if (p == text)
        return cr_fail(CR_RUNTIME, "Couldn't parse the version %.40s as Long Long.", text);
    if (v < 1)
        return cr_fail(
            CR_RUNTIME,
            "Attempted to read a PyTorch file with version %lld, but the minimum "
            "supported version for reading is 1. Your PyTorch script module file is too "
            "old. Please regenerate it with latest version of PyTorch to mitigate this "
            "issue.",
            (long long)v);
    if (v > 10)
        return cr_fail(
            CR_RUNTIME,
            "Attempted to read a PyTorch file with version %lld, but the maximum "
            "supported version for reading is 10. The version of your PyTorch "
            "installation may be too old, please upgrade PyTorch to latest version to "
            "mitigate this issue.",
            (long long)v);
    *version = (int)v;
    return CR_OK;
}

cr_status cr_archive_version(int *out, const cr_zip *zip)
{
    const char *name = cr_zip_find(zip, ".data/version") ? ".data/version" : "version";
    char *text;
    size_t len;

    if (!cr_zip_find(zip, name))
        return cr_fail(CR_RUNTIME,
                       "Expected hasRecord(\"version\") to be true, but got false.  "
                       "(Could this error message be improved?  If so, please report an "
                       "enhancement request to PyTorch.)");
    CR_TRY(cr_zip_text(&text, &len, zip, name));
    cr_status st = check_version_text(text, out);
    cr_free(text);
    return st;
}

static cr_status refuse_script(const cr_checkpoint_options *o)
{
    if (o->rules.weights_only)
        return cr_fail(CR_RUNTIME,
                       "Cannot use ``weights_only=True`` with TorchScript archives passed "
                       "to ``torch.load``. " UNSAFE);
    return cr_fail(CR_RUNTIME,
                   "a TorchScript archive is not a checkpoint: load() does not read it");
}

static cr_status byte_order(cr_checkpoint *c)
{
    char *text;
    size_t len;
    cr_status st = CR_OK;

    if (!cr_zip_find(c->zip, "byteorder"))
        return CR_OK;
    CR_TRY(cr_zip_text(&text, &len, c->zip, "byteorder"));
    c->swapped = len == 3 && !memcmp(text, "big", 3);
    if (!c->swapped && (len != 6 || memcmp(text, "little", 6)))
        st = cr_fail(CR_VALUE, "Unknown endianness type: %.40s", text);
    cr_free(text);
    return st;
}

static cr_status storage_entry(const cr_zip_entry **out, const cr_checkpoint *c,
                               const char *key)
{
    cr_text name = {0};

    cr_text_printf(&name, "%s/%s", c->folder, key);
    cr_status st = cr_text_status(&name);
    if (!st)
        st = cr_zip_need(out, c->zip, name.at);
    cr_text_drop(&name);
    return st;
}

/* TorchScript archives have storages without bytes. */
static bool storage_is_meta(const cr_pickle_storage *s)
{
    return s->location && !strcmp(s->location, "meta");
}

static cr_status find_records(cr_checkpoint *c)
{
    const cr_zip_entry *e;

    for (size_t i = 0; i < c->pickle->storages.len; i++) {
        const cr_pickle_storage *s = &c->pickle->storages.at[i];
        if (s->root >= 0)
            continue;
        CR_TRY(storage_entry(&e, c, s->key));
        if (storage_is_meta(s) && !e->size)
            continue;
        if (e->size != s->bytes)
            return cr_fail(
                CR_RUNTIME,
                "record size (%llu bytes) does not match expected size (%llu bytes = %llu "
                "elements * 1 bytes/element) for dtype Byte",
                (unsigned long long)e->size, (unsigned long long)s->bytes,
                (unsigned long long)s->bytes);
        CR_TRY(cr_zip_unpack(c->zip, e));
        c->at[i] = e->at;
    }
    return CR_OK;
}

static cr_status room_for_storages(cr_checkpoint *c)
{
    c->at = cr_alloc_zero(c->pickle->storages.len * sizeof *c->at + 1);
    return c->at ? CR_OK : CR_MEMORY;
}

/* The pickle NAME.pkl of the archive, and its storages in folder NAME. */
static cr_status open_record(cr_checkpoint *c, const char *name, const cr_pickle_rules *rules)
{
    cr_text file = {0};
    size_t len;
    cr_status st;

    c->end = cr_source_size(c->source);
    c->folder = name;
    cr_text_printf(&file, "%s.pkl", name);
    CR_GO(cr_text_status(&file));
    CR_GO(byte_order(c));
    CR_GO(cr_zip_text(&c->bytes, &len, c->zip, file.at));
    CR_GO(cr_pickle_read(&c->pickle, c->bytes, len, rules));
    CR_GO(room_for_storages(c));
    CR_GO(find_records(c));
done:
    cr_text_drop(&file);
    return st;
}

static cr_status open_archive(cr_checkpoint *c, const cr_checkpoint_options *o)
{
    uint64_t end = cr_source_size(c->source);
    int version;

    CR_TRY(cr_zip_open(&c->zip, c->source));
    c->owns_zip = true;
    cr_source_keep(cr_zip_source(c->zip));
    cr_source_drop(c->source);
    c->source = cr_zip_source(c->zip);
    CR_TRY(cr_archive_version(&version, c->zip));
    if (cr_zip_find(c->zip, "constants.pkl"))
        return refuse_script(o);
    CR_TRY(open_record(c, "data", &o->rules));
    c->end = end;
    return CR_OK;
}

cr_status cr_checkpoint_open_record(cr_checkpoint **out, cr_zip *zip, const char *name,
                                    const cr_checkpoint_options *options)
{
    cr_checkpoint *c = cr_alloc_zero(sizeof *c);

    CR_NEED(c);
    c->source = cr_source_keep(cr_zip_source(zip));
    c->zip = zip;
    c->share = options->share;
    c->swapped = options->swapped;
    cr_status st = open_record(c, name, &options->rules);
    CR_GIVE(st, out, c, cr_checkpoint_drop);
}

cr_status cr_checkpoint_list(cr_source *source,
                             cr_status (*ask)(void *who, const char *module, const char *name,
                                              bool *allowed),
                             void *who)
{
    cr_pickle_rules rules = {.weights_only = true, .ask = ask, .who = who, .listing = true};
    cr_zip *zip = NULL;
    cr_pickle *p = NULL;
    char *bytes = NULL;
    size_t len;
    cr_status st;

    if (!cr_zip_begins(source))
        return cr_fail(CR_VALUE, "Expected input to be a checkpoint returned by torch.save");
    CR_GO(cr_zip_open(&zip, source));
    if (cr_zip_find(zip, "constants.pkl"))
        CR_GO(cr_fail(CR_VALUE,
                      "Expected input to be a checkpoint returned by torch.save but got a "
                      "torchscript checkpoint"));
    CR_GO(cr_zip_text(&bytes, &len, zip, "data.pkl"));
    CR_GO(cr_pickle_read(&p, bytes, len, &rules));
done:
    cr_pickle_drop(p);
    cr_free(bytes);
    cr_zip_drop(zip);
    return st;
}

/* --- the old layout --- */
typedef struct {
    const char *at;
    uint64_t pos, end; /* positions in the source */
} cursor;

static cr_status next_pickle(cr_pickle **out, cursor *c, const cr_pickle_rules *rules)
{
    CR_TRY(cr_pickle_read(out, c->at + c->pos, (size_t)(c->end - c->pos), rules));
    c->pos += (*out)->used;
    return CR_OK;
}

static bool is_magic(const cr_step *s)
{
    static const unsigned char magic[] = {0x6C, 0xFC, 0x9C, 0x46, 0xF9,
                                          0x20, 0x6A, 0xA8, 0x50, 0x19};

    return s->kind == CR_STEP_LONG && s->text.len == sizeof magic &&
           !memcmp(s->text.at, magic, sizeof magic);
}

/* Checks the layout's version.  The facts about the writing machine are read and ignored. */
static cr_status read_preface(cursor *at, const cr_pickle_rules *rules)
{
    cr_pickle *p = NULL;
    cr_status st;

    CR_GO(next_pickle(&p, at, rules));
    if (!is_magic(&p->steps.at[p->result]))
        CR_GO(cr_fail(CR_RUNTIME, "Invalid magic number; corrupt file?"));
    cr_pickle_drop(p);
    p = NULL;
    CR_GO(next_pickle(&p, at, rules));
    const cr_step *v = &p->steps.at[p->result];
    if (v->kind != CR_STEP_INT || v->i != 1001)
        CR_GO(cr_fail(CR_RUNTIME, "Invalid protocol version: %lld",
                      v->kind == CR_STEP_INT ? (long long)v->i : -1));
    cr_pickle_drop(p);
    p = NULL;
    CR_GO(next_pickle(&p, at, rules));
done:
    cr_pickle_drop(p);
    return st;
}

/* Locates storage i: a count of elements, then the storage's bytes. */
static cr_status place_storage(cr_checkpoint *c, cursor *at, size_t i)
{
    const cr_pickle_storage *s = &c->pickle->storages.at[i];
    uint64_t left = at->end - at->pos, n = 0, bytes;

    if (left < 8)
        return cr_fail(CR_RUNTIME,
                       "unexpected EOF, expected %llu more bytes. The file might be "
                       "corrupted.",
                       (unsigned long long)(8 - left));
    for (int k = 7; k >= 0; k--)
        n = n << 8 | (unsigned char)at->at[at->pos + (uint64_t)k];
    if (CR_MUL_OVERFLOW(n, (uint64_t)cr_dtype_size(s->dtype), &bytes) || bytes != s->bytes)
        return cr_fail(CR_RUNTIME,
                       "storage has wrong byte size: expected %llu elements, got %llu bytes",
                       (unsigned long long)n, (unsigned long long)s->bytes);
    at->pos += 8;
    left -= 8;
    if (left < bytes)
        return cr_fail(CR_RUNTIME,
                       "unexpected EOF, expected %llu more bytes. The file might be "
                       "corrupted.",
                       (unsigned long long)(bytes - left));
    c->at[i] = at->pos;
    at->pos += bytes;
    return CR_OK;
}

static cr_status place_key(cr_checkpoint *c, cursor *at, const cr_map *number,
                           const cr_step *key)
{
    size_t i = key->kind == CR_STEP_TEXT || key->kind == CR_STEP_STRING
                   ? (size_t)(uintptr_t)cr_map_get(number, key->text.at, key->text.len)
                   : 0;

    if (!i)
        return cr_fail(CR_ASSERTION, "storage key '%.*s' not found in deserialized_objects",
                       key->kind == CR_STEP_TEXT ? (int)(key->text.len & 0xFF) : 0,
                       key->kind == CR_STEP_TEXT ? key->text.at : "");
    return place_storage(c, at, i - 1);
}

/* Locates all storages.  `list` is a pickled list of storage keys, in the order of the
 * bytes. */
static cr_status place_keys(cr_checkpoint *c, cursor *at, const cr_map *number,
                            const cr_pickle *list)
{
    if (list->steps.at[list->result].kind != CR_STEP_LIST)
        return cr_fail(CR_RUNTIME,
                       "a list of storage keys was expected; the file might be corrupted");
    for (size_t i = 0; i < list->steps.len; i++) {
        const cr_step *s = &list->steps.at[i];
        if (s->kind != CR_STEP_APPEND)
            continue;
        const uint32_t *operand = cr_step_operands(list, s);
        for (uint32_t k = 1; operand[0] == list->result && k < s->count; k++)
            CR_TRY(place_key(c, at, number, &list->steps.at[operand[k]]));
    }
    return CR_OK;
}

static cr_status number_keys(const cr_checkpoint *c, cr_map *number)
{
    for (size_t i = c->pickle->storages.len; i-- > 0;) {
        const cr_pickle_storage *s = &c->pickle->storages.at[i];
        if (s->root < 0)
            CR_TRY(cr_map_set(number, s->key, strlen(s->key), (void *)(uintptr_t)(i + 1)));
    }
    return CR_OK;
}

static cr_status check_placed(const cr_checkpoint *c)
{
    for (size_t i = 0; i < c->pickle->storages.len; i++) {
        const cr_pickle_storage *s = &c->pickle->storages.at[i];
        if (s->root < 0 && s->bytes && !c->at[i])
            return cr_fail(CR_RUNTIME,
                           "storage %.80s is not in the file. The file might be corrupted.",
                           s->key);
    }
    return CR_OK;
}

static cr_status open_old(cr_checkpoint *c, const cr_checkpoint_options *o)
{
    cursor at = {.at = cr_source_bytes(c->source, 0), .end = cr_source_size(c->source)};
    cr_pickle *keys = NULL;
    cr_map number = {0};
    cr_status st;

    CR_GO(read_preface(&at, &o->rules));
    CR_GO(next_pickle(&c->pickle, &at, &o->rules));
    CR_GO(next_pickle(&keys, &at, &o->rules));
    CR_GO(room_for_storages(c));
    CR_GO(number_keys(c, &number));
    CR_GO(place_keys(c, &at, &number, keys));
    CR_GO(check_placed(c));
    c->end = at.pos;
done:
    cr_pickle_drop(keys);
    cr_map_drop(&number);
    return st;
}

/* --- the whole --- */
static cr_status open_any(cr_checkpoint *c, const cr_checkpoint_options *o)
{
    c->share = o->share;
    c->swapped = o->swapped;
    if (cr_zip_begins(c->source))
        return open_archive(c, o);
    /* The end of the pickles is known only after they are read, so the whole source must be in
     * memory. */
    c->share = c->swapped = false;
    if (!cr_source_bytes(c->source, 0)) {
        cr_source *mapped;
        CR_TRY(cr_source_remap(&mapped, c->source));
        cr_source_drop(c->source);
        c->source = mapped;
    }
    return open_old(c, o);
}

cr_status cr_checkpoint_open(cr_checkpoint **out, cr_source *source,
                             const cr_checkpoint_options *options)
{
    cr_checkpoint *c = cr_alloc_zero(sizeof *c);

    CR_NEED(c);
    c->source = cr_source_keep(source);
    cr_status st = open_any(c, options);
    CR_GIVE(st, out, c, cr_checkpoint_drop);
}

void cr_checkpoint_drop(cr_checkpoint *c)
{
    if (!c)
        return;
    cr_pickle_drop(c->pickle);
    cr_free(c->bytes);
    cr_free(c->at);
    if (c->owns_zip)
        cr_zip_drop(c->zip);
    cr_source_drop(c->source);
    cr_free(c);
}

const cr_pickle *cr_checkpoint_pickle(const cr_checkpoint *c) { return c->pickle; }
uint64_t cr_checkpoint_end(const cr_checkpoint *c) { return c->end; }

/* --- storages --- */
static void swap_elements(char *bytes, uint64_t len, cr_dtype t)
{
    size_t width = cr_dtype_size(t) / (cr_dtype_is_complex(t) ? 2 : 1);

    for (uint64_t at = 0; width > 1 && at + width <= len; at += width)
        for (size_t i = 0; i < width / 2; i++) {
            char c = bytes[at + i];
            bytes[at + i] = bytes[at + width - 1 - i];
            bytes[at + width - 1 - i] = c;
        }
}

static cr_status checkpoint_read_bytes(const cr_checkpoint *c, size_t i, char *to)
{
    const cr_pickle_storage *s = &c->pickle->storages.at[i];
    const cr_zip_entry *e;

    if (!c->zip)
        return cr_source_read(c->source, c->at[i], (size_t)s->bytes, to);
    CR_TRY(storage_entry(&e, c, s->key));
    CR_TRY(cr_zip_read(c->zip, e, to));
    if (c->swapped)
        swap_elements(to, s->bytes, s->dtype);
    return CR_OK;
}

static cr_status copied_storage(cr_storage **out, const cr_checkpoint *c, size_t i)
{
    cr_storage *s;

    CR_TRY(cr_storage_new(&s, CR_HOST, (size_t)c->pickle->storages.at[i].bytes));
    char *to;
    cr_status st = cr_reach_storage(&to, s);
    if (!st && s->size)
        st = checkpoint_read_bytes(c, i, to);
    CR_GIVE(st, out, s, cr_storage_drop);
}

static void drop_source(void *p) { cr_source_drop(p); }
static void drop_root(void *p) { cr_storage_drop(p); }

static cr_status shared_storage(cr_storage **out, const cr_checkpoint *c, size_t i, char *bytes)
{
    cr_status st = cr_storage_foreign(out, bytes, (size_t)c->pickle->storages.at[i].bytes,
                                      drop_source, cr_source_keep(c->source));
    if (st)
        cr_source_drop(c->source);
    return st;
}

static cr_status checkpoint_part(cr_storage **out, cr_storage *root, const cr_pickle_storage *s)
{
    if (s->part_at > root->size || s->bytes > root->size - s->part_at)
        return cr_fail(CR_RUNTIME, "the view of a storage is not inside it");
    char *block;
    CR_TRY(cr_reach_storage(&block, root));
    cr_status st = cr_storage_foreign(out, block + s->part_at, (size_t)s->bytes, drop_root,
                                      cr_storage_keep(root));
    if (st)
        cr_storage_drop(root);
    return st;
}

cr_status cr_checkpoint_storage(cr_storage **out, const cr_checkpoint *c, size_t i,
                                cr_storage *root)
{
    const cr_pickle_storage *s = &c->pickle->storages.at[i];
    char *bytes = c->share && !c->swapped ? cr_source_bytes(c->source, c->at[i]) : NULL;

    if (s->root >= 0)
        return checkpoint_part(out, root, s);
    if (storage_is_meta(s))
        return cr_storage_new(out, CR_META_DEVICE, s->bytes);
    if (bytes && s->bytes && (uintptr_t)bytes % 16 == 0)
        return shared_storage(out, c, i, bytes);
    return copied_storage(out, c, i);
}

/* --- tensors --- */
cr_status cr_checkpoint_tensor(cr_tensor **out, cr_storage *storage, cr_dtype dtype,
                               int64_t offset, int ndim, const int64_t *size,
                               const int64_t *stride)
{
    uint64_t need;

    CR_TRY(cr_view_bytes(&need, dtype, offset, ndim, size, stride));
    if (need > storage->size)
        return cr_fail(CR_RUNTIME, "Trying to resize storage that is not resizable");
    CR_TRY(cr_tensor_over(out, storage, dtype, ndim, size, stride, offset));
    cr_storage_keep(storage);
    return CR_OK;
}
