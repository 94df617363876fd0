/* Runs a TorchScript archive without Python.
 *
 *     cresset-run MODEL.pt                             what the program has
 *     cresset-run MODEL.pt INPUT.safetensors [-m METHOD] [-o OUTPUT.safetensors]
 *
 * Arguments are the file's tensors with the names of the method's parameters, or else with
 * their numbers, from "0" on.  Results are printed as programs print them. */
#include <cresset_script.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 64 };

static int failed(const char *what)
{
    fprintf(stderr, "cresset-run: %s: %s\n", what, cr_error_message());
    return 1;
}

static int show(const cr_script *m)
{
    char *text = NULL;

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

/* The tensors that the method's parameters name; false: one cannot be read. */
static bool read_arguments(const cr_script *m, const char *method, const cr_safetensors *file,
                           cr_ivalue *args, size_t *count)
{
    const char *name;

    for (size_t i = 0; i < MOST && (name = cr_script_argument(m, method, i)); i++) {
        char number[24];
        cr_tensor *t = NULL;
        int at = cr_safetensors_find(file, name);
        snprintf(number, sizeof number, "%zu", i);
        at = at < 0 ? cr_safetensors_find(file, number) : at;
        if (at < 0)
            break;
        if (cr_safetensors_tensor(&t, file, at))
            return false;
        args[(*count)++] = cr_iv_tensor(t);
    }
    return true;
}

/* The tensors of the result, with their names, as far as there is room. */
typedef struct {
    char name[MOST][64];
    const char *names[MOST];
    cr_tensor *tensors[MOST];
    int count;
} results;

static void collect(results *r, const cr_ivalue *v, const char *name)
{
    char inner[64];

    if (v->kind == CR_IV_TENSOR && r->count < MOST) {
        snprintf(r->name[r->count], sizeof r->name[0], "%s", *name ? name : "0");
        r->names[r->count] = r->name[r->count];
        r->tensors[r->count++] = v->t;
    }
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
    results r = {.count = 0};

    if (cr_ivalue_text(&text, result))
        return failed("the result");
    printf("%s\n", text);
    cr_free(text);
    if (!output)
        return 0;
    collect(&r, result, "");
    return cr_safetensors_write(output, r.names, r.tensors, r.count, NULL) ? failed(output) : 0;
}

static int run(cr_script *m, const char *method, const char *input, const char *output)
{
    cr_ivalue args[MOST], result = cr_iv_none();
    cr_safetensors *file = NULL;
    size_t count = 0;
    int status = 0;

    if (cr_safetensors_open(&file, input))
        return failed(input);
    cr_set_grad_enabled(false);
    if (!read_arguments(m, method, file, args, &count))
        status = failed(input);
    else if (cr_script_call(&result, m, method, args, count))
        status = failed(method);
    else
        status = give(&result, output);
    cr_ivalue_free(result);
    for (size_t i = 0; i < count; i++)
        cr_ivalue_free(args[i]);
    cr_safetensors_drop(file);
    return status;
}

int main(int argc, char **argv)
{
    const char *method = "forward", *output = NULL;
    cr_script *m = NULL;
    int status;

    for (; argc > 4 && *argv[argc - 2] == '-'; argc -= 2)
        *(argv[argc - 2][1] == 'm' ? &method : &output) = argv[argc - 1];
    if (argc < 2 || argc > 3 || !strcmp(argv[1], "--help")) {
        fprintf(stderr, "usage: cresset-run MODEL.pt [INPUT.safetensors [-m METHOD] "
                        "[-o OUTPUT.safetensors]]\n");
        return 2;
    }
    if (cr_init() || cr_script_load(&m, argv[1]))
        return failed(argv[1]);
    status = argc == 2 ? show(m) : run(m, method, argv[2], output);
    cr_script_drop(m);
    return status;
}
