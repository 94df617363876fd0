/* Values as text, as torch's C++ front end prints them: str(), format, print and messages of
 * TorchScript.  A float has 17 digits, a string no quotes, and a tensor the elements in
 * columns, its type and its sizes:
 *
 *      1.0000  2.5000
 *     [ CPUFloatType{1,2} ] */
#include "autograd/autograd.h"
#include "script/execute_impl.h"
#include "tensor/plain.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_WIDTH = 80 };

/* --- tensors --- */

/* The format of a matrix: whole numbers have none of the digits after the point. */
typedef struct {
    cr_text *out;
    double scale; /* numbers are printed divided by it */
    int width;
    const char *form; /* of printf, with a width */
    int indent;
} matrix_printer;

/* The shortest text that reads back. */
static void print_shortest(cr_text *out, double d)
{
    char text[32];
    int digits = 0;

    if (!isfinite(d)) {
        cr_text_put(out, isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
        return;
    }
    do {
        snprintf(text, sizeof text, "%.*e", digits, d);
    } while (strtod(text, NULL) != d && ++digits < 17);
    int point = atoi(strchr(text, 'e') + 1);
    if (point < -4 || point >= 16)
        cr_text_put(out, text);
    else
        cr_text_printf(out, "%.*f", digits > point ? digits - point : 0, d);
}

/* The decimal digits before the point; 1 for 0. */
static double digits_of(double magnitude)
{
    return magnitude != 0 ? floor(log10(magnitude)) + 1 : 1;
}

static void choose_form(matrix_printer *p, const double *at, int64_t n)
{
    double least = INFINITY, most = -INFINITY;
    bool whole = true;

    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(at[i]))
            continue;
        whole = whole && at[i] == ceil(at[i]);
        least = fmin(least, fabs(at[i]));
        most = fmax(most, fabs(at[i]));
    }
    bool none = most < least;
    double low = none ? 1 : digits_of(least), high = none ? 1 : digits_of(most);
    p->scale = 1;
    p->form = "%*.4f";
    if (whole) {
        p->form = high > 9 ? "%*.4e" : "%*.6g";
        p->width = high > 9 ? 11 : (int)high + 1;
    } else if (high - low > 4) {
        p->form = "%*.4e";
        p->width = fabs(high) > 99 || fabs(low) > 99 ? 12 : 11;
    } else if (high > 5 || high < 0) {
        p->width = 7;
        p->scale = pow(10, high - 1);
    } else {
        p->width = high == 0 ? 7 : (int)high + 6;
    }
}

static void print_blanks(matrix_printer *p, int n) { cr_text_printf(p->out, "%*s", n, ""); }

static void print_scale(matrix_printer *p)
{
    if (p->scale == 1)
        return;
    print_shortest(p->out, p->scale);
    cr_text_put(p->out, " *\n");
}

static void print_number(matrix_printer *p, double d)
{
    if (isfinite(d))
        cr_text_printf(p->out, p->form, p->width, d / p->scale);
    else
        cr_text_printf(p->out, "%*s", p->width, isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
}

static void print_columns(matrix_printer *p, const double *at, const int64_t *size,
                          int64_t first, int64_t end)
{
    print_scale(p);
    if (p->scale != 1)
        print_blanks(p, p->indent);
    for (int64_t row = 0; row < size[0]; row++) {
        if (row)
            print_blanks(p, p->indent + (p->scale != 1));
        for (int64_t i = first; i < end; i++) {
            cr_text_put(p->out, i > first ? " " : "");
            print_number(p, at[row * size[1] + i]);
        }
        cr_text_char(p->out, '\n');
    }
}

static void print_matrix(matrix_printer *p, const double *at, const int64_t *size)
{
    choose_form(p, at, size[0] * size[1]);
    int64_t fit = (LINE_WIDTH - p->indent) / (p->width + 1), end;
    for (int64_t first = 0; first < size[1]; first = end) {
        end = first + fit < size[1] ? first + fit : size[1];
        if (fit < size[1]) {
            cr_text_printf(p->out, "%sColumns %lld to %lld", first ? "\n" : "",
                           (long long)first + 1, (long long)end);
            print_blanks(p, p->indent);
        }
        print_columns(p, at, size, first, end);
    }
}

/* Matrix after matrix; the first of the outer dims counts fastest. */
static void print_matrices(cr_text *out, const double *at, const cr_tensor *t)
{
    matrix_printer p = {.out = out, .indent = 1};
    const int64_t *size = t->size + t->ndim - 2, one = size[0] * size[1];
    int64_t place[CR_MAX_DIMS] = {0};

    for (int64_t n = t->numel / one; n > 0; n--) {
        int64_t offset = 0;
        cr_text_char(out, '(');
        for (int d = 0; d < t->ndim - 2; d++) {
            cr_text_printf(out, "%lld,", (long long)place[d] + 1);
            offset = offset * t->size[d] + place[d];
        }
        cr_text_put(out, ".,.) = \n");
        print_matrix(&p, at + offset * one, size);
        cr_text_put(out, n > 1 ? "\n" : "");
        for (int d = 0; d < t->ndim - 2 && ++place[d] == t->size[d]; d++)
            place[d] = 0;
    }
}

static void print_line(cr_text *out, const double *at, int64_t n)
{
    matrix_printer p = {.out = out};

    choose_form(&p, at, n);
    print_scale(&p);
    for (int64_t i = 0; i < n; i++) {
        print_number(&p, at[i]);
        cr_text_char(out, '\n');
    }
}

/* "[ CPUFloatType{2,3} ]" */
static void print_kind(cr_text *out, const cr_tensor *t)
{
    cr_text_put(out, "[ ");
    cr_text_printf(out, "%s%sType{", cr_device_backend((cr_device_kind)t->device.kind).text,
                   cr_dtype_infos[t->dtype].legacy);
    for (int d = 0; d < t->ndim; d++)
        cr_text_printf(out, "%s%lld", d ? "," : "", (long long)t->size[d]);
    cr_text_put(out, "} ]");
}

/* Complex numbers show their real parts. */
static cr_status print_tensor(cr_text *out, const cr_tensor *t)
{
    cr_tensor *host;
    char *bytes;

    if (cr_is_meta(t->device))
        return cr_fail(CR_NOT_IMPLEMENTED, "Cannot copy out of meta tensor; no data!");
    if (t->layout)
        return cr_fail(CR_NOT_IMPLEMENTED, "printing a sparse tensor needs Python");
    CR_TRY(cr_copy_as(&host, t, CR_F64, CR_HOST, CR_FORMAT_CONTIGUOUS));
    cr_status st = cr_reach(&bytes, host);
    const double *at = (const double *)(const void *)bytes;
    if (!st && !t->ndim) {
        print_shortest(out, at[0]);
        cr_text_char(out, '\n');
    } else if (!st && t->numel && t->ndim == 1) {
        print_line(out, at, t->numel);
    } else if (!st && t->numel && t->ndim == 2) {
        print_matrix(&(matrix_printer){.out = out}, at, t->size);
    } else if (!st && t->numel) {
        print_matrices(out, at, t);
    }
    cr_drop(host);
    if (!st)
        print_kind(out, t);
    return st ? st : cr_text_status(out);
}

/* --- other values --- */

/* A whole number of up to 19 digits, those after the 17th as zeros. */
static void print_whole(cr_text *out, double d)
{
    char text[32];
    long point;

    snprintf(text, sizeof text, "%.16e", d == 0 ? 0 : d);
    point = strtol(strchr(text, 'e') + 1, NULL, 10);
    for (const char *s = text; *s != 'e' && point >= 0; s++) {
        if (*s == '.')
            continue;
        cr_text_char(out, *s);
        point -= *s != '-';
    }
    for (; point >= 0; point--)
        cr_text_char(out, '0');
    cr_text_char(out, '.');
}

static void print_float(cr_text *out, double d)
{
    if (fabs(d) < 0x1p63 && d == floor(d))
        print_whole(out, d);
    else if (isnan(d))
        cr_text_put(out, "nan"); /* of either sign */
    else
        cr_text_printf(out, "%.17g", d);
}

static cr_status print_items(cr_text *out, const cr_ilist *l, bool tuple)
{
    cr_text_char(out, tuple ? '(' : '[');
    for (size_t i = 0; i < l->len; i++) {
        cr_text_put(out, i ? ", " : "");
        CR_TRY(cr_ivalue_print(out, &l->at[i]));
    }
    cr_text_put(out, tuple && l->len == 1 ? ",)" : tuple ? ")" : "]");
    return CR_OK;
}

static cr_status print_dict(cr_text *out, const cr_idict *d)
{
    cr_text_char(out, '{');
    for (size_t i = 0; i < d->len; i++) {
        cr_text_put(out, i ? ", " : "");
        CR_TRY(cr_ivalue_print(out, &d->at[i].key));
        cr_text_put(out, ": ");
        CR_TRY(cr_ivalue_print(out, &d->at[i].value));
    }
    cr_text_char(out, '}');
    return CR_OK;
}

static void print_device(cr_text *out, int64_t packed)
{
    static const char *const names[] = {
#define CR_DEVICE_KIND(NAME, text) [CR_##NAME] = text,
#include "num/device.def"
#undef CR_DEVICE_KIND
    };

    cr_text_put(out, names[cr_packed_kind(packed)]);
    if (cr_packed_index(packed) >= 0)
        cr_text_printf(out, ":%d", cr_packed_index(packed));
}

static void print_complex(cr_text *out, cr_complex c)
{
    print_float(out, c.re);
    cr_text_char(out, c.im >= 0 ? '+' : '-');
    print_float(out, fabs(c.im));
    cr_text_char(out, 'j');
}

static const char *after_dot(const char *qualified)
{
    const char *dot = strrchr(qualified, '.');

    return dot ? dot + 1 : qualified;
}

cr_status cr_ivalue_print(cr_text *out, const cr_ivalue *v)
{
    switch ((cr_iv_kind)v->kind) {
    case CR_IV_NONE: cr_text_put(out, "None"); break;
    case CR_IV_TENSOR: return print_tensor(out, v->t);
    case CR_IV_INT: cr_text_printf(out, "%lld", (long long)v->i); break;
    case CR_IV_FLOAT: print_float(out, v->d); break;
    case CR_IV_COMPLEX: print_complex(out, v->c); break;
    case CR_IV_BOOL: cr_text_put(out, v->i ? "True" : "False"); break;
    case CR_IV_DEVICE: print_device(out, v->i); break;
    case CR_IV_STRING: cr_text_put_n(out, v->string->at, v->string->len); break;
    case CR_IV_LIST:
    case CR_IV_TUPLE: return print_items(out, v->list, v->kind == CR_IV_TUPLE);
    case CR_IV_DICT: return print_dict(out, v->dict);
    case CR_IV_OBJECT: cr_text_printf(out, "<%s object>", v->object->type->cls->name); break;
    case CR_IV_ENUM:
        cr_text_printf(out, "Enum<%s.%s>", after_dot(v->member->type->cls->name),
                       v->member->name.string->at);
        break;
    default: cr_text_printf(out, "<%s>", cr_ivalue_kind_name(v));
    }
    return cr_text_status(out);
}
