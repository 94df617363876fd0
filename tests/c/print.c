/* Prints every layer, for test_c.py. */
#include <cresset_easy.h>

int main(void)
{
    ct_print(ct_Sequential(
        ct_Linear(2, 3, false), ct_Conv1d(2, 3, 4),
        ct_Conv2d(1, 2, CT_LIST(3, 2), CT(padding, 1)),
        ct_Conv3d(2, 4, 3, CT(stride, 2), CT(groups, 2), CT(dilation, 2), CT(bias, false)),
        ct_BatchNorm1d(3), ct_BatchNorm2d(3, CT(momentum, CT_NONE), CT(eps, 0.25)),
        ct_LayerNorm(CT_LIST(3, 4)), ct_RMSNorm(5), ct_GroupNorm(2, 4), ct_Embedding(5, 6),
        ct_Embedding(5, 6, -1), ct_Dropout(0.25), ct_Flatten(), ct_MaxPool1d(2),
        ct_MaxPool2d(3, CT(stride, CT_LIST(2, 1))), ct_AvgPool1d(2), ct_AvgPool2d(2),
        ct_AdaptiveAvgPool2d(1),
        ct_Sequential(ct_ReLU(), ct_GELU(), ct_Softmax(1), ct_LogSoftmax(-1)),
        CT_LAYER("LeakyReLU"), CT_LAYER("ELU"), CT_LAYER("Softplus"), ct_Identity(),
        CT_LAYER("Sequential")));
    return 0;
}
