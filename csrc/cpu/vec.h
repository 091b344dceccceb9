// A vector of float32 lanes for the instruction set of this compilation, over GCC's vector extensions. Intrinsics stand
// only where the generic form is slower or gives NaN another meaning.
#pragma once
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define MAMBA_INLINE static inline __attribute__((always_inline))
#define MAMBA_NOINLINE static __attribute__((noinline))
#define MAMBA_UNROLL _Pragma("GCC unroll 16")

// Vectors pass between inlined functions only, so the warnings about their calling convention say nothing here.
#pragma GCC diagnostic ignored "-Wpsabi"
// GCC's own intrinsics start from a register that they call undefined.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace mamba {
namespace MAMBA_ISA {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Vec __attribute__((vector_size(4 * kLanes), may_alias));
typedef float UnalignedVec __attribute__((vector_size(4 * kLanes), may_alias, aligned(4)));
typedef int32_t IntVec __attribute__((vector_size(4 * kLanes), may_alias));
typedef uint16_t ShortVec __attribute__((vector_size(2 * kLanes), may_alias, aligned(2)));

MAMBA_INLINE Vec splat(float x) { return Vec{} + x; }
MAMBA_INLINE IntVec splat_int(int32_t x) { return IntVec{} + x; }
MAMBA_INLINE Vec load(const float* p) { return *reinterpret_cast<const UnalignedVec*>(p); }
MAMBA_INLINE void store(float* p, Vec v) { *reinterpret_cast<UnalignedVec*>(p) = v; }
MAMBA_INLINE IntVec bits(Vec v) { return reinterpret_cast<IntVec>(v); }
MAMBA_INLINE Vec as_floats(IntVec v) { return reinterpret_cast<Vec>(v); }

// max and min against a constant that keep a NaN in `x`: the x86 instructions return their second operand then.
MAMBA_INLINE Vec at_least(float low, Vec x) {
#if defined(__AVX512F__)
  return (Vec)_mm512_max_ps(_mm512_set1_ps(low), (__m512)x);
#elif defined(__AVX2__)
  return (Vec)_mm256_max_ps(_mm256_set1_ps(low), (__m256)x);
#elif defined(__SSE2__)
  return (Vec)_mm_max_ps(_mm_set1_ps(low), (__m128)x);
#elif defined(__ARM_NEON)
  return (Vec)vmaxq_f32(vdupq_n_f32(low), (float32x4_t)x);
#else
  return x < splat(low) ? splat(low) : x;
#endif
}
MAMBA_INLINE Vec at_most(float high, Vec x) {
#if defined(__AVX512F__)
  return (Vec)_mm512_min_ps(_mm512_set1_ps(high), (__m512)x);
#elif defined(__AVX2__)
  return (Vec)_mm256_min_ps(_mm256_set1_ps(high), (__m256)x);
#elif defined(__SSE2__)
  return (Vec)_mm_min_ps(_mm_set1_ps(high), (__m128)x);
#elif defined(__ARM_NEON)
  return (Vec)vminq_f32(vdupq_n_f32(high), (float32x4_t)x);
#else
  return x > splat(high) ? splat(high) : x;
#endif
}

// 2^r for |r| <= 1/2. The constant term is exactly 1: decay factors lie near 1, and an error there that always has the
// same sign would be multiplied by the length of the memory, 1 / (1 - decay). Least squares under that condition;
// relative error 9.2e-8.
MAMBA_INLINE Vec exp2_fraction(Vec r) {
  Vec p = 1.326472691e-03f * r + 9.671512660e-03f;
  p = p * r + 5.550733744e-02f;
  p = p * r + 2.402224208e-01f;
  p = p * r + 6.931469776e-01f;
  return p * r + 1.0f;
}

// 2^t. Infinite from 2^128 on, 0 at -infinity, NaN for NaN.
MAMBA_INLINE Vec exp2(Vec t) {
#if defined(__AVX512F__)
  // vreduce gives 0, not NaN, for the fraction of an infinity; scalef saturates.
  const __m512 whole = _mm512_roundscale_ps((__m512)t, 8);
  const Vec fraction = (Vec)_mm512_reduce_ps((__m512)t, 8);
  return (Vec)_mm512_scalef_ps((__m512)exp2_fraction(fraction), whole);
#else
  // Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low bits, here with the bias of the exponent.
  const float kRound = 12582912.0f + 127.0f;
  t = at_most(128.0f, at_least(-127.0f, t));
  const Vec shifted = t + kRound;
  const Vec scale = as_floats(bits(shifted) << 23);
  return exp2_fraction(t - (shifted - kRound)) * scale;
#endif
}

constexpr float kLog2E = 1.44269504088896f;

MAMBA_INLINE Vec magnitude(Vec x) { return as_floats(bits(x) & 0x7fffffff); }
MAMBA_INLINE Vec sigmoid(Vec x) { return 1.0f / (1.0f + exp2(x * -kLog2E)); }

// max(x, 0) + log1p(e^-|x|), log1p(e) = 2 atanh(e / (2 + e)). Above 20 the second term is below half an ulp of x, which
// is the linear branch of the definition.
MAMBA_INLINE Vec softplus(Vec x) {
  const Vec e = exp2(magnitude(x) * -kLog2E);
  const Vec s = e / (2.0f + e);
  const Vec q = s * s;
  Vec p = q * (2.0f / 13) + (2.0f / 11);
  p = p * q + (2.0f / 9);
  p = p * q + (2.0f / 7);
  p = p * q + (2.0f / 5);
  p = p * q + (2.0f / 3);
  p = p * q + 2.0f;
  return at_least(0.0f, x) + p * s;
}

#if defined(__clang__)
#define MAMBA_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MAMBA_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, IntVec{__VA_ARGS__})
#endif

// The lanes of a and b in turn: their lower halves, their upper halves.
MAMBA_INLINE Vec zip_low(Vec a, Vec b) {
#if defined(__AVX512F__)
  return MAMBA_SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#elif defined(__AVX2__)
  return MAMBA_SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
  return MAMBA_SHUFFLE(a, b, 0, 4, 1, 5);
#endif
}
MAMBA_INLINE Vec zip_high(Vec a, Vec b) {
#if defined(__AVX512F__)
  return MAMBA_SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif defined(__AVX2__)
  return MAMBA_SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  return MAMBA_SHUFFLE(a, b, 2, 6, 3, 7);
#endif
}

// A square of kLanes vectors; zipping vector i with vector i + kLanes / 2, log2(kLanes) times, transposes it.
MAMBA_INLINE void transpose(Vec* x) {
  MAMBA_UNROLL
  for (int step = 1; step < kLanes; step *= 2) {
    Vec y[kLanes];
    MAMBA_UNROLL
    for (int i = 0; i < kLanes / 2; ++i) {
      y[2 * i] = zip_low(x[i], x[i + kLanes / 2]);
      y[2 * i + 1] = zip_high(x[i], x[i + kLanes / 2]);
    }
    MAMBA_UNROLL
    for (int i = 0; i < kLanes; ++i) x[i] = y[i];
  }
}

// The unpack instructions, which stay inside 128 bits and need no index register.
MAMBA_INLINE Vec unpack_low(Vec a, Vec b) {
#if defined(__AVX512F__)
  return (Vec)_mm512_unpacklo_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (Vec)_mm256_unpacklo_ps((__m256)a, (__m256)b);
#else
  return zip_low(a, b);
#endif
}
MAMBA_INLINE Vec unpack_high(Vec a, Vec b) {
#if defined(__AVX512F__)
  return (Vec)_mm512_unpackhi_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (Vec)_mm256_unpackhi_ps((__m256)a, (__m256)b);
#else
  return zip_high(a, b);
#endif
}

// In each 128 bits: the sums over those four lanes of x[0], x[1], x[2], x[3].
MAMBA_INLINE Vec sum_quads(const Vec* x) {
  const Vec even = unpack_low(x[0], x[2]) + unpack_high(x[0], x[2]);
  const Vec odd = unpack_low(x[1], x[3]) + unpack_high(x[1], x[3]);
  return unpack_low(even, odd) + unpack_high(even, odd);
}

// Lane j: the sum over the lanes of x[j].
MAMBA_INLINE Vec sum_lanes_of_each(const Vec* x) {
#if defined(__AVX512F__)
  const __m512 q0 = (__m512)sum_quads(x), q1 = (__m512)sum_quads(x + 4);
  const __m512 q2 = (__m512)sum_quads(x + 8), q3 = (__m512)sum_quads(x + 12);
  const __m512 low = _mm512_add_ps(_mm512_shuffle_f32x4(q0, q1, 0x88), _mm512_shuffle_f32x4(q0, q1, 0xdd));
  const __m512 high = _mm512_add_ps(_mm512_shuffle_f32x4(q2, q3, 0x88), _mm512_shuffle_f32x4(q2, q3, 0xdd));
  return (Vec)_mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd));
#elif defined(__AVX2__)
  const Vec a = sum_quads(x), b = sum_quads(x + 4);
  return MAMBA_SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11) + MAMBA_SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
#else
  return sum_quads(x);
#endif
}

MAMBA_INLINE float sum_lanes(Vec x) {
  float sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += x[i];
  return sum;
}

}  // namespace MAMBA_ISA
}  // namespace mamba
