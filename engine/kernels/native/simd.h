/* Vectors of LANES numbers, by the instruction set that a file is compiled for: AVX-512 with VNNI and VBMI, or AVX2, with
 * VNNI of 256 bits where the processor has it.
 */
#ifndef SIMD_H
#define SIMD_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512VNNI__) && defined(__AVX512VBMI__)
#define LANES 16
typedef __m512 vfloat;
typedef __m512i vint;

INLINE vfloat all(float x) { return _mm512_set1_ps(x); }
INLINE vfloat load(const float *from) { return _mm512_loadu_ps(from); }
INLINE void store(float *to, vfloat x) { _mm512_storeu_ps(to, x); }
INLINE vfloat fma3(vfloat a, vfloat b, vfloat c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vfloat most(vfloat a, vfloat b) { return _mm512_max_ps(a, b); }
INLINE vfloat least(vfloat a, vfloat b) { return _mm512_min_ps(a, b); }
INLINE float total(vfloat x) { return _mm512_reduce_add_ps(x); }
INLINE float largest(vfloat x) { return _mm512_reduce_max_ps(x); }
INLINE vfloat from_int(vint x) { return _mm512_cvtepi32_ps(x); }
INLINE vint to_int(vfloat x) { return _mm512_cvtps_epi32(x); }
INLINE vfloat as_float(vint x) { return _mm512_castsi512_ps(x); }
INLINE vint as_int(vfloat x) { return _mm512_castps_si512(x); }
INLINE vint int_all(int32_t x) { return _mm512_set1_epi32(x); }
INLINE vint int_load(const void *from) { return _mm512_loadu_si512(from); }
INLINE void int_store(void *to, vint x) { _mm512_storeu_si512(to, x); }
INLINE vint int_add(vint a, vint b) { return _mm512_add_epi32(a, b); }
INLINE vint int_and(vint a, vint b) { return _mm512_and_si512(a, b); }
INLINE vint int_left(vint x, int by) { return _mm512_slli_epi32(x, (unsigned)by); }
INLINE vint int_right(vint x, int by) { return _mm512_srli_epi32(x, (unsigned)by); }
INLINE vfloat from_int8(const int8_t *x) {
    return from_int(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)x)));
}
INLINE vfloat from_bf16(const uint16_t *x) {
    return as_float(int_left(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x)), 16));
}
INLINE vint int_from_bytes(const uint8_t *x) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)x)); }
INLINE void to_int8(int8_t *to, vint x) { _mm_storeu_si128((__m128i *)to, _mm512_cvtsepi32_epi8(x)); }
INLINE void low_halves(uint16_t *to, vint x) { _mm256_storeu_si256((__m256i *)to, _mm512_cvtepi32_epi16(x)); }
#define SUMS16 0 /* dot4 adds to numbers of 32 bits */
INLINE vint dot4(vint sum, vint codes, vint x) { return _mm512_dpbusd_epi32(sum, codes, x); }
INLINE vint widened(vint sum) { return sum; }

#elif defined(__AVX2__) && defined(__FMA__)
#define LANES 8
typedef __m256 vfloat;
typedef __m256i vint;

INLINE vfloat all(float x) { return _mm256_set1_ps(x); }
INLINE vfloat load(const float *from) { return _mm256_loadu_ps(from); }
INLINE void store(float *to, vfloat x) { _mm256_storeu_ps(to, x); }
INLINE vfloat fma3(vfloat a, vfloat b, vfloat c) { return _mm256_fmadd_ps(a, b, c); }
INLINE vfloat most(vfloat a, vfloat b) { return _mm256_max_ps(a, b); }
INLINE vfloat least(vfloat a, vfloat b) { return _mm256_min_ps(a, b); }
INLINE __m128 half_total(vfloat x) { return _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1)); }
INLINE float total(vfloat x) {
    __m128 four = half_total(x);
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
INLINE float largest(vfloat x) {
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}
INLINE vfloat from_int(vint x) { return _mm256_cvtepi32_ps(x); }
INLINE vint to_int(vfloat x) { return _mm256_cvtps_epi32(x); }
INLINE vfloat as_float(vint x) { return _mm256_castsi256_ps(x); }
INLINE vint as_int(vfloat x) { return _mm256_castps_si256(x); }
INLINE vint int_all(int32_t x) { return _mm256_set1_epi32(x); }
INLINE vint int_load(const void *from) { return _mm256_loadu_si256((const __m256i *)from); }
INLINE void int_store(void *to, vint x) { _mm256_storeu_si256((__m256i *)to, x); }
INLINE vint int_add(vint a, vint b) { return _mm256_add_epi32(a, b); }
INLINE vint int_and(vint a, vint b) { return _mm256_and_si256(a, b); }
INLINE vint int_left(vint x, int by) { return _mm256_slli_epi32(x, by); }
INLINE vint int_right(vint x, int by) { return _mm256_srli_epi32(x, by); }
INLINE vfloat from_int8(const int8_t *x) {
    return from_int(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)x)));
}
INLINE vfloat from_bf16(const uint16_t *x) {
    return as_float(int_left(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x)), 16));
}
INLINE vint int_from_bytes(const uint8_t *x) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)x)); }
INLINE void low_halves(uint16_t *to, vint x) {
    uint32_t each[LANES];
    int_store(each, x);
    for (int i = 0; i < LANES; i++) to[i] = (uint16_t)each[i];
}
INLINE void to_int8(int8_t *to, vint x) {
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    _mm_storel_epi64((__m128i *)to, _mm_packs_epi16(words, words));
}
#if defined(__AVXVNNI__)
#define SUMS16 0
INLINE vint dot4(vint sum, vint codes, vint x) { return _mm256_dpbusd_avx_epi32(sum, codes, x); }
INLINE vint widened(vint sum) { return sum; }
#else
#define SUMS16 1 /* to pairs of 16 bits, which eight additions of 2 * 15 * 128 do not exceed */
INLINE vint dot4(vint sum, vint codes, vint x) { return _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, x)); }
INLINE vint widened(vint sum) { return _mm256_madd_epi16(sum, _mm256_set1_epi16(1)); }
#endif

#else
#error "no instruction set that these kernels are for"
#endif

#define BLOCK (4 * LANES) /* rows of a block of 4-bit codes */

INLINE float one_half(const uint16_t *x) { return _cvtsh_ss(*x); }
INLINE vfloat zeros(void) { return all(0.0f); }

/* e to the x, within 2e-7 of its size; 0 below -87, and never above 2e38. */
INLINE vfloat exponential(vfloat x) {
    x = least(most(x, all(-88.0f)), all(88.0f));
    const vfloat twos = from_int(to_int(x * all(1.44269504f)));
    vfloat rest = fma3(twos, all(-0.693359375f), x);
    rest = fma3(twos, all(2.12194440e-4f), rest);
    vfloat sum = all(1.0f / 720);
    sum = fma3(sum, rest, all(1.0f / 120));
    sum = fma3(sum, rest, all(1.0f / 24));
    sum = fma3(sum, rest, all(1.0f / 6));
    sum = fma3(sum, rest, all(0.5f));
    sum = fma3(sum, rest, all(1.0f));
    sum = fma3(sum, rest, all(1.0f));
    return as_float(int_add(as_int(sum), int_left(to_int(twos), 23)));
}

/* To bf16, to the nearest, ties to even. */
INLINE void to_bf16(uint16_t *to, vfloat x) {
    const vint bits = as_int(x), odd = int_and(int_right(bits, 16), int_all(1));
    const vint rounded = int_right(int_add(bits, int_add(odd, int_all(0x7fff))), 16);
    low_halves(to, rounded);
}

#endif
