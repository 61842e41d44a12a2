/* Products of a few rows with a weight (n, k), see products.c. */
#ifndef PRODUCTS_H
#define PRODUCTS_H

#include <stdint.h>

#include "team.h"

enum kind { CODES4, INT8, BF16, FP32, INT8_GROUPS };

/* An adapter of a matrix: up * (down * x), for rows of text or for those behind them. */
typedef struct {
    const void *down;     /* (rank, k), of a kind */
    const float *up;      /* (rank, n): transposed, times the adapter's scaling; n is a multiple of LANES */
    int64_t kind, rank, is_text;
} low_rank;

/* CODES4: codes 0 to 15, of the values -8 to 7, in blocks of BLOCK rows, as torch's int4 kernel reads them: byte (k, j)
 * of a block has input k of row j in its low and of row BLOCK / 2 + j in its high nibble. The others: rows of numbers.
 */
typedef struct {
    int64_t kind, n, k, group; /* group: inputs of a scale, for CODES4 and INT8_GROUPS */
    const void *codes;
    const void *scales;   /* CODES4 with zeros: words (groups, width), else bf16 (groups, width); INT8: fp32 (n);
                             INT8_GROUPS: fp16 (n, groups) */
    int64_t width;        /* scales from one group to the next */
    int64_t has_zeros;    /* a word's low half is the scale, its high half the value of code 8, both bf16 */
    const float *bias;    /* (n), or NULL */
    const low_rank *added;
    int64_t additions;
} matrix;

/* Rows (m, k) in int8, by groups: scales * high, or, where low is not NULL, scales * (256 * high + low). */
typedef struct {
    int8_t *high, *low;
    float *scales; /* (m, groups) */
    int32_t *sums; /* (m, groups), of the whole numbers */
} rounded;

#define ROWS 32 /* of x at a time: their sums stay in the first cache */

/* Rounds one group of x: the group's farthest number becomes 127 or -127. */
void round_group(const float *x, const rounded *to, int64_t number, int64_t group);
/* Multiplies `count` rows of whole numbers, ROWS at most, from `first` on, by a block of codes, into sums (count, BLOCK). */
void sum_codes(const matrix *w, const rounded *x, int64_t block, int64_t first, int64_t count, float *sums);
/* Multiplies `count` rows of whole numbers, from `first` on, by a block of codes, into out (m, n). */
void multiply_codes(const matrix *w, const rounded *x, int64_t block, int64_t first, int64_t count, float *out);

/* Decodes a block of codes into its columns of out (k, columns), bf16 or fp32. */
void decode_block(const matrix *w, int64_t block, int64_t columns, void *out, int is_bf16);

typedef struct {
    const float *x;        /* (first + rows, k) */
    const rounded *whole;  /* the same, for CODES4 */
    float *low;            /* scratch of adapters: (all ranks of the matrices, rows) */
    int64_t first, rows;   /* to be multiplied */
    int64_t text_rows;     /* of them, the first that are text */
    int64_t threads;
} operands;

/* Multiplies rows by several matrices and adds what their adapters do, into their outputs (rows, n); stages of a team. */
stage *multiply(stage *at, const matrix *const *of, float *const *to, int matrices, const operands *by);

#endif
