/* opgen - the operator table as C.
 *
 *   opgen FOLDER N TABLE.op...
 *
 * writes into FOLDER: entry.h, ops_image.c, functions.c and functions_*.h, kern_0.c ...
 * kern_<N-1>.c, kern_table.c, vec_text.c, rules.c, cresset_ops.h, cresset_easy_ops.h and
 * ops_api.c.  A kernel that two entries share is written once.  Kernel files are compiled once
 * an instruction set. */
#include "opgen.h"
#include "base/map.h"
#include "emit/emit.h"
#include "loop/build.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 64 };

static const cr_dtype prebuilt[] = {CR_F32,  CR_F64, CR_I32,  CR_I64, CR_U8,
                                    CR_BOOL, CR_C64, CR_C128, CR_I16};
/* Only loops that move elements have kernels of the last type. */
enum { COMPUTED = 8 };
static const char *const isas[] = {"base", "avx2", "avx512"};

typedef struct {
    const char *folder;
    int files;
    cr_unit unit[MOST_FILES];
    cr_map seen; /* text of a kernel -> its symbol */
    cr_arena names;
    cr_text table, functions, prototypes;
    int entries, steps, kernels, wrong;
} generator;

static bool stands_already(const char *path, const cr_text *text)
{
    char *old = NULL;
    size_t len = 0;
    bool same = cr_read_file(&old, &len, path) == CR_OK && len == text->len &&
                !memcmp(old, cr_text_str(text), len);

    cr_free(old);
    return same;
}

/* Does not write an unchanged file, so that make does not rebuild files that depend on it. */
cr_status opgen_save(const char *folder, const char *name, const cr_text *text)
{
    cr_text path = {0};
    cr_status st = CR_OK;

    CR_TRY(cr_text_status(text));
    cr_text_printf(&path, "%s/%s", folder, name);
    if (!stands_already(cr_text_str(&path), text))
        st = cr_write_file(cr_text_str(&path), cr_text_str(text), text->len);
    cr_text_drop(&path);
    return st;
}

static cr_status save(const generator *g, const char *name, const cr_text *text)
{
    return opgen_save(g->folder, name, text);
}

/* --- kernels --- */

/* A kernel to generate: of an entry, or of the loop function `fn` when op is NULL. */
typedef struct {
    generator *g;
    const cr_op *op;
    cr_fn fn;
    cr_dtype dtype;
    cr_form form;
    cr_unit *unit;
    const char *symbol;
} kernel_job;

static const char *symbol_of(cr_session *s, const kernel_job *j)
{
    static const char *const form[] = {"",       "_columns", "_join", "_join_columns",
                                       "_int32", "_across"};

    if (!j->op)
        return cr_session_printf(s, "fn_%s_%s%s", cr_fn_infos[j->fn].name,
                                 cr_dtype_infos[j->dtype].suffix, j->form ? "_reduce" : "");
    return cr_session_printf(s, "%s%s%s_%s%s", j->op->name, *j->op->overload ? "_" : "",
                             j->op->overload, cr_dtype_infos[j->dtype].suffix, form[j->form]);
}

/* The definitions since `before` are removed from the unit's text. */
static void forget_definitions(cr_unit *u, const cr_unit *before)
{
    memcpy(u->chunks, before->chunks, sizeof u->chunks);
    memcpy(u->scans, before->scans, sizeof u->scans);
}

/* Keeps the new text of a kernel.  When the same text exists already, removes the new one and
 * uses the existing symbol. */
static void keep_or_share(cr_session *s, kernel_job *j, size_t from, const cr_unit *before)
{
    cr_text *body = &j->unit->body;
    const char *code = strstr(body->at + from, "\n{\n");
    size_t len = body->len - (size_t)(code - body->at);
    const char *known = cr_map_get(&j->g->seen, code, len);

    if (known) {
        j->symbol = known;
        body->len = from;
        body->at[from] = 0;
        forget_definitions(j->unit, before);
        return;
    }
    j->symbol = cr_arena_text(&j->g->names, j->symbol, strlen(j->symbol));
    if (!j->symbol)
        cr_session_check(s, CR_MEMORY);
    cr_session_check(s, cr_map_set(&j->g->seen, code, len, (void *)j->symbol));
    j->g->kernels++;
    for (size_t i = 0; i < CR_LEN(isas); i++)
        cr_text_printf(&j->g->prototypes,
                       "void ck_%s_%s(void *const *, const int64_t *, const int64_t *, "
                       "const void *);\n",
                       isas[i], j->symbol);
}

static void make_kernel(cr_session *s, void *context)
{
    kernel_job *j = context;
    size_t from = j->unit->body.len;
    cr_unit before = *j->unit;

    j->symbol = symbol_of(s, j);
    bool across = j->form == CR_FORM_ACROSS;
    cr_loop *l = j->op ? cr_loop_of_op(s, j->op, j->dtype, across ? CR_FORM_MAIN : j->form)
                       : cr_loop_of_fn(s, j->fn, j->dtype, j->form);
    cr_loop_simplify(l);
    cr_emit(j->unit, across ? &cr_dialect_across : &cr_dialect_c, cr_nest_schedule(l),
            j->symbol, NULL);
    keep_or_share(s, j, from, &before);
}

/* Chosen by the entry's name, so that a new entry changes only one file. */
static cr_unit *unit_of(generator *g, const char *name)
{
    return &g->unit[cr_hash(name, strlen(name)) % (uint64_t)g->files];
}

/* Adds a row to the table of kernels. */
static void add_row(generator *g, const kernel_job *j)
{
    static const char *const dtype[] = {
#define CR_DTYPE(NAME, suffix, ctype, bytes, category, torch, legacy, alias) #NAME,
#include "num/dtype.def"
#undef CR_DTYPE
    };

    cr_text *out = j->op ? &g->table : &g->functions;

    cr_text_printf(out, "    {%d, CR_%s, %d, {", j->op ? j->op->index : (int)j->fn,
                   dtype[j->dtype], (int)j->form);
    for (size_t i = 0; i < CR_LEN(isas); i++)
        cr_text_printf(out, "%sck_%s_%s", i ? ", " : "", isas[i], j->symbol);
    cr_text_put(out, "}},\n");
    g->entries += j->op != NULL;
    g->steps += !j->op;
}

/* Generates a kernel.  CR_TYPE means that the entry does not support this type, which is not an
 * error. */
static bool add_kernel(generator *g, kernel_job j)
{
    cr_session s = {0};
    cr_unit before;
    cr_status st;

    j.unit = unit_of(g, j.op ? j.op->name : cr_fn_infos[j.fn].name);
    before = *j.unit;
    st = cr_session_run(&s, make_kernel, &j);

    cr_session_drop(&s);
    if (!st) {
        add_row(g, &j);
        return true;
    }
    forget_definitions(j.unit, &before);
    j.unit->body.len = before.body.len;
    if (st != CR_TYPE) {
        fprintf(stderr, "opgen: %s\n", cr_error_message());
        g->wrong++;
    }
    return false;
}

static void add_entry(generator *g, const cr_op *op)
{
    bool any = false, wanted = false;

    for (size_t t = 0; t < (op->does == CR_DOES_LOOP ? CR_LEN(prebuilt) : COMPUTED); t++)
        for (int form = 0; form < CR_FORM_COUNT; form++) {
            bool has = form == CR_FORM_ACROSS ? cr_loop_has_across(op)
                                              : cr_loop_has_form(op, (cr_form)form);
            if (!has || !cr_loop_wants(op, prebuilt[t]))
                continue;
            wanted = true;
            any = add_kernel(g, (kernel_job){.g = g,
                                             .op = op,
                                             .dtype = prebuilt[t],
                                             .form = (cr_form)form}) ||
                  any;
        }
    if (wanted && !any) {
        fprintf(stderr, "opgen: %s:%d: %s has no kernel: %s\n", op->text.file, op->text.line,
                op->name, cr_error_message());
        g->wrong++;
    }
}

/* Generates the steps of tier 0.  Most of them are also kernels of entries. */
static void add_functions(generator *g)
{
    for (int fn = 0; fn < CR_FN_COUNT; fn++)
        for (size_t t = 0; t < COMPUTED; t++)
            for (int form = CR_FORM_MAIN; form <= CR_FORM_JOIN; form += CR_FORM_JOIN) {
                bool random = cr_fn_infos[fn].kind == CR_FN_RANDOM;
                if (random ? prebuilt[t] != CR_F32 || form : !cr_fn_has((cr_fn)fn, prebuilt[t]))
                    continue;
                add_kernel(g, (kernel_job){.g = g,
                                           .fn = (cr_fn)fn,
                                           .dtype = prebuilt[t],
                                           .form = (cr_form)form});
            }
}

static cr_status save_kernels(generator *g)
{
    for (int i = 0; i < g->files; i++) {
        cr_text text = {0};
        char name[32];
        snprintf(name, sizeof name, "kern_%d.c", i);
        cr_text_put(&text, "/* Generated by opgen. */\n");
        cr_emit_includes(&text, &cr_dialect_c, &g->unit[i]);
        cr_text_put_n(&text, cr_text_str(&g->unit[i].body), g->unit[i].body.len);
        CR_TRY(save(g, name, &text));
        cr_text_drop(&text);
    }
    return CR_OK;
}

static cr_status save_table(generator *g)
{
    cr_text text = {0};

    cr_text_put(&text, "/* Generated by opgen. */\n#include \"jit/generated.h\"\n\n");
    cr_text_put(&text, cr_text_str(&g->prototypes));
    cr_text_put(&text, "\nconst cr_kernel_entry cr_kernel_table[] = {\n");
    cr_text_put(&text, cr_text_str(&g->table));
    cr_text_put(&text, "    {0, 0, 0, {0}},\n};\n");
    cr_text_printf(&text, "const int cr_kernel_table_count = %d;\n", g->entries);
    cr_text_put(&text, "\nconst cr_fn_kernel_entry cr_fn_kernel_table[] = {\n");
    cr_text_put(&text, cr_text_str(&g->functions));
    cr_text_put(&text, "    {0, 0, 0, {0}},\n};\n");
    cr_text_printf(&text, "const int cr_fn_kernel_count = %d;\n", g->steps);
    CR_TRY(save(g, "kern_table.c", &text));
    cr_text_drop(&text);
    return CR_OK;
}

/* --- names --- */

/* Puts the record's C name: squeeze_dim for "squeeze.dim", torchvision_nms for
 * "torchvision::nms". */
static void put_field(cr_text *out, const cr_op *op)
{
    const char *colons = strstr(op->name, "::");

    if (colons)
        cr_text_printf(out, "%.*s_%s", (int)(colons - op->name), op->name, colons + 2);
    else
        cr_text_printf(out, "%s%s%s", op->name, *op->overload ? "_" : "", op->overload);
}

/* Two records with one C name would be a redefined field. */
static cr_status save_entries(generator *g)
{
    cr_text text = {0};

    cr_text_put(
        &text,
        "/* Generated by opgen: the table's records by name, in its order.  Set at start-up,\n"
        " * read-only afterwards.  A name that the table has not does not compile. */\n"
        "#ifndef CR_ENTRY_H\n#define CR_ENTRY_H\n\n#include \"ops/ops.h\"\n\ntypedef struct "
        "{\n");
    for (int i = 0; i < cr_ops_count(); i++) {
        cr_text_put(&text, "    const cr_op *");
        put_field(&text, cr_ops_at(i));
        cr_text_put(&text, ";\n");
    }
    cr_text_put(&text, "} cr_entries;\n\nextern cr_entries cr_entry;\n\n#endif\n");
    CR_TRY(save(g, "entry.h", &text));
    cr_text_drop(&text);
    return CR_OK;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* --- functions --- */

/* Returns the function that an entry names in one clause, or NULL. */
typedef const char *(*name_fn)(const cr_op *op);

static const char *extern_of(const cr_op *op)
{
    return cr_op_on_views(op) ? op->fn.name : NULL;
}
static const char *map_of(const cr_op *op)
{
    return op->does == CR_DOES_MAP || op->fn.remaps ? op->fn.name : NULL;
}
static const char *whole_of(const cr_op *op)
{
    return op->does == CR_DOES_WHOLE && !op->fn.remaps ? op->fn.name : NULL;
}
static const char *shape_of(const cr_op *op) { return op->sizes.name; }

static const struct {
    const char *clause, *field, *arguments;
    name_fn name;
} functions[] = {
    {"extern", "fn.on_views", "const cr_value *arg, cr_view *out", extern_of},
    {"map", "fn.on_geometry", "const cr_value *arg, const cr_view *self, cr_geometry *out",
     map_of},
    {"whole", "fn.on_tensors", "const cr_value *arg, cr_value *result", whole_of},
    {"shape", "sizes.fn", "const cr_value *arg, cr_shape *out", shape_of},
};

/* Prototypes of the functions that clause `k` names, each with the first entry that names it in
 * a comment, because a compiler shows this line when a definition differs.  Line numbers would
 * change too often. */
static cr_status save_prototypes(const generator *g, size_t k)
{
    cr_text text = {0}, file = {0};
    cr_map seen = {0};
    cr_status st = CR_OK;

    cr_text_printf(&text,
                   "/* Generated by opgen: the functions that entries name in `%s`. */\n"
                   "#include \"num/view.h\"\n\n",
                   functions[k].clause);
    for (int i = 0; !st && i < cr_ops_table_count(); i++) {
        const cr_op *op = cr_ops_at(i);
        const char *name = functions[k].name(op);
        if (!name || cr_map_get(&seen, name, strlen(name)))
            continue;
        st = cr_map_set(&seen, name, strlen(name), &seen);
        cr_text_printf(&text, "cr_status %s(%s); /* %s: %s */\n", name, functions[k].arguments,
                       op->text.file, op->name);
    }
    cr_text_printf(&file, "functions_%s.h", functions[k].clause);
    if (!st)
        st = save(g, cr_text_str(&file), &text);
    cr_text_drop(&file);
    cr_text_drop(&text);
    cr_map_drop(&seen);
    return st;
}

/* Sets cr_entry and the function pointers of every record.  A #line of the entry precedes its
 * assignments, so that the linker reports it for a missing function. */
static cr_status save_functions(generator *g, const char *table)
{
    cr_text text = {0};
    int folder = (int)(base_name(table) - table);

    cr_text_put(&text, "/* Generated by opgen: records and the functions that they name. */\n"
                       "#include \"jit/generated.h\"\n#include \"entry.h\"\n");
    for (size_t k = 0; k < CR_LEN(functions); k++) {
        CR_TRY(save_prototypes(g, k));
        cr_text_printf(&text, "#include \"functions_%s.h\"\n", functions[k].clause);
    }
    cr_text_printf(&text,
                   "\ncr_entries cr_entry;\n\nvoid cr_generated_records(void)\n{\n"
                   "    const cr_op **by_name = (const cr_op **)&cr_entry;\n\n"
                   "    for (int i = 0; i < %d; i++)\n        by_name[i] = cr_ops_at(i);\n",
                   cr_ops_count());
    for (int i = 0; i < cr_ops_count(); i++) {
        const cr_op *op = cr_ops_at(i);
        for (size_t k = 0; k < CR_LEN(functions); k++)
            if (functions[k].name(op))
                cr_text_printf(&text, "#line %d \"%.*s%s\"\n    cr_ops_at(%d)->%s = %s;\n",
                               op->text.line, folder, table, op->text.file, i,
                               functions[k].field, functions[k].name(op));
    }
    cr_text_put(&text, "}\n");
    CR_TRY(save(g, "functions.c", &text));
    cr_text_drop(&text);
    return CR_OK;
}

/* --- texts --- */

void opgen_quote(cr_text *out, const char *s, size_t n)
{
    cr_text_put(out, "        \"");
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '"' || s[i] == '\\')
            cr_text_char(out, '\\');
        if (s[i] == '\n')
            cr_text_put(out, i + 1 < n ? "\\n\"\n        \"" : "\\n");
        else
            cr_text_char(out, s[i]);
    }
    cr_text_put(out, "\"");
}

/* --- the vocabulary of kernels --- */

/* The texts of each part, in the order of jit/vocabulary.h. */
static const char *const vocabulary[][8] = {
    {"vec.cuh"},
    {"../num/order.h", "vec.h", "vec_float.h", "vec_f32.h"},
    {"vec_f64.h"},
    {"vec_int.h"},
    {"vec_mixed.h"},
    {"vec_complex.h"},
    {"vec_special.h"},
    {"vec_random.h"},
    {"kernel.h"},
    {"scan.h"},
    {"half.cuh"},
    {"kernel.cuh"},
    {"move.cuh"},
    {"sort.cuh", "place.cuh"},
    {"window.cuh"},
    {"sequence.cuh"},
    {"resample.cuh"},
    {"bag.cuh"},
    {"matrix.cuh", "scores.cuh", "attention.cuh"},
    {"matrix.cuh", "scores.cuh", "attention_f32.cuh"},
    {"sort.cuh"},
    {"scan.cuh"},
    {"random.cuh"},
    {"norm.cuh"},
    {"entropy.cuh"},
    {"sort.cuh", "order.cuh"},
    {"select.cuh"},
    {"recurrent.cuh"},
    {"integer.cuh"},
    {"matrix.cuh", "product_f32.cuh"},
    {"table.cuh"},
    {"bins.cuh"},
    {"convolve.cuh"},
    {"layer_norm.cuh"},
    {"loops.cuh", "../kern/cpu/plane/spread_job.h", "../kern/cpu/plane/grid.h",
     "../kern/cpu/plane/grid_loops.inc", "loops_run.cuh"},
    {"loops.cuh", "../kern/cpu/plane/spread_job.h", "../kern/cpu/plane/roi_job.h",
     "../kern/cpu/plane/roi_loops.inc", "loops_run.cuh"},
    {"loops.cuh", "../kern/cpu/plane/spread_job.h", "../kern/cpu/plane/roi_job.h",
     "../kern/cpu/plane/roi_pool_loops.inc", "loops_run.cuh"},
    {"loops.cuh", "../kern/cpu/plane/spread_job.h", "../kern/cpu/plane/deform_job.h",
     "../kern/cpu/plane/deform_loops.inc", "loops_run.cuh"},
    {"loops.cuh", "../kern/cpu/plane/boxes_job.h", "../kern/cpu/plane/boxes_loops.inc",
     "loops_run.cuh"},
    {"loops.cuh", "../kern/cpu/each_job.h", "../kern/cpu/polynomial_loops.inc",
     "loops_run.cuh"},
    {"loops.cuh", "../kern/cpu/each_job.h", "../kern/cpu/random/slopes.h",
     "../kern/cpu/random/slopes_loops.inc", "loops_run.cuh"},
    {"loops.cuh", "../kern/cpu/each_job.h", "scale.cuh", "loops_run.cuh"},
    {"loops.cuh", "../kern/cpu/linalg/linalg_job.h", "../kern/cpu/linalg/linalg_loops.inc",
     "loops_run.cuh"},
    {"loops.cuh", "../kern/cpu/each_job.h", "draw.cuh", "../kern/cpu/random/binomial.h",
     "../kern/cpu/random/gamma.h", "../kern/cpu/random/poisson.h", "draws.cuh",
     "loops_run.cuh"},
    {"loops.cuh", "../kern/cpu/value/choices_job.h", "../kern/cpu/value/choices_loops.inc",
     "loops_run.cuh"},
    {"loops.cuh", "../kern/cpu/value/choices_job.h", "../kern/cpu/value/xor_loops.inc",
     "loops_run.cuh"},
    {"loops.cuh", "../kern/cpu/value/ctc_job.h", "../kern/cpu/value/ctc_loops.inc",
     "loops_run.cuh"},
    {"loops.cuh", "../kern/cpu/linalg/linalg_job.h", "../kern/cpu/linalg/ldl_loops.inc",
     "loops_run.cuh"},
};

/* Quotes text without comments, because the text is hashed, compared and compiled at run
 * time. */
static void quote_code(cr_text *out, const char *s)
{
    cr_text code = {0};
    const char *line = s;

    while (*line) {
        size_t n = strcspn(line, "\n");
        size_t blanks = strspn(line, " ");
        if (n > blanks && strncmp(line, "#include", 8))
            cr_text_put_n(&code, line, n), cr_text_char(&code, '\n');
        line += n + (line[n] == '\n');
    }
    for (char *p = code.at; p && (p = strstr(p, "/*"));) {
        char *end = strstr(p, "*/");
        if (!end)
            break;
        memmove(p, end + 2, strlen(end + 2) + 1);
    }
    opgen_quote(out, cr_text_str(&code), strlen(cr_text_str(&code)));
    cr_text_drop(&code);
}

/* The headers are found relative to the table: <src>/ops/table/x.op, <src>/emit/vec.h. */
static cr_status add_header(cr_text *out, const char *table, const char *name)
{
    cr_text path = {0};
    char *text;
    size_t len;
    int folder = (int)(base_name(table) - table);

    cr_text_printf(&path, "%.*s../../emit/%s", folder, table, name);
    CR_TRY(cr_read_file(&text, &len, cr_text_str(&path)));
    cr_text_put(out, "\n");
    quote_code(out, text);
    cr_free(text);
    cr_text_drop(&path);
    return CR_OK;
}

static cr_status save_vocabulary(generator *g, const char *table)
{
    cr_text text = {0};

    cr_text_put(&text, "/* Generated by opgen: what run-time kernels are written in. */\n"
                       "#include \"jit/vocabulary.h\"\n\n"
                       "const char *const cr_vec_texts[CR_VEC_COUNT] = {\n");
    for (size_t i = 0; i < CR_LEN(vocabulary); i++) {
        for (int k = 0; k < 8 && vocabulary[i][k]; k++)
            CR_TRY(add_header(&text, table, vocabulary[i][k]));
        cr_text_put(&text, ",\n");
    }
    cr_text_put(&text, "};\n");
    CR_TRY(save(g, "vec_text.c", &text));
    cr_text_drop(&text);
    return CR_OK;
}

/* --- all of it --- */

static cr_status read_table(char **paths, int n)
{
    for (int i = 0; i < n; i++) {
        char *text;
        size_t len;
        CR_TRY(cr_read_file(&text, &len, paths[i]));
        CR_TRY(cr_ops_read(base_name(paths[i]), text, len)); /* the records keep the text */
    }
    CR_TRY(cr_ops_resolve());
    for (int i = 0; i < cr_ops_count(); i++)
        CR_TRY(cr_op_check_derivative(cr_ops_at(i)));
    return CR_OK;
}

static cr_status generate(generator *g, char **paths, int n)
{
    CR_TRY(opgen_image_start());
    CR_TRY(read_table(paths, n));
    CR_TRY(opgen_image(g->folder));
    for (int i = 0; i < cr_ops_count(); i++)
        add_entry(g, cr_ops_at(i));
    add_functions(g);
    CR_TRY(save_kernels(g));
    CR_TRY(save_table(g));
    CR_TRY(save_entries(g));
    CR_TRY(save_functions(g, paths[0]));
    CR_TRY(save_vocabulary(g, paths[0]));
    CR_TRY(opgen_rules(g->folder));
    CR_TRY(opgen_api(g->folder));
    CR_TRY(opgen_easy(g->folder));
    if (g->wrong)
        return cr_fail(CR_VALUE, "%d entries cannot be made into kernels", g->wrong);
    printf("opgen: %d records, %d kernels for %d places of entries and %d steps\n",
           cr_ops_count(), g->kernels, g->entries, g->steps);
    return CR_OK;
}

int main(int argc, char **argv)
{
    generator g = {0};

    if (argc < 4) {
        fprintf(stderr, "usage: opgen FOLDER FILES TABLE.op...\n");
        return 2;
    }
    g.folder = argv[1];
    g.files = atoi(argv[2]);
    if (g.files < 1 || g.files > MOST_FILES) {
        fprintf(stderr, "opgen: between 1 and %d files\n", MOST_FILES);
        return 2;
    }
    if (generate(&g, argv + 3, argc - 3)) {
        fprintf(stderr, "opgen: %s\n", cr_error_message());
        return 1;
    }
    return 0;
}
