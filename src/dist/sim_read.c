/* The files of the simulator: lines of words and numbers. */
#include "base/memory.h"
#include "dist/simulate.h"
#include <stdlib.h>
#include <string.h>

/* A number of a line, by its word. */
typedef struct {
    const char *word;
    double *to;
} field;

enum { WORDS = 24, LINE = 512 };

static cr_status bad_line(const char *file, int line, const char *why, const char *what)
{
    return cr_fail(CR_VALUE, "line %d of the %s file: %s '%s'", line, file, why, what);
}

static cr_status read_number(double *out, const char *file, int line, const char *text)
{
    char *end = NULL;
    double d = text ? strtod(text, &end) : -1;

    if (!text || end == text || *end || !(d >= 0) || d > 1e300)
        return bad_line(file, line, "a number that is not negative is expected, not",
                        text ? text : "");
    *out = d;
    return CR_OK;
}

/* Reads "word number" pairs. */
static cr_status read_fields(const char *file, int line, char **word, int n, const field *f,
                             int fields)
{
    for (int i = 0; i < n; i += 2) {
        int k = 0;
        while (k < fields && strcmp(f[k].word, word[i]))
            k++;
        if (k == fields)
            return bad_line(file, line, "there is no number called", word[i]);
        CR_TRY(read_number(f[k].to, file, line, i + 1 < n ? word[i + 1] : NULL));
    }
    return CR_OK;
}

typedef struct {
    const char *file;
    cr_status (*line)(void *context, int line, char **word, int n);
    void *context;
} reader;

/* Divides the text into lines of words; # begins a comment. */
static cr_status read_lines(const reader *r, const char *text)
{
    for (int line = 1; *text; line++) {
        char room[LINE], *word[WORDS], *rest = room, *w;
        size_t len = strcspn(text, "\n");
        int n = 0;
        if (len >= sizeof room)
            return bad_line(r->file, line, "the line is longer than 511 bytes", "");
        memcpy(room, text, len);
        room[len] = 0;
        room[strcspn(room, "#")] = 0;
        while (n < WORDS && (w = strtok_r(rest, " \t\r", &rest)))
            word[n++] = w;
        if (n == WORDS && (w = strtok_r(rest, " \t\r", &rest)))
            return bad_line(r->file, line, "the line has more than 24 words:", w);
        if (n)
            CR_TRY(r->line(r->context, line, word, n));
        text += len + (text[len] == '\n');
    }
    return CR_OK;
}

static void take_name(char *out, size_t size, const char *name)
{
    size_t len = strlen(name) < size ? strlen(name) : size - 1;

    memcpy(out, name, len);
    out[len] = 0;
}

/* --- steps --- */

static cr_status step_unit(cr_sim_step *s, int line, char **word, int n)
{
    cr_sim_unit u = {.name = ""};
    const field f[] = {{"parameters", &u.parameters}, {"flops", &u.flops},
                       {"moved", &u.moved},           {"saved", &u.saved},
                       {"output", &u.output},         {"tensors", &u.tensors},
                       {"buffers", &u.buffers},       {"commands", &u.commands}};

    if (n < 2)
        return bad_line("step", line, "a unit has no name", "");
    take_name(u.name, sizeof u.name, word[1]);
    CR_TRY(read_fields("step", line, word + 2, n - 2, f, (int)CR_LEN(f)));
    cr_sim_unit *more = cr_realloc(s->unit, (size_t)(s->units + 1) * sizeof *more);
    if (!more)
        return CR_MEMORY;
    s->unit = more;
    s->unit[s->units++] = u;
    return CR_OK;
}

static cr_status step_times(double *times, int line, char **word, int n)
{
    const field f[] = {{"forward", &times[CR_SIM_FORWARD]},
                       {"backward", &times[CR_SIM_BACKWARD]},
                       {"update", &times[CR_SIM_UPDATE]}};

    return read_fields("step", line, word + 1, n - 1, f, (int)CR_LEN(f));
}

static cr_status step_line(void *context, int line, char **word, int n)
{
    cr_sim_step *s = context;
    const field numbers[] = {{"states", &s->states}, {"element", &s->element}};

    if (!strcmp(word[0], "step")) {
        take_name(s->name, sizeof s->name, n > 1 ? word[1] : "");
        return CR_OK;
    }
    if (!strcmp(word[0], "unit"))
        return step_unit(s, line, word, n);
    if (!strcmp(word[0], "measured"))
        return step_times(s->measured, line, word, n);
    if (!strcmp(word[0], "host"))
        return step_times(s->host, line, word, n);
    return read_fields("step", line, word, n, numbers, (int)CR_LEN(numbers));
}

cr_status cr_sim_step_read(cr_sim_step *out, const char *text)
{
    cr_sim_step s = {.states = 1, .element = 4};
    cr_status st = read_lines(&(reader){"step", step_line, &s}, text);

    if (!st && !s.units)
        st = cr_fail(CR_VALUE, "the step file has no unit");
    if (st)
        cr_sim_step_drop(&s);
    else
        *out = s;
    return st;
}

void cr_sim_step_drop(cr_sim_step *s)
{
    cr_free(s->unit);
    s->unit = NULL;
}

/* --- machines --- */

/* The index of a word of a list, or its length. */
static size_t find_word(const char *const *list, size_t count, const char *word)
{
    size_t k = 0;

    while (k < count && strcmp(list[k], word))
        k++;
    return k;
}

static cr_status machine_link(cr_sim_machine *m, int line, char **word, int n)
{
    cr_sim_link *l = &m->link[m->links];
    const field f[] = {
        {"ranks", &l->ranks}, {"latency", &l->latency}, {"bandwidth", &l->bandwidth}};

    if (m->links == (int)CR_LEN(m->link))
        return bad_line("machine", line, "there are more than 8 links at", word[0]);
    CR_TRY(read_fields("machine", line, word + 1, n - 1, f, (int)CR_LEN(f)));
    if (l->ranks < 1 || !(l->bandwidth > 0))
        return bad_line("machine", line, "ranks and bandwidth must be above 0 in", word[0]);
    if (m->links && l->ranks <= l[-1].ranks)
        return bad_line("machine", line,
                        "a link joins no more ranks than the one before:", word[0]);
    m->links++;
    return CR_OK;
}

static cr_status machine_point(cr_sim_machine *m, int line, char **word, int n)
{
    static const char *const calls[] = {"all_reduce", "all_gather", "reduce_scatter"};
    cr_sim_point p = {.ranks = 2};
    const field f[] = {{"ranks", &p.ranks}, {"bytes", &p.bytes}, {"seconds", &p.seconds}};
    size_t k = n > 1 ? find_word(calls, CR_LEN(calls), word[1]) : CR_LEN(calls);

    if (k == CR_LEN(calls))
        return bad_line("machine", line, "there is no call", n > 1 ? word[1] : "");
    p.call = (cr_sim_call)k;
    CR_TRY(read_fields("machine", line, word + 2, n - 2, f, (int)CR_LEN(f)));
    if (p.ranks < 2)
        return bad_line("machine", line, "a call has at least 2 ranks, not", word[3]);
    for (int i = 0; i < m->points; i++)
        if (m->point[i].call == p.call &&
            (m->point[i].bytes == p.bytes || m->point[i].ranks != p.ranks))
            return bad_line("machine", line,
                            "other bytes and the same ranks as before are expected for",
                            word[1]);
    cr_sim_point *more = cr_realloc(m->point, (size_t)(m->points + 1) * sizeof *more);
    if (!more)
        return CR_MEMORY;
    m->point = more;
    int at = m->points++;
    for (; at && (more[at - 1].call > p.call ||
                  (more[at - 1].call == p.call && more[at - 1].bytes > p.bytes));
         at--)
        more[at] = more[at - 1];
    more[at] = p;
    return CR_OK;
}

static cr_status machine_host(cr_sim_machine *m, int line, char **word, int n)
{
    static const char *const data[] = {[CR_SIM_DDP] = "ddp", [CR_SIM_FSDP] = "fsdp"};
    static const char *const phases[] = {[CR_SIM_FORWARD] = "forward",
                                         [CR_SIM_BACKWARD] = "backward",
                                         [CR_SIM_UPDATE] = "update"};
    size_t d = n > 1 ? find_word(data, CR_LEN(data), word[1]) : CR_LEN(data);
    size_t p = n > 2 ? find_word(phases, CR_LEN(phases), word[2]) : CR_LEN(phases);

    if (d == CR_LEN(data))
        return bad_line("machine", line, "ddp or fsdp is expected after host, not",
                        n > 1 ? word[1] : "");
    if (p == CR_LEN(phases))
        return bad_line("machine", line, "forward, backward or update is expected, not",
                        n > 2 ? word[2] : "");
    cr_sim_host *h = &m->host[d][p];
    const field f[] = {
        {"unit", &h->unit}, {"tensor", &h->tensor}, {"buffer", &h->buffer}, {"byte", &h->byte}};
    return read_fields("machine", line, word + 3, n - 3, f, (int)CR_LEN(f));
}

static cr_status machine_line(void *context, int line, char **word, int n)
{
    cr_sim_machine *m = context;
    double blocking = m->blocking, device = m->device;
    const field f[] = {
        {"flops", &m->flops},    {"memory", &m->memory}, {"capacity", &m->capacity},
        {"share", &m->share},    {"device", &device},    {"command", &m->command},
        {"blocking", &blocking}, {"bucket", &m->bucket}, {"first_bucket", &m->first_bucket}};

    if (!strcmp(word[0], "machine")) {
        take_name(m->name, sizeof m->name, n > 1 ? word[1] : "");
        return CR_OK;
    }
    if (!strcmp(word[0], "link"))
        return machine_link(m, line, word, n);
    if (!strcmp(word[0], "call"))
        return machine_point(m, line, word, n);
    if (!strcmp(word[0], "host"))
        return machine_host(m, line, word, n);
    if (!strcmp(word[0], "buffers")) {
        const field g[] = {{"seconds", &m->buffers}, {"each", &m->each_buffer}};
        return read_fields("machine", line, word + 1, n - 1, g, (int)CR_LEN(g));
    }
    CR_TRY(read_fields("machine", line, word, n, f, (int)CR_LEN(f)));
    m->blocking = blocking > 0;
    m->device = device > 0;
    if (m->share >= 1)
        return bad_line("machine", line, "the share of calls must be below 1:", word[0]);
    return CR_OK;
}

cr_status cr_sim_machine_read(cr_sim_machine *out, const char *text)
{
    cr_sim_machine m = {.bucket = 25 << 20, .first_bucket = 1 << 20};
    cr_status st = read_lines(&(reader){"machine", machine_line, &m}, text);

    if (!st && (!(m.flops > 0) || !(m.memory > 0) || !m.links))
        st = cr_fail(CR_VALUE, "the machine file needs flops, memory and a link");
    if (st)
        cr_sim_machine_drop(&m);
    else
        *out = m;
    return st;
}

void cr_sim_machine_drop(cr_sim_machine *m)
{
    cr_free(m->point);
    m->point = NULL;
}

/* --- calls --- */

/* The parts of the bytes that a ring of n ranks sends, and its messages one after the other. */
static double ring_bytes(cr_sim_call call, double n)
{
    return (call == CR_SIM_ALL_REDUCE ? 2 : 1) * (n - 1) / n;
}

static double ring_messages(cr_sim_call call, double n)
{
    return (call == CR_SIM_ALL_REDUCE ? 2 : 1) * (n - 1);
}

/* Between two points the time is linear in the bytes; other numbers of ranks have the messages
 * and the bytes of their ring. */
static double time_measured(const cr_sim_point *p, int count, double n, double bytes)
{
    int k = 1;

    while (k < count - 1 && p[k].bytes < bytes)
        k++;
    double least = p[0].seconds, at = least;
    if (count > 1 && bytes > p[0].bytes)
        at = p[k - 1].seconds + (p[k].seconds - p[k - 1].seconds) * (bytes - p[k - 1].bytes) /
                                    (p[k].bytes - p[k - 1].bytes);
    at = at > least ? at : least;
    return least * (n - 1) / (p[0].ranks - 1) +
           (at - least) * ring_bytes(p[0].call, n) / ring_bytes(p[0].call, p[0].ranks);
}

static const cr_sim_point *points_of(const cr_sim_machine *m, cr_sim_call call, int *n)
{
    const cr_sim_point *first = NULL;

    *n = 0;
    for (int i = 0; i < m->points; i++)
        if (m->point[i].call == call) {
            first = first ? first : &m->point[i];
            ++*n;
        }
    return first;
}

double cr_sim_call_time(const cr_sim_machine *m, cr_sim_call call, int n, int stride,
                        double bytes)
{
    double left = n, seconds = 0, apart = stride;
    int points;
    const cr_sim_point *p = points_of(m, call, &points);

    for (int i = 0; i < m->links && left > 1; i++) {
        const cr_sim_link *l = &m->link[i];
        bool last = i == m->links - 1;
        double inside = last ? left : l->ranks / apart;
        inside = inside > left ? left : inside;
        if (inside <= 1)
            continue;
        if (!i && p)
            seconds += time_measured(p, points, inside, bytes);
        else
            seconds += ring_messages(call, inside) * l->latency +
                       ring_bytes(call, inside) * bytes / l->bandwidth;
        left /= inside;
        bytes /= inside; /* each rank of a group has a part of what goes to other groups */
        apart *= inside;
    }
    return seconds;
}

double cr_sim_send_time(const cr_sim_machine *m, int stride, double bytes)
{
    int i = 0;

    while (i < m->links - 1 && m->link[i].ranks <= stride)
        i++;
    return m->link[i].latency + bytes / m->link[i].bandwidth;
}
