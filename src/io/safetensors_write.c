/* Writing safetensors: the header as text, then each tensor's bytes in row-major order. */
#include "io/output.h"
#include "io/safetensors.h"
#include "io/safetensors_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    cr_tensor *tensor;
} item;

/* The reference implementation's order of dtypes, which keeps large elements aligned. */
static int rank(cr_dtype t)
{
    static const cr_dtype order[] = {CR_BOOL,    CR_U8,       CR_I8,       CR_E5M2, CR_E4M3FN,
                                     CR_E8M0FNU, CR_E4M3FNUZ, CR_E5M2FNUZ, CR_I16,  CR_U16,
                                     CR_F16,     CR_BF16,     CR_I32,      CR_U32,  CR_F32,
                                     CR_C64,     CR_F64,      CR_I64,      CR_U64};

    for (int i = 0; i < (int)CR_LEN(order); i++)
        if (order[i] == t)
            return i;
    return -1;
}

static int in_order(const void *a, const void *b)
{
    const item *x = a, *y = b;
    int by_dtype = rank((cr_dtype)y->tensor->dtype) - rank((cr_dtype)x->tensor->dtype);

    return by_dtype ? by_dtype : strcmp(x->name, y->name);
}

static void put_string(cr_text *t, const char *s)
{
    cr_text_char(t, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        const char *names = "\bb\ff\nn\rr\tt\"\"\\\\", *i;
        for (i = names; *i && (unsigned char)*i != c; i += 2)
            ;
        if (*i)
            cr_text_printf(t, "\\%c", i[1]);
        else if (c < 0x20)
            cr_text_printf(t, "\\u%04x", c);
        else
            cr_text_char(t, (char)c);
    }
    cr_text_char(t, '"');
}

static void put_metadata(cr_text *t, const char *const *metadata)
{
    put_string(t, "__metadata__");
    cr_text_put(t, ":{");
    for (int i = 0; metadata[i]; i += 2) {
        if (i)
            cr_text_char(t, ',');
        put_string(t, metadata[i]);
        cr_text_char(t, ':');
        put_string(t, metadata[i + 1]);
    }
    cr_text_char(t, '}');
}

static uint64_t safetensors_bytes_of(const cr_tensor *t)
{
    return (uint64_t)t->numel * cr_dtype_size((cr_dtype)t->dtype);
}

static void safetensors_put_entry(cr_text *t, const item *it, uint64_t at)
{
    put_string(t, it->name);
    cr_text_printf(t, ":{\"dtype\":\"%s\",\"shape\":[",
                   cr_safetensors_dtype((cr_dtype)it->tensor->dtype));
    for (int i = 0; i < it->tensor->ndim; i++)
        cr_text_printf(t, "%s%lld", i ? "," : "", (long long)it->tensor->size[i]);
    cr_text_printf(t, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                   (unsigned long long)(at + safetensors_bytes_of(it->tensor)));
}

static cr_status make_header(cr_text *t, const item *items, int n, const char *const *metadata)
{
    uint64_t at = 0;

    cr_text_char(t, '{');
    if (metadata)
        put_metadata(t, metadata);
    for (int i = 0; i < n; i++) {
        if (i || metadata)
            cr_text_char(t, ',');
        safetensors_put_entry(t, &items[i], at);
        at += safetensors_bytes_of(items[i].tensor);
    }
    cr_text_char(t, '}');
    cr_text_pad(t, (8 - t->len % 8) % 8, ' ');
    return cr_text_status(t);
}

static cr_status safetensors_check_items(const item *items, int n)
{
    for (int i = 0; i < n; i++) {
        const cr_tensor *t = items[i].tensor;
        if (!cr_safetensors_dtype((cr_dtype)t->dtype))
            return cr_fail(CR_VALUE, "the safetensors format has no dtype %s (tensor %.200s)",
                           cr_dtype_name((cr_dtype)t->dtype), items[i].name);
        if (!cr_is_host(t->device))
            return cr_fail(CR_VALUE, "tensor %.200s is not in host memory", items[i].name);
        if (!strcmp(items[i].name, "__metadata__"))
            return cr_fail(CR_VALUE, "a tensor cannot be called __metadata__");
    }
    return CR_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const item *)a)->name, ((const item *)b)->name);
}

static cr_status safetensors_check_names(item *items, int n)
{
    qsort(items, (size_t)n, sizeof *items, by_name);
    for (int i = 1; i < n; i++)
        if (!strcmp(items[i - 1].name, items[i].name))
            return cr_fail(CR_VALUE, "two tensors are called %.200s", items[i].name);
    return CR_OK;
}

static cr_status safetensors_put_tensor(cr_output *o, cr_tensor *t)
{
    cr_tensor *flat;
    char *bytes;

    CR_TRY(cr_reach(&bytes, t));
    if ((t->contiguous && !cr_is_lazy(t)) || !t->numel)
        return cr_output_put(o, bytes, (size_t)safetensors_bytes_of(t));
    CR_TRY(cr_tensor_new(&flat, (cr_dtype)t->dtype, CR_HOST, t->ndim, t->size));
    cr_status st = cr_copy_tensor(flat, t);
    if (!st)
        st = cr_reach(&bytes, flat);
    if (!st)
        st = cr_output_put(o, bytes, (size_t)safetensors_bytes_of(t));
    cr_drop(flat);
    return st;
}

static cr_status safetensors_put_all(cr_output *o, const cr_text *header, const item *items,
                                     int n)
{
    unsigned char len[8];

    for (int i = 0; i < 8; i++)
        len[i] = (unsigned char)((uint64_t)header->len >> (8 * i));
    CR_TRY(cr_output_put(o, len, sizeof len));
    CR_TRY(cr_output_put(o, header->at, header->len));
    for (int i = 0; i < n; i++)
        CR_TRY(safetensors_put_tensor(o, items[i].tensor));
    return CR_OK;
}

static cr_status write_items(const char *path, item *items, int n, const char *const *metadata)
{
    cr_text header = {0};
    cr_output o;
    cr_status st;

    CR_TRY(safetensors_check_items(items, n));
    CR_TRY(safetensors_check_names(items, n));
    qsort(items, (size_t)n, sizeof *items, in_order);
    CR_GO(make_header(&header, items, n, metadata));
    CR_GO(cr_output_open(&o, path));
    st = cr_output_close(&o, safetensors_put_all(&o, &header, items, n));
done:
    cr_text_drop(&header);
    return st;
}

cr_status cr_safetensors_write(const char *path, const char *const *names,
                               cr_tensor *const *tensors, int count,
                               const char *const *metadata)
{
    for (int i = 0; i < count; i++)
        if (!names || !names[i] || !tensors || !tensors[i])
            return cr_fail(CR_TYPE, "save_file(): entry %d has no name or no tensor", i);
    if (!path)
        return cr_fail(CR_TYPE, "save_file(): argument 'filename' must be str, not NoneType");
    item *items = cr_alloc((size_t)count * sizeof *items + 1);

    CR_NEED(items);
    for (int i = 0; i < count; i++)
        items[i] = (item){names[i], tensors[i]};
    cr_status st = write_items(path, items, count, metadata);
    cr_free(items);
    return st;
}
