/* Writes text with a language model whose loop Python wrote (models.py): no Python runs.
 *
 *     cc writer.c $(pkg-config --cflags --libs cresset) && ./a.out writer.pt "the " */
#include <cresset_easy.h>
#include <cresset_script.h>
#include <stdio.h>

static void write_text(cr_script *net, cr_ivalue start, cr_ivalue most, double heat,
                       cr_ivalue stop)
{
    cr_ivalue given[] = {start, most, cr_iv_float(heat), stop}, text = cr_iv_none();

    if (cr_script_call(&text, net, "write", given, 4))
        printf("refused: %s\n", cr_error_message());
    else
        printf("%s\n", cr_ivalue_string(&text, NULL));
    cr_ivalue_free(text);
}

int main(int argc, char **argv)
{
    cr_script *net = NULL;
    cr_ivalue start, odd, none, point;
    if (argc != 3)
        return 2;
    ct_manual_seed(7);
    ct_check(cr_script_load(&net, argv[1]));
    ct_check(cr_ivalue_of_text(&start, argv[2]) || cr_ivalue_of_text(&odd, "x!") ||
             cr_ivalue_of_text(&none, "") || cr_ivalue_of_text(&point, "."));
    for (int i = 0; cr_script_method(net, i); i++)
        printf("%s ", cr_script_method(net, i));
    printf("\n");
    write_text(net, start, cr_iv_int(40), 0, none);
    write_text(net, start, cr_iv_int(200), 0, point);
    for (int i = 0; i < 3; i++)
        write_text(net, start, cr_iv_int(40), 0.7, none);
    write_text(net, odd, cr_iv_int(1), 0, none);
    write_text(net, start, point, 0, none);
    cr_ivalue_free(start);
    cr_ivalue_free(odd);
    cr_ivalue_free(none);
    cr_ivalue_free(point);
    cr_script_drop(net);
    return 0;
}
