/* Threads that work through the stages of a pass together. A stage consists of items, which threads claim one by one, so
 * that a thread whose core is taken holds up the others by one item at most. A stage begins when all items of the one
 * before are done.
 */
#ifndef TEAM_H
#define TEAM_H

#include <stdatomic.h>
#include <stdint.h>

#define MOST_THREADS 256

typedef struct {
    _Alignas(64) atomic_llong claimed;
    atomic_llong done;
} stage;

typedef void member(void *job, stage *stages, int64_t thread);

/* Runs work(job, stages, thread) in up to that many threads, this one, number 0, among them. Returns 0, or -1 if memory is short. */
int run_team(member *work, void *job, int64_t stages, int64_t threads);

/* Returns once all items of a stage are done; the result is the next stage. */
stage *finish(stage *at, int64_t items);

/* Claims the next item of a stage; there is none from `items` on. */
static inline int64_t claim(stage *at) { return atomic_fetch_add(&at->claimed, 1); }

static inline int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

/* Says that a claimed item is done. */
static inline void did(stage *at) { atomic_fetch_add(&at->done, 1); }

#endif
