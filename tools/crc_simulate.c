/* crc simulate: the time of a training step on machines that are not there. */
#include "base/memory.h"
#include "crc.h"
#include "dist/simulate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *step, *machine, *ranks, *data, *schedule, *actions, *svg;
    long tensor, pipeline, parts, chunks;
} options;

static int simulate_usage(void)
{
    fputs("usage: crc simulate STEP MACHINE [--ranks N,N,...] [--data ddp|fsdp] [--tensor N]\n"
          "           [--pipeline N --parts N --schedule gpipe|1f1b|interleaved [--chunks N]]\n"
          "           [--actions FILE] [--svg FILE]\n"
          "A line for each number of ranks: the time of a step, of its computation, of calls\n"
          "that computation does not hide, of waits for the host and for other stages; memory\n"
          "of a rank; and the part of the speed of single ranks that is left.\n"
          "docs/sharding.md has the formats.\n",
          stderr);
    return 2;
}

/* Takes an option with its value; false for an unknown one. */
static bool take_option(options *o, const char *name, const char *value)
{
    const struct {
        const char *name, **text;
        long *number;
    } known[] = {{"--ranks", &o->ranks, NULL},       {"--data", &o->data, NULL},
                 {"--schedule", &o->schedule, NULL}, {"--actions", &o->actions, NULL},
                 {"--svg", &o->svg, NULL},           {"--tensor", NULL, &o->tensor},
                 {"--pipeline", NULL, &o->pipeline}, {"--parts", NULL, &o->parts},
                 {"--chunks", NULL, &o->chunks}};

    for (size_t i = 0; value && i < CR_LEN(known); i++)
        if (!strcmp(known[i].name, name)) {
            char *end = NULL;
            if (known[i].text)
                *known[i].text = value;
            else
                *known[i].number = strtol(value, &end, 10);
            return known[i].text ||
                   (end != value && !*end && *known[i].number > 0 && *known[i].number <= 65536);
        }
    return false;
}

static bool take_options(options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], "--", 2)) {
            if (!take_option(o, argv[i], i + 1 < argc ? argv[i + 1] : NULL))
                return false;
            i++;
        } else if (!o->step) {
            o->step = argv[i];
        } else if (!o->machine) {
            o->machine = argv[i];
        } else {
            return false;
        }
    return o->machine && (!strcmp(o->data, "ddp") || !strcmp(o->data, "fsdp"));
}

static cr_status load(cr_sim_step *step, cr_sim_machine *m, const options *o)
{
    char *text = NULL;
    size_t len;

    CR_TRY(cr_read_file(&text, &len, o->step));
    cr_status st = cr_sim_step_read(step, text);
    cr_free(text);
    CR_TRY(st);
    CR_TRY(cr_read_file(&text, &len, o->machine));
    st = cr_sim_machine_read(m, text);
    cr_free(text);
    return st;
}

static cr_status load_schedule(cr_sim_schedule *out, const options *o)
{
    char *text = NULL;
    size_t len;

    if (!o->actions)
        return o->pipeline > 1 ? cr_sim_schedule_make(out, o->schedule, (int)o->pipeline,
                                                      (int)o->chunks, (int)o->parts)
                               : CR_OK;
    CR_TRY(cr_read_file(&text, &len, o->actions));
    cr_status st = cr_sim_schedule_read(out, text);
    cr_free(text);
    return st;
}

static void print_row(const cr_sim_result *r, const cr_sim_how *how, double alone)
{
    printf("%6d %5d %6d %8d %10.3f %10.3f %10.3f %6.1f %8.3f %10.3f %9.3f%c %7.1f\n",
           how->ranks, how->ranks / how->tensor / how->pipeline, how->tensor, how->pipeline,
           r->seconds * 1e3, r->compute * 1e3, r->exposed * 1e3, 100 * r->exposed / r->seconds,
           r->host * 1e3, r->idle * 1e3, r->memory / 1e9, r->fits ? ' ' : '!',
           100 * alone / r->seconds);
}

static cr_status draw(const cr_sim_result *r, const options *o, const char *step, int ranks)
{
    cr_text svg = {0}, title = {0};

    cr_text_printf(&title, "%s on %d ranks, %s: %.3f ms a step", step, ranks, o->data,
                   r->seconds * 1e3);
    cr_sim_draw(&svg, r, cr_text_str(&title));
    cr_status st = cr_text_status(&svg);
    if (!st)
        st = cr_write_file(o->svg, cr_text_str(&svg), svg.len);
    cr_text_drop(&title);
    cr_text_drop(&svg);
    return st;
}

/* The time of the step if the ranks of one data parallel rank shared its work without a call or
 * a wait. */
static cr_status time_alone(double *out, const cr_sim_step *step, const cr_sim_machine *m,
                            const cr_sim_how *how)
{
    cr_sim_result one;

    CR_TRY(cr_simulate(&one, step, m, &(cr_sim_how){.ranks = 1, .tensor = 1, .pipeline = 1}));
    *out = one.seconds / how->tensor / how->pipeline;
    cr_sim_result_drop(&one);
    return CR_OK;
}

static cr_status rows(const options *o, const cr_sim_step *step, const cr_sim_machine *m,
                      const cr_sim_schedule *schedule)
{
    puts(" ranks  data tensor pipeline    step ms compute ms exposed ms      %  host ms    "
         "idle ms "
         "memory GB   speed %");
    for (const char *at = o->ranks; *at;) {
        char *end;
        cr_sim_how how = {.ranks = (int)strtol(at, &end, 10),
                          .tensor = (int)o->tensor,
                          .pipeline = schedule->ranks ? schedule->ranks : (int)o->pipeline,
                          .data = strcmp(o->data, "fsdp") ? CR_SIM_DDP : CR_SIM_FSDP,
                          .schedule = schedule->ranks ? schedule : NULL};
        cr_sim_result r;
        double alone;
        if (end == at || (*end && *end != ','))
            return cr_fail(CR_VALUE, "--ranks takes numbers with commas between them, not '%s'",
                           o->ranks);
        CR_TRY(cr_simulate(&r, step, m, &how));
        cr_status st = time_alone(&alone, step, m, &how);
        if (!st)
            print_row(&r, &how, alone);
        if (!st && o->svg)
            st = draw(&r, o, step->name, how.ranks);
        cr_sim_result_drop(&r);
        CR_TRY(st);
        at = end + (*end == ',');
    }
    return CR_OK;
}

int crc_simulate(int argc, char **argv)
{
    options o = {.ranks = "8,16,32,64,128,256,512,1024",
                 .data = "ddp",
                 .schedule = "1f1b",
                 .tensor = 1,
                 .pipeline = 1,
                 .parts = 8,
                 .chunks = 1};
    cr_sim_step step = {.units = 0};
    cr_sim_machine m = {.links = 0};
    cr_sim_schedule schedule = {0};

    if (!take_options(&o, argc, argv))
        return simulate_usage();
    cr_status st = load(&step, &m, &o);
    if (!st)
        st = load_schedule(&schedule, &o);
    if (!st)
        st = rows(&o, &step, &m, &schedule);
    cr_sim_schedule_drop(&schedule);
    cr_sim_step_drop(&step);
    cr_sim_machine_drop(&m);
    return st ? crc_failed() : 0;
}
