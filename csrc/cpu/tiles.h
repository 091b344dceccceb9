// Tiles: a few steps of kLanes neighbouring channels, one vector per step and one lane per channel, whatever the dtype
// and the strides in memory. A scan and a convolution both run along the steps, so the lanes never meet.
#pragma once
#include "../include/mamba_kernels.h"
#include "items.h"

namespace mamba {
namespace MAMBA_ISA {

// A plane of a strided tensor: channels along `row`, steps along `column`, both counted in items of `dtype`.
struct Plane {
  char* data;
  int64_t row, column;
  int32_t dtype;
  bool streams;  // written once and too big for the caches: stores go past them
};

MAMBA_INLINE int64_t item_size(int32_t dtype) { return dtype == MAMBA_FLOAT32 ? 4 : 2; }

// The plane of batch entry `index` of a (batch, dim, length) view, null where the view is absent.
MAMBA_INLINE Plane plane_of(const MambaView& view, int64_t index, int32_t dtype) {
  char* data = static_cast<char*>(view.data);
  if (data != nullptr) data += index * view.stride[0] * item_size(dtype);
  return Plane{data, view.stride[1], view.stride[2], dtype, false};
}

template <typename Item>
MAMBA_NOINLINE void load_tile_of(Vec* tile, const Item* from, int64_t row, int64_t column, int rows, int columns) {
  int done = 0;
  if (column == 1) {
    for (; done + kLanes <= columns; done += kLanes) {
      Vec square[kLanes];
      if (rows == kLanes) {
        MAMBA_UNROLL
        for (int r = 0; r < kLanes; ++r) square[r] = load_items(from + r * row + done);
      } else {
        for (int r = 0; r < kLanes; ++r) square[r] = r < rows ? load_items(from + r * row + done) : Vec{};
      }
      transpose(square);
      MAMBA_UNROLL
      for (int r = 0; r < kLanes; ++r) tile[done + r] = square[r];
    }
  } else if (row == 1 && rows == kLanes) {
    for (; done < columns; ++done) tile[done] = load_items(from + done * column);
  }
  for (; done < columns; ++done) {
    tile[done] = Vec{};
    float* lanes = reinterpret_cast<float*>(tile + done);
    for (int r = 0; r < rows; ++r) lanes[r] = load_item(from + r * row + done * column);
  }
}

MAMBA_INLINE void store_streaming(float* to, Vec v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, (__m512)v);
#else
  store(to, v);
#endif
}
template <typename Item>
MAMBA_INLINE void store_streaming(Item* to, Vec v) {
  store_items(to, v);
}

template <typename Item>
MAMBA_NOINLINE void store_tile_of(const Vec* tile, Item* to, int64_t row, int64_t column, int rows, int columns,
                                  bool streams) {
  int done = 0;
  if (column == 1) {
    for (; done + kLanes <= columns; done += kLanes) {
      Vec square[kLanes];
      MAMBA_UNROLL
      for (int r = 0; r < kLanes; ++r) square[r] = tile[done + r];
      transpose(square);
      if (rows == kLanes && streams) {
        MAMBA_UNROLL
        for (int r = 0; r < kLanes; ++r) store_streaming(to + r * row + done, square[r]);
      } else if (rows == kLanes) {
        MAMBA_UNROLL
        for (int r = 0; r < kLanes; ++r) store_items(to + r * row + done, square[r]);
      } else {
        for (int r = 0; r < rows; ++r) store_items(to + r * row + done, square[r]);
      }
    }
  } else if (row == 1 && rows == kLanes) {
    for (; done < columns; ++done) store_items(to + done * column, tile[done]);
  }
  for (; done < columns; ++done)
    for (int r = 0; r < rows; ++r) store_item(to + r * row + done * column, tile[done][r]);
}

// tile[i], lane r = item (first_row + r, first_column + i); lanes from `rows` on are 0.
MAMBA_INLINE void load_tile(Vec* tile, const Plane& plane, int64_t first_row, int64_t first_column, int rows,
                            int columns) {
  const int64_t offset = first_row * plane.row + first_column * plane.column;
  switch (plane.dtype) {
    case MAMBA_FLOAT32:
      return load_tile_of(tile, reinterpret_cast<const float*>(plane.data) + offset, plane.row, plane.column, rows,
                          columns);
    case MAMBA_FLOAT16:
      return load_tile_of(tile, reinterpret_cast<const Half*>(plane.data) + offset, plane.row, plane.column, rows,
                          columns);
    default:
      return load_tile_of(tile, reinterpret_cast<const BFloat16*>(plane.data) + offset, plane.row, plane.column, rows,
                          columns);
  }
}

MAMBA_INLINE void store_tile(const Vec* tile, const Plane& plane, int64_t first_row, int64_t first_column, int rows,
                             int columns) {
  const int64_t offset = first_row * plane.row + first_column * plane.column;
  switch (plane.dtype) {
    case MAMBA_FLOAT32:
      return store_tile_of(tile, reinterpret_cast<float*>(plane.data) + offset, plane.row, plane.column, rows, columns,
                           plane.streams);
    case MAMBA_FLOAT16:
      return store_tile_of(tile, reinterpret_cast<Half*>(plane.data) + offset, plane.row, plane.column, rows, columns,
                           false);
    default:
      return store_tile_of(tile, reinterpret_cast<BFloat16*>(plane.data) + offset, plane.row, plane.column, rows,
                           columns, false);
  }
}

// Asks for the tile's lines ahead of their use; each row is a stream of its own, more than the hardware follows.
MAMBA_INLINE void prefetch_tile(const Plane& plane, int64_t first_row, int64_t first_column, int rows, int columns) {
  if (plane.column != 1) return;
  const int64_t size = item_size(plane.dtype);
  for (int r = 0; r < rows; ++r) {
    const char* line = plane.data + ((first_row + r) * plane.row + first_column) * size;
    for (int64_t at = 0; at < columns * size; at += 64) __builtin_prefetch(line + at, 0, 2);
  }
}

// True where whole lines of a big float32 plane can be written past the caches: they need not be read first.
MAMBA_INLINE bool may_stream(const MambaView& view, int32_t dtype, int64_t items) {
  return dtype == MAMBA_FLOAT32 && kLanes == 16 && items >= (int64_t(1) << 20) && view.stride[2] == 1 &&
         view.stride[0] % 16 == 0 && view.stride[1] % 16 == 0 && reinterpret_cast<uintptr_t>(view.data) % 64 == 0;
}

MAMBA_INLINE void finish_streams() {
#if defined(__AVX512F__)
  _mm_sfence();
#endif
}

}  // namespace MAMBA_ISA
}  // namespace mamba
