// Up to eight vectors in 16 bits against a matrix of 4-bit codes (tiles as in kernels/codebook_layout.py), for Hopper and later.
//
// A block takes HIGH bands of 16 rows. One thread copies WARPS neighbouring tiles of a band at a time, which are one piece
// of memory, into one of SLOTS places of shared memory; a warp looks the codes of its tile up and multiplies as
// kernels/triton_tiles.py does. One vector (MANY = 1) lies in shared memory; of several each warp loads its part.
// ROW (bytes of a row), HIGH, WARPS, SLOTS, MANY (1 or 8) and BRAIN (bfloat16) are defined in front.
//
// The next launch may begin before this one ends: it may read words and table at once, which nobody writes between two
// launches without an ordinary one in between (codebook_bulk.py), but x and out only behind wait_former().

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned char u8;

constexpr int TILE = 1024, SLOT = TILE * WARPS, BAND = 16 * ROW, STEPS = ROW / (64 * WARPS), STAGES = STEPS * HIGH;
constexpr int TALL = 16 * HIGH, THREADS = 32 * WARPS;  // THREADS that multiply; one warp more copies
constexpr int TABLE = 32768, X = MANY == 1 ? 4 * ROW : 0, SUMS = 4 * TALL * WARPS * MANY;  // bytes in shared memory
constexpr int TURNS = HIGH < 16 ? 16 / HIGH : 1;  // steps that are written out
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
template <int B> __device__ __forceinline__ u32 look(const u8* tab, u32 w) {
  return *(const u32*)(tab + __byte_perm(w, 0, 0x4440 + B) * 128);
}
// Words of rows g and g + 8, of eight codes each, against four pairs of x.
__device__ __forceinline__ void add(float (&c)[4], const u8* tab, u32 u, u32 v, uint4 x) {
  mma(c, look<0>(tab, u), look<0>(tab, v), look<1>(tab, u), look<1>(tab, v), x.x, x.y);
  mma(c, look<2>(tab, u), look<2>(tab, v), look<3>(tab, u), look<3>(tab, v), x.z, x.w);
}
__device__ __forceinline__ uint4 load(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ u32 part(uint4 v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
__device__ __forceinline__ void launch_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void wait_former() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void until(u32 bar, int phase) {
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra done; bra again; done: }"
               ::"r"(bar), "r"(phase) : "memory");
}

// Stage s: WARPS tiles of band s % HIGH.
__device__ __forceinline__ void copy(const u8* from, u8* buffer, u64* full, int s) {
  u32 bar = at(full + s % SLOTS);
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(SLOT) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(at(buffer + (s % SLOTS) * SLOT)), "l"(from + (s % HIGH) * BAND + (s / HIGH) * SLOT), "r"(SLOT), "r"(bar)
               : "memory");
}
__device__ __forceinline__ void begin_copies(const u8* from, u8* buffer, u64* full, u64* empty) {
  for (int i = 0; i < SLOTS; i++) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(full + i)) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(empty + i)), "r"(WARPS) : "memory");
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  for (int s = 0; s < SLOTS && s < STAGES; s++) copy(from, buffer, full, s);
}
// The fence stands between the warps' reading of a slot and the copy that overwrites it, which is of another proxy.
__device__ __forceinline__ void go_on_copying(const u8* from, u8* buffer, u64* full, u64* empty) {
  for (int s = SLOTS; s < STAGES; s++) {
    until(at(empty + s % SLOTS), (s / SLOTS - 1) & 1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    copy(from, buffer, full, s);
  }
}

// Word e of the table 32 times, at 128 * e: every lane has a bank of its own.
__device__ __forceinline__ void fill_table(const u32* table) {
  constexpr int TIMES = 2048 / THREADS;
  u32 v[TIMES];
#pragma unroll
  for (int i = 0; i < TIMES; i++) v[i] = __ldg(table + ((threadIdx.x + THREADS * i) >> 3));
#pragma unroll
  for (int i = 0; i < TIMES; i++) ((uint4*)smem)[threadIdx.x + THREADS * i] = make_uint4(v[i], v[i], v[i], v[i]);
}
// The vector, dealt so that x_of() is one load, which no two lanes of a warp wait for.
__device__ __forceinline__ void fill_x(const uint4* x) {
  constexpr int MOST = ROW / 4, TIMES = (MOST + THREADS - 1) / THREADS;
  uint4 v[TIMES];
#pragma unroll
  for (int i = 0; i < TIMES; i++)
    if (THREADS * (i + 1) <= MOST || threadIdx.x + THREADS * i < MOST) v[i] = load(x + threadIdx.x + THREADS * i);
#pragma unroll
  for (int i = 0; i < TIMES; i++) {
    int u = threadIdx.x + THREADS * i, chunk = u >> 4, tj = u & 15;
    if (THREADS * (i + 1) <= MOST || u < MOST) {
#pragma unroll
      for (int w = 0; w < 4; w++) ((u32*)(smem + TABLE))[chunk * 64 + w * 16 + tj] = part(v[i], w);
    }
  }
}
// The four pairs that word w of a lane stands against.
__device__ __forceinline__ uint4 x_of(int chunk, int w, int t) { return ((const uint4*)(smem + TABLE))[chunk * 16 + w * 4 + t]; }

// A warp's tile in each stage.
__device__ __forceinline__ void multiply(float (&c)[HIGH][4], const uint4* x, const u8* buffer, u64* full, u64* empty, int many) {
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3, slot = 0, phase = 0;
  const uint4 *mine = x + (u64)(g < many ? g : many - 1) * (ROW / 4) + warp * 16 + t * 4, *tile = (const uint4*)(buffer + warp * TILE) + lane;
  uint4 q[4], next[4];
  if (MANY > 1) {
#pragma unroll
    for (int i = 0; i < 4; i++) next[i] = load(mine + i);
  }
#pragma unroll TURNS
  for (int step = 0; step < STEPS; step++) {
#pragma unroll
    for (int w = 0; w < 4; w++)
      q[w] = MANY == 1 ? x_of(step * WARPS + warp, w, t) : make_uint4(part(next[0], w), part(next[1], w), part(next[2], w), part(next[3], w));
    if (MANY > 1 && step + 1 < STEPS) {
#pragma unroll
      for (int i = 0; i < 4; i++) next[i] = load(mine + (step + 1) * 16 * WARPS + i);
    }
#pragma unroll
    for (int k = 0; k < HIGH; k++) {
      until(at(full + slot), phase);
      __syncwarp();  // the lanes left until() one by one; mma is of all
      uint4 u = tile[slot * (SLOT / 16)], v = tile[slot * (SLOT / 16) + 32];
#pragma unroll
      for (int w = 0; w < 4; w++) add(c[k], smem + 4 * lane, part(u, w), part(v, w), q[w]);
      // Not before the words have been used: an arrival may overtake a load that is still under way, and the next copy
      // would then overwrite what that load was to read.
      __syncwarp();
      if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(empty + slot)) : "memory");
      if (++slot == SLOTS) slot = 0, phase ^= 1;
    }
  }
}

// Add the warps' sums. A lane's four belong to rows g and g + 8 and to vectors 2t and 2t + 1.
__device__ __forceinline__ void store(float (&c)[HIGH][4], unsigned short* out, int rows, int many) {
  float* sums = (float*)(smem + TABLE + X);
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  if (warp < WARPS) {
#pragma unroll
    for (int k = 0; k < HIGH; k++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (2 * t + (i & 1) < many) sums[(warp * many + 2 * t + (i & 1)) * TALL + k * 16 + g + (i >> 1) * 8] = c[k][i];
  }
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < TALL * many; i += THREADS + 32) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += sums[w * many * TALL + i];
    unsigned short bits;
    asm("cvt.rn." KIND ".f32 %0, %1;" : "=h"(bits) : "f"(sum));
    out[(u64)(i / TALL) * rows + blockIdx.x * TALL + i % TALL] = bits;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS + 32, 1)
product(const u8* words, const uint4* x, const u32* table, unsigned short* out, int rows, int given) {
  u8* buffer = smem + TABLE + X + SUMS;
  u64 *full = (u64*)(buffer + SLOTS * SLOT), *empty = full + SLOTS;
  const u8* from = words + (u64)blockIdx.x * (HIGH * BAND);
  int warp = threadIdx.x >> 5, many = MANY == 1 ? 1 : given;
  if (threadIdx.x == THREADS) begin_copies(from, buffer, full, empty);
  launch_next();
  if (warp < WARPS) fill_table(table);
  wait_former();
  if (MANY == 1 && warp < WARPS) fill_x(x);
  __syncthreads();
  float c[HIGH][4];
#pragma unroll
  for (int k = 0; k < HIGH; k++) c[k][0] = c[k][1] = c[k][2] = c[k][3] = 0.f;
  if (warp < WARPS) multiply(c, x, buffer, full, empty, many);
  else if (threadIdx.x == THREADS) go_on_copying(from, buffer, full, empty);
  store(c, out, rows, many);
}
