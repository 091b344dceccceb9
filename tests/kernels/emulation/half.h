// float16 and bfloat16 storage types with CUDA's names and rounding (to nearest, ties to even).
#pragma once
#include <cstdint>
#include <cstring>

struct __half {
  uint16_t bits;
};
struct __nv_bfloat16 {
  uint16_t bits;
};

namespace emu {
inline uint32_t float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float bits_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
}  // namespace emu

inline float __bfloat162float(__nv_bfloat16 x) { return emu::bits_float(static_cast<uint32_t>(x.bits) << 16); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  const uint32_t bits = emu::float_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

inline float __half2float(__half x) {
  const uint32_t sign = (x.bits & 0x8000u) << 16, exponent = x.bits >> 10 & 31, fraction = x.bits & 0x3ff;
  if (exponent == 31) return emu::bits_float(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return emu::bits_float(sign | (exponent + 112) << 23 | fraction << 13);
  const float subnormal = static_cast<float>(fraction) * 0x1p-24f;
  return sign ? -subnormal : subnormal;
}
inline __half __float2half_rn(float x) {
  const uint32_t bits = emu::float_bits(x), magnitude = bits & 0x7fffffffu;
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00)};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00)};  // rounds to 65536 or more
  if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 leaves the result's bits, rounded, at the fraction's end
    const float shifted = emu::bits_float(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (emu::float_bits(shifted) - 0x3f000000u))};
  }
  const uint32_t rebased = magnitude - (112u << 23);
  return {static_cast<uint16_t>(sign | (rebased + 0xfff + (rebased >> 13 & 1)) >> 13)};
}
