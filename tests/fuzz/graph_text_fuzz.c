/* Mutates texts of graphs and reads them: graph_text_fuzz [SECONDS] [SEED]
 *
 * Every text must fail with a line and a message, or give a graph that prints, parses again to
 * the same graph, and passes through all passes.  Run it under asan and ubsan.  Prints the
 * seed, so that a failure can be repeated. */
#include "graph/graph.h"
#include "mutate.h"
#include <time.h>

static const char *const seeds[] = {
    "graph(%x: float32[8, 4], %w: float32[4] grad) {\n"
    "  %mul: float32[8, 4] = mul(%x, %w)\n"
    "  %values: float32[8], %indices: int64[8] = max.dim(%mul, 1)\n"
    "  %sum: float32[8, 1] = sum(%mul, [1], keepdim=True)  # a.py:3\n"
    "  %gelu = gelu(%sum, approximate=\"tanh\")\n"
    "  %cat: float32[8, 2] = cat([%gelu, %gelu], 1)\n"
    "  %zeros: int64[3] = zeros([3], dtype=int64, device=\"cpu\")\n"
    "  return %values, %cat, None, %zeros\n}\n",
    "graph(%x: float32[2, 3] by [1, 2], %y: float16[] on meta, %p: bool[]) {\n"
    "  %c: float32[3] = constant(1.0, -0.5, nan)\n"
    "  %z: complex64[1] = constant(complex(1.0, -2.0))\n"
    "  %k = full([2], inf, dtype=float64)\n"
    "  %a: float32[3] = if %p {\n    %m = mul(%c, 2)\n    return %m\n  } else {\n    return "
    "%c\n  }\n"
    "  %g: float32[3] = group {\n    %e: float32[3] = exp(%a)\n    return %e\n  }\n"
    "  return %g, %z, %k\n}\n",
    "graph(%x: float32[3, 4], %y: float32[4]) {\n"
    "  %a: float32[3, 4] = mul(%x, 2)\n  %v: float32[4] = select(%a, 0, 1)\n"
    "  %b: float32[4] = add_(%v, %y)\n  %t: float32[4, 3] by [1, 4] = t(%a)\n"
    "  %d: float32[4, 3] by [1, 4] = copy_(%t, 1e-3)\n  %n = clone(%d, "
    "memory_format=contiguous_format)\n"
    "  return %n, %x\n}\n",
    "graph(%x: float32[8, 4], %n: int64[3]) {\n"
    "  $0: 8 = size(%x, 0)\n  $1: 0.5 = number(0)\n  $2: 3 = number(1)\n  $3 = 2\n  $4: 16 = "
    "mul($0, $3)\n"
    "  $5: -8 = neg($0)\n  $6: 8 = size(%m, 0)\n  $7: 2 = floordiv($0, $2)\n"
    "  guard not $0 == $3\n  guard $3 <= $6\n  %c: float32[2] = constant(1.0, 2.0)\n"
    "  %m: float32[8, 4] = mul(%x, $1)\n  %v: float32[16, 2] = view(%m, [$4, -1])\n"
    "  %a: float32[16, 2] = add(%v, %c, alpha=$2)\n  %f: float32[8] = full([$6], $1)\n"
    "  %g: float32[2, 4] = slice(%m, 0, 0, $7)\n  return %a, %f, %g\n}\n"};

static const char *const tokens[] = {"%",
                                     "%x",
                                     "%a",
                                     "(",
                                     ")",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     ",",
                                     ":",
                                     "=",
                                     "by",
                                     "on",
                                     "grad",
                                     "return",
                                     "if",
                                     "else",
                                     "group",
                                     "constant",
                                     "None",
                                     "True",
                                     "nan",
                                     "-inf",
                                     "1e400",
                                     "-1",
                                     "99999999999999999999",
                                     "0",
                                     "float32",
                                     "int64",
                                     "cpu",
                                     "meta",
                                     "\"",
                                     "\\",
                                     "#",
                                     "\n",
                                     "add",
                                     "mul.Scalar",
                                     "sum",
                                     "complex(1, 2)",
                                     "generator",
                                     "strided",
                                     "[[",
                                     "...",
                                     "$",
                                     "$0",
                                     "$1",
                                     "$7",
                                     "$99",
                                     "guard",
                                     "not",
                                     "<",
                                     "==",
                                     "size(%x, 1)",
                                     "number(1)",
                                     "sub($0, $1)",
                                     "\n  $8 = 3"};

/* --- reading --- */

typedef struct {
    const char *text;
    cr_graph *g;
    const char *pass;
    cr_graph *out;
} job;

static void read_one(cr_session *s, void *context)
{
    job *j = context;

    j->g = cr_graph_parse(s, j->text);
    cr_graph_verify(j->g);
}

static unsigned long tried, accepted, instances;

static void pass_one(cr_session *s, void *context)
{
    job *j = context;

    (void)s;
    j->out = cr_graph_find_pass(j->pass)(j->g);
    cr_graph_verify(j->out);
}

/* Instantiates a graph with symbols for the recorded sizes.  False when rules or guards
 * fail. */
static bool instantiate(cr_session *s, job *j, cr_graph **out)
{
    size_t n = j->g->numbers.list.len;
    cr_scalar *seen = calloc(n + 1, sizeof *seen);

    for (size_t k = 0; k < n; k++)
        seen[k] = j->g->numbers.list.at[k].value;
    cr_status st = cr_graph_instantiate_at(out, s, j->g, seen, draw(2));
    free(seen);
    if (st && !*cr_error_message())
        refuse(j->text, "no message");
    return !st && *out;
}

static void pass_all(cr_session *s, job *j)
{
    static const char *const passes[] = {"dead", "common", "simplify", "functional",
                                         "decompose"};
    size_t n = cr_graph_sizes_vary(j->g) ? 2 : CR_LEN(passes);

    for (size_t i = 0; i < n; i++) {
        j->pass = passes[i];
        if (cr_session_run(s, pass_one, j))
            refuse(j->text, passes[i]);
        if (j->out != j->g)
            cr_graph_drop(j->out);
    }
}

static void instance_all(cr_session *s, job *j)
{
    job one = {.text = j->text};

    if (j->g->numbers.list.len && instantiate(s, j, &one.g)) {
        if (cr_graph_sizes_vary(one.g))
            refuse(j->text, "an instance has symbols for sizes");
        pass_all(s, &one);
        cr_graph_drop(one.g);
        instances++;
    }
}

static void try_one(const char *text)
{
    cr_session s = {.status = CR_OK};
    cr_text first = {0}, again = {0};
    job j = {.text = text}, back = {0};
    cr_status st = cr_session_run(&s, read_one, &j);

    tried++;
    if (st && !*cr_error_message())
        refuse(text, "no message");
    if (!st) {
        accepted++;
        cr_graph_print(&first, j.g);
        back.text = cr_text_str(&first);
        if (!strstr(back.text, "...") && !strchr(text, '"')) {
            if (cr_session_run(&s, read_one, &back))
                refuse(back.text, "what was printed is refused");
            cr_graph_print(&again, back.g);
            if (strcmp(back.text, cr_text_str(&again)))
                refuse(back.text, "it prints otherwise");
        }
        pass_all(&s, &j);
        instance_all(&s, &j);
    }
    cr_text_drop(&again);
    cr_text_drop(&first);
    cr_graph_drop(j.g);
    cr_graph_drop(back.g);
    cr_session_drop(&s);
}

int main(int argc, char **argv)
{
    time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 5);
    char text[MOST + 1];

    draw_from(argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL));
    if (cr_tensor_start())
        return 2;
    cr_graph_start();
    do {
        for (int i = 0; i < 200; i++) {
            mutate_text(text, seeds[draw(CR_LEN(seeds))], tokens, CR_LEN(tokens));
            try_one(text);
        }
    } while (time(NULL) < end);
    printf("%lu texts, %lu accepted, %lu instances\n", tried, accepted, instances);
    return 0;
}
