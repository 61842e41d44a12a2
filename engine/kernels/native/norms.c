/* RMS norms of rows of bf16, alone, with a sum behind them, or with the rotation of heads; fp32 inside, rounded once at the
 * end.
 */
#include <math.h>

#include "simd.h"
#include "team.h"

#define EACH 8 /* rows of an item */

enum { NONE, IN_FP32, IN_BF16 }; /* factors */

typedef struct {
    const uint16_t *x; /* (rows, size), or heads (rows, stride) */
    const void *factors;
    uint16_t *out;     /* (rows, size), or (heads, rows, size) */
    const uint16_t *added;     /* (rows, size), to normed rows, or NULL */
    const uint16_t *cos, *sin; /* (rows, size), or NULL: heads are not rotated */
    int64_t rows, size, stride, heads, factors_are, threads; /* heads: 0: rows are normed as they are */
    double eps, times; /* times: of a row with what is added */
} norms;

INLINE vfloat factor(const norms *n, int64_t at) {
    if (n->factors_are == IN_BF16) return from_bf16((const uint16_t *)n->factors + at);
    return n->factors_are == IN_FP32 ? load((const float *)n->factors + at) : all(1.0f);
}

INLINE float scale_of(const norms *n, const uint16_t *x) {
    vfloat squares = zeros(), others = zeros();
    int64_t i = 0;
    for (; i + 2 * LANES <= n->size; i += 2 * LANES) {
        const vfloat one = from_bf16(x + i), other = from_bf16(x + i + LANES);
        squares = fma3(one, one, squares);
        others = fma3(other, other, others);
    }
    for (; i < n->size; i += LANES) squares = fma3(from_bf16(x + i), from_bf16(x + i), squares);
    return (float)(1.0 / sqrt((double)total(squares + others) / (double)n->size + n->eps));
}

static void norm_row(const norms *n, int64_t row) {
    const uint16_t *x = n->x + row * n->stride;
    const vfloat by = all(scale_of(n, x));
    for (int64_t i = 0; i < n->size; i += LANES) {
        vfloat normed = from_bf16(x + i) * by * factor(n, i);
        if (n->added) normed = (normed + from_bf16(n->added + row * n->size + i)) * all((float)n->times);
        to_bf16(n->out + row * n->size + i, normed);
    }
}

static void norm_heads(const norms *n, int64_t row) {
    const int64_t half = n->size / 2;
    const uint16_t *cos = n->cos + row * n->size, *sin = n->sin + row * n->size;
    for (int64_t head = 0; head < n->heads; head++) {
        const uint16_t *x = n->x + row * n->stride + head * n->size;
        uint16_t *to = n->out + (head * n->rows + row) * n->size;
        const vfloat by = all(scale_of(n, x));
        for (int64_t i = 0; i < half; i += LANES) {
            const vfloat one = from_bf16(x + i) * by * factor(n, i);
            const vfloat other = from_bf16(x + i + half) * by * factor(n, i + half);
            if (n->cos) {
                to_bf16(to + i, one * from_bf16(cos + i) - other * from_bf16(sin + i));
                to_bf16(to + i + half, other * from_bf16(cos + i + half) + one * from_bf16(sin + i + half));
            } else {
                to_bf16(to + i, one);
                to_bf16(to + i + half, other);
            }
        }
    }
}

static void work(void *job, stage *at, int64_t thread) {
    (void)thread;
    const norms *n = job;
    const int64_t items = (n->rows + EACH - 1) / EACH;
    for (int64_t item; (item = claim(at)) < items; did(at))
        for (int64_t row = item * EACH; row < (item + 1) * EACH && row < n->rows; row++) {
            if (n->heads) norm_heads(n, row);
            else norm_row(n, row);
        }
}

/* Norms. size is a multiple of LANES, of 2 * LANES for heads. Returns 0, or -1 if memory is short. */
int native_norms(const norms *n) { return run_team(work, (void *)n, 1, n->threads); }
