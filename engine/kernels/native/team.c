#include "team.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define SPINS 4000 /* about 50 microseconds, after which a waiting thread offers its core to others */

typedef struct {
    member *work;
    void *job;
    stage *stages;
    atomic_llong others;
} task;

static void *begin(void *given) {
    task *own = given;
    own->work(own->job, own->stages, 1 + atomic_fetch_add(&own->others, 1));
    return 0;
}

int run_team(member *work, void *job, int64_t stages, int64_t threads) {
    const size_t size = (size_t)stages * sizeof(stage);
    task own = {work, job, aligned_alloc(64, size), 0};
    if (!own.stages) return -1;
    memset(own.stages, 0, size);
    pthread_t others[MOST_THREADS];
    int64_t begun = 0;
    while (begun < threads - 1 && begun < MOST_THREADS && !pthread_create(&others[begun], 0, begin, &own)) begun++;
    work(job, own.stages, 0);
    while (begun > 0) pthread_join(others[--begun], 0);
    free(own.stages);
    return 0;
}

stage *finish(stage *at, int64_t items) {
    for (int spins = 0; atomic_load(&at->done) < items; spins++) {
        if (spins < SPINS) __builtin_ia32_pause();
        else sched_yield();
    }
    return at + 1;
}
