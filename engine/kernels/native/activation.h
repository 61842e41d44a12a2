/* The activations of gated MLPs. */
#ifndef ACTIVATION_H
#define ACTIVATION_H

#include "simd.h"

enum { ACTIVATION_SILU, ACTIVATION_GELU }; /* the second by tanh */

INLINE vfloat activated(int64_t activation, vfloat x) {
    vfloat by = x;
    if (activation == ACTIVATION_GELU) /* tanh(y) = 2 / (1 + exp(-2y)) - 1 */
        by = x * all(1.5957691216f) * fma3(x * x, all(0.044715f), all(1.0f));
    return x / (all(1.0f) + exponential(-by));
}

#endif
