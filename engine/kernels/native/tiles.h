/* Products by the matrix units of x86-64 (AMX), where files are compiled for them.
 *
 * A thread configures its tiles for each call and releases them at its end: other code of the thread, such as oneDNN,
 * has a configuration of its own.
 */
#ifndef TILES_H
#define TILES_H

#include "products.h"

#if defined(__AMX_INT8__) && defined(__AMX_BF16__)
#define TILES 1
#define LEAST_TILED 4  /* rows from which tiles are faster than vectors */
#define LEAST_PAIRED 8 /* the same of rows of 16 bits */

/* Returns 1 if the processor has the units and the system lets this process use them. */
int may_use_tiles(void);

/* Configures eight tiles of 16 rows of 64 bytes. */
void set_even_tiles(void);

/* Multiplies `count` rows of whole numbers, from `first` on, by a block of codes, into sums (count, BLOCK). The sums are
 * those of vectors, to the last bit.
 */
void tile_codes(const matrix *w, const rounded *x, int64_t block, int64_t first, int64_t count, float *sums);
#else
#define TILES 0
#endif

#endif
