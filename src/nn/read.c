/* Reading numbers from files: text with one row a line, and the IDX files of MNIST. */
#include "nn/nn_impl.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* --- bytes --- */

static cr_status read_gzip(char **out, size_t *len, gzFile file, const char *path)
{
    CR_VEC(char) bytes = {0};
    int n;

    do {
        cr_status st = cr_vec_reserve(&bytes, 1 << 16);
        if (st) {
            cr_vec_drop(&bytes);
            return st;
        }
        n = gzread(file, bytes.at + bytes.len, (1 << 16) - 1);
        bytes.len += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    if (n < 0) {
        int code;
        cr_status st = cr_fail(CR_IO, "%s: %s", path, gzerror(file, &code));
        cr_vec_drop(&bytes);
        return st;
    }
    bytes.at[bytes.len] = 0;
    *out = bytes.at;
    *len = bytes.len;
    return CR_OK;
}

/* Reads a whole file, gzip or plain; *out is owned.  CR_IO. */
static cr_status read_file_bytes(char **out, size_t *len, const char *path)
{
    errno = 0;
    gzFile file = gzopen(path, "rb");

    if (!file)
        return errno ? cr_fail(CR_IO, "[Errno %d] %s: '%s'", errno, strerror(errno), path)
                     : CR_MEMORY;
    cr_status st = read_gzip(out, len, file, path);
    gzclose_r(file);
    return st;
}

/* --- text --- */

typedef struct {
    const char *path;
    char delimiter; /* 0: white space */
    CR_VEC(double) numbers;
    int64_t rows, columns;
    int line;
} table;

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static const char *skip_blanks(const char *p)
{
    while (is_blank(*p))
        p++;
    return p;
}

static cr_status read_text_number(table *t, const char **at)
{
    const char *p = skip_blanks(*at);
    char *end;
    double d = strtod(p, &end);

    if (end == p || (*end && !is_blank(*end) && *end != t->delimiter && *end != '#'))
        return cr_fail(CR_VALUE, "%s:%d: could not convert string '%.*s' to float64", t->path,
                       t->line, (int)strcspn(p, t->delimiter == ',' ? ",#" : " \t,;#"), p);
    CR_TRY(cr_vec_reserve(&t->numbers, 1));
    cr_vec_put(&t->numbers, d);
    *at = skip_blanks(end);
    return CR_OK;
}

/* Reads a line as a row.  Empty lines and comments are skipped. */
static cr_status read_row(table *t, const char *p)
{
    int64_t columns = 0;

    p = skip_blanks(p);
    if (!*p || *p == '#')
        return CR_OK;
    for (;; p += t->delimiter != 0) {
        CR_TRY(read_text_number(t, &p));
        columns++;
        if (!*p || *p == '#')
            break;
        if (t->delimiter && *p != t->delimiter)
            return cr_fail(CR_VALUE, "%s:%d: '%c' expected, not '%c'", t->path, t->line,
                           t->delimiter, *p);
    }
    if (t->rows && columns != t->columns)
        return cr_fail(CR_VALUE, "%s:%d: the number of columns changed from %lld to %lld",
                       t->path, t->line, (long long)t->columns, (long long)columns);
    t->columns = columns;
    t->rows++;
    return CR_OK;
}

static cr_status read_rows(table *t, char *text, int64_t skip)
{
    for (char *p = text, *end; p && *p; p = end) {
        end = strchr(p, '\n');
        if (end)
            *end++ = 0;
        if (++t->line > skip)
            CR_TRY(read_row(t, p));
    }
    return CR_OK;
}

static cr_status read_table(cr_tensor **out, table *t, int64_t skip)
{
    char *text = NULL;
    size_t len;

    CR_TRY(read_file_bytes(&text, &len, t->path));
    cr_status st = read_rows(t, text, skip);
    cr_free(text);
    CR_TRY(st);
    int64_t size[] = {t->rows, t->columns};
    CR_TRY(cr_tensor_new(out, CR_F64, CR_HOST, 2, size));
    char *to;
    CR_TRY(cr_reach(&to, *out));
    if (t->numbers.len)
        memcpy(to, t->numbers.at, t->numbers.len * sizeof(double));
    return CR_OK;
}

cr_status cr_read_text(cr_tensor **out, const char *path, const cr_arg *args)
{
    table t = {.path = path};
    cr_value arg[CR_MAX_ARGS];
    cr_arena arena = {0};
    const cr_op *signature;
    cr_status st;

    CR_TRY(nn_need(path, "read_text", "path", "str"));
    CR_GO(nn_bind(&signature, arg, &arena,
                  "read_text(*, str? delimiter=None, int skiprows=0) -> Tensor", "read_text",
                  args));
    t.delimiter = arg[0].tag == CR_STRING && arg[0].len ? arg[0].s[0] : 0;
    CR_GO(read_table(out, &t, arg[1].i));
done:
    cr_vec_drop(&t.numbers);
    cr_arena_drop(&arena);
    return st;
}

/* --- IDX --- */

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Reads the header: two zeros, the type, the number of dims, the sizes. */
static cr_status read_head(const unsigned char *p, size_t len, const char *path,
                           cr_dtype *dtype, int *ndim, int64_t *size)
{
    static const cr_dtype types[16] = {
        [0] = CR_DTYPE_NONE, [1] = CR_DTYPE_NONE, [2] = CR_DTYPE_NONE,  [3] = CR_DTYPE_NONE,
        [4] = CR_DTYPE_NONE, [5] = CR_DTYPE_NONE, [6] = CR_DTYPE_NONE,  [7] = CR_DTYPE_NONE,
        [8] = CR_U8,         [9] = CR_I8,         [10] = CR_DTYPE_NONE, [11] = CR_I16,
        [12] = CR_I32,       [13] = CR_F32,       [14] = CR_F64,        [15] = CR_DTYPE_NONE};

    if (len < 4 || p[0] || p[1] || p[2] >= 16 || types[p[2]] == CR_DTYPE_NONE)
        return cr_fail(CR_VALUE, "%s is no IDX file", path);
    *dtype = types[p[2]];
    *ndim = p[3];
    if (*ndim > CR_MAX_DIMS || len < 4 + 4 * (size_t)*ndim)
        return cr_fail(CR_VALUE, "%s: the IDX file's sizes are cut off", path);
    for (int d = 0; d < *ndim; d++)
        size[d] = big_endian(p + 4 + 4 * d);
    return CR_OK;
}

static void swap_bytes(char *at, size_t item, size_t n)
{
    for (size_t i = 0; item > 1 && i < n; i++, at += item)
        for (size_t k = 0; k < item / 2; k++) {
            char c = at[k];
            at[k] = at[item - 1 - k];
            at[item - 1 - k] = c;
        }
}

static cr_status idx_tensor(cr_tensor **out, const char *bytes, size_t len, const char *path)
{
    int64_t size[CR_MAX_DIMS], n = 1;
    cr_dtype dtype = CR_U8;
    int ndim = 0;

    CR_TRY(read_head((const unsigned char *)bytes, len, path, &dtype, &ndim, size));
    size_t head = 4 + 4 * (size_t)ndim, item = cr_dtype_size(dtype);
    for (int d = 0; d < ndim; d++)
        if (CR_MUL_OVERFLOW(n, size[d], &n))
            n = INT64_MAX;
    if ((uint64_t)n > (len - head) / item || len - head != (size_t)n * item)
        return cr_fail(CR_VALUE, "%s: the IDX file has %zu bytes of elements, not %lld of %zu",
                       path, len - head, (long long)n, item);
    CR_TRY(cr_tensor_new(out, dtype, CR_HOST, ndim, size));
    char *to;
    CR_TRY(cr_reach(&to, *out));
    if (n)
        memcpy(to, bytes + head, (size_t)n * item);
    swap_bytes(to, item, (size_t)n);
    return CR_OK;
}

cr_status cr_read_idx(cr_tensor **out, const char *path)
{
    char *bytes = NULL;
    size_t len;

    CR_TRY(nn_need(path, "read_idx", "path", "str"));
    CR_TRY(read_file_bytes(&bytes, &len, path));
    cr_status st = idx_tensor(out, bytes, len, path);
    cr_free(bytes);
    return st;
}
