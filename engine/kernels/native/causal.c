/* A pass of a few rows through a dense causal transformer, all layers in one call.
 *
 * Numbers between products are fp32. A row's results depend on what it sees alone, to the last bit: not on the number of
 * rows, of threads, or of keys that it does not see.
 */
#include <math.h>

#include "activation.h"
#include "products.h"
#include "simd.h"
#include "team.h"

#define TILE 4   /* queries that attend at once */
#define PART 512 /* numbers of an item of a stage without sums */

typedef struct {
    matrix queries, keys, values, out, gate, up, down;
    const float *norm, *query_norm, *key_norm, *out_norm, *mlp_norm, *down_norm; /* factors; NULL: no norm */
    int64_t heads, key_heads, head_size, reach; /* reach: which of the pass's */
    double query_scale;
} layer;

/* What the layers of one kind see, and how they are rotated. */
typedef struct {
    const float *cos, *sin; /* (rows, rotated) */
    int64_t rotated, first, stored; /* first: the first visible key; stored: keys before the pass */
    const uint8_t *mask;            /* (rows, stored - first + rows), 1 where allowed; NULL: all */
} reach;

typedef struct {
    void *keys, *values; /* (key heads, capacity, head size), bf16 or fp32 */
    int64_t capacity;
} buffers;

typedef struct {
    const layer *layers;
    const buffers *cache; /* of each layer */
    const reach *reaches;
    const float *norm;
    const float *row_scales; /* (rows), of the queries; NULL: 1 */
    float *x;                /* (rows, hidden): embeddings; hidden states after the pass */
    const matrix *head;
    float *logits;           /* (rows - first_logits, vocabulary) */
    int64_t count, rows, hidden, group, is_bf16, activation, threads, first_logits;
    double eps;
    float *input, *wide, *other, *branch; /* scratch: (rows, most inputs), twice (rows, most outputs), (rows, hidden) */
    rounded whole;                        /* scratch for `input`; high is NULL if no product needs it */
    float *scores;                        /* scratch: (threads, TILE, most_seen) */
    float *low;                           /* scratch of adapters */
    int64_t most_seen;                    /* keys, rounded up to a multiple of LANES */
} pass;

/* Rounds the numbers from .. to of a row of the input, whole groups, if products need that. */
static void round_part(const pass *p, int64_t row, int64_t width, int64_t from, int64_t to) {
    if (!p->whole.high) return;
    const int64_t groups = width / p->group;
    for (int64_t g = from / p->group; g < to / p->group; g++) round_group(p->input, &p->whole, row * groups + g, p->group);
}

static void norm_row(const float *x, const float *factors, double eps, int64_t width, float *to) {
    vfloat squares = zeros();
    for (int64_t i = 0; i < width; i += LANES) squares = fma3(load(x + i), load(x + i), squares);
    const float by = (float)(1.0 / sqrt((double)total(squares) / (double)width + eps));
    for (int64_t i = 0; i < width; i += LANES) store(to + i, load(x + i) * all(by) * load(factors + i));
}

/* Adds a branch's result, normed if there is a norm for it, to the rows, and norms them into the input. */
static stage *add_and_norm(const pass *p, stage *at, int has_branch, const matrix *from, const float *branch_norm,
                           const float *norm) {
    for (int64_t row; (row = claim(at)) < p->rows; did(at)) {
        float *x = p->x + row * p->hidden, *branch = p->branch + row * p->hidden;
        if (has_branch) {
            if (from->bias)
                for (int64_t i = 0; i < p->hidden; i += LANES) store(branch + i, load(branch + i) + load(from->bias + i));
            if (branch_norm) norm_row(branch, branch_norm, p->eps, p->hidden, branch);
            for (int64_t i = 0; i < p->hidden; i += LANES) store(x + i, load(x + i) + load(branch + i));
        }
        norm_row(x, norm, p->eps, p->hidden, p->input + row * p->hidden);
        round_part(p, row, p->hidden, 0, p->hidden);
    }
    return finish(at, p->rows);
}

/* Multiplies the input by several matrices. */
static stage *products(const pass *p, stage *at, const matrix *const *of, float *const *to, int count, int64_t skipped) {
    const int64_t rows = p->rows - skipped; /* all of them text */
    const operands by = {p->input, &p->whole, p->low, skipped, rows, rows, p->threads};
    return multiply(at, of, to, count, &by);
}

static void rotate(float *x, const float *cos, const float *sin, int64_t rotated) {
    const int64_t half = rotated / 2;
    for (int64_t i = 0; i < half; i++) {
        const float one = x[i], other = x[i + half];
        x[i] = one * cos[i] - other * sin[i];
        x[i + half] = other * cos[i + half] + one * sin[i + half];
    }
}

static void add_bias(float *x, const matrix *of, int64_t head, int64_t size) {
    if (of->bias)
        for (int64_t i = 0; i < size; i++) x[i] += of->bias[head * size + i];
}

static void keep(const pass *p, void *to, int64_t at, const float *x, int64_t size) {
    for (int64_t i = 0; i < size; i += LANES) {
        if (p->is_bf16) to_bf16((uint16_t *)to + at + i, load(x + i));
        else store((float *)to + at + i, load(x + i));
    }
}

/* Finishes queries, keys and values, a head an item, and writes the last two into the cache. */
static stage *heads(const pass *p, stage *at, const layer *l, const buffers *cache, float *queries, float *keys,
                    float *values) {
    const int64_t size = l->head_size, each = l->heads + 2 * l->key_heads, items = p->rows * each;
    const reach *own = p->reaches + l->reach;
    for (int64_t item; (item = claim(at)) < items; did(at)) {
        const int64_t row = item / each, place = own->stored + row;
        const float *cos = own->cos + row * own->rotated, *sin = own->sin + row * own->rotated;
        int64_t head = item % each;
        if (head < l->heads) {
            float *x = queries + (row * l->heads + head) * size;
            add_bias(x, &l->queries, head, size);
            if (l->query_norm) norm_row(x, l->query_norm, p->eps, size, x);
            rotate(x, cos, sin, own->rotated);
            const float scale = (float)l->query_scale * (p->row_scales ? p->row_scales[row] : 1.0f);
            for (int64_t i = 0; i < size; i++) x[i] *= scale;
        } else if ((head -= l->heads) < l->key_heads) {
            float *x = keys + (row * l->key_heads + head) * size;
            add_bias(x, &l->keys, head, size);
            if (l->key_norm) norm_row(x, l->key_norm, p->eps, size, x);
            rotate(x, cos, sin, own->rotated);
            keep(p, cache->keys, (head * cache->capacity + place) * size, x, size);
        } else {
            head -= l->key_heads;
            float *x = values + (row * l->key_heads + head) * size;
            add_bias(x, &l->values, head, size);
            keep(p, cache->values, (head * cache->capacity + place) * size, x, size);
        }
    }
    return finish(at, items);
}

INLINE vfloat kept(const int is_bf16, const void *from, int64_t at) {
    return is_bf16 ? from_bf16((const uint16_t *)from + at) : load((const float *)from + at);
}

/* Attends with `count` queries of one head of keys, whose numbers lie one after the other, into `to`. */
INLINE void attend(const int count, const int is_bf16, const float *const *queries, const uint8_t *const *masks,
                   const void *keys, const void *values, int64_t seen, int64_t size, float *scores, float *const *to) {
    const int64_t room = (seen + LANES - 1) / LANES * LANES;
    for (int64_t key = 0; key < seen; key++) {
        vfloat sum[TILE];
        for (int q = 0; q < count; q++) sum[q] = zeros();
        for (int64_t i = 0; i < size; i += LANES) {
            const vfloat own = kept(is_bf16, keys, key * size + i);
            for (int q = 0; q < count; q++) sum[q] = fma3(own, load(queries[q] + i), sum[q]);
        }
        for (int q = 0; q < count; q++)
            scores[q * room + key] = masks[q] && !masks[q][key] ? -INFINITY : total(sum[q]);
    }
    for (int q = 0; q < count; q++) {
        float *own = scores + q * room;
        for (int64_t key = seen; key < room; key++) own[key] = -INFINITY;
        vfloat high = all(-INFINITY);
        for (int64_t key = 0; key < room; key += LANES) high = most(load(own + key), high);
        const vfloat top = all(largest(high));
        for (int64_t key = 0; key < room; key += LANES) store(own + key, exponential(load(own + key) - top));
        if (masks[q])
            for (int64_t key = 0; key < seen; key++) own[key] = masks[q][key] ? own[key] : 0.0f;
    }
    for (int64_t from = 0; from < size; from += 4 * LANES) {
        const int64_t parts = least_of(4, (size - from) / LANES);
        vfloat sum[TILE][4];
        float whole[TILE];
        for (int q = 0; q < count; q++) {
            whole[q] = 0.0f;
            for (int i = 0; i < 4; i++) sum[q][i] = zeros();
        }
        for (int64_t key = 0; key < seen; key++)
            for (int i = 0; i < 4; i++) {
                if (i >= parts) break;
                const vfloat own = kept(is_bf16, values, key * size + from + LANES * i);
                for (int q = 0; q < count; q++) {
                    const float share = scores[q * room + key];
                    sum[q][i] = fma3(own, all(share), sum[q][i]);
                    if (i == 0) whole[q] += share;
                }
            }
        for (int q = 0; q < count; q++)
            for (int i = 0; i < parts; i++) store(to[q] + from + LANES * i, sum[q][i] * all(1.0f / whole[q]));
    }
}

/* Attends with all queries, up to TILE of one head of keys an item, into the input. */
static stage *attention(const pass *p, stage *at, const layer *l, const buffers *cache, const float *queries,
                        float *scores) {
    const int64_t size = l->head_size, sharing = l->heads / l->key_heads;
    const int64_t all_queries = p->rows * sharing, tiles = (all_queries + TILE - 1) / TILE, items = l->key_heads * tiles;
    const reach *own = p->reaches + l->reach;
    const int64_t seen = own->stored - own->first + p->rows, bytes = p->is_bf16 ? 2 : 4;
    for (int64_t item; (item = claim(at)) < items; did(at)) {
        const int64_t head = item / tiles, first = item % tiles * TILE, count = least_of(TILE, all_queries - first);
        const int64_t skipped = (head * cache->capacity + own->first) * size * bytes;
        const void *keys = (const char *)cache->keys + skipped, *values = (const char *)cache->values + skipped;
        const float *asked[TILE];
        const uint8_t *masks[TILE];
        float *to[TILE];
        for (int64_t q = 0; q < count; q++) {
            const int64_t row = (first + q) / sharing, place = (row * l->heads + head * sharing + (first + q) % sharing) * size;
            asked[q] = queries + place;
            to[q] = p->input + place;
            masks[q] = own->mask ? own->mask + row * seen : 0;
        }
#define BY(N)                                                                                                          \
    case N:                                                                                                            \
        if (p->is_bf16) attend(N, 1, asked, masks, keys, values, seen, size, scores, to);                              \
        else attend(N, 0, asked, masks, keys, values, seen, size, scores, to);                                         \
        break;
        switch (count) { BY(1) BY(2) BY(3) BY(4) }
#undef BY
    }
    return finish(at, items);
}

/* Rounds the input, after the gate's activation has been multiplied into it if there is one. */
static stage *inner(const pass *p, stage *at, int64_t width, const float *gate, const float *up) {
    const int64_t parts = (width + PART - 1) / PART, items = p->rows * parts;
    for (int64_t item; (item = claim(at)) < items; did(at)) {
        const int64_t row = item / parts, from = item % parts * PART, to = least_of(width, from + PART);
        for (int64_t i = row * width + from; gate && i < row * width + to; i += LANES)
            store(p->input + i, activated(p->activation, load(gate + i)) * load(up + i));
        round_part(p, row, width, from, to);
    }
    return finish(at, items);
}

static void run(void *job, stage *at, int64_t thread) {
    const pass *p = job;
    float *scores = p->scores + thread * TILE * p->most_seen;
    const matrix *before = 0;
    const float *branch_norm = 0;
    for (int64_t i = 0; i < p->count; i++) {
        const layer *l = p->layers + i;
        float *queries = p->wide, *keys = p->other, *values = p->other + p->rows * l->keys.n;
        at = add_and_norm(p, at, i > 0, before, branch_norm, l->norm);
        at = products(p, at, (const matrix *[]){&l->queries, &l->keys, &l->values}, (float *[]){queries, keys, values}, 3, 0);
        at = heads(p, at, l, p->cache + i, queries, keys, values);
        at = attention(p, at, l, p->cache + i, queries, scores);
        at = inner(p, at, l->out.k, 0, 0);
        at = products(p, at, (const matrix *[]){&l->out}, (float *[]){p->branch}, 1, 0);
        at = add_and_norm(p, at, 1, &l->out, l->out_norm, l->mlp_norm);
        at = products(p, at, (const matrix *[]){&l->gate, &l->up}, (float *[]){p->wide, p->other}, 2, 0);
        at = inner(p, at, l->down.k, p->wide, p->other);
        at = products(p, at, (const matrix *[]){&l->down}, (float *[]){p->branch}, 1, 0);
        before = &l->down;
        branch_norm = l->down_norm;
    }
    at = add_and_norm(p, at, p->count > 0, before, branch_norm, p->norm);
    products(p, at, (const matrix *[]){p->head}, (float *[]){p->logits}, 1, p->first_logits);
}

/* Runs a pass. Returns 0, or -1 if memory is short. */
int causal_pass(const pass *p) { return run_team(run, (void *)p, 14 * p->count + 2, p->threads); }
