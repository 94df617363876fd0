/* Mutates texts of plans, reads and runs them: plan_text_fuzz [SECONDS] [SEED] [TEXTS]
 *
 * The texts are those of tests/text/plan.txt.  Every mutation must fail with a message, or give
 * a plan that prints and parses again to the same plan.  A plan that passes its check runs by
 * the oracle, and by the host unless a kernel changed, which would have to be compiled.  Run it
 * under asan and ubsan. */
#include "compile/commands.h"
#include "jit/oracle.h"
#include "mutate.h"
#include "plan/test.h"
#include "tensor/remote.h"
#include <time.h>

static const char *const tokens[] = {"%",
                                     "%0",
                                     "%1",
                                     "%99",
                                     "none",
                                     ":",
                                     "[",
                                     "]",
                                     "(",
                                     ")",
                                     "{",
                                     "}",
                                     ",",
                                     "by",
                                     "=",
                                     "#",
                                     "0",
                                     "1",
                                     "2",
                                     "3",
                                     "4",
                                     "7",
                                     "8",
                                     "16",
                                     "-1",
                                     "-4",
                                     "64",
                                     "9000",
                                     "+4",
                                     "-8",
                                     "+1",
                                     "over",
                                     "table",
                                     "at",
                                     "dense",
                                     "unit",
                                     "below",
                                     "picked",
                                     "wraps",
                                     "error",
                                     "number",
                                     "param",
                                     "first",
                                     "host",
                                     "return",
                                     "None",
                                     "float32",
                                     "float64",
                                     "int64",
                                     "int32",
                                     "bool",
                                     "uint8",
                                     "complex64",
                                     "float16",
                                     "\"",
                                     "4611686018427387904",
                                     "9223372036854775807",
                                     "549755813887",
                                     "99999999999999999999",
                                     "read",
                                     "set",
                                     "add",
                                     "mul",
                                     "min",
                                     "max",
                                     "divide",
                                     "[0, 0]",
                                     "[1, 0]",
                                     "[4, 4]",
                                     "[4, 0]",
                                     "[0, 4]",
                                     "\n  %1 = buffer 24",
                                     "\n  WAIT\n",
                                     "\n  COPY host = %0 4\n",
                                     "\n  COPY %1 = %0 4\n",
                                     "\n  FILL %0:int32[2] = #07\n",
                                     "\n  MOVE %1:int32[2] = %0:int32[2]\n",
                                     "i<R",
                                     "j<C",
                                     "[i, j]",
                                     "[j]",
                                     "[i]"};

/* --- the texts to start from --- */

static CR_VEC(char *) seed;
static CR_VEC(char *) program; /* of their kernels */

static void note_programs(const char *text)
{
    cr_plan p = {.arena = {0}};

    if (cr_plan_parse(&p, text))
        refuse(text, "a plan of the golden texts");
    for (size_t i = 0; i < p.command.len; i++)
        if (p.command.at[i]->kind == CR_COMMAND_KERNEL && !cr_vec_reserve(&program, 1))
            cr_vec_put(&program,
                       strdup(((const cr_plan_kernel *)p.command.at[i]->kernel.code)->program));
    cr_plan_drop(&p);
}

/* A section of the file ends with its plan. */
static void read_seeds(const char *path)
{
    FILE *f = fopen(path, "r");
    char line[1024], text[4 * MOST];
    bool in = false;

    while (f && fgets(line, sizeof line, f)) {
        if (!in && strncmp(line, "plan", 4))
            continue;
        if (!in)
            *text = 0;
        in = *line != '}';
        if (strlen(text) + strlen(line) < sizeof text)
            strcat(text, line);
        if (in || strlen(text) > MOST || cr_vec_reserve(&seed, 1))
            continue;
        note_programs(text);
        cr_vec_put(&seed, strdup(text));
    }
    if (f)
        fclose(f);
}

/* --- what a run takes --- */

static double product(int64_t n, const int64_t *size)
{
    double all = 1;

    for (int64_t d = 0; d < n; d++)
        all *= (double)size[d];
    return all;
}

static double cost_of_given(const cr_given *g)
{
    double cost = 0;

    if (g->kind == CR_GIVEN_ARRAY)
        return product(g->array.ndim, g->array.size);
    for (size_t i = 0; i < g->count; i++)
        if (g->kind == CR_GIVEN_LIST)
            cost += cost_of_given(&g->list[i]);
        else if (g->kind == CR_GIVEN_INTS)
            cost += (double)g->ints[i] * (double)g->ints[i];
    return g->kind == CR_GIVEN_INT ? (double)g->i * (double)g->i : cost;
}

static double cost_of_windows(const cr_windows *w)
{
    double all = (double)w->planes * ((double)w->in + (double)w->out + 1);

    for (int k = 0; k < 3; k++) {
        double positions = 1;
        for (int64_t i = 0; i < w->dim[k].start[w->dim[k].size]; i++)
            positions += (double)w->dim[k].range[3 * i + 2];
        all *= positions;
    }
    return all;
}

static double cost_of(const cr_command *c)
{
    double cost = 0;

    switch (c->kind) {
    case CR_COMMAND_KERNEL:
        return product(c->kernel.outer, c->kernel.outer_size) * product(2, c->kernel.size);
    case CR_COMMAND_MOVE: return product(c->move.to.ndim, c->move.to.size);
    case CR_COMMAND_FILL: return product(c->fill.to.ndim, c->fill.to.size);
    case CR_COMMAND_INDEXED:
    case CR_COMMAND_COMBINE: return product(c->indexed.ndim, c->indexed.size);
    case CR_COMMAND_WINDOWS: return cost_of_windows(&c->windows);
    case CR_COMMAND_LIBRARY:
        for (int i = 0; i < c->library.args; i++)
            cost += cost_of_given(&c->library.arg[i]);
        return cost;
    default: return 0;
    }
}

static bool is_cheap(const cr_plan *p)
{
    double bytes = 0, cost = 0;

    for (size_t i = 0; i < p->buffer.len; i++)
        bytes += (double)p->buffer.at[i].bytes;
    for (size_t i = 0; i < p->command.len; i++)
        cost += cost_of(p->command.at[i]);
    return bytes < 1 << 22 && cost < 1 << 20;
}

static bool is_compiled(const cr_plan *p)
{
    for (size_t i = 0; i < p->command.len; i++) {
        bool found = p->command.at[i]->kind != CR_COMMAND_KERNEL;
        for (size_t k = 0; !found && k < program.len; k++)
            found = !strcmp(program.at[k],
                            ((const cr_plan_kernel *)p->command.at[i]->kernel.code)->program);
        if (!found)
            return false;
    }
    return true;
}

/* --- trials --- */

static unsigned long tried, parsed, passed, ran;

/* Inputs have the values 0 and 1 as bytes or as int64, so that they are valid bools. */
static char *new_input(size_t bytes, bool words)
{
    char *at = calloc(1, bytes + 1);

    for (size_t i = 0; at && i < bytes; i += words ? 8 : 1)
        at[i] = (char)draw(2);
    return at;
}

static void run_by(const cr_plan *p, const cr_executor *by, const char *text)
{
    cr_plan_run r = cr_plan_start(p, by);
    char **input = calloc(p->buffer.len + 1, sizeof *input);
    cr_status st = CR_OK;

    for (size_t b = 0; input && !st && b < p->buffer.len; b++)
        if (p->buffer.at[b].input) {
            input[b] = new_input(p->buffer.at[b].bytes, draw(2));
            st = test_plan_give(&r, b, input[b], p->buffer.at[b].bytes);
        }
    if (!st)
        st = cr_plan_execute(&r);
    if (st && !*cr_error_message())
        refuse(text, "no message");
    ran += !st;
    cr_plan_end(&r);
    for (size_t b = 0; input && b < p->buffer.len; b++)
        free(input[b]);
    free(input);
}

static void compare_texts(const cr_plan *p)
{
    cr_plan again = {.arena = {0}};
    cr_text first = {0}, second = {0};

    cr_plan_print(&first, p);
    if (cr_plan_parse(&again, cr_text_str(&first)))
        refuse(cr_text_str(&first), "the printed text is refused");
    cr_plan_print(&second, &again);
    if (strcmp(cr_text_str(&first), cr_text_str(&second)))
        refuse(cr_text_str(&first), "the parsed plan prints another text");
    cr_text_drop(&first);
    cr_text_drop(&second);
    cr_plan_drop(&again);
}

static void try_one(const char *text)
{
    cr_plan p = {.arena = {0}};
    cr_status st = cr_plan_parse(&p, text);

    tried++;
    if (st && !*cr_error_message())
        refuse(text, "no message");
    if (!st) {
        parsed++;
        compare_texts(&p);
    }
    if (!st && !cr_plan_check(&p, &cr_oracle, 0)) {
        passed++;
        if (is_cheap(&p)) {
            run_by(&p, &cr_oracle, text);
            if (is_compiled(&p))
                run_by(&p, &cr_host_executor, text);
        }
    }
    cr_plan_drop(&p);
}

int main(int argc, char **argv)
{
    time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 5);
    unsigned long most = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    char text[MOST + 1];

    draw_from(argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL));
    if (cr_tensor_start())
        return 2;
    read_seeds("tests/text/plan.txt");
    if (!seed.len)
        return 2;
    do {
        for (int i = 0; i < 200; i++) {
            mutate_text(text, seed.at[draw((uint32_t)seed.len)], tokens, CR_LEN(tokens));
            try_one(text);
        }
    } while (most ? tried < most : time(NULL) < end);
    printf("%lu texts, %lu parsed, %lu passed the check, %lu runs without an error\n", tried,
           parsed, passed, ran);
    return 0;
}
