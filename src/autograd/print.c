/* Tensors as text.
 *
 * A tensor is first reduced to the elements that are shown: of each long dim of a large tensor
 * the first and the last.  These elements are copied to the host.  All of them then have one
 * format: floats that are whole numbers as "1.", others with digits after the point, or in
 * scientific notation when the magnitudes require it. */
#include "autograd/print.h"
#include "autograd/autograd.h"
#include "entry.h"
#include "tensor/plain.h"
#include <math.h>
#include <string.h>

cr_print_options cr_printing = {4, 1000, 3, 80, -1};

/* The notation and width of all numbers. */
typedef struct {
    bool floats, whole, scientific;
    int64_t width;
} print_format;

typedef struct {
    cr_text *out;
    cr_tensor *shown; /* contiguous, on the host */
    const char *at;
    size_t item;
    bool cut[CR_MAX_DIMS]; /* elements between the ends of this dim are left out */
    bool is_complex;
    print_format real, imag;
} printer;

/* --- the elements that are shown --- */

static cr_status print_part(cr_tensor **out, cr_tensor *t, int d, int64_t start, int64_t n)
{
    cr_value arg[] = {cr_of_tensor(t), cr_of_int(d), cr_of_int(start), cr_of_int(n)};

    return cr_call_tensor(out, cr_entry.narrow, arg, 4);
}

/* Replaces *t by its first and last elements of dim `d`. */
static cr_status keep_ends(cr_tensor **t, int d, int64_t edge)
{
    cr_tensor *first = NULL, *last = NULL, *both = NULL;
    cr_value parts[2];
    cr_status st;

    CR_GO(print_part(&first, *t, d, 0, edge));
    CR_GO(print_part(&last, *t, d, (*t)->size[d] - edge, edge));
    parts[0] = cr_of_tensor(first);
    parts[1] = cr_of_tensor(last);
    cr_value arg[] = {{.tag = CR_TENSORS, .len = 2, .list = parts}, cr_of_int(d)};
    CR_GO(cr_call_tensor(&both, cr_entry.cat, arg, 2));
    cr_drop(*t);
    *t = both;
done:
    cr_drop(first);
    cr_drop(last);
    return st;
}

static cr_status print_replace(cr_tensor **t, const cr_op *op, const cr_value *more, int n)
{
    cr_value arg[4] = {cr_of_tensor(*t)};
    cr_tensor *made = NULL;

    for (int i = 0; i < n; i++)
        arg[1 + i] = more[i];
    CR_TRY(cr_call_tensor(&made, op, arg, 1 + n));
    cr_drop(*t);
    *t = made;
    return CR_OK;
}

static cr_status print_select(printer *p, cr_tensor *t)
{
    bool large = (double)t->numel > cr_printing.threshold;
    cr_value host[] = {
        cr_of_none(), cr_of_none(), {.tag = CR_DEVICE_VAL, .i = cr_device_pack(CR_CPU, -1)}};

    p->shown = cr_keep(t);
    for (int d = 0; large && d < t->ndim; d++) {
        if (t->size[d] <= 2 * cr_printing.edge_items)
            continue;
        p->cut[d] = true;
        CR_TRY(keep_ends(&p->shown, d, cr_printing.edge_items));
    }
    CR_TRY(print_replace(&p->shown, cr_entry.resolve_conj, NULL, 0));
    CR_TRY(print_replace(&p->shown, cr_entry.resolve_neg, NULL, 0));
    if (!cr_has_bytes(p->shown->device))
        CR_TRY(print_replace(&p->shown, cr_entry._to_copy, host, 3));
    return print_replace(&p->shown, cr_entry.contiguous, NULL, 0);
}

/* --- numbers --- */

static cr_scalar print_item(const printer *p, int64_t i)
{
    return cr_scalar_load((cr_dtype)p->shown->dtype, p->at + (size_t)i * p->item);
}

static double print_float(const printer *p, int64_t i, bool imaginary)
{
    cr_scalar x = print_item(p, i);

    return !p->is_complex ? x.d : imaginary ? x.c.im : x.c.re;
}

static void put_float(cr_text *out, const print_format *f, double x)
{
    if (isnan(x))
        cr_text_put(out, "nan");
    else if (f->scientific)
        cr_text_printf(out, "%.*e", cr_printing.precision, x);
    else if (!f->whole)
        cr_text_printf(out, "%.*f", cr_printing.precision, x);
    else
        cr_text_printf(out, isfinite(x) ? "%.0f." : "%.0f", x);
}

static void put_integer(cr_text *out, cr_scalar x)
{
    if (x.category == CR_CAT_BOOL)
        cr_text_put(out, x.i ? "True" : "False");
    else if (x.large)
        cr_text_printf(out, "%llu", (unsigned long long)x.i);
    else
        cr_text_printf(out, "%lld", (long long)x.i);
}

/* Appends `part` with spaces in front of it, up to the width. */
static void put_right(cr_text *out, const cr_text *part, int64_t width)
{
    for (int64_t n = width - (int64_t)part->len; n > 0; n--)
        cr_text_char(out, ' ');
    cr_text_put(out, cr_text_str(part));
}

static void put_number(printer *p, int64_t i)
{
    cr_text text = {0}, imag = {0};

    if (!p->real.floats)
        put_integer(&text, print_item(p, i));
    else
        put_float(&text, &p->real, print_float(p, i, false));
    put_right(p->out, &text, p->real.width);
    if (p->is_complex) {
        text.len = 0;
        put_float(&text, &p->imag, print_float(p, i, true));
        put_right(&imag, &text, p->imag.width);
        const char *at = cr_text_str(&imag) + strspn(cr_text_str(&imag), " ");
        cr_text_printf(p->out, "%s%sj", *at == '-' || *at == '+' ? "" : "+", at);
    }
    if (!p->out->failed)
        p->out->failed = text.failed ? text.failed : imag.failed;
    cr_text_drop(&text);
    cr_text_drop(&imag);
}

/* --- the format --- */

static int64_t width_of_float(const print_format *f, double x)
{
    cr_text text = {0};

    put_float(&text, f, x);
    int64_t n = (int64_t)text.len;
    cr_text_drop(&text);
    return n;
}

/* Zeros, infinities and NaN do not decide the format. */
static bool decides(double x) { return x != 0 && isfinite(x); }

static void choose_floats(print_format *f, const printer *p, bool imaginary)
{
    double low = INFINITY, high = 0;

    *f = (print_format){.floats = true, .whole = true, .width = 1};
    for (int64_t i = 0; i < p->shown->numel; i++) {
        double x = print_float(p, i, imaginary);
        if (!decides(x))
            continue;
        f->whole &= x == ceil(x);
        low = fmin(low, fabs(x));
        high = fmax(high, fabs(x));
    }
    if (high == 0)
        return;
    f->scientific = cr_printing.scientific >= 0
                        ? cr_printing.scientific != 0
                        : high / low > 1000 || high > 1e8 || (!f->whole && low < 1e-4);
    for (int64_t i = 0; i < p->shown->numel; i++) {
        double x = print_float(p, i, imaginary);
        int64_t n = decides(x) ? width_of_float(f, x) : 0;
        f->width = n > f->width ? n : f->width;
    }
}

static void choose_integers(print_format *f, const printer *p)
{
    *f = (print_format){.width = 1};
    for (int64_t i = 0; i < p->shown->numel; i++) {
        cr_text text = {0};
        put_integer(&text, print_item(p, i));
        f->width = (int64_t)text.len > f->width ? (int64_t)text.len : f->width;
        cr_text_drop(&text);
    }
}

static void choose_format(printer *p)
{
    cr_dtype dtype = (cr_dtype)p->shown->dtype;

    p->is_complex = cr_dtype_is_complex(dtype);
    if (!cr_dtype_is_inexact(dtype)) {
        choose_integers(&p->real, p);
        return;
    }
    choose_floats(&p->real, p, false);
    if (p->is_complex)
        choose_floats(&p->imag, p, true);
}

/* --- the layout --- */

static void put_spaces(cr_text *out, int64_t n)
{
    while (n-- > 0)
        cr_text_char(out, ' ');
}

/* The items of the last dim from element `first` on, in lines of the line width. */
static void put_row(printer *p, int64_t first, int64_t indent)
{
    int d = p->shown->ndim - 1;
    int64_t n = p->shown->size[d], edge = p->cut[d] ? n / 2 : n, printed = 0;
    int64_t length = (p->is_complex ? p->real.width + p->imag.width + 1 : p->real.width) + 2;
    int64_t per_line = (cr_printing.line_width - indent) / length;

    per_line = per_line > 0 ? per_line : 1;
    cr_text_char(p->out, '[');
    for (int64_t i = 0; i < n + p->cut[d]; i++, printed++) {
        if (printed)
            cr_text_put(p->out, printed % per_line ? ", " : ",\n");
        if (printed && printed % per_line == 0)
            put_spaces(p->out, indent + 1);
        if (p->cut[d] && i == edge)
            cr_text_put(p->out, " ...");
        else
            put_number(p, first + (p->cut[d] && i > edge ? i - 1 : i));
    }
    cr_text_char(p->out, ']');
}

static void put_dim(printer *p, int d, int64_t first, int64_t indent)
{
    int left = p->shown->ndim - d;
    int64_t n = left ? p->shown->size[d] : 0, edge = p->cut[d] ? n / 2 : n;

    if (left < 2) {
        if (left)
            put_row(p, first, indent);
        else
            put_number(p, first);
        return;
    }
    cr_text_char(p->out, '[');
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < (i > 0) + (p->cut[d] && i == edge); k++) {
            if (k)
                cr_text_put(p->out, "...");
            cr_text_char(p->out, ',');
            for (int line = 0; line < left - 1; line++)
                cr_text_char(p->out, '\n');
            put_spaces(p->out, indent + 1);
        }
        put_dim(p, d + 1, first + i * p->shown->stride[d], indent + 1);
    }
    cr_text_char(p->out, ']');
}

/* True when no element is shown, but the sizes. */
static bool shows_sizes_only(const cr_tensor *t)
{
    return cr_printing.edge_items <= 0 && t->ndim && (double)t->numel > cr_printing.threshold;
}

/* Replaces the printed tensor by a copy on the host. */
static cr_status print_bring(printer *p)
{
    cr_tensor *here;

    if (cr_is_host(p->shown->device))
        return CR_OK;
    CR_TRY(cr_copy_as(&here, p->shown, (cr_dtype)p->shown->dtype, CR_HOST, CR_FORMAT_PRESERVE));
    cr_drop(p->shown);
    p->shown = here;
    return CR_OK;
}

cr_status cr_print_elements(cr_text *out, cr_tensor *t, int64_t indent)
{
    printer p = {.out = out, .item = cr_dtype_size((cr_dtype)t->dtype)};
    bool before = cr_thread.no_grad;
    char *at;

    if (shows_sizes_only(t)) {
        cr_text_put(out, "[...]");
        return cr_text_status(out);
    }
    cr_thread.no_grad = true;
    cr_status st = print_select(&p, t);
    st = st ? st : print_bring(&p);
    cr_thread.no_grad = before;
    st = st ? st : cr_reach(&at, p.shown);
    if (!st && !at) { /* a tensor that only wraps others */
        cr_text_put(out, "...");
        st = cr_text_status(out);
    } else if (!st) {
        p.at = at;
        choose_format(&p);
        put_dim(&p, 0, 0, indent);
        st = cr_text_status(out);
    }
    cr_drop(p.shown);
    return st;
}

/* --- the whole text --- */

static void print_suffixes(cr_text *more, cr_tensor *t)
{
    cr_dtype usual = cr_default_dtype(), dtype = (cr_dtype)t->dtype;
    cr_node *node = NULL;
    bool is_meta = t->device.kind == CR_META, is_empty = !is_meta && !t->numel;
    bool is_usual =
        dtype == usual ||
        (!is_meta && !is_empty &&
         (dtype == CR_I64 || dtype == CR_BOOL ||
          (cr_dtype_is_complex(dtype) && cr_dtype_size(dtype) == 2 * cr_dtype_size(usual))));

    if (t->device.kind != CR_CPU)
        cr_text_printf(more, "device='%s'\n", cr_device_print(t->device).text);
    if (is_meta || (is_empty && t->ndim != 1) || (!is_empty && shows_sizes_only(t))) {
        cr_text_put(more, "size=(");
        for (int d = 0; d < t->ndim; d++)
            cr_text_printf(more, d ? ", %lld" : "%lld", (long long)t->size[d]);
        cr_text_put(more, t->ndim == 1 ? ",)\n" : ")\n");
    }
    if (!is_usual)
        cr_text_printf(more, "dtype=torch.%s\n", cr_dtype_name(dtype));
    if (cr_grad_fn(&node, t))
        cr_text_put(more, "grad_fn=<Invalid>\n");
    else if (node)
        cr_text_printf(more, "grad_fn=<%s>\n", cr_node_name(node));
    else if (t->requires_grad)
        cr_text_put(more, "requires_grad=True\n");
}

/* Appends the suffixes, which end with newlines, where they fit on the last line. */
static void put_suffixes(cr_text *out, size_t from, const char *more, int64_t indent)
{
    const char *newline = strrchr(out->at + from, '\n');
    int64_t used = (int64_t)strlen(newline ? newline : out->at + from) + (newline ? 1 : 2);

    for (const char *end; (end = strchr(more, '\n')); more = end + 1) {
        int64_t n = end - more;
        if (used + n + 2 > cr_printing.line_width) {
            cr_text_put(out, ",\n");
            put_spaces(out, indent);
            used = indent + n;
        } else {
            cr_text_put(out, ", ");
            used += n + 2;
        }
        cr_text_printf(out, "%.*s", (int)n, more);
    }
    cr_text_char(out, ')');
}

cr_status cr_print_tensor(cr_text *out, cr_tensor *t)
{
    static const char prefix[] = "tensor(";
    size_t from = out->len;
    cr_text more = {0};
    cr_status st = CR_OK;

    if (t->layout != CR_LAYOUT_STRIDED)
        return cr_fail(CR_NOT_IMPLEMENTED, "printing a sparse tensor needs Python");
    cr_text_put(out, prefix);
    if (t->device.kind == CR_META)
        cr_text_put(out, "...");
    else if (!t->numel)
        cr_text_put(out, "[]");
    else
        st = cr_print_elements(out, t, (int64_t)strlen(prefix));
    print_suffixes(&more, t);
    st = st ? st : cr_text_status(&more);
    st = st ? st : cr_text_status(out);
    if (!st)
        put_suffixes(out, from, cr_text_str(&more), (int64_t)strlen(prefix));
    cr_text_drop(&more);
    return st ? st : cr_text_status(out);
}
