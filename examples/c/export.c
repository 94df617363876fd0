/* Trains a small network, and writes it as one C file, for the runtime and for torch.
 *
 *     export FOLDER
 *
 * FOLDER gets net.c, net_half.c with parameters of float16, net.rt, net.pt2, which
 * torch.export.load reads, and the network's input and result, in and out.  A program that has
 * net.c needs neither this library nor Python. */
#include <cresset_easy.h>
#include <cresset_export.h>
#include <stdio.h>
#include <stdlib.h>

static void write_bytes(const char *folder, const char *name, cr_tensor *t)
{
    char path[1024];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "wb");
    if (!f || fwrite(cr_tensor_data(t), 1, 4 * (size_t)cr_tensor_numel(t), f) == 0 || fclose(f))
        exit(1);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    cr_export_options half = {.name = "net_half", .dtype = CR_F16}, plain = {.name = "net"};
    cr_exported *program = NULL;
    char path[1024];

    ct_manual_seed(1);
    cr_module *net = ct_Sequential(ct_Conv2d(1, 6, 3, CT(padding, 1)), ct_BatchNorm2d(6),
                                   ct_ReLU(), ct_MaxPool2d(2), ct_Flatten(), ct_Linear(96, 10));
    cr_tensor *x = ct_randn(16, 1, 8, 8), *y = ct_randint(10, CT_LIST(16));
    cr_optim *optim = ct_Adam(ct_parameters(net), CT(lr, 0.01));

    for (int step = 0; step < 20; step++)
        ct_scope
        {
            ct_zero_grad(optim);
            ct_backward(ct_cross_entropy_loss(ct_forward(net, x), y));
            ct_step(optim);
        }
    ct_eval(net);
    x = ct_randn(2, 1, 8, 8);
    write_bytes(folder, "in", x);
    write_bytes(folder, "out", ct_contiguous(ct_detach(ct_forward(net, x))));

    ct_check(cr_export(&program, net, &x, 1));
    snprintf(path, sizeof path, "%s/net.c", folder);
    ct_check(cr_export_to_c(program, path, &plain));
    snprintf(path, sizeof path, "%s/net_half.c", folder);
    ct_check(cr_export_to_c(program, path, &half));
    snprintf(path, sizeof path, "%s/net.rt", folder);
    ct_check(cr_export_to_rt(program, path));
    snprintf(path, sizeof path, "%s/net.pt2", folder);
    ct_check(cr_export_to_pt2(program, path));
    cr_exported_drop(program);
    printf("net.c, net_half.c, net.rt and net.pt2 are in %s\n", folder);
    return 0;
}
