/* Reads rows of a GGUF file's blocks as packed weights, codes as they are, with a scale for each group of inputs.
 *
 * Codes of four bits are in tiles: byte j of 32 has input j of 64 in its low half, input 32 + j in its high one.
 */
#include <stdlib.h>
#include <unistd.h>

#include "simd.h"
#include "team.h"

#define PART (1 << 18) /* bytes of an item, which stay in a core's second cache */

enum { Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q8_0 = 8, Q4_K = 12, Q6_K = 14 }; /* GGUF's numbers */

typedef struct {
    int64_t file, start, kind, rows, row_bytes, inputs, width;
    uint8_t *codes;    /* (rows, bytes of codes) */
    uint16_t *scales;  /* fp16: of four bits words of scale and minimum (inputs / 32, width); else (rows, groups) */
    atomic_int failed; /* 1: the file is too short or cannot be read, 2: a scale is not finite, -1: memory is short */
} reading;

INLINE float half_at(const uint8_t *from) { return one_half((const uint16_t *)from); }

INLINE uint16_t to_half(float x) { return (uint16_t)_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }

/* Spreads 16 bytes to 32 codes: all low halves, then all high ones. */
INLINE void spread(const uint8_t *from, uint8_t *to) {
    const __m128i both = _mm_loadu_si128((const __m128i *)from), low = _mm_set1_epi8(15);
    _mm_storeu_si128((__m128i *)to, _mm_and_si128(both, low));
    _mm_storeu_si128((__m128i *)(to + 16), _mm_and_si128(_mm_srli_epi16(both, 4), low));
}

/* Reads two blocks of 32 inputs, of a scale and, with `has_minimum`, a minimum, as a tile. */
INLINE void read_fours(const uint8_t *from, int has_minimum, uint8_t *codes, float *scales, float *minima) {
    const int head = has_minimum ? 4 : 2, size = head + 16;
    uint8_t own[2][32];
    for (int i = 0; i < 2; i++, from += size) {
        scales[i] = half_at(from);
        minima[i] = has_minimum ? half_at(from + 2) : -8.0f * scales[i];
        spread(from + head, own[i]);
    }
    for (int i = 0; i < 32; i++) codes[i] = (uint8_t)(own[0][i] | own[1][i] << 4);
}

/* Reads a block of 256 inputs, whose codes are in tiles. */
INLINE void read_q4_k(const uint8_t *from, uint8_t *codes, float *scales, float *minima) {
    const float unit = half_at(from), least_unit = half_at(from + 2);
    const uint8_t *first = from + 4, *second = from + 8, *third = from + 12;
    for (int i = 0; i < 4; i++) {
        scales[i] = unit * (float)(first[i] & 63);
        minima[i] = -least_unit * (float)(second[i] & 63);
        scales[4 + i] = unit * (float)((third[i] & 15) | first[i] >> 6 << 4);
        minima[4 + i] = -least_unit * (float)(third[i] >> 4 | second[i] >> 6 << 4);
    }
    memcpy(codes, from + 16, 128);
}

/* A code without its highest bit is negative: its byte's high half is all ones. Eight codes at once. */
INLINE void read_q5_0(const uint8_t *from, int8_t *codes, float *scales) {
    uint8_t low[32];
    spread(from + 6, low);
    for (int i = 0; i < 4; i++) {
        const uint64_t bits = (uint64_t)(uint8_t)~from[2 + i] * 0x0101010101010101 & 0x8040201008040201; /* one a byte */
        const uint64_t lacks = (bits + 0x7f7f7f7f7f7f7f7f) >> 7 & 0x0101010101010101;
        uint64_t eight;
        memcpy(&eight, low + 8 * i, 8);
        eight |= lacks * 0xf0;
        memcpy(codes + 8 * i, &eight, 8);
    }
    scales[0] = half_at(from);
}

INLINE void read_q6_k(const uint8_t *from, int8_t *codes, float *scales) {
    const float unit = half_at(from + 208);
    for (int half = 0; half < 2; half++) {
        const uint8_t *low = from + 64 * half, *high = from + 128 + 32 * half;
        for (int i = 0; i < 32; i++)
            for (int part = 0; part < 4; part++) {
                const int four = low[32 * (part & 1) + i] >> 4 * (part >> 1) & 15;
                codes[128 * half + 32 * part + i] = (int8_t)((four | (high[i] >> 2 * part & 3) << 4) - 32);
            }
    }
    for (int i = 0; i < 16; i++) scales[i] = unit * (float)(int8_t)from[192 + i];
}

/* Reads a row. Returns 1 if a scale is not finite. */
INLINE int read_row(const int kind, const reading *r, const uint8_t *from, int64_t row) {
    const int is_four = kind == Q4_0 || kind == Q4_1 || kind == Q4_K;
    const int inputs = kind == Q4_K || kind == Q6_K ? 256 : is_four ? 64 : 32; /* read at once */
    const int groups = kind == Q6_K ? 16 : inputs / 32;
    const int bytes = kind == Q4_0 ? 36 : kind == Q4_1 ? 40 : kind == Q4_K ? 144 : kind == Q5_0 ? 22 : kind == Q8_0 ? 34 : 210;
    uint8_t *codes = r->codes + row * r->inputs / (is_four ? 2 : 1);
    const int64_t all_groups = r->inputs / inputs * groups;
    uint16_t worst = 0;
    for (int64_t g = 0; g < all_groups; g += groups, from += bytes, codes += inputs / (is_four ? 2 : 1)) {
        float scales[16], minima[16];
        if (kind == Q4_K) read_q4_k(from, codes, scales, minima);
        else if (is_four) read_fours(from, kind == Q4_1, codes, scales, minima);
        else if (kind == Q5_0) read_q5_0(from, (int8_t *)codes, scales);
        else if (kind == Q6_K) read_q6_k(from, (int8_t *)codes, scales);
        else {
            scales[0] = half_at(from);
            memcpy(codes, from + 2, 32);
        }
        for (int i = 0; i < groups; i++) {
            const uint16_t scale = to_half(scales[i]), minimum = is_four ? to_half(minima[i]) : 0;
            uint16_t *to = r->scales + (is_four ? 2 * ((g + i) * r->width + row) : row * all_groups + g + i);
            to[0] = scale;
            if (is_four) to[1] = minimum;
            const uint16_t larger = (scale & 0x7fff) > (minimum & 0x7fff) ? scale & 0x7fff : minimum & 0x7fff;
            worst = larger > worst ? larger : worst;
        }
    }
    return worst >= 0x7c00;
}

static int read_rows(const reading *r, const uint8_t *from, int64_t row, int64_t end) {
    int failed = 0;
#define BY(KIND)                                                                                                       \
    case KIND:                                                                                                         \
        for (; row < end; row++, from += r->row_bytes) failed |= read_row(KIND, r, from, row);                         \
        break;
    switch (r->kind) { BY(Q4_0) BY(Q4_1) BY(Q5_0) BY(Q8_0) BY(Q4_K) BY(Q6_K) }
#undef BY
    return failed;
}

static int fetch(const reading *r, int64_t row, int64_t end, uint8_t *to) {
    int64_t at = r->start + row * r->row_bytes, left = (end - row) * r->row_bytes;
    for (int64_t got; left > 0; at += got, left -= got, to += got)
        if ((got = pread((int)r->file, to, (size_t)left, at)) <= 0) return 1;
    return 0;
}

static void work(void *job, stage *at, int64_t thread) {
    (void)thread;
    reading *r = job;
    const int64_t each = PART / r->row_bytes / 16 * 16 + 16, items = (r->rows + each - 1) / each;
    uint8_t *data = malloc((size_t)(each * r->row_bytes));
    for (int64_t item; (item = claim(at)) < items; did(at)) {
        const int64_t row = item * each, end = least_of(row + each, r->rows);
        if (!data) atomic_store(&r->failed, -1);
        else if (fetch(r, row, end, data)) atomic_store(&r->failed, 1);
        else if (read_rows(r, data, row, end)) atomic_store(&r->failed, 2);
    }
    free(data);
    finish(at, items);
}

/* Reads all rows. Returns 0, or as `failed`. */
int native_read(int64_t file, int64_t start, int64_t kind, int64_t rows, int64_t row_bytes, int64_t inputs,
                int64_t width, uint8_t *codes, uint16_t *scales, int64_t threads) {
    reading r = {file, start, kind, rows, row_bytes, inputs, width, codes, scales, 0};
    return run_team(work, &r, 1, threads) ? -1 : atomic_load(&r.failed);
}

typedef struct {
    uint8_t *codes;  /* (n, k / 2) */
    uint32_t *words; /* (k / 32, n), or NULL */
    int64_t n, k;
    atomic_int failed;
} turning;

INLINE uint32_t bf16_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* Writes a block's rows of codes in tiles (BLOCK, k / 2) as block (k, BLOCK / 2). */
static void turn_block(const uint8_t *from, int64_t k, uint8_t *to) {
    const int64_t step = k / 2;
    for (int64_t tile = 0; tile < k / 64; tile++)
        for (int64_t i = 0; i < 32; i += 8)
            for (int64_t j = 0; j < BLOCK / 2; j += 8) { /* 8 inputs of both halves, by 8 pairs of rows */
                uint64_t first[8], second[8];
                for (int64_t row = 0; row < 8; row++) {
                    uint64_t one, other;
                    memcpy(&one, from + (j + row) * step + 32 * tile + i, 8);
                    memcpy(&other, from + (BLOCK / 2 + j + row) * step + 32 * tile + i, 8);
                    first[row] = (one & 0x0f0f0f0f0f0f0f0f) | (other & 0x0f0f0f0f0f0f0f0f) << 4;
                    second[row] = (one >> 4 & 0x0f0f0f0f0f0f0f0f) | (other & 0xf0f0f0f0f0f0f0f0);
                }
                for (int half = 0; half < 2; half++) {
                    const __m128i *rows = (const __m128i *)(half ? second : first);
                    const __m128i a = _mm_loadu_si128(rows), b = _mm_loadu_si128(rows + 1);
                    const __m128i c = _mm_loadu_si128(rows + 2), d = _mm_loadu_si128(rows + 3);
                    /* transposes 8 x 8 bytes: rows 2 i and 2 i + 1 are the halves of a, b, c, d */
                    const __m128i ab = _mm_unpacklo_epi8(a, _mm_srli_si128(a, 8)), cd = _mm_unpacklo_epi8(b, _mm_srli_si128(b, 8));
                    const __m128i ef = _mm_unpacklo_epi8(c, _mm_srli_si128(c, 8)), gh = _mm_unpacklo_epi8(d, _mm_srli_si128(d, 8));
                    const __m128i low = _mm_unpacklo_epi16(ab, cd), high = _mm_unpackhi_epi16(ab, cd);
                    const __m128i low2 = _mm_unpacklo_epi16(ef, gh), high2 = _mm_unpackhi_epi16(ef, gh);
                    const __m128i made[4] = {_mm_unpacklo_epi32(low, low2), _mm_unpackhi_epi32(low, low2),
                                             _mm_unpacklo_epi32(high, high2), _mm_unpackhi_epi32(high, high2)};
                    uint8_t *place = to + (64 * tile + 32 * half + i) * (BLOCK / 2) + j;
                    for (int q = 0; q < 4; q++) {
                        _mm_storel_epi64((__m128i *)(place + 2 * q * (BLOCK / 2)), made[q]);
                        _mm_storel_epi64((__m128i *)(place + (2 * q + 1) * (BLOCK / 2)), _mm_srli_si128(made[q], 8));
                    }
                }
            }
}

static void turn(void *job, stage *at, int64_t thread) {
    (void)thread;
    turning *t = job;
    const int64_t size = BLOCK * t->k / 2, blocks = t->n / BLOCK;
    uint8_t *copy = malloc((size_t)size);
    for (int64_t block; (block = claim(at)) < blocks; did(at)) {
        uint8_t *own = t->codes + block * size;
        if (!copy) {
            atomic_store(&t->failed, -1);
            continue;
        }
        memcpy(copy, own, (size_t)size);
        turn_block(copy, t->k, own);
    }
    free(copy);
    at = finish(at, blocks);
    for (int64_t group; t->words && (group = claim(at)) < t->k / 32; did(at))
        for (int64_t row = 0; row < t->n; row++) { /* fp16 scale and minimum; bf16 scale and value of code 8 */
            uint32_t *word = t->words + group * t->n + row;
            const float scale = _cvtsh_ss((uint16_t)*word), minimum = _cvtsh_ss((uint16_t)(*word >> 16));
            *word = bf16_of(scale) | bf16_of(minimum + 8.0f * scale) << 16;
        }
    if (t->words) finish(at, t->k / 32);
}

/* Reorders codes (n, k) of four bits from tiles to blocks of rows, in place, and makes words of minima those of zero
 * points. Returns 0, or -1 if memory is short.
 */
int native_turn(uint8_t *codes, uint32_t *words, int64_t n, int64_t k, int64_t threads) {
    turning t = {codes, words, n, k, 0};
    return run_team(turn, &t, 2, threads) ? -1 : atomic_load(&t.failed);
}
