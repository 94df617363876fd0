/* Writes modules as exported programs: exported FOLDER.
 *
 * FOLDER gets NAME.pt2 of each, and NAME.safetensors with its input and its result. */
#include <cresset_easy.h>
#include <cresset_export.h>
#include <stdio.h>

static const char *folder;

static void write(const char *name, cr_module *m, cr_tensor *x)
{
    cr_exported *program = NULL;
    char path[1024];

    ct_eval(m);
    ct_check(cr_export(&program, m, &x, 1));
    snprintf(path, sizeof path, "%s/%s.pt2", folder, name);
    ct_check(cr_export_to_pt2(program, path));
    snprintf(path, sizeof path, "%s/none/%s.pt2", folder, name);
    if (cr_export_to_pt2(program, path) != CR_IO || cr_export_to_pt2(program, NULL) != CR_TYPE)
        printf("%s is written nowhere\n", name);
    cr_exported_drop(program);
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    ct_check(cr_safetensors_write(
        path, (const char *const[]){"in", "out"},
        (cr_tensor *[]){ct_contiguous(x), ct_contiguous(ct_detach(ct_forward(m, x)))}, 2,
        NULL));
}

/* Operators on tensors: numbers, lists, dtypes, views, writes and constants. */
static cr_status operators(cr_tensor **out, cr_module *m, cr_tensor *x, void *context)
{
    cr_tensor *scale = cr_module_tensor(m, "scale"), *calls = cr_module_tensor(m, "calls");

    (void)context;
    ct_add_(calls, 1);
    cr_tensor *y = ct_mul(ct_add(x, 1.5), scale),
              *z = ct_transpose(ct_reshape(y, CT_LIST(4, 6)), 0, 1);
    z = ct_cat(CT_TENSORS(z, ct_pow(z, 2)), 1);
    z = ct_sub(z, ct_mean(z, CT_LIST(1), CT(keepdim, true)));
    z = ct_where(ct_gt(z, 0), z, ct_full(CT_LIST(6, 8), 0.25));
    z = ct_softmax(ct_clamp(z, CT(min, -1), CT(max, 1)), 1);
    *out = cr_hold(ct_sum(ct_add(z, calls), CT_LIST(1)));
    return CR_OK;
}

int main(int argc, char **argv)
{
    folder = argc > 1 ? argv[1] : ".";
    ct_manual_seed(1);
    write("perceptron",
          ct_Sequential(ct_Linear(8, 16), ct_GELU(), ct_LayerNorm(16), ct_Dropout(0.5),
                        ct_Linear(16, 4, CT(bias, false)), ct_Softmax(-1)),
          ct_randn(3, 8));
    write("picture",
          ct_Sequential(ct_Conv2d(3, 6, 3, CT(padding, 1)), ct_BatchNorm2d(6), ct_ReLU(),
                        ct_MaxPool2d(2), ct_Conv2d(6, 6, 3, CT(groups, 3)), ct_SiLU(),
                        ct_AdaptiveAvgPool2d(2), ct_Flatten(), ct_Linear(24, 10)),
          ct_randn(2, 3, 12, 12));
    write("turned",
          ct_Sequential(ct_ConvTranspose2d(4, 3, 2, CT(stride, 2)), ct_GroupNorm(3, 3),
                        ct_Sigmoid()),
          ct_randn(1, 4, 5, 5));
    write("line",
          ct_Sequential(ct_Conv1d(2, 4, 3), ct_AvgPool1d(2), ct_Tanh(), ct_Flatten(),
                        ct_RMSNorm(16)),
          ct_randn(2, 2, 10));
    cr_module *m = NULL;
    ct_check(cr_module_define(&m, "Operators", operators, NULL));
    ct_check(cr_module_set_parameter(m, "scale", ct_randn(3)));
    ct_check(cr_module_set_buffer(m, "calls", ct_zeros(CT_LIST(8)), true));
    write("operators", m, ct_randn(4, 2, 3));
    cr_module_drop(m);
    write("words", ct_Sequential(ct_Embedding(20, 8), ct_LogSoftmax(-1)),
          ct_randint(20, CT_LIST(2, 5)));
    return 0;
}
