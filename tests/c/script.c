/* Checks programs through cresset_script.h: script MODEL.pt COPY.pt, where MODEL.pt is that of
 * test_c.py.  Prints what differs and exits with 1. */
#include <cresset_script.h>
#include <stdio.h>
#include <string.h>

static int wrong;

#define CHECK(holds)                                                                           \
    do {                                                                                       \
        if (!(holds)) {                                                                        \
            printf("line %d: %s (%s)\n", __LINE__, #holds, cr_error_message());                \
            wrong++;                                                                           \
        }                                                                                      \
    } while (0)
/* A call that fails with this status and a message that has the text. */
#define REFUSED(status, text, call)                                                            \
    CHECK((call) == (status) && strstr(cr_error_message(), text))

static void values(void)
{
    cr_ivalue a = cr_iv_none(), b = cr_iv_none(), list = cr_iv_none(), dict = cr_iv_none();
    const cr_ivalue pair[] = {cr_iv_int(1), cr_iv_float(2.5)};
    char *text = NULL;
    size_t len = 0;

    CHECK(!cr_ivalue_of_text(&a, "key") && !cr_ivalue_of_text(&b, "other"));
    CHECK(!strcmp(cr_ivalue_string(&a, &len), "key") && len == 3);
    CHECK(!cr_ivalue_tuple(&list, pair, 2) && cr_ivalue_count(&list) == 2);
    CHECK(cr_ivalue_item(&list, 1)->d == 2.5 && !cr_ivalue_item(&list, 2));
    const cr_ivalue keys[] = {a, b}, items[] = {list, cr_iv_bool(true)};
    CHECK(!cr_ivalue_dict(&dict, keys, items, 2) && cr_ivalue_count(&dict) == 2);
    CHECK(cr_ivalue_find(&dict, "other")->i == 1 && !cr_ivalue_find(&dict, "none"));
    CHECK(!strcmp(cr_ivalue_string(cr_ivalue_key(&dict, 0), NULL), "key"));
    CHECK(!cr_ivalue_text(&text, &dict) && !strcmp(text, "{key: (1, 2.5), other: True}"));
    cr_free(text);
    REFUSED(CR_TYPE, "unhashable type: 'Dict'", cr_ivalue_dict(&b, &dict, &dict, 1));
    REFUSED(CR_TYPE, "NoneType", cr_ivalue_of_text(&b, NULL));
    const cr_ivalue hollow = cr_iv_of(CR_IV_LIST); /* a kind without its content */
    REFUSED(CR_TYPE, "NoneType", cr_ivalue_list(&b, &hollow, 1));
    REFUSED(CR_TYPE, "NoneType", cr_ivalue_dict(&b, keys, &hollow, 1));
    REFUSED(CR_TYPE, "NoneType", cr_ivalue_text(&text, &hollow));
    CHECK(!cr_ivalue_count(&hollow) && !cr_ivalue_item(&hollow, 0));
    cr_ivalue_free(cr_ivalue_hold(hollow));
    CHECK(!cr_ivalue_string(&list, NULL) && !cr_ivalue_count(&a) && !cr_ivalue_item(NULL, 0));
    cr_ivalue_free(dict);
    cr_ivalue_free(list);
    cr_ivalue_free(b);
    cr_ivalue_free(a);
}

static void inspect(cr_script *m)
{
    char *text = NULL;

    CHECK(!strcmp(cr_script_class(m), "__torch__.test_c.Scored"));
    CHECK(!strcmp(cr_script_argument(m, "scores", 1), "scale") &&
          !cr_script_argument(m, "scores", 2));
    CHECK(!cr_script_schema(&text, m, "scores") &&
          strstr(text, "Tensor x, float scale=1.) -> Dict(str, Tensor)"));
    cr_free(text);
    CHECK(!cr_script_code(&text, m, "forward") && strstr(text, "(line).forward(x, )"));
    cr_free(text);
    CHECK(!cr_script_graph(&text, m, "forward") &&
          strstr(text, "prim::CallMethod[name=\"forward\"]"));
    cr_free(text);
    CHECK(!cr_script_type(&text, m, "names") && !strcmp(text, "List[str]"));
    cr_free(text);
    REFUSED(CR_ATTRIBUTE, "has no method 'none'", cr_script_schema(&text, m, "none"));
    REFUSED(CR_ATTRIBUTE, "has no attribute 'line.none'",
            cr_script_type(&text, m, "line.none"));
    CHECK(cr_script_at(m, "line") && cr_script_tensor(m, "line.weight") &&
          !cr_script_at(m, "line.weight") && !cr_script_tensor(m, "line"));
}

static void attributes(cr_script *m)
{
    cr_ivalue names = cr_iv_none(), more = cr_iv_none(), word = cr_iv_none();
    const cr_ivalue five = cr_iv_int(5);

    CHECK(!cr_script_get(&names, m, "names") && cr_ivalue_count(&names) == 2);
    CHECK(!cr_ivalue_of_text(&word, "c") && !cr_ivalue_list(&more, &word, 1));
    CHECK(!cr_script_set(m, "names", &more));
    REFUSED(CR_TYPE, "'names' to type List[str]: it is a int",
            cr_script_set(m, "names", &five));
    CHECK(!cr_script_set(m, "names", &names));
    cr_ivalue_free(word);
    cr_ivalue_free(more);
    cr_ivalue_free(names);
}

static void calls(cr_script *m)
{
    const int64_t size[] = {2, 3};
    cr_tensor *x = NULL;
    cr_ivalue args[3], out = cr_iv_none();

    CHECK(!cr_ones(&x, size, 2, CR_F32));
    args[0] = cr_iv_tensor(x);
    args[1] = cr_iv_int(2);
    args[2] = cr_iv_none();
    CHECK(!cr_script_call(&out, m, "scores", args, 2) && cr_ivalue_count(&out) == 2);
    CHECK(cr_ivalue_find(&out, "b") && cr_ivalue_find(&out, "b")->kind == CR_IV_TENSOR);
    cr_ivalue_free(out);
    out = cr_iv_int(9);
    REFUSED(CR_RUNTIME, "Expected a value of type 'Tensor' for argument 'x'",
            cr_script_call(&out, m, "forward", args + 1, 1));
    REFUSED(CR_RUNTIME, "is missing value for argument 'x'. Declaration: forward(",
            cr_script_call(&out, m, "forward", NULL, 0));
    REFUSED(CR_RUNTIME, "expected at most 2 argument(s) but received 4 argument(s)",
            cr_script_call(&out, m, "forward", args, 3));
    REFUSED(CR_ATTRIBUTE, "no method 'none'", cr_script_call(&out, m, "none", args, 1));
    REFUSED(CR_TYPE, "NoneType", cr_script_call(&out, NULL, "forward", args, 1));
    cr_ivalue_free(args[0]);
    CHECK(!cr_zeros(&x, size, 1, CR_F32));
    args[0] = cr_iv_tensor(x);
    REFUSED(CR_RUNTIME, "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
            cr_script_call(&out, m, "forward", args, 1));
    CHECK(out.kind == CR_IV_INT && out.i == 9);
    cr_ivalue_free(args[0]);
}

/* Values of every kind, with and without content, are refused with the declaration. */
static void kinds(cr_script *m)
{
    cr_ivalue out = cr_iv_int(9), x;

    for (int kind = 0; kind <= CR_IV_KIND_COUNT; kind++) {
        x = cr_iv_of((cr_iv_kind)kind);
        REFUSED(CR_RUNTIME, "Expected a value of type 'Tensor' for argument 'x'",
                cr_script_call(&out, m, "forward", &x, 1));
        CHECK(strstr(cr_error_message(), "Declaration: forward("));
        REFUSED(CR_TYPE, "to type List[str]", cr_script_set(m, "names", &x));
    }
    REFUSED(CR_RUNTIME, "Declaration: forward(",
            cr_script_call(&out, m, "forward", &x, (size_t)-1));
    CHECK(out.kind == CR_IV_INT && out.i == 9);
}

/* A step of training as a program, and as a module. */
static void training(cr_script *m, const char *copy)
{
    cr_tensors params = {NULL, 0};
    cr_module *as = NULL;
    cr_script *again = NULL;
    cr_tensor *x = NULL, *y = NULL, *sum = NULL;
    const int64_t size[] = {2, 3};
    bool same = false;

    CHECK(!cr_script_train(m, false) && !cr_script_parameters(&params, m) && params.len == 2);
    CHECK(!cr_script_as_module(&as, m) && !cr_module_training(as));
    CHECK(cr_script_of_module(as) == m && !cr_script_of_module(NULL));
    CHECK(cr_module_tensor(as, "line.bias") == cr_script_tensor(m, "line.bias"));
    CHECK(!cr_ones(&x, size, 2, CR_F32) && !cr_module_forward(&y, as, x));
    CHECK(!cr_sum(&sum, y, NULL, 0, false, CR_DTYPE_NONE));
    CHECK(!cr_backward(&(cr_backward_call){.roots = &sum, .root_count = 1}, NULL));
    CHECK(params.len == 2 && cr_tensor_grad(params.at[0]) && cr_tensor_grad(params.at[1]));
    CHECK(!cr_module_train(as, true));
    cr_drop(y);
    CHECK(!cr_module_forward(&y, as, x));
    cr_ivalue mode = cr_iv_none();
    CHECK(!cr_script_get(&mode, m, "line.training") && mode.i == 1);
    CHECK(!cr_script_save(m, copy) && !cr_script_load(&again, copy));
    CHECK(!cr_equal(&same, cr_script_tensor(again, "line.weight"), params.at[0]) && same);
    REFUSED(CR_IO, "none.pt", cr_script_load(&again, "none.pt"));
    REFUSED(CR_RUNTIME, "", cr_script_parse(&again, "PK", 2));
    cr_script_drop(again);
    cr_module_drop(as);
    cr_free(params.at);
    cr_drop(sum);
    cr_drop(y);
    cr_drop(x);
}

/* Modules keep the modes that their programs had. */
static void modes(cr_script *m)
{
    cr_ivalue off = cr_iv_bool(false), mode = cr_iv_none();
    cr_module *as = NULL;
    cr_tensor *x = NULL, *y = NULL;
    const int64_t size[] = {2, 3};

    CHECK(!cr_script_train(m, true) && !cr_script_set(m, "line.training", &off));
    CHECK(!cr_script_as_module(&as, m) && cr_module_training(as));
    CHECK(!cr_module_training(cr_module_at(as, "line")));
    CHECK(!cr_ones(&x, size, 2, CR_F32) && !cr_module_forward(&y, as, x));
    CHECK(!cr_script_get(&mode, m, "line.training") && mode.i == 0);
    CHECK(!cr_script_get(&mode, m, "training") && mode.i == 1);
    cr_module_drop(as);
    cr_drop(y);
    cr_drop(x);
}

int main(int argc, char **argv)
{
    cr_script *m = NULL;

    if (argc != 3 || cr_script_load(&m, argv[1])) {
        printf("%s\n", cr_error_message());
        return 1;
    }
    values();
    inspect(m);
    attributes(m);
    calls(m);
    kinds(m);
    training(m, argv[2]);
    modes(m);
    cr_script_drop(m);
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
