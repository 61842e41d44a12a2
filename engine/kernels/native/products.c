/* Products of rows of activations with packed weights.
 *
 * 4-bit codes are multiplied as whole numbers, with activations rounded by group: to 8 bits, a scale for each group, or
 * to 16 bits in two rows of 8, which is exact to 2e-5 of a group's largest number.
 *
 * out[m, n] = sum over g of x_scale[m, g] * scale[g, n] * (sum over k in g of x[m, k] * code[n, k] - 8 * x_sum[m, g])
 *
 * A block's codes of a group are spread to bytes once, four inputs of a row next to each other, and serve all rows of x.
 * Rows of other numbers are multiplied in fp32. A row's result does not depend on the others, to the last bit.
 */
#include "products.h"

#include "simd.h"
#include "tiles.h"

#define AHEAD 4096 /* bytes of codes that are asked for before they are read */

/* Spreads a group's codes: four vectors of rows for each four inputs. */
#if LANES == 16
INLINE void spread_group(const uint8_t *codes, int64_t quads, uint8_t *to) {
    uint8_t order[2][64];
    for (int half = 0; half < 2; half++)
        for (int j = 0; j < 16; j++)
            for (int i = 0; i < 4; i++) order[half][4 * j + i] = (uint8_t)(32 * i + 16 * half + j);
    const vint first16 = int_load(order[0]), next16 = int_load(order[1]), low = _mm512_set1_epi8(15);
    for (int64_t q = 0; q < quads; q++, to += 256) {
        const vint one = int_load(codes + 128 * q), other = int_load(codes + 128 * q + 64);
        const vint here = _mm512_permutex2var_epi8(one, first16, other);
        const vint there = _mm512_permutex2var_epi8(one, next16, other);
        int_store(to, int_and(here, low));
        int_store(to + 64, int_and(there, low));
        int_store(to + 128, int_and(_mm512_srli_epi16(here, 4), low));
        int_store(to + 192, int_and(_mm512_srli_epi16(there, 4), low));
    }
}
#else
INLINE void spread_group(const uint8_t *codes, int64_t quads, uint8_t *to) {
    const __m128i low = _mm_set1_epi8(15);
    for (int64_t q = 0; q < quads; q++, to += 128) {
        const __m128i *from = (const __m128i *)(codes + 64 * q);
        const __m128i a0 = _mm_loadu_si128(from), a1 = _mm_loadu_si128(from + 1);
        const __m128i a2 = _mm_loadu_si128(from + 2), a3 = _mm_loadu_si128(from + 3);
        const __m128i p0 = _mm_unpacklo_epi8(a0, a1), p1 = _mm_unpackhi_epi8(a0, a1);
        const __m128i p2 = _mm_unpacklo_epi8(a2, a3), p3 = _mm_unpackhi_epi8(a2, a3);
        const __m128i rows[4] = {_mm_unpacklo_epi16(p0, p2), _mm_unpackhi_epi16(p0, p2), _mm_unpacklo_epi16(p1, p3),
                                 _mm_unpackhi_epi16(p1, p3)};
        for (int i = 0; i < 4; i++) {
            _mm_store_si128((__m128i *)to + i, _mm_and_si128(rows[i], low));
            _mm_store_si128((__m128i *)to + 4 + i, _mm_and_si128(_mm_srli_epi16(rows[i], 4), low));
        }
    }
}
#endif

/* Adds a group's products with `count` rows of x, from `row` on, to sums (count, BLOCK). */
INLINE void add_group(const int count, const int pairs, const int has_zeros, const matrix *w, const rounded *x,
                      int64_t g, int64_t row, const uint8_t *spread, const vfloat *scale, const vfloat *zero,
                      float *sums) {
    const int each = pairs ? 2 : 1, rows = count * each; /* of 8 bits: a row's high and low ones */
    const int64_t groups = w->k / w->group, quads = w->group / 4, step = SUMS16 ? 8 : quads;
    const int8_t *high = x->high + row * w->k + g * w->group, *low = pairs ? x->low + row * w->k + g * w->group : high;
    const int32_t *x_sums = x->sums + row * groups + g;
    const float *x_scales = x->scales + row * groups + g;
    vint sum[4][4];
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < 4; i++) sum[r][i] = int_all(r % each == each - 1 ? -8 * x_sums[r / each * groups] : 0);
    for (int64_t start = 0; start < quads; start += step) {
        vint part[4][4];
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < 4; i++) part[r][i] = SUMS16 ? int_all(0) : sum[r][i];
        for (int64_t q = start; q < start + step; q++)
            for (int r = 0; r < rows; r++) {
                int32_t four;
                memcpy(&four, (r % each ? low : high) + r / each * w->k + 4 * q, 4);
                const vint four_of_each = int_all(four);
                for (int i = 0; i < 4; i++)
                    part[r][i] = dot4(part[r][i], int_load(spread + BLOCK * 4 * q + 4 * LANES * i), four_of_each);
            }
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < 4; i++) sum[r][i] = SUMS16 ? int_add(sum[r][i], widened(part[r][i])) : part[r][i];
    }
    for (int m = 0; m < count; m++) {
        const vfloat own = all(x_scales[m * groups]);
        for (int i = 0; i < 4; i++) {
            const vint found = pairs ? int_add(int_left(sum[2 * m][i], 8), sum[2 * m + 1][i]) : sum[m][i];
            vfloat held = load(sums + m * BLOCK + LANES * i);
            held = fma3(from_int(found), scale[i] * own, held);
            if (has_zeros) held = fma3(all((float)x_sums[m * groups]) * own, zero[i], held);
            store(sums + m * BLOCK + LANES * i, held);
        }
    }
}

INLINE void add_rows(const int pairs, const int has_zeros, const matrix *w, const rounded *x, int64_t g, int64_t first,
                     int64_t count, const uint8_t *spread, const vfloat *scale, const vfloat *zero, float *sums) {
    const int most = pairs ? 2 : 4; /* rows at once */
    int64_t m = 0;
    for (; m + most <= count; m += most)
        add_group(most, pairs, has_zeros, w, x, g, first + m, spread, scale, zero, sums + m * BLOCK);
    for (; m < count; m++) add_group(1, pairs, has_zeros, w, x, g, first + m, spread, scale, zero, sums + m * BLOCK);
}

/* Reads a group's scales for a block's rows, and the values of code 8, which are 0 without zeros. */
INLINE void read_scales(const matrix *w, int64_t g, int64_t block, vfloat *scale, vfloat *zero) {
    for (int i = 0; i < 4; i++) {
        const int64_t at = g * w->width + block * BLOCK + LANES * i;
        if (w->has_zeros) {
            const vint words = int_load((const uint32_t *)w->scales + at);
            scale[i] = as_float(int_left(words, 16));
            zero[i] = as_float(int_and(words, int_all((int32_t)0xffff0000)));
        } else {
            scale[i] = from_bf16((const uint16_t *)w->scales + at);
            zero[i] = zeros();
        }
    }
}

void sum_codes(const matrix *w, const rounded *x, int64_t block, int64_t first, int64_t count, float *sums) {
    const int64_t groups = w->k / w->group, quads = w->group / 4;
    uint8_t spread[64 * BLOCK] __attribute__((aligned(64)));
#if TILES
    if (count >= (x->low ? LEAST_PAIRED : LEAST_TILED)) {
        tile_codes(w, x, block, first, count, sums);
        return;
    }
#endif
    memset(sums, 0, sizeof(float) * BLOCK * (size_t)count);
    for (int64_t g = 0; g < groups; g++) {
        const uint8_t *codes = (const uint8_t *)w->codes + (block * w->k + g * w->group) * (BLOCK / 2);
        for (int64_t at = 0; at < w->group * BLOCK / 2; at += 64) _mm_prefetch((const char *)codes + AHEAD + at, _MM_HINT_T0);
        spread_group(codes, quads, spread);
        vfloat scale[4], zero[4];
        read_scales(w, g, block, scale, zero);
        if (!x->low) add_rows(0, 0, w, x, g, first, count, spread, scale, zero, sums);
        else if (w->has_zeros) add_rows(1, 1, w, x, g, first, count, spread, scale, zero, sums);
        else add_rows(1, 0, w, x, g, first, count, spread, scale, zero, sums);
    }
}

void multiply_codes(const matrix *w, const rounded *x, int64_t block, int64_t first, int64_t count, float *out) {
    float sums[ROWS * BLOCK] __attribute__((aligned(64)));
    for (; count > 0; first += ROWS, count -= ROWS) {
        const int64_t some = count < ROWS ? count : ROWS;
        sum_codes(w, x, block, first, some, sums);
        for (int64_t m = 0; m < some; m++)
            memcpy(out + (first + m) * w->n + block * BLOCK, sums + m * BLOCK, BLOCK * sizeof(float));
    }
}

void decode_block(const matrix *w, int64_t block, int64_t columns, void *out, int is_bf16) {
    for (int64_t g = 0; g < w->k / w->group; g++) {
        vfloat scale[4], zero[4];
        read_scales(w, g, block, scale, zero);
        for (int64_t input = g * w->group; input < (g + 1) * w->group; input++) {
            const uint8_t *codes = (const uint8_t *)w->codes + (block * w->k + input) * (BLOCK / 2);
            for (int i = 0; i < 4; i++) {
                const vint both = int_from_bytes(codes + i % 2 * LANES);
                const vint code = i < 2 ? int_and(both, int_all(15)) : int_right(both, 4);
                const vfloat value = fma3(from_int(int_add(code, int_all(-8))), scale[i], zero[i]);
                const int64_t at = input * columns + block * BLOCK + LANES * i;
                if (is_bf16) to_bf16((uint16_t *)out + at, value);
                else store((float *)out + at, value);
            }
        }
    }
}

/* A group with a number that is not finite has a scale that is not, either. */
void round_group(const float *x, const rounded *to, int64_t number, int64_t group) {
    const float *from = x + number * group;
    int8_t *high = to->high + number * group, *low = to->low ? to->low + number * group : 0;
    vfloat size = zeros(), check = zeros(); /* the largest number; NaN where one is not finite */
    for (int64_t i = 0; i < group; i += LANES) {
        const vfloat value = load(from + i);
        size = most(size, as_float(int_and(as_int(value), int_all(0x7fffffff))));
        check = fma3(value, zeros(), check);
    }
    const float farthest = largest(size) + total(check);
    const float by = 127.0f / farthest;
    to->scales[number] = low ? farthest / (127.0f * 256.0f) : farthest / 127.0f;
    if (!(by < 3e38f)) { /* zeros, numbers too small to be distinguished, or not finite */
        memset(high, 0, (size_t)group);
        if (low) memset(low, 0, (size_t)group);
        to->sums[number] = 0;
        return;
    }
    vint sum = int_all(0);
    for (int64_t i = 0; i < group; i += LANES) {
        const vfloat value = load(from + i) * all(by);
        const vint whole = to_int(value);
        to_int8(high + i, whole);
        if (low) {
            const vint rest = to_int(least((value - from_int(whole)) * all(256.0f), all(127.0f)));
            to_int8(low + i, rest);
            sum = int_add(sum, int_add(int_left(whole, 8), rest));
        } else sum = int_add(sum, whole);
    }
    int32_t parts[LANES], all_of_them = 0;
    int_store(parts, sum);
    for (int j = 0; j < LANES; j++) all_of_them += parts[j];
    to->sums[number] = all_of_them;
}

INLINE vfloat numbers(const int kind, const void *codes, int64_t at) {
    if (kind == INT8 || kind == INT8_GROUPS) return from_int8((const int8_t *)codes + at);
    if (kind == BF16) return from_bf16((const uint16_t *)codes + at);
    return load((const float *)codes + at);
}

/* Multiplies `count` rows of x by `rows` rows of w, at most four of each. */
INLINE void dots(const int kind, const int rows, const int count, const matrix *w, const float *x, int64_t row,
                 float *out) {
    const int64_t step = kind == INT8_GROUPS ? w->group : LANES, size = kind == FP32 ? 4 : kind == BF16 ? 2 : 1;
    vfloat sum[4][4];
    for (int r = 0; r < rows; r++)
        for (int m = 0; m < count; m++) sum[r][m] = zeros();
    for (int64_t start = 0; start < w->k; start += step)
        for (int r = 0; r < rows; r++) {
            if (start % (64 / size) == 0) /* of the next rows, at the same inputs */
                _mm_prefetch((const char *)w->codes + ((row + 2 * rows + r) * w->k + start) * size, _MM_HINT_T0);
            vfloat scale = zeros();
            if (kind == INT8_GROUPS) scale = all(one_half((const uint16_t *)w->scales + ((row + r) * w->k + start) / step));
            for (int64_t i = start; i < start + step; i += LANES) {
                vfloat own = numbers(kind, w->codes, (row + r) * w->k + i);
                if (kind == INT8_GROUPS) own = own * scale;
                for (int m = 0; m < count; m++) sum[r][m] = fma3(own, load(x + m * w->k + i), sum[r][m]);
            }
        }
    for (int r = 0; r < rows; r++) {
        const float scale = kind == INT8 ? ((const float *)w->scales)[row + r] : 1.0f;
        for (int m = 0; m < count; m++) out[m * w->n + row + r] = total(sum[r][m]) * scale;
    }
}

INLINE void all_dots(const int kind, const matrix *w, const float *x, int64_t from, int64_t to, int64_t count,
                     float *out) {
    for (int64_t row = from; row < to;) {
        const int rows = to - row < 4 ? 1 : 4;
        int64_t m = 0;
        for (; m + 4 <= count; m += 4) {
            if (rows == 4) dots(kind, 4, 4, w, x + m * w->k, row, out + m * w->n);
            else dots(kind, 1, 4, w, x + m * w->k, row, out + m * w->n);
        }
        for (; m < count; m++) {
            if (rows == 4) dots(kind, 4, 1, w, x + m * w->k, row, out + m * w->n);
            else dots(kind, 1, 1, w, x + m * w->k, row, out + m * w->n);
        }
        row += rows;
    }
}

static void multiply_rows(const matrix *w, const float *x, int64_t from, int64_t to, int64_t count, float *out) {
    if (w->kind == INT8) all_dots(INT8, w, x, from, to, count, out);
    else if (w->kind == INT8_GROUPS) all_dots(INT8_GROUPS, w, x, from, to, count, out);
    else if (w->kind == BF16) all_dots(BF16, w, x, from, to, count, out);
    else all_dots(FP32, w, x, from, to, count, out);
}

/* The rows of an adapter: the first of them, and how many. */
static int64_t rows_of(const low_rank *own, const operands *by, int64_t *first) {
    *first = own->is_text ? 0 : by->text_rows;
    return own->is_text ? by->text_rows : by->rows - by->text_rows;
}

/* Multiplies rows by the `down` of all adapters, into `low`, one adapter after the other. */
static stage *lower(stage *at, const matrix *const *of, int matrices, const operands *by) {
    int64_t items = 0, first;
    for (int i = 0; i < matrices; i++) items += of[i]->additions;
    if (!items) return at;
    for (int64_t item; (item = claim(at)) < items; did(at)) {
        float *low = by->low;
        int64_t own = item;
        int i = 0;
        for (; own >= of[i]->additions; i++) {
            for (int64_t j = 0; j < of[i]->additions; j++) low += of[i]->added[j].rank * by->rows;
            own -= of[i]->additions;
        }
        for (int64_t j = 0; j < own; j++) low += of[i]->added[j].rank * by->rows;
        const low_rank *added = of[i]->added + own;
        const matrix down = {.kind = added->kind, .n = added->rank, .k = of[i]->k, .codes = added->down};
        const int64_t count = rows_of(added, by, &first);
        multiply_rows(&down, by->x + (by->first + first) * of[i]->k, 0, added->rank, count, low);
    }
    return finish(at, items);
}

/* Adds `up` times what `lower` has written, for outputs from .. end of a matrix. */
static void raise(const matrix *w, const float *low, const operands *by, int64_t from, int64_t end, float *out) {
    for (int64_t j = 0; j < w->additions; j++) {
        const low_rank *own = w->added + j;
        int64_t first;
        const int64_t count = rows_of(own, by, &first);
        for (int64_t m = 0; m < count; m++)
            for (int64_t r = 0; r < own->rank; r++) {
                const vfloat factor = all(low[m * own->rank + r]);
                float *row = out + (first + m) * w->n;
                for (int64_t i = from; i < end; i += LANES)
                    store(row + i, fma3(factor, load(own->up + r * w->n + i), load(row + i)));
            }
        low += own->rank * by->rows;
    }
}

stage *multiply(stage *at, const matrix *const *of, float *const *to, int matrices, const operands *by) {
    at = lower(at, of, matrices, by);
    int64_t blocks = 0, items = 0;
    for (int i = 0; i < matrices; i++) blocks += (of[i]->n + BLOCK - 1) / BLOCK;
    const int64_t each = blocks / (8 * by->threads) + 1; /* blocks of an item */
    for (int i = 0; i < matrices; i++) items += (of[i]->n + BLOCK * each - 1) / (BLOCK * each);
    for (int64_t item; (item = claim(at)) < items; did(at)) {
        const float *low = by->low;
        int64_t own = item, some;
        int i = 0;
        for (; own >= (some = (of[i]->n + BLOCK * each - 1) / (BLOCK * each)); i++) {
            own -= some;
            for (int64_t j = 0; j < of[i]->additions; j++) low += of[i]->added[j].rank * by->rows;
        }
        const matrix *w = of[i];
        const int64_t from = own * each * BLOCK, end = least_of(from + each * BLOCK, w->n);
        float *out = to[i];
        if (w->kind != CODES4) multiply_rows(w, by->x + by->first * w->k, from, end, by->rows, out);
        else
            for (int64_t row = from; row < end; row += BLOCK)
                multiply_codes(w, by->whole, row / BLOCK, by->first, by->rows, out - by->first * w->n);
        raise(w, low, by, from, end, out);
    }
    return finish(at, items);
}
