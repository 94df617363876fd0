/* Fits a cubic polynomial to a sine; autograd computes the gradients.
 *
 *     cc polynomial.c $(pkg-config --cflags --libs cresset) && ./a.out */
#include <cresset_easy.h>
#include <stdio.h>

int main(void)
{
    ct_manual_seed(0);
    cr_tensor *x = ct_linspace(-CT_PI, CT_PI, 2000);
    cr_tensor *y = ct_sin(x);
    cr_tensor *a = ct_requires_grad(ct_randn(CT_SCALAR));
    cr_tensor *b = ct_requires_grad(ct_randn(CT_SCALAR));
    cr_tensor *c = ct_requires_grad(ct_randn(CT_SCALAR));
    cr_tensor *d = ct_requires_grad(ct_randn(CT_SCALAR));
    double rate = 1e-6;
    for (int step = 0; step < 2000; step++)
        ct_scope
        {
            cr_tensor *line = ct_add(a, ct_mul(b, x));
            cr_tensor *curve = ct_add(line, ct_mul(c, ct_pow(x, 2)));
            cr_tensor *guess = ct_add(curve, ct_mul(d, ct_pow(x, 3)));
            cr_tensor *loss = ct_sum(ct_pow(ct_sub(guess, y), 2));
            if (step % 100 == 99)
                printf("%4d  %.4f\n", step, ct_item(loss));
            ct_backward(loss);
            ct_no_grad
            {
                cr_tensor *all[] = {a, b, c, d};
                for (int i = 0; i < 4; i++) {
                    ct_sub_(all[i], ct_mul(rate, ct_grad(all[i])));
                    ct_clear_grad(all[i]);
                }
            }
        }
    printf("y = %.4f + %.4f x + %.4f x^2 + %.4f x^3\n", ct_item(a), ct_item(b), ct_item(c),
           ct_item(d));
    return 0;
}
