/* Gated experts in one call: x is rounded, each expert widens its rows, and their weighted results are added up.
 *
 * A row's result does not depend on the others or on the number of threads, to the last bit: experts are added in their
 * order.
 */
#include <stdlib.h>

#include "activation.h"
#include "products.h"
#include "simd.h"
#include "team.h"

#define UNIT 64 /* most columns between two products: a block, or a group if that is longer */
#define PARTS 4 /* parts of the work for each thread, if there are few experts */

typedef struct {
    const uint8_t *widen, *narrow;                /* codes of all matrices (2 * width, hidden), gates first, and (hidden, width) */
    const uint16_t *widen_scales, *narrow_scales;
    const uint16_t *x;                            /* (rows, hidden), bf16 */
    const int64_t *counts;                        /* (experts), of pairs */
    const int64_t *row;                           /* (pairs), of x, by expert */
    const float *gates;                           /* (pairs) */
    uint16_t *out;                                /* (rows, hidden), bf16 */
    int64_t rows, pairs, experts, hidden, width, group, activation, threads;
} mixture;

typedef struct {
    const mixture *given;
    rounded x, inner;      /* (rows, hidden), (pairs, width) */
    rounded *own;          /* a thread's rows of an expert (most, hidden) */
    float **sums;          /* a thread's results (rows, BLOCK) */
    int64_t *first;        /* (experts), of its pairs */
    int64_t most, parts;   /* pairs of an expert; items of an expert */
} course;

static rounded part_of(const rounded *x, int64_t row, int64_t inputs, int64_t group) {
    return (rounded){x->high + row * inputs, 0, x->scales + row * (inputs / group), x->sums + row * (inputs / group)};
}

static void round_row(const course *c, int64_t row) {
    const mixture *g = c->given;
    const rounded to = part_of(&c->x, row, g->hidden, g->group);
    float values[UNIT];
    for (int64_t i = 0; i < g->hidden / g->group; i++) {
        for (int64_t j = 0; j < g->group; j += LANES)
            store(values + j, from_bf16(g->x + row * g->hidden + i * g->group + j));
        const rounded place = {to.high + i * g->group, 0, to.scales + i, to.sums + i};
        round_group(values, &place, 0, g->group);
    }
}

/* Copies the rows of an expert. */
static void gather(const course *c, int64_t expert, const rounded *to) {
    const mixture *g = c->given;
    const size_t groups = (size_t)(g->hidden / g->group);
    for (int64_t m = 0; m < g->counts[expert]; m++) {
        const rounded from = part_of(&c->x, g->row[c->first[expert] + m], g->hidden, g->group);
        const rounded place = part_of(to, m, g->hidden, g->group);
        memcpy(place.high, from.high, (size_t)g->hidden);
        memcpy(place.scales, from.scales, groups * sizeof(float));
        memcpy(place.sums, from.sums, groups * sizeof(int32_t));
    }
}

/* Widens an expert's rows to some units of its columns, and rounds them. */
static void widen(const course *c, int64_t expert, int64_t unit, int64_t end, const rounded *x) {
    const mixture *g = c->given;
    const int64_t each = g->group > BLOCK ? g->group / BLOCK : 1, columns = each * BLOCK, size = 2 * g->width * g->hidden;
    const matrix w = {CODES4, 2 * g->width, g->hidden, g->group, g->widen + expert * size / 2,
                      g->widen_scales + expert * size / g->group, 2 * g->width, 0, 0, 0, 0};
    float gate[ROWS * BLOCK] __attribute__((aligned(64))), up[ROWS * BLOCK] __attribute__((aligned(64)));
    float both[ROWS * UNIT] __attribute__((aligned(64)));
    for (; unit < end; unit++)
        for (int64_t m = 0; m < g->counts[expert]; m += ROWS) {
            const int64_t count = least_of(ROWS, g->counts[expert] - m);
            for (int64_t i = 0; i < each; i++) {
                sum_codes(&w, x, unit * each + i, m, count, gate);
                sum_codes(&w, x, unit * each + i + g->width / BLOCK, m, count, up);
                for (int64_t r = 0; r < count; r++)
                    for (int64_t j = 0; j < BLOCK; j += LANES)
                        store(both + r * columns + i * BLOCK + j,
                              activated(g->activation, load(gate + r * BLOCK + j)) * load(up + r * BLOCK + j));
            }
            for (int64_t r = 0; r < count; r++) {
                const rounded row = part_of(&c->inner, c->first[expert] + m + r, g->width, g->group);
                const int64_t from = unit * columns;
                const rounded to = {row.high + from, 0, row.scales + from / g->group, row.sums + from / g->group};
                for (int64_t i = 0; i < columns / g->group; i++) round_group(both + r * columns, &to, i, g->group);
            }
        }
}

/* Narrows all experts' rows to a block of columns, adds them up and writes them. */
static void narrow(const course *c, int64_t block, float *to) {
    const mixture *g = c->given;
    const int64_t size = g->hidden * g->width;
    float sums[ROWS * BLOCK] __attribute__((aligned(64)));
    memset(to, 0, (size_t)(g->rows * BLOCK) * sizeof(float));
    for (int64_t expert = 0; expert < g->experts; expert++) {
        const matrix w = {CODES4, g->hidden, g->width, g->group, g->narrow + expert * size / 2,
                          g->narrow_scales + expert * size / g->group, g->hidden, 0, 0, 0, 0};
        for (int64_t m = 0; m < g->counts[expert]; m += ROWS) {
            const int64_t count = least_of(ROWS, g->counts[expert] - m), pair = c->first[expert] + m;
            sum_codes(&w, &c->inner, block, pair, count, sums);
            for (int64_t r = 0; r < count; r++) {
                float *own = to + g->row[pair + r] * BLOCK;
                const vfloat gate = all(g->gates[pair + r]);
                for (int64_t j = 0; j < BLOCK; j += LANES)
                    store(own + j, fma3(gate, load(sums + r * BLOCK + j), load(own + j)));
            }
        }
    }
    for (int64_t row = 0; row < g->rows; row++)
        for (int64_t j = 0; j < BLOCK; j += LANES)
            to_bf16(g->out + row * g->hidden + block * BLOCK + j, load(to + row * BLOCK + j));
}

static void work(void *job, stage *at, int64_t thread) {
    const course *c = job;
    const mixture *g = c->given;
    const int64_t units = g->width / (g->group > BLOCK ? g->group : BLOCK), items = g->experts * c->parts;
    for (int64_t row; (row = claim(at)) < g->rows; did(at)) round_row(c, row);
    at = finish(at, g->rows);
    for (int64_t item; (item = claim(at)) < items; did(at)) {
        const int64_t expert = item / c->parts, part = item % c->parts;
        if (!g->counts[expert]) continue;
        gather(c, expert, c->own + thread);
        widen(c, expert, units * part / c->parts, units * (part + 1) / c->parts, c->own + thread);
    }
    at = finish(at, items);
    for (int64_t block; (block = claim(at)) < g->hidden / BLOCK; did(at)) narrow(c, block, c->sums[thread]);
}

/* Takes room for rows from a place, each part at a multiple of 64 bytes; a NULL place only counts. */
static char *take(char *from, rounded *to, int64_t rows, int64_t inputs, int64_t group) {
    const int64_t codes = (rows * inputs + 63) & -64, numbers = (rows * (inputs / group) * 4 + 63) & -64;
    *to = (rounded){(int8_t *)from, 0, (float *)(from + codes), (int32_t *)(from + codes + numbers)};
    return from + codes + 2 * numbers;
}

/* Runs the experts. Their sizes are multiples of BLOCK and of the group. Returns 0, or -1 if memory is short. */
int native_mixture(const mixture *g) {
    rounded own[MOST_THREADS];
    float *sums[MOST_THREADS];
    const int64_t threads = least_of(g->threads, MOST_THREADS);
    course c = {.given = g, .own = own, .sums = sums, .parts = 1};
    int64_t active = 0;
    for (int64_t i = 0; i < g->experts; i++) {
        active += g->counts[i] > 0;
        c.most = c.most < g->counts[i] ? g->counts[i] : c.most;
    }
    const int64_t units = g->width / (g->group > BLOCK ? g->group : BLOCK);
    if (active) c.parts = least_of(units, (PARTS * threads + active - 1) / active);
    char *room = 0, *at;
    for (int counted = 0; counted < 2; counted++) { /* first the size, then the places */
        at = take(room, &c.x, g->rows, g->hidden, g->group);
        at = take(at, &c.inner, g->pairs, g->width, g->group);
        for (int64_t i = 0; i < threads; i++) {
            at = take(at, own + i, c.most, g->hidden, g->group);
            sums[i] = (float *)at;
            at += g->rows * BLOCK * 4;
        }
        c.first = (int64_t *)at;
        at += (g->experts * 8 + 63) & -64;
        if (!room && !(room = aligned_alloc(64, (size_t)(at - room)))) return -1;
    }
    for (int64_t i = 0, first = 0; i < g->experts; first += g->counts[i++]) c.first[i] = first;
    const int failed = run_team(work, &c, 3, threads);
    free(room);
    return failed;
}
