/* The events of a simulated step as an SVG picture. */
#include "dist/simulate.h"
#include <string.h>

enum { LEFT = 70, WIDTH = 1000, ROW = 22, GAP = 10, TOP = 40, LEAST_FOR_TEXT = 22 };

static const char *colour_of(char kind)
{
    switch (kind) {
    case 'F': return "#9ecae1";
    case 'B': return "#a1d99b";
    case 'I': return "#c7e9c0";
    case 'W': return "#74c476";
    case 'U': return "#bdbdbd";
    case 'G': return "#fdd0a2";
    case 'S': return "#fdae6b";
    case 'C': return "#fee6ce";
    default: return "#fd8d3c";
    }
}

static int row_of(const cr_sim_event *e)
{
    return TOP + e->rank * (2 * ROW + GAP) + (e->lane == CR_SIM_TALKS ? ROW : 0);
}

static void draw_event(cr_text *svg, const cr_sim_event *e, double scale)
{
    double x = LEFT + e->from * scale, width = (e->to - e->from) * scale;
    int y = row_of(e);

    cr_text_printf(svg,
                   "<rect x='%.2f' y='%d' width='%.2f' height='%d' fill='%s' stroke='#666' "
                   "stroke-width='0.4'><title>%d%c%d: %.6f s to %.6f s</title></rect>\n",
                   x, y, width, ROW - 2, colour_of(e->kind), e->stage, e->kind, e->part,
                   e->from, e->to);
    if (width >= LEAST_FOR_TEXT && e->lane == CR_SIM_COMPUTES && e->kind != 'U')
        cr_text_printf(svg, "<text x='%.2f' y='%d' text-anchor='middle'>%d%c%d</text>\n",
                       x + width / 2, y + ROW - 7, e->stage, e->kind, e->part);
}

/* Characters of a title that XML reserves. */
static void put_escaped(cr_text *svg, const char *s)
{
    for (; *s; s++)
        if (*s == '<')
            cr_text_put(svg, "&lt;");
        else if (*s == '&')
            cr_text_put(svg, "&amp;");
        else
            cr_text_char(svg, *s);
}

void cr_sim_draw(cr_text *svg, const cr_sim_result *r, const char *title)
{
    int ranks = 0;

    for (size_t i = 0; i < r->events; i++)
        ranks = r->event[i].rank >= ranks ? r->event[i].rank + 1 : ranks;
    cr_text_printf(svg,
                   "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                   "font-family='sans-serif' font-size='11'>\n"
                   "<rect width='100%%' height='100%%' fill='white'/>\n"
                   "<text x='%d' y='20' font-size='14'>",
                   LEFT + WIDTH + 20, TOP + ranks * (2 * ROW + GAP) + 10, LEFT);
    put_escaped(svg, title);
    cr_text_put(svg, "</text>\n");
    for (int k = 0; k < ranks; k++) {
        int y = TOP + k * (2 * ROW + GAP) + ROW - 7;
        cr_text_printf(svg,
                       "<text x='4' y='%d'>rank %d</text>\n<text x='4' y='%d'>calls</text>\n",
                       y, k, y + ROW);
    }
    for (size_t i = 0; i < r->events; i++)
        draw_event(svg, &r->event[i], r->seconds > 0 ? WIDTH / r->seconds : 0);
    cr_text_put(svg, "</svg>\n");
}
