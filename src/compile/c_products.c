/* Plans as C99 files: products of matrices and convolutions. */
#include "compile/c_job.h"
#include "compile/places.h"
#include "compile/products.h"
#include "rt/format.h"
#include <string.h>

static const char matrix_text[] =
#include "c_matrix_text.inc"
    ;
static const char fused_text[] =
#include "c_fused_text.inc"
    ;
static const char library_text[] =
#include "c_library_text.inc"
    ;
static const char convolve_text[] =
#include "c_convolve_text.inc"
    ;
static const char alone_text[] =
#include "c_alone_text.inc"
    ;
static const char team_matrix_text[] =
#include "c_team_matrix_text.inc"
    ;
static const char team_batches_text[] =
#include "c_team_batches_text.inc"
    ;
static const char team_convolve_text[] =
#include "c_team_convolve_text.inc"
    ;

/* --- operands --- */

static const char *suffix(const cr_c_job *j, const cr_library *c, const cr_array *a)
{
    if (a->dtype != CR_F32 && a->dtype != CR_F64)
        cr_bail(j->s, CR_VALUE, "to_c: %s of %s has no C99 form", c->entry,
                cr_dtype_name((cr_dtype)a->dtype));
    return a->dtype == CR_F64 ? "f64" : "f32";
}

CR_NORETURN static void refuse_call(const cr_c_job *j, const cr_library *c, const char *why)
{
    cr_bail(j->s, CR_VALUE, "to_c: the program calls %s %s, which has no C99 form", c->entry,
            why);
}

void cr_c_pointer(cr_c_job *j, const char *address, int dtype, bool written)
{
    const char *qualified = written ? "" : "const ";

    cr_text_printf(&j->body, "(%s%s *)(%svoid *)(", qualified, cr_c_type((cr_dtype)dtype),
                   qualified);
    cr_c_address(j, address, written);
    cr_text_char(&j->body, ')');
}

/* --- weights as panels --- */

/* A matrix operand: an element is at k * `deep` + m * `wide`; panels have so many columns. */
typedef struct {
    const cr_array *of;
    int64_t panel, depth, columns, deep, wide;
} matrix;

static int64_t places_of(const cr_array *result)
{
    int64_t n = 1;

    for (int d = 2; d < result->ndim; d++)
        n *= result->size[d];
    return n;
}

/* Whether the places of a convolution are rows of its product: a tile of columns would have
 * few of them, or leave many lanes unused.  Weights of a call whose sizes vary have one
 * form. */
static bool has_few_places(const cr_c_job *j, int64_t places)
{
    bool wastes = places < 64 && (places + 15) / 16 * 16 * 10 > places * 11;

    return places < 16 || (wastes && !j->how->varies);
}

/* The argument that products read by panels; false: the call has none. */
static bool find_matrix(const cr_c_job *j, matrix *out, const cr_library *c)
{
    static const struct {
        const char *entry;
        int arg;
    } right[] = {{"mm", 1}, {"matmul", 1}, {"addmm", 2}};
    bool called = j->how->libraries && c->result[0].dtype == CR_F32; /* it has no panels */

    *out = (matrix){0};
    if (!called && c->args > 1 && !strcmp(c->entry, "linear")) {
        const cr_array *w = &c->arg[1].array;
        if (w->ndim == 2)
            *out = (matrix){w, 16, w->size[1], w->size[0], w->stride[1], w->stride[0]};
    } else if (c->args > 8 && !strcmp(c->entry, "convolution")) {
        const cr_array *w = &c->arg[1].array;
        if (c->arg[8].i == 1 && !c->arg[6].i && cr_array_is_dense(w) && w->size[0] >= 4)
            *out = (matrix){w,
                            has_few_places(j, places_of(&c->result[0])) ? 16 : 12,
                            w->stride[0],
                            w->size[0],
                            1,
                            w->stride[0]};
    }
    for (size_t i = 0; i < CR_LEN(right) && !called; i++)
        if (c->args > right[i].arg && !strcmp(c->entry, right[i].entry)) {
            const cr_array *w = &c->arg[right[i].arg].array;
            if (w->ndim == 2)
                *out = (matrix){w, 16, w->size[0], w->size[1], w->stride[0], w->stride[1]};
        }
    return out->of;
}

/* Whether the matrix is all of an input whose elements the file has. */
static bool is_weight(const cr_c_job *j, const matrix *m, int *number)
{
    size_t b = cr_plan_buffer_of(m->of->data);

    if (b >= j->p->buffer.len || !j->p->buffer.at[b].input || cr_plan_offset_of(m->of->data) ||
        m->depth < 2 || m->columns < 2)
        return false;
    *number = cr_c_input_number(j, b);
    return *number < j->inputs && j->input[*number].values && !j->input[*number].state &&
           j->input[*number].count == m->depth * m->columns &&
           ((m->deep == 1 && m->wide == m->depth) || (m->wide == 1 && m->deep == m->columns));
}

void cr_c_pack_weights(cr_c_job *j)
{
    int *uses = CR_NEW_N(j->s, int, (size_t)j->inputs + 1), k;
    matrix m;

    cr_plan_input_uses(j->p, uses, j->inputs);
    for (size_t i = 0; i < j->p->command.len; i++) {
        const cr_command *c = j->p->command.at[i];
        if (c->kind != CR_COMMAND_LIBRARY || !find_matrix(j, &m, &c->library) ||
            !is_weight(j, &m, &k))
            continue;
        cr_c_input *in = &j->input[k];
        if (!in->panel) {
            in->panel = m.panel;
            in->columns = m.columns;
            in->depth = m.depth;
            in->wide = m.wide;
            in->deep = m.deep;
        }
        if (in->panel == m.panel && in->columns == m.columns && in->wide == m.wide)
            uses[k]--;
    }
    for (k = 0; k < j->inputs; k++)
        if (uses[k])
            j->input[k].panel = 0;
}

static bool is_packed(const cr_c_job *j, const matrix *m)
{
    int k;

    return m->of && is_weight(j, m, &k) && j->input[k].panel;
}

/* --- products --- */

static void put_batches(cr_c_job *j, const cr_product *p, const char *suffix)
{
    static const char *const names[] = {"os", "as", "bs", "cs"};
    int64_t at[CR_MAX_DIMS];

    for (int k = -1; k < CR_PRODUCT_OPERANDS; k++) {
        for (int d = 0; d < p->batch; d++)
            at[d] = k < 0 ? p->space.dim[d].size : p->space.dim[d].step[k];
        cr_c_integers(&j->body, k < 0 ? "size" : names[k], at, p->batch, 1);
    }
    cr_text_printf(&j->body, "        cv_matrix_%s x;\n\n", suffix);
}

static void put_numbers(cr_c_job *j, const cr_product *p, bool packed)
{
    const struct {
        const char *name;
        int64_t value;
    } number[] = {{"n", p->n},
                  {"m", p->m},
                  {"depth", p->depth},
                  {"on", p->on},
                  {"om", p->om},
                  {"ap", 12 * p->an},
                  {"an", p->an},
                  {"ak", p->ak},
                  {"bp", 16 * (packed ? p->depth : p->bm)},
                  {"bm", packed ? 1 : p->bm},
                  {"bk", packed ? 16 : p->bk},
                  {"padded", packed},
                  {"cn", p->cn},
                  {"cm", p->cm},
                  {"adds", 0},
                  {"off", 0}};

    for (size_t i = 0; i < CR_LEN(number); i++)
        cr_text_printf(&j->body, "        x.%s = %lld;\n", number[i].name,
                       (long long)number[i].value);
}

static void put_product(cr_c_job *j, const cr_library *c, const cr_product *p)
{
    const cr_array *out = p->out, *a = p->a, *b = p->b, *bias = p->bias;
    const char *t = suffix(j, c, a), *memory = j->how->threads ? "team" : "scratch";
    matrix w;
    bool packed = find_matrix(j, &w, c) && w.of == b && is_packed(j, &w);
    bool halves = a->dtype == CR_F32 && (packed || !p->batch) && cr_c_half(j, b->data);

    j->needs.products |= 1u << a->dtype;
    j->needs.calls_library =
        j->needs.calls_library || (j->how->libraries && a->dtype == CR_F32);
    cr_c_own_scratch(j, packed && !halves ? 0 : CR_C_PANEL);
    if (p->batch) {
        j->needs.batches |= 1u << a->dtype;
        put_batches(j, p, t);
    } else {
        cr_text_printf(&j->body, "        cv_matrix_%s x;\n\n", t);
    }
    put_numbers(j, p, packed);
    cr_text_put(&j->body, "        x.out = ");
    cr_c_pointer(j, out->data, a->dtype, true);
    cr_text_put(&j->body, ";\n        x.a = ");
    cr_c_pointer(j, a->data, a->dtype, false);
    if (j->memory.half)
        cr_text_put(&j->body, ";\n        x.half = ");
    if (halves)
        cr_c_half_pointer(j, b->data);
    else if (j->memory.half)
        cr_text_put(&j->body, "NULL");
    cr_text_put(&j->body, ";\n        x.b = ");
    if (halves)
        cr_text_put(&j->body, "NULL");
    else
        cr_c_pointer(j, b->data, a->dtype, false);
    cr_text_put(&j->body, ";\n        x.bias = ");
    if (bias)
        cr_c_pointer(j, bias->data, a->dtype, false);
    else
        cr_text_put(&j->body, "NULL");
    if (p->batch)
        cr_text_printf(&j->body,
                       ";\n        cv_batches%s_%s(%d, size, os, as, bs, cs, x, %s);\n",
                       j->how->threads ? "_all" : "", t, p->batch, memory);
    else
        cr_text_printf(&j->body, ";\n        cv_multiply%s_%s(&x, %s);\n",
                       j->how->threads ? "_all" : "", t, memory);
}

/* --- convolutions --- */

void cr_c_geometry(cr_c_job *j, const cr_convolution *c, int64_t packed)
{
    const int64_t *n = c->number;

    cr_text_printf(&j->body, "        static const cv_convolution_%s c = {",
                   c->x->dtype == CR_F64 ? "f64" : "f32");
    for (int i = 0; i < 16; i++)
        cr_text_printf(&j->body, "%lld, ", (long long)n[i]);
    for (int k = 16; k < 24; k += 4)
        cr_text_printf(&j->body, "{%lld, %lld, %lld, %lld}, ", (long long)n[k],
                       (long long)n[k + 1], (long long)n[k + 2], (long long)n[k + 3]);
    cr_text_printf(&j->body, "%lld};\n\n", (long long)packed);
}

int64_t cr_c_image(const int64_t *n)
{
    return n[0] * rt_along_planes(n[2], n[8], n[6]) * rt_along_planes(n[3], n[9], n[7]);
}

/* How many elements of scratch memory a call uses. */
static int64_t scratch_of(cr_c_job *j, const cr_convolution *c)
{
    const int64_t *n = c->number;
    int64_t depth = n[0] * n[4] * n[5], places = n[14] * n[15],
            image = n[8] || n[9] ? cr_c_image(n) : 0,
            few = j->how->varies              ? 24
                  : has_few_places(j, places) ? (places + 11) / 12 * 12
                                              : 0,
            cells = few * depth + 32;
    image *= j->how->threads ? n[13] : 1; /* of a group, or of all */
    cr_c_own_scratch(j, CR_C_PANEL);
    return (j->how->threads ? 0 : CR_C_PANEL) + depth +
           (image + cells) * (int64_t)cr_dtype_size((cr_dtype)c->x->dtype) / 8 + 1;
}

/* An operand in row-major order: the array, or its copy in scratch memory from `at` on. */
void cr_c_dense_pointer(cr_c_job *j, const cr_array *a, int64_t at)
{
    if (cr_array_is_dense(a))
        cr_c_pointer(j, a->data, a->dtype, false);
    else
        cr_text_printf(&j->body, "(const %s *)(const void *)((unsigned char *)scratch + %lld)",
                       cr_c_type((cr_dtype)a->dtype), (long long)(8 * at));
}

static void put_convolution(cr_c_job *j, const cr_library *c, const cr_convolution *of)
{
    const cr_array *x = of->x, *w = of->w, *bias = of->bias;
    const char *t = suffix(j, c, x);
    int64_t at, items = 1, room;
    const cr_c_input *half =
        cr_array_is_dense(w) && !cr_plan_offset_of(w->data) ? cr_c_half(j, w->data) : NULL;
    matrix m;

    j->needs.products |= 1u << x->dtype;
    j->needs.convolutions |= 1u << x->dtype;
    cr_c_geometry(j, of, find_matrix(j, &m, c) && is_packed(j, &m) ? m.panel : 0);
    at = scratch_of(j, of);
    for (int d = 0; d < w->ndim; d++)
        items *= w->size[d];
    room = half ? (cr_c_weight_count(half) + 1) / 2 : items;
    cr_c_scratch(j, at + (half ? room : 0));
    if (!cr_array_is_dense(w))
        cr_c_dense(j, w, at);
    if (bias && !cr_array_is_dense(bias))
        cr_c_dense(j, bias, at + room);
    if (half)
        cr_text_printf(&j->body,
                       "        float *floats = (float *)(void *)((unsigned char *)scratch + "
                       "%lld);\n\n        cv_widen(%lld, floats, (const uint16_t *)(const "
                       "void *)%s);\n",
                       (long long)(8 * at), (long long)cr_c_weight_count(half), half->name);
    cr_text_printf(&j->body, "        cv_convolve%s_%s(&c, ", j->how->threads ? "_all" : "", t);
    cr_c_pointer(j, c->result[0].data, x->dtype, true);
    cr_text_put(&j->body, ", ");
    cr_c_pointer(j, x->data, x->dtype, false);
    cr_text_put(&j->body, half ? ", floats, " : ", ");
    if (!half)
        cr_c_dense_pointer(j, w, at);
    cr_text_put(&j->body, half ? "" : ", ");
    if (bias)
        cr_c_dense_pointer(j, bias, at + room);
    else
        cr_text_put(&j->body, "NULL");
    cr_text_put(&j->body, j->how->threads ? ", scratch, team);\n" : ", scratch);\n");
}

/* --- scans --- */

/* Logarithms of running sums of exponentials along a dim that is not among the others. */
static const char log_scan_text[] =
    "static void cv_log_scan_f32(int ndim, const int64_t *size, unsigned char *to, const "
    "int64_t *ts,\n"
    "    const unsigned char *from, const int64_t *fs, int64_t n, int64_t t, int64_t f)\n"
    "{\n"
    "    int64_t at[64] = {0}, k;\n"
    "    int d;\n\n"
    "    for (d = 0; d < ndim; d++)\n        if (size[d] == 0)\n            return;\n"
    "    for (;;) {\n"
    "        double sum = -INFINITY;\n\n"
    "        for (k = 0; k < n; k++) {\n"
    "            sum = cv_log_add(sum, (double)*(const float *)(const void *)(from + k * f));\n"
    "            *(float *)(void *)(to + k * t) = (float)sum;\n"
    "        }\n"
    "        for (d = ndim - 1; d >= 0; d--) {\n"
    "            to += ts[d];\n            from += fs[d];\n"
    "            if (++at[d] < size[d])\n                break;\n"
    "            to -= size[d] * ts[d];\n            from -= size[d] * fs[d];\n"
    "            at[d] = 0;\n"
    "        }\n"
    "        if (d < 0)\n            return;\n"
    "    }\n"
    "}\n\n";

static void put_log_scan(cr_c_job *j, const cr_library *c)
{
    const cr_array *from = &c->arg[0].array, *to = &c->result[0];
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)from->dtype), size[64], ts[64], fs[64],
            along[3] = {1, 0, 0};
    int ndim = 0, dim = cr_library_dim(c);

    if (from->dtype != CR_F32 && from->dtype != CR_F64)
        refuse_call(j, c, "of such elements");
    for (int d = 0; d < from->ndim; d++) {
        if (d == dim) {
            along[0] = from->size[d];
            along[1] = to->stride[d] * item;
            along[2] = from->stride[d] * item;
            continue;
        }
        size[ndim] = from->size[d];
        ts[ndim] = to->stride[d] * item;
        fs[ndim++] = from->stride[d] * item;
    }
    j->needs.log_scans |= 1u << from->dtype;
    (void)!cr_c_need(&j->words, "cv_log_add");
    cr_c_integers(&j->body, "size", size, ndim, 1);
    cr_c_integers(&j->body, "ts", ts, ndim, 1);
    cr_c_integers(&j->body, "fs", fs, ndim, 1);
    cr_text_printf(&j->body, "        cv_log_scan_%s(%d, size, ",
                   from->dtype == CR_F64 ? "f64" : "f32", ndim);
    cr_c_address(j, to->data, true);
    cr_text_put(&j->body, ", ts, ");
    cr_c_address(j, from->data, false);
    cr_text_printf(&j->body, ", fs, %lld, %lld, %lld);\n", (long long)along[0],
                   (long long)along[1], (long long)along[2]);
}

/* --- calls --- */

void cr_c_library(cr_c_job *j, const cr_library *c)
{
    cr_product product;
    cr_convolution convolution;
    const char *why = NULL;

    if (cr_product_of(&product, c, &why) && !why)
        put_product(j, c, &product);
    else if (!why && cr_convolution_of(&convolution, c, &why) && !why &&
             convolution.kind == CR_CONVOLUTION)
        put_convolution(j, c, &convolution);
    else if (!why && cr_c_planes(j, c))
        return;
    else if (!strcmp(c->entry, "logcumsumexp"))
        put_log_scan(j, c);
    else if (why)
        refuse_call(j, c, why);
    else
        cr_bail(j->s, CR_VALUE, "to_c: the program calls %s, which has no C99 form", c->entry);
}

/* --- texts --- */

static const char batches_text[] =
    "/* A product for each index of the dims before its rows. */\n"
    "static void cv_batches_f32(int ndim, const int64_t *size, const int64_t *os, const "
    "int64_t "
    "*as,\n    const int64_t *bs, const int64_t *cs, cv_matrix_f32 x, float *panel)\n"
    "{\n"
    "    int64_t at[64] = {0};\n"
    "    int d;\n\n"
    "    for (d = 0; d < ndim; d++)\n        if (size[d] == 0)\n            return;\n"
    "    for (;;) {\n"
    "        cv_multiply_f32(&x, panel);\n"
    "        for (d = ndim - 1; d >= 0; d--) {\n"
    "            int64_t back = ++at[d] < size[d] ? 1 : 1 - size[d];\n\n"
    "            x.out += back * os[d];\n            x.a += back * as[d];\n"
    "            x.b += back * bs[d];\n"
    "            x.bias = x.bias ? x.bias + back * cs[d] : NULL;\n"
    "            if (back == 1)\n                break;\n"
    "            at[d] = 0;\n"
    "        }\n"
    "        if (d < 0)\n            return;\n"
    "    }\n"
    "}\n\n";

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

void cr_c_typed(cr_text *out, const char *text, int dtype)
{
    for (; *text; text++) {
        if (dtype == CR_F64 && !strncmp(text, "f32", 3)) {
            cr_text_put(out, "f64");
            text += 2;
        } else if (dtype == CR_F64 && !strncmp(text, "float", 5) && !is_letter(text[5])) {
            cr_text_put(out, "double");
            text += 4;
        } else {
            cr_text_char(out, *text);
        }
    }
}

static const char unused_text[] =
    "#if defined(__GNUC__) /* the program has gradients of convolutions only */\n"
    "#pragma GCC diagnostic ignored \"-Wunused-function\"\n#endif\n";

void cr_c_print_products(const cr_c_job *j, cr_text *out)
{
    static const int dtypes[] = {CR_F32, CR_F64};

    if (j->needs.products | j->needs.convolutions | j->needs.weighs | j->needs.spreads) {
        cr_text_put(out, "#if defined(CV_CONTRACTS)\n");
        cr_text_put(out, fused_text);
        cr_text_put(out, "#endif\n");
    }
    if (j->needs.calls_library)
        cr_text_put(out, library_text);
    for (size_t i = 0; i < CR_LEN(dtypes); i++) {
        uint32_t bit = 1u << dtypes[i];
        bool team = j->how->threads;
        if (j->needs.products & bit)
            cr_c_typed(out, matrix_text, dtypes[i]);
        if (j->needs.products & bit && team)
            cr_c_typed(out, team_matrix_text, dtypes[i]);
        if (j->needs.batches & bit)
            cr_c_typed(out, team ? team_batches_text : batches_text, dtypes[i]);
        if (j->needs.log_scans & bit)
            cr_c_typed(out, log_scan_text, dtypes[i]);
        uint32_t of = j->needs.convolutions | j->needs.weighs | j->needs.spreads;
        if (of & bit && !(j->needs.convolutions & bit))
            cr_text_put(out, unused_text);
        if (of & bit) {
            cr_c_typed(out, convolve_text, dtypes[i]);
            cr_c_typed(out, team ? team_convolve_text : alone_text, dtypes[i]);
        }
    }
    cr_c_print_planes(j, out);
}
