#include "team.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define SPINS 4000 /* pauses, up to 0.2 ms together, after which a waiting thread offers its core to others */

/* Shared by the threads of a team; the last one that has it frees it. */
typedef struct {
    member *work;
    void *job; /* the caller's: not touched after `closed`, unless `inside` says so */
    stage *stages;
    atomic_llong holders, inside, numbers;
    atomic_int closed;
} task;

static void give_up(task *own) {
    if (atomic_fetch_sub(&own->holders, 1) > 1) return;
    free(own->stages);
    free(own);
}

static void *begin(void *given) {
    task *own = given;
    atomic_fetch_add(&own->inside, 1);
    if (!atomic_load(&own->closed)) own->work(own->job, own->stages, 1 + atomic_fetch_add(&own->numbers, 1));
    atomic_fetch_sub(&own->inside, 1);
    give_up(own);
    return 0;
}

static void rest(int spins) {
    if (spins < SPINS) __builtin_ia32_pause();
    else sched_yield();
}

/* A thread that gets a core only after all is done is not waited for. */
int run_team(member *work, void *job, int64_t stages, int64_t threads) {
    const size_t size = (size_t)stages * sizeof(stage);
    task *own = malloc(sizeof *own);
    stage *made = aligned_alloc(64, size);
    if (!own || !made) {
        free(own);
        free(made);
        return -1;
    }
    memset(made, 0, size);
    *own = (task){work, job, made, 1, 0, 0, 0};
    for (int64_t other = 1; other < threads && other <= MOST_THREADS; other++) {
        pthread_t thread;
        atomic_fetch_add(&own->holders, 1);
        if (pthread_create(&thread, 0, begin, own)) {
            atomic_fetch_sub(&own->holders, 1);
            break;
        }
        pthread_detach(thread);
    }
    work(job, made, 0);
    atomic_store(&own->closed, 1);
    for (int spins = 0; atomic_load(&own->inside) > 0; spins++) rest(spins);
    give_up(own);
    return 0;
}

stage *finish(stage *at, int64_t items) {
    for (int spins = 0; atomic_load(&at->done) < items; spins++) rest(spins);
    return at + 1;
}
