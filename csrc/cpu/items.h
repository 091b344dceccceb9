// float32, float16 and bfloat16 in memory, read and written as float32: one at a time and kLanes at a time.
#pragma once
#include "vec.h"

namespace mamba {
namespace MAMBA_ISA {

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

MAMBA_INLINE Vec load_items(const float* p) { return load(p); }
MAMBA_INLINE void store_items(float* p, Vec v) { store(p, v); }

MAMBA_INLINE Vec load_items(const BFloat16* p) {
  const ShortVec raw = *reinterpret_cast<const ShortVec*>(p);
  return as_floats(__builtin_convertvector(raw, IntVec) << 16);
}

// Round to nearest, ties to even; a NaN stays one (quiet).
MAMBA_INLINE void store_items(BFloat16* p, Vec v) {
  const IntVec raw = bits(v);
  const IntVec rounded = (raw + 0x7fff + ((raw >> 16) & 1)) >> 16;
  const IntVec kept = v == v ? rounded : (raw >> 16) | 0x40;
  *reinterpret_cast<ShortVec*>(p) = __builtin_convertvector(kept, ShortVec);
}

MAMBA_INLINE Vec load_items(const Half* p) {
#if defined(__AVX512F__)
  return (Vec)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__AVX2__)
  return (Vec)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  // The 15 bits, moved to where float32 has its own, read as the value times 2^-112; an exponent of ones stays one.
  const IntVec raw = __builtin_convertvector(*reinterpret_cast<const ShortVec*>(p), IntVec);
  const IntVec unsigned_bits = (raw & 0x7fff) << 13;
  const IntVec scaled = bits(as_floats(unsigned_bits) * 0x1p112f);
  const IntVec special = (raw & 0x7c00) == 0x7c00 ? splat_int(0x7f800000) : IntVec{};
  return as_floats(scaled | special | ((raw & 0x8000) << 16));
#endif
}

MAMBA_INLINE void store_items(Half* p, Vec v) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__AVX2__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#else
  const IntVec raw = bits(v) & 0x7fffffff;
  // Subnormal halves: adding 1/2 lets the float adder round at 2^-24.
  const IntVec subnormal = bits(as_floats(raw) + 0.5f) - 0x3f000000;
  const IntVec normal = (raw - (112 << 23) + 0xfff + ((raw >> 13) & 1)) >> 13;
  const IntVec special = raw > 0x7f800000 ? splat_int(0x7e00) : splat_int(0x7c00);
  IntVec result = raw < (113 << 23) ? subnormal : normal;
  result = raw >= 0x477ff000 ? special : result;  // 65520, halfway beyond the largest half
  result = result | ((bits(v) >> 16) & 0x8000);
  *reinterpret_cast<ShortVec*>(p) = __builtin_convertvector(result, ShortVec);
#endif
}

// One item, by way of a vector, so that every path rounds alike.
MAMBA_INLINE float load_item(const float* p) { return *p; }
MAMBA_INLINE void store_item(float* p, float x) { *p = x; }

MAMBA_INLINE float load_item(const BFloat16* p) {
  const uint32_t raw = static_cast<uint32_t>(p->bits) << 16;
  float value;
  memcpy(&value, &raw, sizeof value);
  return value;
}
MAMBA_INLINE float load_item(const Half* p) {
#if defined(__F16C__)
  return _cvtsh_ss(p->bits);
#else
  Half items[kLanes] = {};
  items[0] = *p;
  return load_items(items)[0];
#endif
}
template <typename Item>
MAMBA_INLINE void store_item(Item* p, float x) {
  Item items[kLanes];
  store_items(items, splat(x));
  *p = items[0];
}

}  // namespace MAMBA_ISA
}  // namespace mamba
