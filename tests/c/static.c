/* A program without a dynamic linker: products, convolutions and a training step by the
 * library's own kernels; what needs LAPACK fails with a message. */
#include <cresset_easy.h>
#include <stdio.h>

int main(void)
{
    ct_manual_seed(0);
    cr_tensor *a = ct_randn(CT_LIST(64, 64)), *x = ct_randn(CT_LIST(2, 4, 8, 8));
    cr_tensor *d = ct_to_dtype(a, CR_F64);
    cr_module *net = ct_Sequential(ct_Conv2d(4, 3, 3), ct_ReLU());
    cr_tensor *inverse = NULL;

    cr_tensor *loss = ct_mean(ct_forward(net, x));
    ct_backward(loss);
    printf("%.3f %.3f %.5f\n", ct_item(ct_sum(ct_matmul(a, a))),
           ct_item(ct_sum(ct_matmul(d, d))), ct_item(loss));
    printf("%s\n", cr_linalg_inv(&inverse, d) ? "no LAPACK" : "LAPACK");
    cr_drop(inverse);
    return 0;
}
