// Up to eight vectors in 16 bits against a matrix of 4-bit codes (the layout of kernels/codebook.py), for Hopper and later.
//
// A block takes 16 * HIGH rows, one tile of 16 rows by 64 * WARPS bytes at a time. One warp copies tiles in bulk into
// SLOTS places of shared memory, row by row; the others look codes up and multiply as kernels/triton_tiles.py does.
// ROW (bytes of a row), HIGH, WARPS, SLOTS, RESIDENT (blocks a multiprocessor), BRAIN (bfloat16) and
// UNROLL (turns of the loop over the columns: few keep the program short) are defined in front.
//
// The next launch may begin before this one ends: it may read words and table at once, which nobody writes between two
// launches without an ordinary one in between (codebook_bulk.py), but x and out only behind wait_former().

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned char u8;

constexpr int PIECE = 64 * WARPS, PITCH = PIECE + 64;  // 64 more, so that rows g and g + 1 lie in other banks
constexpr int SLOT = 16 * PITCH, TABLE = 32768, STEPS = ROW / PIECE, STAGES = STEPS * HIGH, TURNS = UNROLL;
extern __shared__ __align__(1024) u8 smem[];

#if BRAIN
#define KIND "bf16"
#else
#define KIND "f16"
#endif

__device__ __forceinline__ void mma(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32." KIND "." KIND ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// Not volatile: the table stays as it is, so that a look may move across the waiting for tiles.
template <int B> __device__ __forceinline__ u32 look(u32 tab, u32 w) {
  u32 found;
  asm("ld.shared.b32 %0, [%1];" : "=r"(found) : "r"(__byte_perm(w, 0, 0x4440 + B) * 128 + tab));
  return found;
}
// Words of rows g and g + 8, of eight codes each, against four pairs of x, into two sums that do not wait for each other.
__device__ __forceinline__ void add(float (&c)[4], float (&d)[4], u32 tab, u32 u, u32 v, u32 x0, u32 x1, u32 x2, u32 x3) {
  mma(c, look<0>(tab, u), look<0>(tab, v), look<1>(tab, u), look<1>(tab, v), x0, x1);
  mma(d, look<2>(tab, u), look<2>(tab, v), look<3>(tab, u), look<3>(tab, v), x2, x3);
}
__device__ __forceinline__ uint4 load(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void launch_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void wait_former() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void until(u32 bar, int phase) {
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra done; bra again; done: }"
               ::"r"(bar), "r"(phase) : "memory");
}
// The whole warp: tile s into its place, a row a lane.
__device__ __forceinline__ void copy(const u8* from, u8* buffer, u64* full, int s) {
  int lane = threadIdx.x & 31;
  u32 bar = at(full + s % SLOTS);
  if (lane == 0) asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(16 * PIECE) : "memory");
  __syncwarp();
  if (lane < 16)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(at(buffer + (s % SLOTS) * SLOT + lane * PITCH)),
                 "l"(from + (s % HIGH * 16 + lane) * ROW + (s / HIGH) * PIECE), "r"(PIECE), "r"(bar) : "memory");
}
__device__ __forceinline__ void begin_copies(const u8* from, u8* buffer, u64* full, u64* empty) {
  if ((threadIdx.x & 31) == 0) {
#pragma unroll 1
    for (int i = 0; i < SLOTS; i++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(full + i)) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(empty + i)), "r"(WARPS) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncwarp();
#pragma unroll 1
  for (int s = 0; s < SLOTS && s < STAGES; s++) copy(from, buffer, full, s);
}
// Word e of the table 32 times, at 128 * e: every lane has a bank of its own.
__device__ __forceinline__ void fill_table(const u32* table) {
  constexpr int MANY = 2048 / (32 * WARPS);
  u32 v[MANY];
#pragma unroll
  for (int i = 0; i < MANY; i++) v[i] = __ldg(table + ((threadIdx.x + 32 * WARPS * i) >> 3));
#pragma unroll
  for (int i = 0; i < MANY; i++) ((uint4*)smem)[threadIdx.x + 32 * WARPS * i] = make_uint4(v[i], v[i], v[i], v[i]);
}
// Add the warps' sums. A lane's four belong to rows g and g + 8 and to vectors 2t and 2t + 1.
__device__ __forceinline__ void store(float (&c)[HIGH][4], float* sums, unsigned short* out, int rows, int many) {
  constexpr int TALL = 16 * HIGH;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  __syncthreads();
  if (warp < WARPS) {
#pragma unroll
    for (int k = 0; k < HIGH; k++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (2 * t + (i & 1) < many) sums[(warp * many + 2 * t + (i & 1)) * TALL + k * 16 + g + (i >> 1) * 8] = c[k][i];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < TALL * many; i += 32 * WARPS + 32) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += sums[w * many * TALL + i];
    unsigned short bits;
    asm("cvt.rn." KIND ".f32 %0, %1;" : "=h"(bits) : "f"(sum));
    out[(u64)(i / TALL) * rows + blockIdx.x * TALL + i % TALL] = bits;
  }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS + 32, RESIDENT)
product(const u8* words, const uint4* x, const u32* table, unsigned short* out, int rows, int many) {
  u8* buffer = smem + TABLE;
  u64 *full = (u64*)(buffer + SLOTS * SLOT), *empty = full + SLOTS;
  const u8* from = words + (u64)blockIdx.x * (16 * HIGH * ROW);
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  if (warp == WARPS) begin_copies(from, buffer, full, empty);
  launch_next();
  if (warp < WARPS) fill_table(table);
  wait_former();
  __syncthreads();
  float c[HIGH][4];
#pragma unroll
  for (int k = 0; k < HIGH; k++) c[k][0] = c[k][1] = c[k][2] = c[k][3] = 0.f;
  if (warp == WARPS) {
#pragma unroll 1
    for (int s = SLOTS; s < STAGES; s++) {
      until(at(empty + s % SLOTS), (s / SLOTS - 1) & 1);
      copy(from, buffer, full, s);
    }
  } else {
    u32 tab = at(smem) + 4 * lane;
    const u8* place = buffer + g * PITCH + warp * 64 + t * 16;
    const uint4* mine = x + (u64)(g < many ? g : many - 1) * (ROW / 4) + warp * 16 + t * 4;
    uint4 next[4] = {load(mine), load(mine + 1), load(mine + 2), load(mine + 3)};
    int slot = 0, phase = 0;
    until(at(full), 0);
    uint4 nu = *(const uint4*)place, nv = *(const uint4*)(place + 8 * PITCH);
#pragma unroll TURNS
    for (int step = 0; step < STEPS; step++) {
      uint4 x0 = next[0], x1 = next[1], x2 = next[2], x3 = next[3];
      mine += 16 * WARPS;
      if (step + 1 < STEPS) {
#pragma unroll
        for (int i = 0; i < 4; i++) next[i] = load(mine + i);
      }
#pragma unroll
      for (int k = 0; k < HIGH; k++) {
        // This tile's words are here: its place is free, and the next tile's are read while this one is multiplied.
        uint4 u = nu, v = nv;
        __syncwarp();
        if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(empty + slot)) : "memory");
        if (++slot == SLOTS) slot = 0, phase ^= 1;
        if (k + 1 < HIGH || step + 1 < STEPS) {
          until(at(full + slot), phase);
          nu = *(const uint4*)(place + slot * SLOT), nv = *(const uint4*)(place + slot * SLOT + 8 * PITCH);
        }
        float d[4] = {0.f, 0.f, 0.f, 0.f};
        add(c[k], d, tab, u.x, v.x, x0.x, x1.x, x2.x, x3.x);
        add(c[k], d, tab, u.y, v.y, x0.y, x1.y, x2.y, x3.y);
        add(c[k], d, tab, u.z, v.z, x0.z, x1.z, x2.z, x3.z);
        add(c[k], d, tab, u.w, v.w, x0.w, x1.w, x2.w, x3.w);
#pragma unroll
        for (int i = 0; i < 4; i++) c[k][i] += d[i];
      }
    }
  }
  store(c, (float*)buffer, out, rows, many);
}
