#include "tiles.h"

#if TILES
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simd.h"

#define HIGH 16                 /* rows of a tile */
#define CHUNK 256               /* inputs whose codes are spread at once, to 16 KB */
#define MOST_GROUPS (CHUNK / 32)
#define ASK_FOR_STATE 0x1023    /* of arch_prctl */
#define TILE_DATA 18            /* the state's number */

/* Tiles. Those of the last rows are lower. */
#define SUMS 0
#define LAST_SUMS 1
#define OWN 2
#define LAST_OWN 3
#define CODES 4

int may_use_tiles(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    const unsigned units = 1u << 22 | 1u << 24 | 1u << 25; /* bf16, tiles, int8 */
    return (d & units) == units && c >> 8 & 1 /* GFNI */ && !syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA);
}

typedef struct {
    uint8_t palette, start, unused[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_shapes;

static void configure(const tile_shapes *shapes) {
    __asm__ volatile("" ::"r"(shapes) : "memory"); /* the next does not say that it reads all of them */
    _tile_loadconfig(shapes);
}

void set_even_tiles(void) {
    tile_shapes shapes = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shapes.bytes[i] = 64;
        shapes.rows[i] = HIGH;
    }
    configure(&shapes);
}

static void set_tiles(int64_t last, int64_t group) {
    tile_shapes shapes = {.palette = 1};
    shapes.rows[SUMS] = shapes.rows[OWN] = HIGH;
    shapes.rows[LAST_SUMS] = shapes.rows[LAST_OWN] = (uint8_t)(last ? last : HIGH);
    shapes.rows[CODES] = (uint8_t)(group / 4);
    shapes.bytes[SUMS] = shapes.bytes[LAST_SUMS] = shapes.bytes[CODES] = 64;
    shapes.bytes[OWN] = shapes.bytes[LAST_OWN] = (uint16_t)group;
    configure(&shapes);
}

/* Spreads a group's codes, as values -8 to 7, to four tiles of group / 4 rows: of each 16 rows of w, four inputs of a row
 * next to each other.
 */
INLINE void spread_tiles(const uint8_t *codes, int64_t group, int8_t *to) {
    uint8_t order[64]; /* of two inputs of 32 rows: both of a row next to each other, rows as unpacking by words wants them */
    for (int i = 0; i < 64; i++) {
        const int word = i / 2 % 8, row = word < 4 ? i / 16 * 4 + word : 16 + i / 16 * 4 + word - 4;
        order[i] = (uint8_t)(32 * (i % 2) + row);
    }
    const vint places = int_load(order);
    /* Matrices over bits: bits 0 to 2 of a code as they are, bit 3 as all higher ones, which a constant inverts. */
    const vint low = _mm512_set1_epi64(0x0102040808080808), high = _mm512_set1_epi64(0x1020408080808080);
    for (int64_t q = 0; q < group / 4; q++) {
        const vint one = _mm512_permutexvar_epi8(places, int_load(codes + 128 * q));
        const vint other = _mm512_permutexvar_epi8(places, int_load(codes + 128 * q + 64));
        const vint here = _mm512_unpacklo_epi16(one, other), there = _mm512_unpackhi_epi16(one, other);
        int_store(to + 64 * q, _mm512_gf2p8affine_epi64_epi8(here, low, 0xf8));
        int_store(to + 64 * q + 16 * group, _mm512_gf2p8affine_epi64_epi8(there, low, 0xf8));
        int_store(to + 64 * q + 32 * group, _mm512_gf2p8affine_epi64_epi8(here, high, 0xf8));
        int_store(to + 64 * q + 48 * group, _mm512_gf2p8affine_epi64_epi8(there, high, 0xf8));
    }
}

/* Whole sums (rows, 16) of a tile of x and one of codes. */
INLINE void whole_sums(const int is_last, const int8_t *x, int64_t stride, const int8_t *codes, int32_t *to) {
    _tile_loadd(CODES, codes, 64);
    if (is_last) {
        _tile_zero(LAST_SUMS);
        _tile_loadd(LAST_OWN, x, stride);
        _tile_dpbssd(LAST_SUMS, LAST_OWN, CODES);
        _tile_stored(LAST_SUMS, to, 64);
    } else {
        _tile_zero(SUMS);
        _tile_loadd(OWN, x, stride);
        _tile_dpbssd(SUMS, OWN, CODES);
        _tile_stored(SUMS, to, 64);
    }
}

/* A chunk of groups: what all rows of x are multiplied by. */
typedef struct {
    const matrix *w;
    const rounded *x;
    const int8_t *spread;
    const char *next;           /* codes of the chunk behind it */
    int64_t from, count, block; /* groups; block of w */
} chunk;

/* Adds a chunk's products with up to `most` rows of x, from `row` on, to sums (rows, BLOCK). */
INLINE void add_tile(const int most, const int pairs, const int has_zeros, const chunk *by, int64_t row, int64_t rows,
                     float *sums) {
    const matrix *w = by->w;
    const rounded *x = by->x;
    const int64_t groups = w->k / w->group;
    float own[HIGH][MOST_GROUPS], zero_by[HIGH][MOST_GROUPS];
    int32_t whole[2][2][HIGH * LANES] __attribute__((aligned(64)));
    for (int64_t m = 0; m < most; m++) { /* rows from `rows` on are not stored, and repeat the last */
        const int64_t at = (row + (m < rows ? m : rows - 1)) * groups + by->from;
        if (by->count == MOST_GROUPS) memcpy(own[m], x->scales + at, sizeof own[m]);
        else memcpy(own[m], x->scales + at, (size_t)by->count * sizeof(float));
        if (has_zeros)
            for (int64_t g = 0; g < by->count; g++) zero_by[m][g] = (float)x->sums[at + g] * own[m][g];
    }
    for (int i = 0; i < 4; i++) {
        vfloat sum[HIGH];
        for (int m = 0; m < most; m++) sum[m] = load(sums + (m < rows ? m : 0) * BLOCK + LANES * i);
        for (int64_t g = -1; g < by->count; g++) { /* tiles are a group ahead of vectors */
            if (g + 1 < by->count) {
                const char *next = by->next + (i * by->count + g + 1) * (w->group * BLOCK / 8);
                for (int64_t at = 0; at < w->group * BLOCK / 8; at += 64) _mm_prefetch(next + at, _MM_HINT_T0);
                const int64_t at = row * w->k + (by->from + g + 1) * w->group;
                const int8_t *codes = by->spread + (4 * (g + 1) + i) * 16 * w->group;
                whole_sums(rows != HIGH, x->high + at, w->k, codes, whole[(g + 1) % 2][0]);
                if (pairs) whole_sums(rows != HIGH, x->low + at, w->k, codes, whole[(g + 1) % 2][1]);
            }
            if (g < 0) continue;
            const int32_t *high = whole[g % 2][0], *low = whole[g % 2][1];
            const int64_t place = (by->from + g) * w->width + by->block * BLOCK + LANES * i;
            vfloat scale, zero = zeros();
            if (w->has_zeros) {
                const vint words = int_load((const uint32_t *)w->scales + place);
                scale = as_float(int_left(words, 16));
                zero = as_float(int_and(words, int_all((int32_t)0xffff0000)));
            } else scale = from_bf16((const uint16_t *)w->scales + place);
            for (int m = 0; m < most; m++) {
                vint found = int_load(high + m * LANES);
                if (pairs) found = int_add(int_left(found, 8), int_load(low + m * LANES));
                sum[m] = fma3(from_int(found), scale * all(own[m][g]), sum[m]);
                if (has_zeros) sum[m] = fma3(all(zero_by[m][g]), zero, sum[m]);
            }
        }
        for (int m = 0; m < most; m++)
            if (m < rows) store(sums + m * BLOCK + LANES * i, sum[m]);
    }
}

INLINE void add_chunk(const int pairs, const int has_zeros, const chunk *by, int64_t first, int64_t count, float *sums) {
    int64_t m = 0;
    for (; m + HIGH <= count; m += HIGH) add_tile(16, pairs, has_zeros, by, first + m, HIGH, sums + m * BLOCK);
    const int64_t rest = count - m;
    sums += m * BLOCK;
    if (rest > 12) add_tile(15, pairs, has_zeros, by, first + m, rest, sums);
    else if (rest > 8) add_tile(12, pairs, has_zeros, by, first + m, rest, sums);
    else if (rest > 4) add_tile(8, pairs, has_zeros, by, first + m, rest, sums);
    else if (rest > 0) add_tile(4, pairs, has_zeros, by, first + m, rest, sums);
}

void tile_codes(const matrix *w, const rounded *x, int64_t block, int64_t first, int64_t count, float *sums) {
    const int64_t groups = w->k / w->group, each = CHUNK / w->group;
    int8_t spread[CHUNK * BLOCK] __attribute__((aligned(64)));
    memset(sums, 0, sizeof(float) * BLOCK * (size_t)count);
    set_tiles(count % HIGH, w->group);
    for (int64_t from = 0; from < groups; from += each) {
        const uint8_t *codes = (const uint8_t *)w->codes + (block * w->k + from * w->group) * (BLOCK / 2);
        const int64_t some = groups - from < each ? groups - from : each;
        const chunk by = {w, x, spread, (const char *)codes + CHUNK * BLOCK / 2, from, some, block};
        for (int64_t g = 0; g < by.count; g++) {
            const char *next = (const char *)w->scales + ((from + g + each) * w->width + block * BLOCK) * (w->has_zeros ? 4 : 2);
            _mm_prefetch(next, _MM_HINT_T0);
            _mm_prefetch(next + 64, _MM_HINT_T0);
            spread_tiles(codes + g * w->group * (BLOCK / 2), w->group, spread + g * w->group * BLOCK);
        }
        __asm__ volatile("" ::: "memory"); /* a tile's load does not say what it reads */
        if (!x->low) add_chunk(0, 0, &by, first, count, sums);
        else if (w->has_zeros) add_chunk(1, 1, &by, first, count, sums);
        else add_chunk(1, 0, &by, first, count, sums);
    }
    _tile_release();
}
#endif
