/* Draws a graph with groups.
 *
 * Boxes are placed in layers.  The layer of a box is below the layers of its producers; an
 * input is in the layer above its first reader.  Many inputs with one common reader (an
 * optimizer's state) are drawn as one box.  An edge across several layers has a bend in each;
 * edges of one value share their bends.  Within a layer boxes are sorted by the mean position
 * of their neighbours, above and below in turn; then each box moves towards its neighbours as
 * far as order and widths permit (least squares under an order: boxes that would overtake each
 * other move as one block). */
#include "compile/compile.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum { INPUT, RESULT, CONSTANT, VIEW, CALL, GROUP, BEND } kind;

enum {
    SWEEPS = 12,
    LINE = 15,
    PAD = 8,
    GAP_X = 16,
    GAP_Y = 44,
    MARGIN = 24,
    MOST_LINES = 14,
    TITLE = 22,
    BUNDLE = 5
};
static const double letter = 6.7; /* of the 11-pixel monospace font */

typedef struct {
    kind kind;
    const cr_gnode *node;   /* of calls, groups, constants */
    const cr_gvalue *value; /* of inputs, results, bends */
    int layer, place;
    double x, y, wide, tall; /* x: its centre */
    double bottom;           /* bottom of its layer */
    double wish;
    struct {
        size_t len, cap;
        const cr_gvalue **at;
    } bundle; /* of a box that shows several inputs */
} box;

typedef struct {
    int from, to; /* boxes */
    const cr_gvalue *v;
    int layer; /* layer of the reader, used while edges are sorted */
} edge;

typedef struct {
    cr_session *s;
    const cr_graph *g;
    struct {
        size_t len, cap;
        box *at;
    } boxes;
    struct {
        size_t len, cap;
        edge *at;
    } edges;    /* between adjacent layers, after bend_edges */
    int *maker; /* by value id: its box, or -1 */
    int reader; /* the current box */
    int layers;
    int **layer, *count; /* boxes of a layer, in order */
    double wide, tall;
} drawing;

/* --- boxes and edges --- */

static int add_box(drawing *d, box b)
{
    CR_PUSH(d->s, &d->boxes, b);
    return (int)d->boxes.len - 1;
}

static void add_edge(void *context, cr_gvalue *v)
{
    drawing *d = context;

    if (d->maker[v->id] < 0 && !v->by)
        d->maker[v->id] = add_box(d, (box){.kind = INPUT, .value = v});
    if (d->maker[v->id] < 0)
        return; /* made inside */
    for (size_t i = d->edges.len; i-- > 0 && d->edges.at[i].to == d->reader;)
        if (d->edges.at[i].v == v)
            return;
    edge e = {.from = d->maker[v->id], .to = d->reader, .v = v};
    CR_PUSH(d->s, &d->edges, e);
}

static void read_args(drawing *d, const cr_gnode *n)
{
    cr_gnode_each_read(n, add_edge, d);
    for (int b = 0; b < cr_gnode_blocks(n); b++)
        for (size_t i = 0; i < n->block[b]->len; i++)
            read_args(d, n->block[b]->at[i]);
}

static kind kind_of(const cr_gnode *n)
{
    switch ((cr_gnode_kind)n->kind) {
    case CR_GNODE_CONSTANT: return CONSTANT;
    case CR_GNODE_CALL: return n->op->does == CR_DOES_MAP ? VIEW : CALL;
    case CR_GNODE_IF: return CALL;
    case CR_GNODE_GROUP: break;
    }
    return GROUP;
}

static void add_result(void *context, cr_gvalue *v)
{
    drawing *d = context;

    if (!v->by)
        return; /* an input that is also an output */
    d->reader = add_box(d, (box){.kind = RESULT, .value = v});
    add_edge(d, v);
}

static void find_boxes(drawing *d)
{
    const cr_gblock *b = d->g->body;

    for (size_t i = 0; i < b->len; i++) {
        const cr_gnode *n = b->at[i];
        int at = d->reader = add_box(d, (box){.kind = kind_of(n), .node = n});
        read_args(d, n);
        for (int k = 0; k < n->result_count; k++)
            d->maker[n->result[k]->id] = at;
    }
    cr_gblock_each_output(b, add_result, d);
}

/* Joins inputs with one common reader into one box, if the reader has many of them. */
static void bundle_inputs(drawing *d)
{
    int *readers = CR_NEW_N(d->s, int, d->boxes.len), *own = CR_NEW_N(d->s, int, d->boxes.len);
    int *bundle = CR_NEW_N(d->s, int, d->boxes.len); /* by reader: 1 + the box of its inputs */
    size_t n = d->edges.len, kept = 0;

    for (size_t i = 0; i < n; i++)
        readers[d->edges.at[i].from]++;
    for (size_t i = 0; i < n; i++)
        own[d->edges.at[i].to] +=
            d->boxes.at[d->edges.at[i].from].kind == INPUT && readers[d->edges.at[i].from] == 1;
    for (size_t i = 0; i < n; i++) {
        edge e = d->edges.at[i];
        box *from = &d->boxes.at[e.from];
        bool joins = from->kind == INPUT && readers[e.from] == 1 && own[e.to] > BUNDLE;
        if (!joins || !bundle[e.to])
            d->edges.at[kept++] = e;
        if (!joins)
            continue;
        if (bundle[e.to])
            from->kind = BEND; /* without edges, it is not drawn */
        else
            bundle[e.to] = e.from + 1;
        CR_PUSH(d->s, &d->boxes.at[bundle[e.to] - 1].bundle, e.v);
    }
    d->edges.len = kept;
}

/* --- text of a box --- */

static const char *name_of(const cr_gnode *n)
{
    return n->kind == CR_GNODE_CONSTANT ? "constant"
           : n->kind == CR_GNODE_IF     ? "if"
                                        : n->op->name;
}

static int all_lines(const box *b)
{
    return b->kind == GROUP ? (int)b->node->block[0]->len
           : b->bundle.len  ? (int)b->bundle.len
                            : 1;
}

static int line_count(const box *b)
{
    int n = all_lines(b);

    return n > MOST_LINES ? MOST_LINES : n;
}

static char *size_of(drawing *d, const cr_gvalue *v)
{
    cr_text t = {0};

    if (!v->type.known)
        return "?";
    for (int i = 0; i < v->type.ndim; i++)
        cr_text_printf(&t, "%s%lld", i ? "\xc3\x97" : "", (long long)v->type.size[i]);
    cr_text_printf(&t, "%s%s", v->type.ndim ? " " : "", cr_dtype_infos[v->type.dtype].suffix);
    return cr_session_take_text(d->s, &t);
}

/* Line k of the text; *source is the source line of the operator. */
static const char *line_of(drawing *d, const box *b, int k, const char **source)
{
    int all = all_lines(b);

    *source = "";
    if (k == MOST_LINES - 1 && all > MOST_LINES)
        return cr_session_printf(d->s, "and %d more", all - k);
    if (b->bundle.len) {
        *source = size_of(d, b->bundle.at[k]);
        return b->bundle.at[k]->name;
    }
    if (b->kind == INPUT || b->kind == RESULT)
        return cr_session_printf(d->s, "%s%s", b->kind == RESULT ? "gives " : "",
                                 b->value->name);
    const cr_gnode *n = b->node;
    if (b->kind == GROUP)
        n = n->block[0]->at[k];
    *source = n->source ? n->source : "";
    return name_of(n);
}

/* The number of characters: a multiplication sign has two bytes. */
static int letters(const char *s)
{
    int n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

/* The number of values with a label below the box. */
static int labels(const box *b)
{
    return b->node ? b->node->result_count : b->kind == INPUT && !b->bundle.len;
}

static const cr_gvalue *labelled(const box *b, int k)
{
    return b->node ? b->node->result[k] : b->value;
}

static void measure(drawing *d, box *b)
{
    int most = 0, label = 0;

    if (b->kind == BEND) {
        b->wide = 6;
        return;
    }
    for (int k = 0; k < line_count(b); k++) {
        const char *source, *text = line_of(d, b, k, &source);
        int n = letters(text) + (*source ? 2 + letters(source) : 0);
        most = n > most ? n : most;
    }
    for (int k = 0; k < labels(b); k++) {
        int n = letters(size_of(d, labelled(b, k))) + 1;
        label = n > label ? n : label;
    }
    b->wide = most * letter + 2 * PAD;
    if (label * labels(b) * letter > b->wide)
        b->wide = label * labels(b) * letter;
    b->tall = line_count(b) * LINE + PAD;
}

/* --- layers --- */

static void set_layers(drawing *d)
{
    size_t nodes = d->edges.len;

    for (size_t i = 0; i < nodes; i++) { /* producers come before their readers */
        const edge *e = &d->edges.at[i];
        box *to = &d->boxes.at[e->to], *from = &d->boxes.at[e->from];
        int below = from->kind == INPUT ? 1 : from->layer + 1;
        to->layer = to->layer > below ? to->layer : below;
    }
    for (size_t i = 0; i < nodes; i++) {
        const edge *e = &d->edges.at[i];
        box *from = &d->boxes.at[e->from];
        int above = d->boxes.at[e->to].layer - 1;
        bool floats = from->kind == INPUT || from->kind == CONSTANT;
        if (floats && (!from->place || above < from->layer))
            from->layer = above;
        from->place = 1;
    }
    for (size_t i = 0; i < d->boxes.len; i++)
        if (d->boxes.at[i].layer >= d->layers)
            d->layers = d->boxes.at[i].layer + 1;
}

/* By value, then by the layer of the reader. */
static int by_value(const void *a, const void *b)
{
    const edge *x = a, *y = b;

    if (x->v != y->v)
        return x->v->id < y->v->id ? -1 : 1;
    return x->layer != y->layer ? x->layer - y->layer : x->to - y->to;
}

/* Replaces edges across several layers by edges through bends. */
static void bend_edges(drawing *d)
{
    edge *old = d->edges.at;
    size_t n = d->edges.len;
    int end = -1;

    for (size_t i = 0; i < n; i++)
        old[i].layer = d->boxes.at[old[i].to].layer;
    if (n)
        qsort(old, n, sizeof *old, by_value);
    d->edges.at = NULL;
    d->edges.len = d->edges.cap = 0;
    for (size_t i = 0; i < n; i++) {
        if (!i || old[i].v != old[i - 1].v)
            end = old[i].from;
        while (d->boxes.at[end].layer < d->boxes.at[old[i].to].layer - 1) {
            int bend = add_box(
                d, (box){.kind = BEND, .value = old[i].v, .layer = d->boxes.at[end].layer + 1});
            edge e = {.from = end, .to = bend, .v = old[i].v};
            CR_PUSH(d->s, &d->edges, e);
            end = bend;
        }
        edge e = {.from = end, .to = old[i].to, .v = old[i].v};
        CR_PUSH(d->s, &d->edges, e);
    }
}

static void fill_layers(drawing *d)
{
    d->count = CR_NEW_N(d->s, int, d->layers);
    d->layer = CR_NEW_N(d->s, int *, d->layers);
    for (size_t i = 0; i < d->boxes.len; i++)
        d->count[d->boxes.at[i].layer]++;
    for (int l = 0; l < d->layers; l++) {
        d->layer[l] = CR_NEW_N(d->s, int, d->count[l]);
        d->count[l] = 0;
    }
    for (size_t i = 0; i < d->boxes.len; i++) {
        box *b = &d->boxes.at[i];
        b->place = d->count[b->layer];
        d->layer[b->layer][d->count[b->layer]++] = (int)i;
    }
}

/* --- order --- */

/* Sets `wish` to the mean of `value` over the neighbours above, below or both; a box without
 * neighbours keeps its value. */
typedef double (*reading)(const box *b);
static double place_of(const box *b) { return (double)b->place; }
static double x_of(const box *b) { return b->x; }

static void wishes(drawing *d, bool above, bool below, reading value)
{
    double *sum = CR_NEW_N(d->s, double, d->boxes.len);
    int *n = CR_NEW_N(d->s, int, d->boxes.len);

    for (size_t i = 0; i < d->edges.len; i++) {
        int from = d->edges.at[i].from, to = d->edges.at[i].to;
        if (above) {
            sum[to] += value(&d->boxes.at[from]);
            n[to]++;
        }
        if (below) {
            sum[from] += value(&d->boxes.at[to]);
            n[from]++;
        }
    }
    for (size_t i = 0; i < d->boxes.len; i++)
        d->boxes.at[i].wish = n[i] ? sum[i] / n[i] : value(&d->boxes.at[i]);
}

static void sort_layer(drawing *d, int l)
{
    int *at = d->layer[l];

    for (int i = 1; i < d->count[l]; i++)
        for (int k = i; k && d->boxes.at[at[k - 1]].wish > d->boxes.at[at[k]].wish; k--) {
            int swap = at[k];
            at[k] = at[k - 1];
            at[k - 1] = swap;
        }
    for (int i = 0; i < d->count[l]; i++)
        d->boxes.at[at[i]].place = i;
}

static void order(drawing *d)
{
    for (int k = 0; k < SWEEPS; k++)
        for (int i = 0; i < d->layers; i++) {
            wishes(d, k % 2 == 0, k % 2 == 1, place_of);
            sort_layer(d, k % 2 ? d->layers - 1 - i : i);
        }
}

/* --- places --- */

static double between(const box *a, const box *b) { return (a->wide + b->wide) / 2 + GAP_X; }

/* Sets x as near to `wish` as order and widths permit; boxes that touch form blocks. */
static void place_layer(drawing *d, int l)
{
    int n = d->count[l], blocks = 0;
    double *sum = CR_NEW_N(d->s, double, n), *offset = CR_NEW_N(d->s, double, n);
    int *size = CR_NEW_N(d->s, int, n);

    for (int i = 0; i < n; i++) {
        box *b = &d->boxes.at[d->layer[l][i]];
        offset[i] = i ? offset[i - 1] + between(&d->boxes.at[d->layer[l][i - 1]], b) : 0;
        sum[blocks] = b->wish - offset[i];
        size[blocks++] = 1;
        while (blocks > 1 &&
               sum[blocks - 2] / size[blocks - 2] > sum[blocks - 1] / size[blocks - 1]) {
            sum[blocks - 2] += sum[blocks - 1];
            size[blocks - 2] += size[blocks - 1];
            blocks--;
        }
    }
    for (int k = 0, i = 0; k < blocks; k++)
        for (int end = i + size[k]; i < end; i++)
            d->boxes.at[d->layer[l][i]].x = sum[k] / size[k] + offset[i];
}

static void place(drawing *d)
{
    double left = HUGE_VAL, right = 0, y = MARGIN;

    for (int k = 0; k < SWEEPS; k++) {
        bool down = k % 2 == 0, last = k == SWEEPS - 1;
        for (int i = 0; i < d->layers; i++) {
            wishes(d, down || last, !down || last, x_of);
            place_layer(d, down ? i : d->layers - 1 - i);
        }
    }
    for (size_t i = 0; i < d->boxes.len; i++)
        left = fmin(left, d->boxes.at[i].x - d->boxes.at[i].wide / 2);
    for (int l = 0; l < d->layers; l++) {
        double tall = 0;
        for (int i = 0; i < d->count[l]; i++)
            tall = fmax(tall, d->boxes.at[d->layer[l][i]].tall);
        for (int i = 0; i < d->count[l]; i++) {
            box *b = &d->boxes.at[d->layer[l][i]];
            b->x += MARGIN - left;
            b->tall = b->kind == BEND ? tall : b->tall;
            b->y = b->kind == INPUT || b->kind == CONSTANT ? y + tall - b->tall : y;
            b->bottom = y + tall;
            right = fmax(right, b->x + b->wide / 2);
        }
        y += tall + GAP_Y;
    }
    d->wide = right + MARGIN;
    d->tall = y - GAP_Y + MARGIN;
}

/* --- drawing --- */

static void put_text(cr_text *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '<' || *s == '>' || *s == '&')
            cr_text_put(out, *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : "&amp;");
        else
            cr_text_char(out, *s);
    }
}

static const char *const class_of[] = {
    [INPUT] = "input", [RESULT] = "result", [CONSTANT] = "constant", [VIEW] = "view",
    [CALL] = "call",   [GROUP] = "group",   [BEND] = "bend"};

static void put_box(cr_text *out, drawing *d, const box *b)
{
    double left = b->x - b->wide / 2, y = b->y + PAD / 2.0 + LINE - 4;

    cr_text_printf(
        out,
        "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\"/>\n",
        class_of[b->kind], left, b->y, b->wide, b->tall,
        b->kind == INPUT || b->kind == RESULT ? 10 : 3);
    for (int k = 0; k < line_count(b); k++, y += LINE) {
        const char *source, *text = line_of(d, b, k, &source);
        bool alone = b->kind != GROUP && !b->bundle.len && !*source;
        cr_text_printf(out, "<text x=\"%.1f\" y=\"%.1f\"%s>", alone ? b->x : left + PAD, y,
                       alone ? " text-anchor=\"middle\"" : "");
        put_text(out, text);
        cr_text_put(out, "</text>\n");
        if (!*source)
            continue;
        cr_text_printf(out, "<text class=\"source\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">",
                       left + b->wide - PAD, y);
        put_text(out, source);
        cr_text_put(out, "</text>\n");
    }
}

/* The x at which the edge of a value leaves its box. */
static double port(const box *b, const cr_gvalue *v)
{
    int n = labels(b);

    return b->kind == BEND || n < 2 ? b->x : b->x + b->wide * ((v->index + 0.5) / n - 0.5);
}

static void put_labels(cr_text *out, drawing *d, const box *b)
{
    for (int k = 0; k < labels(b); k++) {
        const cr_gvalue *v = labelled(b, k);
        const char *size = size_of(d, v);
        double x = port(b, v), y = b->y + b->tall + 5, wide = letters(size) * 6.1 + 2;
        cr_text_printf(
            out, "<rect class=\"paper\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"11\"/>",
            x - wide / 2, y, wide);
        cr_text_printf(
            out,
            "<text class=\"size\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x,
            y + 9, size);
    }
}

/* The x at which an edge arrives: edges into one box are ordered by their origin. */
static double arrival(const drawing *d, const edge *e)
{
    const box *to = &d->boxes.at[e->to], *from = &d->boxes.at[e->from];
    double mine = port(from, e->v);
    int n = 0, before = 0;

    if (to->kind == BEND)
        return to->x;
    for (size_t i = 0; i < d->edges.len; i++) {
        const edge *o = &d->edges.at[i];
        if (o->to != e->to)
            continue;
        double theirs = port(&d->boxes.at[o->from], o->v);
        n++;
        before += theirs < mine || (theirs == mine && o < e);
    }
    return to->x + fmin(to->wide * 0.7, n * 14.0) * ((before + 0.5) / n - 0.5);
}

static void put_edge(cr_text *out, const drawing *d, const edge *e)
{
    const box *from = &d->boxes.at[e->from], *to = &d->boxes.at[e->to];
    double x1 = port(from, e->v), y1 = from->y + from->tall, x2 = arrival(d, e), y2 = to->y,
           half = (y2 - from->bottom) / 2;

    cr_text_printf(out,
                   "<path class=\"edge\" d=\"M%.1f %.1fV%.1fC%.1f %.1f %.1f %.1f %.1f %.1f", x1,
                   y1, from->bottom, x1, from->bottom + half, x2, y2 - half, x2, y2);
    if (to->kind == BEND)
        cr_text_printf(out, "V%.1f\"/>\n", to->y + to->tall);
    else
        cr_text_put(out, "\" marker-end=\"url(#tip)\"/>\n");
}

static void put_drawing(cr_text *out, drawing *d)
{
    for (size_t i = 0; i < d->edges.len; i++)
        put_edge(out, d, &d->edges.at[i]);
    for (size_t i = 0; i < d->boxes.len; i++)
        if (d->boxes.at[i].kind != BEND) {
            put_box(out, d, &d->boxes.at[i]);
            put_labels(out, d, &d->boxes.at[i]);
        }
}

static void lay_out(drawing *d)
{
    d->maker = CR_NEW_N(d->s, int, d->g->values);
    for (unsigned i = 0; i < d->g->values; i++)
        d->maker[i] = -1;
    find_boxes(d);
    bundle_inputs(d);
    set_layers(d);
    bend_edges(d);
    fill_layers(d);
    for (size_t i = 0; i < d->boxes.len; i++)
        measure(d, &d->boxes.at[i]);
    order(d);
    place(d);
}

/* --- all graphs --- */

typedef struct {
    cr_text *out;
    const cr_picture_part *part;
    int parts;
} job;

static const char style[] =
    "<style>text{font:11px monospace;fill:#1b1f24}.title{font:bold 13px "
    "sans-serif}.source{fill:#7a828c}"
    ".size{font-size:10px;fill:#42526b}.paper{fill:#fff}"
    "rect{stroke-width:1.2px}.group{fill:#dbe9fb;stroke:#2f6fb8}.call{fill:#fbe6d0;stroke:#"
    "c0702a}"
    ".view{fill:#f2f3f5;stroke:#a0a7b0}.input{fill:#e4f3e4;stroke:#4c9a55}.constant{fill:#"
    "fdf8d8;stroke:#b9a83a}"
    ".result{fill:#ece6f6;stroke:#7c59b5}.edge{fill:none;stroke:#77808c;stroke-width:1.1px}</"
    "style>\n"
    "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" "
    "markerHeight=\"7\" "
    "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#77808c\"/></marker></defs>\n";

/* Writes the legend of colours in one line. */
static void put_legend(cr_text *out, double y)
{
    static const struct {
        kind kind;
        const char *text;
    } rows[] = {{GROUP, "group: one pass over memory"},
                {CALL, "call"},
                {VIEW, "view"},
                {INPUT, "input"},
                {RESULT, "result"}};
    double x = MARGIN;

    for (size_t i = 0; i < CR_LEN(rows); i++) {
        cr_text_printf(
            out,
            "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" rx=\"2\"/>"
            "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
            class_of[rows[i].kind], x, y, x + 18, y + 10, rows[i].text);
        x += 18 + letters(rows[i].text) * letter + 20;
    }
}

static void draw_all(cr_session *s, void *context)
{
    job *j = context;
    drawing *d = CR_NEW_N(s, drawing, j->parts);
    double wide = 480, tall = 2 * MARGIN, y = 2 * MARGIN;

    for (int k = 0; k < j->parts; k++) {
        d[k].s = s;
        d[k].g = j->part[k].graph;
        lay_out(&d[k]);
        wide = fmax(wide, d[k].wide);
        tall += d[k].tall + TITLE;
    }
    cr_text_printf(j->out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                   "viewBox=\"0 0 %.0f %.0f\">\n",
                   wide, tall, wide, tall);
    cr_text_put(j->out, style);
    cr_text_printf(j->out, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n", wide,
                   tall);
    put_legend(j->out, MARGIN);
    for (int k = 0; k < j->parts; k++) {
        cr_text_printf(j->out, "<text class=\"title\" x=\"%d\" y=\"%.1f\">", MARGIN,
                       y + TITLE - 6);
        put_text(j->out, j->part[k].title);
        cr_text_printf(j->out, "</text>\n<g transform=\"translate(%.1f %.1f)\">\n",
                       (wide - d[k].wide) / 2, y + TITLE);
        put_drawing(j->out, &d[k]);
        cr_text_put(j->out, "</g>\n");
        y += d[k].tall + TITLE;
    }
    cr_text_put(j->out, "</svg>\n");
    cr_session_check(s, cr_text_status(j->out));
}

cr_status cr_picture(cr_text *out, const cr_picture_part *part, int parts)
{
    cr_session s = {0};
    job j = {out, part, parts};
    cr_status st = cr_session_run(&s, draw_all, &j);

    cr_session_drop(&s);
    return st;
}
