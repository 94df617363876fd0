/* recurrent.h - kinds of recurrent layers, numbered as `_rnn_direction` numbers them. */
#ifndef CR_WHOLE_RECURRENT_H
#define CR_WHOLE_RECURRENT_H

#include "whole/steps.h"

typedef enum { CR_RNN_LSTM, CR_RNN_GRU, CR_RNN_TANH, CR_RNN_RELU } cr_rnn_kind;

#endif
