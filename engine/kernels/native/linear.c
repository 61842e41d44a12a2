/* Products of many rows of bf16 with int8 rows, by matrix units.
 *
 * Two tiles of w, 16 outputs each, with two of x, 16 rows each; both in bf16, which holds int8 exactly, sums in fp32. The
 * inputs of w are decoded STEP * STEPS at a time, to 16 KB, and serve all rows of x. A row's result does not depend on the
 * others, to the last bit.
 */
#include "tiles.h"

#if TILES
#include <stdlib.h>

#include "simd.h"
#include "team.h"

#define STEP 32  /* inputs of a tile */
#define STEPS 8  /* tiles of inputs that are decoded at once */
#define MOST 256 /* rows of x at once: their sums are 32 KB */

typedef struct {
    const int8_t *codes; /* (n, k) */
    const float *scales; /* (n) */
    const uint16_t *x;   /* (m, k) */
    uint16_t *out;       /* (m, n) */
    uint32_t *turned;    /* x as tiles of 16 pairs of inputs by 16 rows: (32 rows, STEP inputs, 2) */
    int64_t m, n, k;
} product;

/* Transposes a tile of 16 x 16 numbers of 32 bits. */
INLINE void transpose(vint row[16]) {
    vint half[16];
    for (int i = 0; i < 16; i += 2) {
        half[i] = _mm512_unpacklo_epi32(row[i], row[i + 1]);
        half[i + 1] = _mm512_unpackhi_epi32(row[i], row[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            row[i + 2 * j] = _mm512_unpacklo_epi64(half[i + j], half[i + j + 2]);
            row[i + 2 * j + 1] = _mm512_unpackhi_epi64(half[i + j], half[i + j + 2]);
        }
    for (int i = 0; i < 4; i++) { /* now of each four rows, by four columns, a lane */
        half[i] = _mm512_shuffle_i32x4(row[i], row[i + 4], 0x88);
        half[i + 4] = _mm512_shuffle_i32x4(row[i], row[i + 4], 0xdd);
        half[i + 8] = _mm512_shuffle_i32x4(row[i + 8], row[i + 12], 0x88);
        half[i + 12] = _mm512_shuffle_i32x4(row[i + 8], row[i + 12], 0xdd);
    }
    for (int i = 0; i < 8; i++) {
        row[i] = _mm512_shuffle_i32x4(half[i], half[i + 8], 0x88);
        row[i + 8] = _mm512_shuffle_i32x4(half[i], half[i + 8], 0xdd);
    }
}

/* Writes 16 rows of x, from `row` on, as tiles; rows that do not exist are zeros. */
static void turn(const product *p, int64_t row) {
    const int64_t steps = p->k / STEP;
    uint32_t *to = p->turned + (row / 32 * steps * 2 + row / 16 % 2) * 256;
    for (int64_t s = 0; s < steps; s++, to += 512) {
        vint own[16];
        for (int i = 0; i < 16; i++) own[i] = row + i < p->m ? int_load(p->x + (row + i) * p->k + s * STEP) : int_all(0);
        transpose(own);
        for (int i = 0; i < 16; i++) int_store(to + 16 * i, own[i]);
    }
}

/* Decodes 32 outputs, from `output` on, at `steps` tiles of inputs from `from` on. */
static void decode(const product *p, int64_t output, int64_t from, int64_t steps, uint16_t *to) {
    for (int64_t i = 0; i < 32; i++) {
        const int8_t *own = p->codes + (output + i) * p->k + from * STEP;
        uint16_t *place = to + i / 16 * 512 + i % 16 * STEP;
        for (int64_t s = 0; s < steps; s++)
            int_store(place + s * 1024, (vint)_mm512_cvtne2ps_pbh(from_int8(own + s * STEP + 16), from_int8(own + s * STEP)));
    }
}

/* Asks for a part of the inputs that are decoded next. */
static void prefetch(const product *p, int64_t output, int64_t from, int64_t part, int64_t parts) {
    const int64_t steps = p->k / STEP - from < STEPS ? p->k / STEP - from : STEPS;
    for (int64_t i = part * 32 / parts; i < (part + 1) * 32 / parts; i++)
        for (int64_t at = 0; at < steps * STEP; at += 64)
            _mm_prefetch((const char *)p->codes + (output + i) * p->k + from * STEP + at, _MM_HINT_T1);
}

/* Adds the products of 32 outputs and 32 rows to four tiles of sums. */
INLINE void add_products(const uint16_t *w, const uint32_t *x, int64_t steps, int is_first, float *sums) {
    if (is_first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, sums, 64);
        _tile_loadd(1, sums + 256, 64);
        _tile_loadd(2, sums + 512, 64);
        _tile_loadd(3, sums + 768, 64);
    }
    for (int64_t s = 0; s < steps; s++, w += 1024, x += 512) {
        _tile_loadd(4, w, 64);
        _tile_loadd(6, x, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, x + 256, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, w + 512, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 256, 64);
    _tile_stored(2, sums + 512, 64);
    _tile_stored(3, sums + 768, 64);
}

/* Writes a tile of sums, 16 outputs by 16 rows, as rows of the result. */
static void write_tile(const product *p, const float *sums, int64_t output, int64_t row) {
    vint own[16];
    for (int i = 0; i < 16; i++) own[i] = as_int(load(sums + 16 * i) * all(p->scales[output + i]));
    transpose(own);
    for (int64_t i = 0; i < 16 && row + i < p->m; i++) to_bf16(p->out + (row + i) * p->n + output, as_float(own[i]));
}

/* Multiplies all rows by 32 outputs. */
static void multiply_outputs(const product *p, int64_t output) {
    const int64_t steps = p->k / STEP;
    uint16_t decoded[STEPS * 1024] __attribute__((aligned(64)));
    float sums[MOST * 32] __attribute__((aligned(64)));
    for (int64_t first = 0; first < p->m; first += MOST) {
        const int64_t end = first + MOST < p->m ? first + MOST : p->m;
        for (int64_t from = 0; from < steps; from += STEPS) {
            const int64_t some = steps - from < STEPS ? steps - from : STEPS;
            decode(p, output, from, some, decoded);
            __asm__ volatile("" ::: "memory"); /* a tile's load does not say what it reads */
            for (int64_t row = first; row < end; row += 32) {
                prefetch(p, output, from + some, (row - first) / 32, (end - first + 31) / 32);
                add_products(decoded, p->turned + (row / 32 * steps + from) * 512, some, !from, sums + (row - first) * 32);
            }
        }
        for (int64_t row = first; row < end; row += 16)
            for (int64_t half = 0; half < 2; half++)
                write_tile(p, sums + (row - first) / 32 * 1024 + half * 512 + (row - first) % 32 * 16, output + 16 * half, row);
    }
}

static void work(void *job, stage *at, int64_t thread) {
    (void)thread;
    const product *p = job;
    const int64_t parts = (p->m + 31) / 32 * 2, blocks = p->n / 32;
    for (int64_t part; (part = claim(at)) < parts; did(at)) turn(p, part * 16);
    at = finish(at, parts);
    set_even_tiles();
    for (int64_t block; (block = claim(at)) < blocks; did(at)) multiply_outputs(p, block * 32);
    _tile_release();
}

/* Multiplies x (m, k) by int8 rows (n, k) with scales (n) into out (m, n), all numbers but the scales in bf16. n and k are
 * multiples of 32. Returns 0, or -1 if memory is short or there are no matrix units.
 */
int native_linear(const int8_t *codes, const float *scales, const uint16_t *x, uint16_t *out, int64_t m, int64_t n,
                  int64_t k, int64_t threads) {
    uint32_t *turned = aligned_alloc(64, (size_t)((m + 31) / 32 * 32 * k) * sizeof(uint16_t));
    product p = {codes, scales, x, out, turned, m, n, k};
    const int failed = turned ? run_team(work, &p, 2, threads) : -1;
    free(turned);
    return failed;
}
#else
int native_linear(const void *codes, const float *scales, const void *x, void *out, int64_t m, int64_t n, int64_t k,
                  int64_t threads) {
    (void)codes, (void)scales, (void)x, (void)out, (void)m, (void)n, (void)k, (void)threads;
    return -1;
}
#endif
