/* Runs a program without Python: a TorchScript archive, an exported program, or a compiled
 * package.
 *
 *     cresset-run MODEL                        what the program has, and what it takes
 *     cresset-run MODEL INPUT... [OPTIONS]     its results
 *
 *     INPUT          a .safetensors or .pt file with the arguments by name, or by number from
 *                    "0" on; or a .npy file for each argument, in order
 *     -r SEED        random arguments of the program's sizes: floating point numbers as of
 *                    randn, others 0 or 1
 *     -s NAME=SIZE   a size that varies, for -r
 *     -m METHOD      of a TorchScript archive; else forward
 *     -o OUTPUT      the results: .safetensors, or .npy (OUTPUT.1.npy has the second one)
 *     -n CALLS       calls the program so often, and prints the least and the mean time
 *     -t THREADS
 *
 * Results are printed as programs print them. */
#include <cresset_aot.h>
#include <cresset_script.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64, MOST_DIMS = 64 };

/* A list of tensors with names. */
typedef struct {
    char name[MOST][64];
    cr_tensor *tensor[MOST];
    int count;
} named;

typedef struct {
    const char *model, *method, *output, *input[MOST], *size[MOST];
    int inputs, sizes, calls, threads;
    bool random;
    uint64_t seed;
} options;

static int failed(const char *what)
{
    fprintf(stderr, "cresset-run: %s: %s\n", what, cr_error_message());
    return 1;
}

static int wrong(const char *what, const char *why)
{
    fprintf(stderr, "cresset-run: %s: %s\n", what, why);
    return 1;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && !strcmp(s + n - m, end);
}

static void add(named *list, const char *name, cr_tensor *t)
{
    if (list->count == MOST) {
        cr_drop(t);
        return;
    }
    snprintf(list->name[list->count], sizeof list->name[0], "%s", name);
    list->tensor[list->count++] = t;
}

static void drop(named *list)
{
    while (list->count)
        cr_drop(list->tensor[--list->count]);
}

/* The argument `name`, or that with the number; -1: there is none. */
static int find(const named *list, const char *name, int number)
{
    char digits[16];

    snprintf(digits, sizeof digits, "%d", number);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < list->count; i++)
            if (!strcmp(list->name[i], pass ? digits : name))
                return i;
    return -1;
}

static double now(void)
{
    struct timespec t;

    timespec_get(&t, TIME_UTC);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* --- .npy --- */

static const struct {
    const char *numpy;
    cr_dtype dtype;
} npy_dtypes[] = {{"|b1", CR_BOOL}, {"|u1", CR_U8},  {"|i1", CR_I8},    {"<i2", CR_I16},
                  {"<i4", CR_I32},  {"<i8", CR_I64}, {"<f2", CR_F16},   {"<f4", CR_F32},
                  {"<f8", CR_F64},  {"<c8", CR_C64}, {"<c16", CR_C128}, {"<u2", CR_U16},
                  {"<u4", CR_U32},  {"<u8", CR_U64}};

/* What the head of a file says; false: another text than NumPy writes. */
static bool npy_head(const char *head, cr_dtype *dtype, int64_t *size, int *ndim)
{
    const char *descr = strstr(head, "'descr':"), *shape = strstr(head, "'shape':");
    char kind[8];

    *dtype = CR_DTYPE_NONE;
    *ndim = 0;
    if (!descr || !shape || strstr(head, "'fortran_order': True") ||
        sscanf(descr + 8, " '%7[^']'", kind) != 1)
        return false;
    for (size_t i = 0; i < sizeof npy_dtypes / sizeof *npy_dtypes; i++)
        if (!strcmp(npy_dtypes[i].numpy, kind))
            *dtype = npy_dtypes[i].dtype;
    shape = strchr(shape, '(');
    if (!shape || *dtype == CR_DTYPE_NONE)
        return false;
    for (shape++; *shape && *shape != ')';) {
        char *end;
        long long n = strtoll(shape, &end, 10);
        if (end == shape || n < 0 || *ndim == MOST_DIMS)
            return false;
        size[(*ndim)++] = n;
        for (shape = end; *shape == ',' || *shape == ' ';)
            shape++;
    }
    return *shape == ')';
}

static bool npy_elements(FILE *f, cr_tensor **out)
{
    unsigned char start[12];
    char head[4096];
    int64_t size[MOST_DIMS];
    cr_dtype dtype;
    int ndim;
    size_t n;

    if (fread(start, 1, 10, f) != 10 || memcmp(start, "\x93NUMPY", 6))
        return false;
    n = start[8] | (size_t)start[9] << 8;
    if (start[6] > 1 && fread(start + 10, 1, 2, f) != 2)
        return false;
    if (n >= sizeof head || fread(head, 1, n, f) != n)
        return false;
    head[n] = 0;
    if (!npy_head(head, &dtype, size, &ndim) || cr_zeros(out, size, (size_t)ndim, dtype))
        return false;
    n = (size_t)cr_tensor_numel(*out) * cr_dtype_bytes(dtype);
    if (fread(cr_tensor_data(*out), 1, n, f) == n)
        return true;
    cr_drop(*out);
    return false;
}

static int npy_read(named *list, const char *path)
{
    FILE *f = fopen(path, "rb");
    char number[16];
    cr_tensor *t;
    bool good = f && npy_elements(f, &t);

    if (f)
        fclose(f);
    if (!good)
        return wrong(path, f ? "the file is no array in row-major order that NumPy wrote"
                             : "the file cannot be opened");
    snprintf(number, sizeof number, "%d", list->count);
    add(list, number, t);
    return 0;
}

static int npy_write(const char *path, cr_tensor *t)
{
    const char *kind = NULL;
    char head[1024];
    cr_tensor *dense = NULL;
    int n, ndim = cr_tensor_ndim(t);
    FILE *f;

    for (size_t i = 0; i < sizeof npy_dtypes / sizeof *npy_dtypes; i++)
        if (npy_dtypes[i].dtype == cr_tensor_dtype(t))
            kind = npy_dtypes[i].numpy;
    if (!kind)
        return wrong(path, "NumPy has no dtype for the result");
    n = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': (", kind);
    for (int d = 0; d < ndim && n < 900; d++)
        n += snprintf(head + n, sizeof head - (size_t)n, "%lld, ",
                      (long long)cr_tensor_size(t)[d]);
    n += snprintf(head + n, sizeof head - (size_t)n, "), }");
    while ((n + 11) % 64)
        head[n++] = ' ';
    head[n++] = '\n';
    if (cr_contiguous(&dense, t))
        return failed(path);
    f = fopen(path, "wb");
    size_t bytes = (size_t)cr_tensor_numel(dense) * cr_dtype_bytes(cr_tensor_dtype(dense));
    bool good = f && fwrite("\x93NUMPY\1", 1, 7, f) == 7 && fputc(0, f) == 0 &&
                fputc(n & 255, f) != EOF && fputc(n >> 8, f) != EOF &&
                fwrite(head, 1, (size_t)n, f) == (size_t)n &&
                fwrite(cr_tensor_data(dense), 1, bytes, f) == bytes;
    if (f && fclose(f))
        good = false;
    cr_drop(dense);
    return good ? 0 : wrong(path, "the file cannot be written");
}

/* --- inputs and outputs --- */

static int read_inputs(named *list, const options *o)
{
    for (int i = 0; i < o->inputs; i++) {
        cr_state *s = NULL;
        if (ends_with(o->input[i], ".npy")) {
            if (npy_read(list, o->input[i]))
                return 1;
            continue;
        }
        if (cr_state_read(&s, o->input[i]))
            return failed(o->input[i]);
        for (size_t k = 0; k < cr_state_count(s); k++)
            add(list, cr_state_name(s, k), cr_hold(cr_state_tensor(s, k)));
        cr_state_drop(s);
    }
    return 0;
}

static int write_results(const named *r, const char *output)
{
    const char *names[MOST];
    char path[1024];

    if (!output)
        return 0;
    if (!ends_with(output, ".npy")) {
        for (int i = 0; i < r->count; i++)
            names[i] = r->name[i];
        return cr_safetensors_write(output, names, (cr_tensor *const *)r->tensor, r->count,
                                    NULL)
                   ? failed(output)
                   : 0;
    }
    for (int i = 0; i < r->count; i++) {
        snprintf(path, sizeof path, i ? "%.*s.%d.npy" : "%.*s.npy", (int)strlen(output) - 4,
                 output, i);
        if (npy_write(path, r->tensor[i]))
            return 1;
    }
    return 0;
}

/* --- random arguments --- */

/* A sum of products of numbers and of symbols, as the signature has it. */
typedef struct {
    const char *at, *signature;
    const options *o;
    bool failed;
} expression;

static int64_t symbol(expression *e, const char *name, int n)
{
    char known[64];
    long long least, most, hint;

    for (int i = 0; i < e->o->sizes; i++)
        if (!strncmp(e->o->size[i], name, (size_t)n) && e->o->size[i][n] == '=')
            return atoll(e->o->size[i] + n + 1);
    for (const char *line = e->signature; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (sscanf(line, "size %63s %lld %lld %lld", known, &least, &most, &hint) == 4 &&
            !strncmp(known, name, (size_t)n) && !known[n])
            return hint >= 0 ? hint : least > 2 ? least : 2;
    }
    e->failed = true;
    return 0;
}

static int64_t sum_of(expression *e);

static int64_t factor_of(expression *e)
{
    int64_t v;
    int n = 0;

    if (*e->at == '(') {
        e->at++;
        v = sum_of(e);
        e->failed = e->failed || *e->at != ')';
        e->at += *e->at == ')';
        return v;
    }
    if (*e->at == '-') {
        e->at++;
        return -factor_of(e);
    }
    if (*e->at >= '0' && *e->at <= '9') {
        char *end;
        v = strtoll(e->at, &end, 10);
        e->at = end;
        return v;
    }
    while ((e->at[n] >= 'a' && e->at[n] <= 'z') || (e->at[n] >= 'A' && e->at[n] <= 'Z') ||
           (e->at[n] >= '0' && e->at[n] <= '9') || e->at[n] == '_')
        n++;
    e->failed = e->failed || !n;
    v = n ? symbol(e, e->at, n) : 0;
    e->at += n;
    return v;
}

static int64_t sum_of(expression *e)
{
    int64_t sum = 0, sign = 1;

    for (;;) {
        int64_t product = factor_of(e);
        while (*e->at == '*' && e->at[1] != '*') {
            e->at++;
            product *= factor_of(e);
        }
        sum += sign * product;
        if (*e->at != '+' && *e->at != '-')
            return sum;
        sign = *e->at++ == '+' ? 1 : -1;
    }
}

static int random_tensor(named *list, const char *name, const char *dtype, const char *sizes,
                         const char *signature, const options *o)
{
    int64_t size[MOST_DIMS];
    expression e = {sizes, signature, o, false};
    cr_dtype t = cr_dtype_find(dtype);
    bool fraction = strstr(dtype, "float") || strstr(dtype, "complex");
    cr_tensor *x = NULL;
    int ndim = 0;

    while (*e.at && *e.at != '-' && ndim < MOST_DIMS) {
        size[ndim++] = sum_of(&e);
        if (e.failed || size[ndim - 1] < 0 || (*e.at && *e.at != ','))
            return wrong(name, "the size is given by -s");
        e.at += *e.at == ',';
    }
    if (fraction ? cr_randn(&x, size, (size_t)ndim, NULL, t)
                 : cr_randint(&x, 2, size, (size_t)ndim, NULL, t))
        return failed(name);
    add(list, name, x);
    return 0;
}

/* The lines of a signature that begin with "input". */
static int random_inputs(named *list, const char *signature, const options *o)
{
    char name[64], dtype[32], sizes[256];

    if (cr_generator_seed(cr_generator_default(), o->seed))
        return failed("-r");
    for (const char *line = signature; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (sscanf(line, "input %63s %31s %255s", name, dtype, sizes) == 3 &&
            random_tensor(list, name, dtype, sizes, signature, o))
            return 1;
    }
    return 0;
}

static void print_times(const double *time, int calls)
{
    double least = time[0], sum = 0;

    for (int i = 0; i < calls; i++) {
        least = time[i] < least ? time[i] : least;
        sum += time[i];
    }
    if (calls > 1)
        fprintf(stderr, "%d calls: least %.3f ms, mean %.3f ms\n", calls, least, sum / calls);
}

/* --- programs: TorchScript and exported ones --- */

static int show(const cr_script *m, const char *signature)
{
    char *text = NULL;

    if (signature)
        return printf("%s", signature) < 0;
    printf("%s\n", cr_script_class(m));
    for (size_t i = 0; cr_script_attribute(m, i); i++) {
        if (cr_script_type(&text, m, cr_script_attribute(m, i)))
            return failed(cr_script_attribute(m, i));
        printf("  %s: %s\n", cr_script_attribute(m, i), text);
        cr_free(text);
    }
    for (size_t i = 0; cr_script_method(m, i); i++) {
        if (cr_script_schema(&text, m, cr_script_method(m, i)))
            return failed(cr_script_method(m, i));
        printf("  %s\n", text);
        cr_free(text);
    }
    return 0;
}

/* The tensors of the result, with their names, as far as there is room. */
static void collect(named *r, const cr_ivalue *v, const char *name)
{
    char inner[64];

    if (v->kind == CR_IV_TENSOR)
        add(r, *name ? name : "0", cr_hold(v->t));
    for (size_t i = 0; i < cr_ivalue_count(v); i++) {
        const char *key = cr_ivalue_string(cr_ivalue_key(v, i), NULL);
        const char *dot = *name ? "." : "";
        if (key)
            snprintf(inner, sizeof inner, "%.40s%s%.20s", name, dot, key);
        else
            snprintf(inner, sizeof inner, "%.40s%s%zu", name, dot, i);
        collect(r, cr_ivalue_item(v, i), inner);
    }
}

static int give(const cr_ivalue *result, const char *output)
{
    char *text = NULL;
    named r = {.count = 0};

    if (cr_ivalue_text(&text, result))
        return failed("the result");
    printf("%s\n", text);
    cr_free(text);
    collect(&r, result, "");
    int status = write_results(&r, output);
    drop(&r);
    return status;
}

/* Calls the method as often as asked; the last result is the caller's. */
static int call(cr_ivalue *result, cr_script *m, const options *o, const cr_ivalue *args,
                size_t count)
{
    double *time = calloc((size_t)o->calls, sizeof *time);
    int status = time ? 0 : wrong("-n", "out of memory");

    for (int i = 0; i < o->calls && !status; i++) {
        double start = now();
        cr_ivalue_free(*result);
        *result = cr_iv_none();
        status = cr_script_call(result, m, o->method, args, count) ? failed(o->method) : 0;
        if (time)
            time[i] = now() - start;
    }
    if (!status)
        print_times(time, o->calls);
    free(time);
    return status;
}

static int run(cr_script *m, const options *o, const char *signature)
{
    cr_ivalue args[MOST], result = cr_iv_none();
    named given = {.count = 0};
    size_t count = 0;
    const char *name;
    int status, at;

    cr_set_grad_enabled(false);
    if (o->random && !signature)
        return wrong("-r", "a TorchScript archive does not say which sizes it takes");
    status = o->random ? random_inputs(&given, signature, o) : read_inputs(&given, o);
    while (!status && count < MOST && (name = cr_script_argument(m, o->method, count)) &&
           (at = find(&given, name, (int)count)) >= 0)
        args[count++] = cr_iv_tensor(given.tensor[at]);
    status = status || call(&result, m, o, args, count) || give(&result, o->output);
    cr_ivalue_free(result);
    drop(&given);
    return status;
}

static int run_program(const options *o)
{
    cr_ivalue signature = cr_iv_none();
    cr_script *m = NULL;

    if (cr_script_load(&m, o->model))
        return failed(o->model);
    if (!strcmp(cr_script_class(m), "__torch__.Exported") &&
        cr_script_get(&signature, m, "signature"))
        signature = cr_iv_none();
    const char *text = cr_ivalue_string(&signature, NULL);
    int status = o->inputs || o->random ? run(m, o, text) : show(m, text);
    cr_ivalue_free(signature);
    cr_script_drop(m);
    return status;
}

/* --- compiled packages --- */

/* Whether the file has the name of a package's code, which is in its directory, at the end. */
static bool is_package(const char *path)
{
    static const char mark[] = "data/aotinductor/";
    static char end[1 << 16];
    FILE *f = fopen(path, "rb");
    size_t n = 0;

    if (!f)
        return false;
    if (!fseek(f, 0, SEEK_END)) {
        long size = ftell(f);
        if (size > 0 &&
            !fseek(f, size > (long)sizeof end ? size - (long)sizeof end : 0, SEEK_SET))
            n = fread(end, 1, sizeof end, f);
    }
    fclose(f);
    for (size_t i = 0; i + sizeof mark <= n; i++)
        if (!memcmp(end + i, mark, sizeof mark - 1))
            return true;
    return false;
}

/* The signature of a package, as that of an exported program: sizes are their least value. */
static void package_text(char *text, size_t room, const cr_aot *m)
{
    size_t n = 0;

    for (int out = 0; out < 2; out++)
        for (int k = 0; k < (out ? cr_aot_outputs(m) : cr_aot_inputs(m)); k++) {
            const cr_aot_array *a = out ? cr_aot_output(m, k) : cr_aot_input(m, k);
            n += (size_t)snprintf(text + n, room - n, "%s %s %s ", out ? "output" : "input",
                                  a->name, a->dtype);
            for (int d = 0; d < a->ndim && n < room - 64; d++)
                n += (size_t)snprintf(text + n, room - n,
                                      a->least[d] == a->most[d] ? "%s%lld" : "%s%lld..",
                                      d ? "," : "", (long long)a->least[d]);
            n += (size_t)snprintf(text + n, room - n, "%s\n", a->ndim ? "" : "-");
            if (n > room - 512)
                return;
        }
}

/* A size of random arguments of a package: one that varies is given by -s n=..., or small. */
static int64_t package_size(const cr_aot_array *a, int d, const options *o)
{
    int64_t n = a->least[d] > 2 ? a->least[d] : 2;

    if (a->least[d] == a->most[d])
        return a->least[d];
    for (int i = 0; i < o->sizes; i++)
        if (strchr(o->size[i], '='))
            n = atoll(strchr(o->size[i], '=') + 1);
    return n > a->most[d] ? a->most[d] : n;
}

static int package_inputs(named *given, const cr_aot *m, const options *o)
{
    char sizes[512];

    if (!o->random)
        return read_inputs(given, o);
    if (cr_generator_seed(cr_generator_default(), o->seed))
        return failed("-r");
    for (int k = 0; k < cr_aot_inputs(m); k++) {
        const cr_aot_array *a = cr_aot_input(m, k);
        size_t n = 0;
        sizes[0] = 0;
        for (int d = 0; d < a->ndim && n < 400; d++)
            n += (size_t)snprintf(sizes + n, sizeof sizes - n, "%s%lld", d ? "," : "",
                                  (long long)package_size(a, d, o));
        if (random_tensor(given, a->name, a->dtype, a->ndim ? sizes : "-", "", o))
            return 1;
    }
    return 0;
}

static int package_outputs(named *results, const cr_aot *m, const cr_aot_value *in, int inputs)
{
    int64_t size[MOST_DIMS];

    for (int k = 0; k < cr_aot_outputs(m); k++) {
        const cr_aot_array *a = cr_aot_output(m, k);
        cr_tensor *t = NULL;
        if (cr_aot_output_size(m, in, inputs, k, size) ||
            cr_zeros(&t, size, (size_t)a->ndim, cr_dtype_find(a->dtype)))
            return failed(a->name);
        add(results, a->name, t);
    }
    return 0;
}

static int package_call(cr_aot *m, const options *o, const cr_aot_value *in, int inputs,
                        named *results)
{
    double *time = calloc((size_t)o->calls, sizeof *time);
    void *out[MOST];
    int status = time ? 0 : wrong("-n", "out of memory");

    for (int k = 0; k < results->count; k++)
        out[k] = cr_tensor_data(results->tensor[k]);
    for (int i = 0; i < o->calls && !status; i++) {
        double start = now();
        status = cr_aot_run(m, in, inputs, out, results->count) ? failed(o->model) : 0;
        if (time)
            time[i] = now() - start;
    }
    if (!status)
        print_times(time, o->calls);
    free(time);
    return status;
}

static int package_run(cr_aot *m, const options *o)
{
    named given = {.count = 0}, dense = {.count = 0}, results = {.count = 0};
    cr_aot_value in[MOST];
    int status = package_inputs(&given, m, o), inputs = 0, at;

    while (!status && inputs < cr_aot_inputs(m) && inputs < MOST &&
           (at = find(&given, cr_aot_input(m, inputs)->name, inputs)) >= 0) {
        cr_tensor *t = NULL;
        if (cr_contiguous(&t, given.tensor[at])) {
            status = failed(given.name[at]);
            break;
        }
        add(&dense, "", t);
        in[inputs++] = (cr_aot_value){cr_tensor_data(t), cr_dtype_text(cr_tensor_dtype(t)),
                                      cr_tensor_ndim(t), cr_tensor_size(t)};
    }
    status = status || package_outputs(&results, m, in, inputs) ||
             package_call(m, o, in, inputs, &results);
    for (int k = 0; k < results.count && !status; k++) {
        char *text = NULL;
        if (cr_tensor_text(&text, results.tensor[k]))
            status = failed(results.name[k]);
        else
            printf("%s\n", text);
        cr_free(text);
    }
    status = status || write_results(&results, o->output);
    drop(&results);
    drop(&dense);
    drop(&given);
    return status;
}

static int run_package(const options *o)
{
    static char text[1 << 14];
    cr_aot *m = NULL;
    int status = 0;

    if (cr_aot_load(&m, o->model, o->threads))
        return failed(o->model);
    if (o->inputs || o->random) {
        status = package_run(m, o);
    } else {
        package_text(text, sizeof text, m);
        printf("%s", text);
    }
    cr_aot_free(m);
    return status;
}

/* --- options --- */

/* A number that is all of the text. */
static bool number(const char *text, uint64_t *out)
{
    char *end;

    *out = strtoull(text, &end, 0);
    return *text >= '0' && *text <= '9' && !*end;
}

static bool take(options *o, char option, const char *value)
{
    uint64_t n = 0;
    bool good = number(value, &n);

    switch (option) {
    case 'm': o->method = value; return true;
    case 'o': o->output = value; return true;
    case 's':
        if (o->sizes < MOST && strchr(value, '='))
            o->size[o->sizes++] = value;
        return strchr(value, '=');
    case 'r':
        o->random = true;
        o->seed = n;
        return good;
    case 'n': o->calls = (int)n; return good && n > 0 && n <= 1000000;
    case 't': o->threads = (int)n; return good && n <= 1024;
    default: return false;
    }
}

static bool parse(options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (*argv[i] != '-') {
            if (o->model && o->inputs < MOST)
                o->input[o->inputs++] = argv[i];
            o->model = o->model ? o->model : argv[i];
        } else if (!argv[i][1] || argv[i][2] || i + 1 == argc ||
                   !take(o, argv[i][1], argv[i + 1])) {
            return false;
        } else {
            i++;
        }
    }
    return o->model;
}

int main(int argc, char **argv)
{
    options o = {.method = "forward", .calls = 1};

    if (!parse(&o, argc, argv)) {
        fprintf(
            stderr,
            "usage: cresset-run MODEL [INPUT.safetensors | INPUT.pt | INPUT.npy...] [-r SEED] "
            "[-s NAME=SIZE]\n                   [-m METHOD] [-o OUTPUT.safetensors | "
            "OUTPUT.npy] [-n CALLS] [-t THREADS]\n");
        return 2;
    }
    if (cr_init() || (o.threads && cr_set_threads(o.threads)))
        return failed(o.model);
    return is_package(o.model) ? run_package(&o) : run_program(&o);
}
