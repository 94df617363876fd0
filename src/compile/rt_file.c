/* Plans as files of the runtime: commands as words, and the parts around them. */
#include "compile/rt_file.h"
#include "compile/indexed.h"
#include "compile/places.h"
#include "compile/products.h"
#include "num/convert.h"
#include "rt/format.h"
#include "space/space.h"
#include <string.h>

CR_NORETURN static void file_refuse(const cr_rt_job *j, const char *what)
{
    cr_bail(j->s, CR_VALUE, "to_rt: the program has %s, which the runtime lacks", what);
}

void cr_rt_push(cr_rt_job *j, cr_rt_words *w, int64_t value) { CR_PUSH(j->s, w, value); }

static void push_all(cr_rt_job *j, cr_rt_words *w, const int64_t *at, int64_t n, int64_t factor)
{
    for (int64_t i = 0; i < n; i++)
        cr_rt_push(j, w, at ? at[i] * factor : 0);
}

void cr_rt_command(cr_rt_job *j, int kind, const cr_rt_words *w)
{
    cr_rt_push(j, &j->code, RT_COMMAND(kind, w->len + 1));
    push_all(j, &j->code, w->at, (int64_t)w->len, 1);
}

static int dtype_of(const cr_rt_job *j, int dtype)
{
    if (dtype > CR_I64 && dtype != CR_F32 && dtype != CR_F64)
        file_refuse(j, cr_dtype_name((cr_dtype)dtype));
    return dtype;
}

/* --- memory --- */

int64_t cr_rt_data(cr_rt_job *j, const void *bytes, size_t n)
{
    size_t at = j->data.len;

    cr_text_put_n(&j->data, bytes, n);
    cr_text_pad(&j->data, (16 - n % 16) % 16, 0);
    return RT_ADDRESS(RT_DATA, at);
}

int64_t cr_rt_scratch(cr_rt_job *j, int64_t bytes)
{
    j->scratch = bytes > j->scratch ? bytes : j->scratch;
    return RT_ADDRESS(RT_SCRATCH, 0);
}

static int input_number(const cr_rt_job *j, size_t buffer)
{
    int k = j->p->buffer.at[buffer].number;

    if (k >= j->inputs)
        file_refuse(j, "another number of inputs");
    return k;
}

static size_t input_bytes(const cr_rt_input *in)
{
    size_t n = cr_dtype_size((cr_dtype)in->dtype);

    for (int d = 0; d < in->ndim; d++)
        n *= (size_t)in->size[d];
    return n;
}

int64_t cr_rt_address(cr_rt_job *j, const char *address, bool written)
{
    size_t b = cr_plan_buffer_of(address);
    int64_t at = cr_plan_offset_of(address);

    if (!address) /* no elements */
        return RT_ADDRESS(RT_WORK, 0);
    if (b >= j->p->buffer.len || at < 0)
        file_refuse(j, "an address outside of its buffers");
    if (j->offset[b] >= 0)
        return RT_ADDRESS(RT_WORK, j->offset[b] + at);
    int k = input_number(j, b);
    if (written && !j->input[k].state)
        file_refuse(j, "a write to an argument or a parameter");
    return j->space[k] + at;
}

static int64_t count_of(const cr_array *a)
{
    int64_t n = 1;

    for (int d = 0; d < a->ndim; d++)
        n *= a->size[d];
    return n;
}

/* --- moves --- */

/* Steps in bytes along the dims of `to`; 0 where an array is broadcast. */
static void push_steps(cr_rt_job *j, cr_rt_words *w, const cr_array *a, const cr_array *to)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)a->dtype);

    for (int d = 0; d < to->ndim; d++) {
        int own = d - (to->ndim - a->ndim);
        bool broadcast = own < 0 || (a->size[own] == 1 && to->size[d] != 1);
        cr_rt_push(j, w, broadcast ? 0 : a->stride[own] * item);
    }
}

/* from: NULL where all elements are the one at from_at. */
static void put_move(cr_rt_job *j, const cr_array *to, int64_t to_at, const cr_array *from,
                     int64_t from_at)
{
    cr_rt_words w = {0};

    if (!count_of(to))
        return;
    if (to->ndim > RT_MOST_DIMS)
        file_refuse(j, "an array of more than 16 dims");
    cr_rt_push(j, &w, to_at);
    cr_rt_push(j, &w, dtype_of(j, to->dtype));
    cr_rt_push(j, &w, from_at);
    cr_rt_push(j, &w, dtype_of(j, from ? from->dtype : to->dtype));
    cr_rt_push(j, &w, to->ndim);
    push_all(j, &w, to->size, to->ndim, 1);
    push_steps(j, &w, to, to);
    if (from)
        push_steps(j, &w, from, to);
    else
        push_all(j, &w, NULL, to->ndim, 0);
    cr_rt_command(j, RT_MOVE, &w);
}

/* A copy in row-major order at to_at. */
static void put_dense(cr_rt_job *j, const cr_array *a, int64_t to_at)
{
    int64_t stride[RT_MOST_DIMS], next = 1;
    cr_array to = *a;

    for (int d = a->ndim - 1; d >= 0 && a->ndim <= RT_MOST_DIMS; d--) {
        stride[d] = next;
        next *= a->size[d];
    }
    to.stride = stride;
    put_move(j, &to, to_at, a, cr_rt_address(j, a->data, false));
}

/* The array's address, or that of its row-major copy, which is made behind *used bytes after
 * the buffers. */
static int64_t dense_address(cr_rt_job *j, const cr_array *a, int64_t *used)
{
    if (cr_array_is_dense(a))
        return cr_rt_address(j, a->data, false);
    int64_t bytes = count_of(a) * (int64_t)cr_dtype_size((cr_dtype)a->dtype),
            at = (*used + 15) / 16 * 16;
    *used = at + bytes;
    int64_t address = RT_ADDRESS(RT_WORK, j->bytes + at);
    j->copies = *used > j->copies ? *used : j->copies;
    put_dense(j, a, address);
    return address;
}

static void put_copy(cr_rt_job *j, const cr_plan_copy *c)
{
    const int64_t n = (int64_t)c->n, one = 1;
    const cr_array bytes = {NULL, CR_U8, 1, &n, &one};

    if (!c->to)
        file_refuse(j, "a copy to the host");
    put_move(j, &bytes, cr_rt_address(j, c->to, true), &bytes,
             c->from ? cr_rt_address(j, c->from, false) : cr_rt_data(j, c->bytes, c->n));
}

/* --- elements at computed places --- */

static void put_indexed(cr_rt_job *j, const cr_indexed *c)
{
    static const int hows[CR_COMBINE_COUNT] = {
        [CR_COMBINE_READ] = RT_PLACE_READ,    [CR_COMBINE_SET] = RT_PLACE_SET,
        [CR_COMBINE_ADD] = RT_PLACE_ADD,      [CR_COMBINE_MUL] = RT_PLACE_MUL,
        [CR_COMBINE_MIN] = RT_PLACE_MIN,      [CR_COMBINE_MAX] = RT_PLACE_MAX,
        [CR_COMBINE_DIVIDE] = RT_PLACE_DIVIDE};
    const cr_indexed_numbers p = cr_indexed_numbers_of(c);
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)c->dtype), used = 0, none[2] = {0},
            count = cr_numel(c->ndim, c->size), table;
    bool reads = c->how == CR_COMBINE_READ;
    cr_rt_words w = {0};

    if (p.lacks || c->ndim > RT_MOST_DIMS)
        cr_bail(j->s, CR_VALUE, "to_rt: the runtime lacks %s at computed places %s",
                cr_combine_names[c->how], p.lacks ? p.lacks : "of more than 16 dims");
    if (!count)
        return;
    if (p.copies) {
        cr_array of = cr_indexed_table(c);
        table = dense_address(j, &of, &used);
    } else {
        table = cr_rt_address(j, c->table, !reads);
    }
    const int64_t head[RT_PLACE_WORDS] = {
        [RT_PLACE_HOW] = hows[c->how],
        [RT_PLACE_DTYPE] = dtype_of(j, c->dtype),
        [RT_PLACE_DENSE] = c->dense ? cr_rt_address(j, c->dense, reads)
                                    : cr_rt_data(j, c->item, sizeof c->item),
        [RT_PLACE_TABLE] = table,
        [RT_PLACE_INDEX] =
            c->index ? cr_rt_address(j, c->index, false) : cr_rt_data(j, none, sizeof none),
        [RT_PLACE_IS32] = p.is32,
        [RT_PLACE_WRAPS] = p.wraps,
        [RT_PLACE_UNIT] = p.unit,
        [RT_PLACE_EXTENT] = p.extent,
        [RT_PLACE_SCRATCH] = cr_rt_scratch(j, p.ordered ? 40 * count : 0),
        [RT_PLACE_NDIM] = c->ndim,
    };
    push_all(j, &w, head, RT_PLACE_WORDS, 1);
    push_all(j, &w, c->size, c->ndim, 1);
    push_all(j, &w, c->dense ? c->dense_stride : NULL, c->ndim, p.dense_item);
    push_all(j, &w, c->table_stride, c->ndim, item);
    push_all(j, &w, c->index ? c->index_stride : NULL, c->ndim, p.index_item);
    cr_rt_command(j, RT_PLACE, &w);
}

/* --- windows --- */

static void push_window_dim(cr_rt_job *j, cr_rt_words *w, const cr_window_axis *a)
{
    static const int64_t whole[] = {0, 1}, one[] = {0, 0, 1};
    int64_t places = a->start ? a->size : 1, word;

    push_all(j, w, a->start ? a->start : whole, places + 1, 1);
    push_all(j, w, a->start ? a->range : one, 3 * (a->start ? a->start[places] : 1), 1);
    for (int64_t i = 0; i < places; i++) {
        double factor = a->start && a->count ? a->count[i] : 1;
        memcpy(&word, &factor, sizeof word);
        cr_rt_push(j, w, word);
    }
}

static void put_windows(cr_rt_job *j, const cr_windows *c)
{
    cr_rt_words w = {0};
    int64_t used = 0, places = 1;

    for (int d = 0; d < 3; d++)
        places *= c->dim[d].start ? c->dim[d].size : 1;
    if (c->result.dtype != CR_F32 || c->shares || c->out != places ||
        !cr_array_is_dense(&c->result) || (c->extreme && !cr_array_is_dense(&c->which)))
        file_refuse(j, "such windows");
    if (!places || !c->planes)
        return;
    const int64_t head[RT_WINDOWS_PLACES] = {
        [RT_WINDOWS_EXTREME] = c->extreme,
        [RT_WINDOWS_RESULT] = cr_rt_address(j, c->result.data, true),
        [RT_WINDOWS_WHICH] =
            c->extreme ? cr_rt_address(j, c->which.data, true) : RT_ADDRESS(RT_WORK, 0),
        [RT_WINDOWS_FROM] = dense_address(j, &c->from, &used),
        [RT_WINDOWS_PLANES] = c->planes,
        [RT_WINDOWS_IN] = c->in,
        [RT_WINDOWS_OUT] = c->out,
        [RT_WINDOWS_DIVISOR] = c->divides ? c->divisor : 0,
    };
    push_all(j, &w, head, RT_WINDOWS_PLACES, 1);
    for (int d = 0; d < 3; d++)
        cr_rt_push(j, &w, c->dim[d].start ? c->dim[d].size : 1);
    for (int d = 0; d < 3; d++)
        push_window_dim(j, &w, &c->dim[d]);
    cr_rt_command(j, RT_WINDOWS, &w);
}

/* --- products --- */

/* The input that is the second operand of a product, if the file has its elements and each of
 * its columns stands in one piece; -1: there is none.  With the columns as rows, a tile of
 * results reads the elements of all its columns at once. */
static int weight_of(const cr_rt_job *j, const cr_product *p)
{
    size_t b = cr_plan_buffer_of(p->b->data);

    if (p->batch || p->bk != 1 || p->bm != p->depth || p->depth < 2 || p->m < 2 ||
        b >= j->p->buffer.len || !j->p->buffer.at[b].input || cr_plan_offset_of(p->b->data))
        return -1;
    int k = input_number(j, b);
    const cr_rt_input *in = &j->input[k];
    return in->values && !in->state &&
                   input_bytes(in) ==
                       (size_t)(p->depth * p->m) * cr_dtype_size((cr_dtype)in->dtype)
               ? k
               : -1;
}

static bool is_product(cr_product *p, const cr_command *c)
{
    const char *why = NULL;

    return c->kind == CR_COMMAND_LIBRARY && cr_product_of(p, &c->library, &why) && !why &&
           count_of(p->out);
}

/* Which inputs only products read, as such weights. */
static void find_turned(cr_rt_job *j)
{
    int *uses = CR_NEW_N(j->s, int, (size_t)j->inputs + 1), k;
    cr_product p;

    cr_plan_input_uses(j->p, uses, j->inputs);
    for (size_t i = 0; i < j->p->command.len; i++)
        if (is_product(&p, j->p->command.at[i]) && (k = weight_of(j, &p)) >= 0) {
            uses[k]--;
            j->turned[k] = true;
            j->columns[k] = p.m;
        }
    for (k = 0; k < j->inputs; k++)
        j->turned[k] = j->turned[k] && !uses[k];
}

/* Adds the elements of such a weight to the data. */
static int64_t put_turned(cr_rt_job *j, int k)
{
    const cr_rt_input *in = &j->input[k];
    size_t item = cr_dtype_size((cr_dtype)in->dtype), bytes = input_bytes(in);
    int64_t columns = j->columns[k], depth = (int64_t)(bytes / item) / columns;
    char *to = cr_session_get(j->s, bytes);

    for (int64_t c = 0; c < columns; c++)
        for (int64_t d = 0; d < depth; d++)
            memcpy(to + (d * columns + c) * (int64_t)item,
                   (const char *)in->values + (c * depth + d) * (int64_t)item, item);
    return cr_rt_data(j, to, bytes);
}

static void put_product(cr_rt_job *j, const cr_product *p)
{
    cr_rt_words w = {0};
    int weight = weight_of(j, p);
    bool turned = weight >= 0 && j->turned[weight];
    const int64_t head[RT_PRODUCT_WORDS] = {
        [RT_PRODUCT_DTYPE] = p->out->dtype,
        [RT_PRODUCT_OUT] = cr_rt_address(j, p->out->data, true),
        [RT_PRODUCT_A] = cr_rt_address(j, p->a->data, false),
        [RT_PRODUCT_B] = cr_rt_address(j, p->b->data, false),
        [RT_PRODUCT_BIAS] = p->bias ? cr_rt_address(j, p->bias->data, false) : 0,
        [RT_PRODUCT_SCRATCH] = cr_rt_scratch(j, RT_PRODUCT_SCRATCH_BYTES),
        [RT_PRODUCT_N] = p->n,
        [RT_PRODUCT_M] = p->m,
        [RT_PRODUCT_DEPTH] = p->depth,
        [RT_PRODUCT_ON] = p->on,
        [RT_PRODUCT_OM] = p->om,
        [RT_PRODUCT_AN] = p->an,
        [RT_PRODUCT_AK] = p->ak,
        [RT_PRODUCT_BM] = turned ? 1 : p->bm,
        [RT_PRODUCT_BK] = turned ? p->m : p->bk,
        [RT_PRODUCT_CN] = p->cn,
        [RT_PRODUCT_CM] = p->cm,
        [RT_PRODUCT_NDIM] = p->batch,
    };

    if (p->out->dtype != CR_F32 && p->out->dtype != CR_F64)
        file_refuse(j, "products that are neither float32 nor float64");
    if (!count_of(p->out))
        return;
    push_all(j, &w, head, RT_PRODUCT_WORDS, 1);
    for (int d = 0; d < p->batch; d++)
        cr_rt_push(j, &w, p->space.dim[d].size);
    for (int k = 0; k < CR_PRODUCT_OPERANDS; k++)
        for (int d = 0; d < p->batch; d++)
            cr_rt_push(j, &w, p->space.dim[d].step[k]);
    cr_rt_command(j, RT_PRODUCT, &w);
}

static void put_convolution(cr_rt_job *j, const cr_convolution *c)
{
    static const int kinds[] = {[CR_CONVOLUTION] = RT_CONVOLVE,
                                [CR_CONVOLUTION_SPREAD] = RT_SPREAD,
                                [CR_CONVOLUTION_WEIGH] = RT_WEIGH};
    int item = (int)cr_dtype_size((cr_dtype)c->x->dtype);
    bool spreads = c->kind == CR_CONVOLUTION_SPREAD, weighs = c->kind == CR_CONVOLUTION_WEIGH;
    int64_t used = 0;
    cr_rt_words w = {0};

    if (c->x->dtype != CR_F32 && c->x->dtype != CR_F64)
        file_refuse(j, "convolutions that are neither of float32 nor of float64");
    if (weighs && !cr_array_is_dense(c->w))
        file_refuse(j, "a gradient of a convolution's weight that is not row-major");
    if (!count_of(spreads ? c->x : weighs ? c->w : c->out))
        return;
    const int64_t head[RT_CONVOLVE_NUMBERS] = {
        [RT_CONVOLVE_DTYPE] = c->x->dtype,
        [RT_CONVOLVE_OUT] = cr_rt_address(j, c->out->data, !spreads && !weighs),
        [RT_CONVOLVE_X] = cr_rt_address(j, c->x->data, spreads),
        [RT_CONVOLVE_W] =
            weighs ? cr_rt_address(j, c->w->data, true) : dense_address(j, c->w, &used),
        [RT_CONVOLVE_BIAS] = c->bias ? dense_address(j, c->bias, &used) : 0,
        [RT_CONVOLVE_SCRATCH] =
            cr_rt_scratch(j, spreads  ? rt_spread_scratch(item, c->number)
                             : weighs ? rt_weigh_scratch(item, c->number)
                                      : rt_convolution_scratch(item, c->number)),
    };
    push_all(j, &w, head, RT_CONVOLVE_NUMBERS, 1);
    push_all(j, &w, c->number, RT_CONVOLUTION_NUMBERS, 1);
    cr_rt_command(j, kinds[c->kind], &w);
}

static void put_library(cr_rt_job *j, const cr_library *c)
{
    cr_product product;
    cr_convolution convolution;
    const char *why = NULL;

    if (cr_product_of(&product, c, &why) && !why)
        put_product(j, &product);
    else if (!why && cr_convolution_of(&convolution, c, &why) && !why)
        put_convolution(j, &convolution);
    else if (!strcmp(c->entry, "logcumsumexp"))
        cr_rt_log_scan(j, c);
    else
        cr_bail(j->s, CR_VALUE, "to_rt: the program calls %s%s%s, which the runtime lacks",
                c->entry, why ? " " : "", why ? why : "");
}

/* --- the file --- */

static void put_command(cr_rt_job *j, const cr_command *c)
{
    switch (c->kind) {
    case CR_COMMAND_KERNEL: cr_rt_kernel(j, &c->kernel); break;
    case CR_COMMAND_MOVE:
        put_move(j, &c->move.to, cr_rt_address(j, c->move.to.data, true), &c->move.from,
                 cr_rt_address(j, c->move.from.data, false));
        break;
    case CR_COMMAND_FILL:
        put_move(j, &c->fill.to, cr_rt_address(j, c->fill.to.data, true), NULL,
                 cr_rt_data(j, c->fill.element, sizeof c->fill.element));
        break;
    case CR_COMMAND_COPY: put_copy(j, &c->copy); break;
    case CR_COMMAND_INDEXED:
    case CR_COMMAND_COMBINE: put_indexed(j, &c->indexed); break;
    case CR_COMMAND_WINDOWS: put_windows(j, &c->windows); break;
    case CR_COMMAND_LIBRARY: put_library(j, &c->library); break;
    case CR_COMMAND_WAIT: break;
    default: file_refuse(j, "calls between ranks");
    }
}

/* Parts of the file before the commands: descriptions of arrays, their sizes and names. */
typedef struct {
    cr_rt_words arrays, rest;
    int64_t count;
} file_arrays;

static void push_text(cr_rt_job *j, cr_rt_words *w, const char *text)
{
    size_t n = strlen(text) + 1;

    for (size_t at = 0; at < n; at += 8) {
        int64_t word = 0;
        memcpy(&word, text + at, n - at < 8 ? n - at : 8);
        cr_rt_push(j, w, word);
    }
}

/* Places in `rest` are corrected when the number of arrays is known. */
static void add_array(cr_rt_job *j, file_arrays *f, int kind, const char *name, int dtype,
                      int ndim, const int64_t *size, int64_t first)
{
    const int64_t sizes = (int64_t)f->rest.len;

    push_all(j, &f->rest, size, ndim, 1);
    const int64_t words[RT_ARRAY_WORDS] = {
        [RT_ARRAY_KIND] = kind,         [RT_ARRAY_DTYPE] = dtype_of(j, dtype),
        [RT_ARRAY_NDIM] = ndim,         [RT_ARRAY_SIZES] = sizes,
        [RT_ARRAY_NAME] = sizes + ndim, [RT_ARRAY_FIRST] = first,
    };
    push_text(j, &f->rest, name);
    push_all(j, &f->arrays, words, RT_ARRAY_WORDS, 1);
    f->count++;
}

/* Arguments come first, then states. */
static void add_inputs(cr_rt_job *j, file_arrays *f)
{
    for (int state = 0; state < 2; state++)
        for (int k = 0; k < j->inputs; k++) {
            const cr_rt_input *in = &j->input[k];
            int64_t data = !in->values || state != in->state ? 0
                           : j->turned[k]                    ? put_turned(j, k)
                                          : cr_rt_data(j, in->values, input_bytes(in));
            if (state != in->state)
                continue;
            j->space[k] = in->values && !state ? data : RT_ADDRESS(RT_ARRAY + f->count, 0);
            if (state || !in->values)
                add_array(j, f, state, in->name, in->dtype, in->ndim, in->size, data);
        }
}

static void put_words(cr_text *out, const int64_t *at, size_t n)
{
    cr_text_put_n(out, (const char *)at, n * sizeof *at);
}

static void put_file(cr_rt_job *j, cr_text *out, file_arrays *f)
{
    int64_t before = RT_HEAD_WORDS + (int64_t)f->arrays.len,
            pad = (before + (int64_t)f->rest.len + (int64_t)j->code.len) % 2,
            commands = before + (int64_t)f->rest.len + pad,
            data = commands + (int64_t)j->code.len,
            values = (j->bytes + j->copies + 15) / 16 * 16;
    int64_t head[RT_HEAD_WORDS] = {
        [RT_HEAD_MAGIC] = RT_MAGIC,
        [RT_HEAD_WORDS_ALL] = data + (int64_t)j->data.len / 8,
        [RT_HEAD_WORK] = values + (j->scratch + 15) / 16 * 16,
        [RT_HEAD_VALUES] = values,
        [RT_HEAD_LANES] = CR_RT_LANES,
        [RT_HEAD_ARRAYS] = f->count,
        [RT_HEAD_COMMANDS] = commands,
        [RT_HEAD_DATA] = data,
    };

    for (int64_t k = 0; k < f->count; k++) {
        f->arrays.at[k * RT_ARRAY_WORDS + RT_ARRAY_SIZES] += before;
        f->arrays.at[k * RT_ARRAY_WORDS + RT_ARRAY_NAME] += before;
    }
    put_words(out, head, RT_HEAD_WORDS);
    put_words(out, f->arrays.at, f->arrays.len);
    put_words(out, f->rest.at, f->rest.len);
    put_words(out, &(int64_t){0}, (size_t)pad);
    put_words(out, j->code.at, j->code.len);
    cr_text_put_n(out, cr_text_str(&j->data), j->data.len);
    if (out->failed)
        return;
    int64_t sum = rt_sum((const int64_t *)(const void *)out->at + RT_HEAD_SUM + 1,
                         (int64_t)(out->len / 8) - RT_HEAD_SUM - 1);
    memcpy(out->at + 8 * RT_HEAD_SUM, &sum, sizeof sum);
}

typedef struct {
    cr_rt_job *j;
    cr_text *out;
    const char *const *results;
} file_job;

static void make_file(cr_session *s, void *context)
{
    file_job *f = context;
    cr_rt_job *j = f->j;
    file_arrays arrays = {.count = 0};

    if (j->p->of_values)
        file_refuse(j, "commands that depend on elements");
    j->offset = CR_NEW_N(s, int64_t, j->p->buffer.len + 1);
    j->space = CR_NEW_N(s, int64_t, (size_t)j->inputs + 1);
    j->turned = CR_NEW_N(s, bool, (size_t)j->inputs + 1);
    j->columns = CR_NEW_N(s, int64_t, (size_t)j->inputs + 1);
    find_turned(j);
    int64_t *bytes = CR_NEW_N(s, int64_t, j->p->buffer.len + 1);
    for (size_t b = 0; b < j->p->buffer.len; b++)
        bytes[b] = j->p->buffer.at[b].input ? -1 : (int64_t)j->p->buffer.at[b].bytes;
    j->bytes = cr_plan_places(s, j->p, NULL, bytes, 16, j->offset);
    add_inputs(j, &arrays);
    for (size_t i = 0; i < j->p->command.len; i++)
        put_command(j, j->p->command.at[i]);
    for (size_t i = 0; i < j->p->output.len; i++) {
        const cr_array *a = &j->p->output.at[i];
        int64_t at = RT_ADDRESS(RT_ARRAY + arrays.count, 0);
        add_array(j, &arrays, 2, f->results[i], a->dtype, a->ndim, a->size, 0);
        if (count_of(a))
            put_dense(j, a, at);
    }
    put_file(j, f->out, &arrays);
    cr_session_check(s, j->data.failed ? j->data.failed : f->out->failed);
}

cr_status cr_rt_file(cr_session *s, cr_text *out, const cr_plan *p, const cr_rt_input *input,
                     int inputs, const char *const *results)
{
    cr_rt_job j = {.s = s, .p = p, .input = input, .inputs = inputs};
    file_job f = {&j, out, results};
    cr_status st = cr_session_run(s, make_file, &f);

    cr_text_drop(&j.data);
    return st;
}
