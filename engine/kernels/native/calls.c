/* What Python calls for products alone; see cpu_w4a8.py. */
#include "products.h"
#include "simd.h"
#include "team.h"
#include "tiles.h"

/* Rows of a block that the library reads; 0 if this processor lacks its instructions. */
int64_t native_block(void) {
    __builtin_cpu_init();
#if LANES == 16
    const int runs = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi") &&
                     __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
#if TILES
                     && may_use_tiles()
#endif
        ;
#elif defined(__AVXVNNI__)
    const int runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("avxvnni");
#else
    const int runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#endif
    return runs ? BLOCK : 0;
}

/* Rounds x (m, k). */
void native_round(const float *x, int8_t *high, int8_t *low, float *scales, int32_t *sums, int64_t m, int64_t k,
                  int64_t group) {
    const rounded to = {high, low, scales, sums};
    for (int64_t number = 0; number < m * k / group; number++) round_group(x, &to, number, group);
}

/* Multiplies the first counts[0] rows of x by the first matrix, the next counts[1] by the second, and so on. */
void native_experts(const uint8_t *codes, const uint16_t *scales, int8_t *x, float *x_scales, int32_t *x_sums,
                    float *out, const int64_t *counts, int64_t matrices, int64_t n, int64_t k, int64_t group) {
    const rounded rows = {x, 0, x_scales, x_sums};
    int64_t first = 0;
    for (int64_t i = 0; i < matrices; i++) {
        const matrix w = {CODES4, n, k, group, codes + i * n * k / 2, scales + i * n * k / group, n, 0, 0, 0, 0};
        for (const int64_t end = first + counts[i]; first < end;) {
            const int64_t count = end - first < ROWS ? end - first : ROWS;
            for (int64_t block = 0; block < n / BLOCK; block++) multiply_codes(&w, &rows, block, first, count, out);
            first += count;
        }
    }
}

typedef struct {
    const matrix *w;
    void *out;
    int is_bf16;
} decoding;

static void decode(void *job, stage *at, int64_t thread) {
    (void)thread;
    const decoding *d = job;
    const int64_t blocks = d->w->n / BLOCK;
    for (int64_t block; (block = claim(at)) < blocks; did(at)) decode_block(d->w, block, d->w->n, d->out, d->is_bf16);
    finish(at, blocks);
}

/* Decodes a matrix of codes to numbers (k, n). Returns 0, or -1 if memory is short. */
int native_decode(const matrix *w, void *out, int64_t is_bf16, int64_t threads) {
    decoding d = {w, out, (int)is_bf16};
    return run_team(decode, &d, 1, threads);
}

typedef struct {
    const matrix *w;
    const float *x;
    rounded whole;
    float *out;
    int64_t rows, threads;
} product;

static void work(void *job, stage *at, int64_t thread) {
    (void)thread;
    const product *p = job;
    const int64_t groups = p->w->kind == CODES4 ? p->w->k / p->w->group : 0;
    for (int64_t row; (row = claim(at)) < p->rows; did(at))
        for (int64_t g = 0; g < groups; g++) round_group(p->x, &p->whole, row * groups + g, p->w->group);
    at = finish(at, p->rows);
    const operands by = {p->x, &p->whole, 0, 0, p->rows, p->rows, p->threads};
    multiply(at, &p->w, (float *[]){p->out}, 1, &by);
}

/* Multiplies x (rows, k) by a matrix into out (rows, n). Returns 0, or -1 if memory is short. */
int native_multiply(const matrix *w, const float *x, int8_t *high, int8_t *low, float *scales, int32_t *sums, float *out,
                    int64_t rows, int64_t threads) {
    product p = {w, x, {high, low, scales, sums}, out, rows, threads};
    return run_team(work, &p, 2, threads);
}
