/* Elements at computed places as C99. */
#include "compile/c_job.h"
#include "compile/indexed.h"
#include "space/space.h"
#include <stdio.h>
#include <string.h>

/* The name of the function; notes that the file needs it. */
static void put_indexed_name(cr_c_job *j, const cr_indexed *c, bool half, bool ordered)
{
    cr_dtype t = (cr_dtype)c->dtype;
    bool adds = c->how == CR_COMBINE_ADD;

    if (half)
        j->memory.half_reads = true;
    else if (ordered)
        *(adds ? &j->needs.adds : &j->needs.multiplies) |= 1u << t;
    else
        j->needs.combines[c->how] |= 1u << t;
    if (half)
        cr_text_put(&j->body, "cv_read_half(");
    else if (ordered)
        cr_text_printf(&j->body, "cv_gather_%s%s(", adds ? "" : "product_",
                       t == CR_F64 ? "f64" : "f32");
    else
        cr_text_printf(&j->body, "cv_%s_%s(", cr_combine_names[c->how], cr_dtype_name(t));
}

static void need_folds(cr_c_job *j, const cr_indexed *c)
{
    const char *fn = c->how == CR_COMBINE_ADD ? "add" : "mul",
               *t = c->dtype == CR_F64 ? "f64" : "f32";
    char name[64];

    cr_c_scratch(j, 6 * cr_numel(c->ndim, c->size));
    snprintf(name, sizeof name, "cv_fold_column_%s_%s", fn, t);
    (void)!cr_c_need(&j->words, name);
    snprintf(name, sizeof name, "cv_columns_%s_%s", fn, t);
    (void)!cr_c_need(&j->words, name);
}

void cr_c_indexed(cr_c_job *j, const cr_indexed *c)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)c->dtype), none[64] = {0}, element[2];
    bool reads = c->how == CR_COMBINE_READ;
    bool half =
        reads && c->dense && c->dtype == CR_F32 && !c->numbered && cr_c_half(j, c->table);
    cr_indexed_numbers p = cr_indexed_numbers_of(c);

    if (!cr_c_type((cr_dtype)c->dtype))
        cr_bail(j->s, CR_VALUE, "to_c: the program has %s, which has no C99 form",
                cr_dtype_name((cr_dtype)c->dtype));
    if (p.lacks)
        cr_bail(j->s, CR_VALUE, "to_c: %s at computed places %s has no C99 form",
                cr_combine_names[c->how], p.lacks);
    cr_c_integers(&j->body, "size", c->size, c->ndim, 1);
    cr_c_integers(&j->body, "ds", c->dense ? c->dense_stride : none, c->ndim, p.dense_item);
    cr_c_integers(&j->body, "ts", c->table_stride, c->ndim, half ? 2 : item);
    cr_c_integers(&j->body, "xs", c->index ? c->index_stride : none, c->ndim, p.index_item);
    memcpy(element, c->item, sizeof element);
    if (!c->dense)
        cr_c_integers(&j->body, "element", element, 2, 1);
    if (!c->index)
        cr_c_integers(&j->body, "first", none, 1, 1);
    if (p.ordered)
        need_folds(j, c);
    if (p.copies) {
        cr_array table = cr_indexed_table(c);
        cr_c_dense(j, &table, 0);
    }
    cr_text_put(&j->body, "        if (");
    put_indexed_name(j, c, half, p.ordered);
    cr_text_printf(&j->body, "%d, size, ", c->ndim);
    if (c->dense)
        cr_c_address(j, c->dense, reads);
    else
        cr_text_put(&j->body, "(const unsigned char *)element");
    cr_text_put(&j->body, half ? ", ds, (const unsigned char *)(" : ", ds, ");
    if (half)
        cr_c_half_pointer(j, c->table);
    else if (p.copies)
        cr_text_put(&j->body, "(const unsigned char *)scratch");
    else
        cr_c_address(j, c->table, !reads);
    cr_text_put(&j->body, half ? "), ts, " : ", ts, ");
    if (c->index)
        cr_c_address(j, c->index, false);
    else
        cr_text_put(&j->body, "(const unsigned char *)first");
    cr_text_printf(&j->body, ", xs, %d, %d, %lld, %lld, scratch))\n            return 1;\n",
                   p.is32, p.wraps, (long long)(half ? p.unit / 2 : p.unit),
                   (long long)p.extent);
}

/* --- helpers --- */

static const char place_text[] =
    "/* The distance of an index; -1 out of range. */\n"
    "static int64_t cv_place(const unsigned char *index, int is32, int wraps, int64_t unit, "
    "int64_t extent)\n"
    "{\n"
    "    int64_t at = is32 ? *(const int32_t *)(const void *)index : *(const int64_t *)(const "
    "void *)index;\n\n"
    "    at += at < 0 && wraps ? extent : 0;\n"
    "    return at < 0 || at >= extent ? -1 : at * unit;\n"
    "}\n\n"
    "/* The addresses at an index of all dims, in row-major order; false after the last one. "
    "*/\n"
    "static int cv_next(int ndim, const int64_t *size, int64_t *at, const unsigned char **a, "
    "const int64_t *as,\n"
    "    const unsigned char **b, const int64_t *bs, const unsigned char **c, const int64_t "
    "*cs)\n"
    "{\n"
    "    int d;\n\n"
    "    for (d = ndim - 1; d >= 0; d--) {\n"
    "        *a += as[d];\n        *b += bs[d];\n        *c += cs[d];\n"
    "        if (++at[d] < size[d])\n            return 1;\n"
    "        *a -= size[d] * as[d];\n        *b -= size[d] * bs[d];\n        *c -= size[d] * "
    "cs[d];\n"
    "        at[d] = 0;\n"
    "    }\n"
    "    return 0;\n"
    "}\n\n"
    "static int cv_is_empty(int ndim, const int64_t *size)\n"
    "{\n"
    "    int d;\n\n"
    "    for (d = 0; d < ndim; d++)\n        if (size[d] == 0)\n            return 1;\n"
    "    return 0;\n"
    "}\n\n";

static const char read_text[] =
    "/* 1 where an index is out of range. */\n"
    "static int cv_read_%1$s(int ndim, const int64_t *size, unsigned char *dense, const "
    "int64_t *ds,\n"
    "    const unsigned char *table, const int64_t *ts, const unsigned char *index, const "
    "int64_t *xs, int is32,\n"
    "    int wraps, int64_t unit, int64_t extent, void *scratch)\n"
    "{\n"
    "    const unsigned char *to = dense;\n"
    "    int64_t at[64] = {0}, place;\n\n"
    "    (void)scratch;\n"
    "    if (cv_is_empty(ndim, size))\n        return 0;\n"
    "    do {\n"
    "        place = cv_place(index, is32, wraps, unit, extent);\n"
    "        if (place < 0)\n            return 1;\n"
    "        *(%2$s *)(void *)(dense + (to - dense)) = %6$s(*(const %5$s *)(const void "
    "*)(table "
    "+ place));\n"
    "    } while (cv_next(ndim, size, at, &to, ds, &table, ts, &index, xs));\n"
    "    return 0;\n"
    "}\n\n";

/* %3: what happens to an element x of the table, and y, of dense; %4: the name. */
static const char combine_text[] =
    "/* 1 where an index is out of range; nothing is written then. */\n"
    "static int cv_%4$s_%1$s(int ndim, const int64_t *size, const unsigned char *dense, const "
    "int64_t *ds,\n"
    "    unsigned char *table, const int64_t *ts, const unsigned char *index, const int64_t "
    "*xs, int is32,\n"
    "    int wraps, int64_t unit, int64_t extent, void *scratch)\n"
    "{\n"
    "    int64_t at[64] = {0}, place;\n"
    "    int writes;\n\n"
    "    (void)scratch;\n"
    "    if (cv_is_empty(ndim, size))\n        return 0;\n"
    "    for (writes = 0; writes < 2; writes++) {\n"
    "        const unsigned char *t = table, *d = dense, *x = index;\n\n"
    "        do {\n"
    "            place = cv_place(x, is32, wraps, unit, extent);\n"
    "            if (place < 0)\n                return 1;\n"
    "            if (writes) {\n"
    "                %2$s *x_at = (%2$s *)(void *)(table + (t - table) + place);\n"
    "                const %5$s y = *(const %5$s *)(const void *)d;\n\n"
    "                %3$s;\n"
    "            }\n"
    "        } while (cv_next(ndim, size, at, &t, ts, &d, ds, &x, xs));\n"
    "    }\n"
    "    return 0;\n"
    "}\n\n";

/* Elements are sorted by their place; those of a place are folded in order as a column, and
 * added to it. */
static const char sort_text[] =
    "/* Sorts n items, pairs of a place and a distance, by place; equal ones stay in order.  "
    "The "
    "result is in `items`;\n"
    " * `other` has the same size.  No place is above `most`. */\n"
    "static void cv_sort(int64_t *items, int64_t *other, int64_t n, int64_t most)\n"
    "{\n"
    "    int64_t start[256], k, to, sum, *was = items, *now = other;\n"
    "    int shift;\n\n"
    "    for (shift = 0; shift < 63 && most >> shift; shift += 8) {\n"
    "        memset(start, 0, sizeof start);\n"
    "        for (k = 0; k < n; k++)\n"
    "            start[was[2 * k] >> shift & 255]++;\n"
    "        for (k = 0, sum = 0; k < 256; k++) {\n"
    "            to = start[k];\n"
    "            start[k] = sum;\n"
    "            sum += to;\n"
    "        }\n"
    "        for (k = 0; k < n; k++) {\n"
    "            to = start[was[2 * k] >> shift & 255]++;\n"
    "            now[2 * to] = was[2 * k];\n"
    "            now[2 * to + 1] = was[2 * k + 1];\n"
    "        }\n"
    "        was = now;\n"
    "        now = was == items ? other : items;\n"
    "    }\n"
    "    if (was != items)\n"
    "        memcpy(items, was, (size_t)(2 * n) * sizeof *items);\n"
    "}\n\n";

static const char gather_text[] =
#include "c_gather_text.inc"
    ;

/* What a command does to the element at x_at, of type %2, of the table. */
static const char *combination_text(cr_combine how, bool real)
{
    switch (how) {
    case CR_COMBINE_ADD: return "*x_at = (%2$s)((uint64_t)*x_at + (uint64_t)y)";
    case CR_COMBINE_MUL: return "*x_at = (%2$s)((uint64_t)*x_at * (uint64_t)y)";
    case CR_COMBINE_MIN:
        return real ? "if (y != y || y < *x_at || (y == *x_at && signbit(y) && "
                      "!signbit(*x_at)))\n                    *x_at = y"
                    : "if (y < *x_at)\n                    *x_at = y";
    case CR_COMBINE_MAX:
        return real ? "if (y != y || y > *x_at || (y == *x_at && signbit(*x_at) && "
                      "!signbit(y)))\n                    *x_at = y"
                    : "if (y > *x_at)\n                    *x_at = y";
    case CR_COMBINE_DIVIDE:
        return real ? "if (y > 1)\n                    *x_at /= (%2$s)y"
                    : "if (y > 1)\n                    *x_at = (%2$s)(*x_at / y - (*x_at % y "
                      "!= 0 && "
                      "*x_at < 0))";
    default: return "*x_at = y";
    }
}

static void put_combination(const cr_c_job *j, cr_text *out, cr_combine how, cr_dtype t)
{
    const char *type = cr_c_type(t), *of = how == CR_COMBINE_DIVIDE ? "int64_t" : type;
    const char *const names[] = {cr_dtype_name(t), type};
    bool sums = how == CR_COMBINE_ADD;
    cr_text step = {0};

    if (sums && t == CR_BOOL)
        cr_text_put(&step, "*x_at |= y");
    else
        cr_c_fill_in(&step, combination_text(how, cr_dtype_is_float(t)), names);
    cr_status st = cr_text_status(&step);
    if (!st)
        cr_c_fill_in(out, combine_text,
                     (const char *const[]){cr_dtype_name(t), type, cr_text_str(&step),
                                           cr_combine_names[how], of});
    cr_text_drop(&step);
    cr_session_check(j->s, st);
}

/* The text of sums with products instead. */
static void put_product_text(const cr_c_job *j, cr_text *out, int dtype)
{
    cr_text product = {0};

    for (const char *text = gather_text; *text; text++) {
        if (!strncmp(text, "_add_f32", 8)) {
            cr_text_put(&product, "_mul_f32");
            text += 7;
        } else if (!strncmp(text, "_f32", 4)) {
            cr_text_put(&product, "_product_f32");
            text += 3;
        } else if (!strncmp(text, "] += ", 5)) {
            cr_text_put(&product, "] *= ");
            text += 4;
        } else {
            cr_text_char(&product, *text);
        }
    }
    if (!product.failed)
        cr_c_typed(out, cr_text_str(&product), dtype);
    cr_status st = cr_text_status(&product);
    cr_text_drop(&product);
    cr_session_check(j->s, st);
}

void cr_c_print_places(const cr_c_job *j, cr_text *out)
{
    uint32_t any = j->needs.adds | j->needs.multiplies | (uint32_t)j->memory.half_reads;

    for (int how = 0; how < CR_COMBINE_COUNT; how++)
        any |= j->needs.combines[how];
    if (any)
        cr_text_put(out, place_text);
    if (j->memory.half_reads)
        cr_c_fill_in(out, read_text,
                     (const char *const[]){"half", "float", "", "", "uint16_t", "cv_widened"});
    if (j->needs.adds | j->needs.multiplies)
        cr_text_put(out, sort_text);
    for (int how = 0; how < CR_COMBINE_READ; how++)
        for (int t = 0; t < 16; t++)
            if (j->needs.combines[how] >> t & 1)
                put_combination(j, out, (cr_combine)how, (cr_dtype)t);
    for (int t = 0; t < 16; t++) {
        const char *const with[] = {cr_dtype_name((cr_dtype)t),
                                    cr_c_type((cr_dtype)t),
                                    "",
                                    "",
                                    cr_c_type((cr_dtype)t),
                                    ""};
        if (j->needs.combines[CR_COMBINE_READ] >> t & 1)
            cr_c_fill_in(out, read_text, with);
        if (j->needs.adds >> t & 1)
            cr_c_typed(out, gather_text, t);
        if (j->needs.multiplies >> t & 1)
            put_product_text(j, out, t);
    }
}
