// CUDA C++ as our text uses it, on a CPU: one thread for each CUDA thread, exchanges between lanes through an array.
// What the prelude does in PTX is written here a second time, from the PTX ISA's description.
#include <pthread.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <type_traits>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__
#define __align__(n) __attribute__((aligned(n)))

struct uint2 { unsigned x, y; };
struct float2 { float x, y; };
static inline float2 make_float2(float x, float y) { return float2{x, y}; }
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct Dim { int x = 0, y = 0, z = 0; };
static thread_local Dim threadIdx;
static Dim blockIdx;
alignas(1024) unsigned char shared_memory[256 * 1024];

// ---- threads of a block
static int block_threads;
static pthread_barrier_t block_barrier, named_barrier[16];
static std::vector<pthread_barrier_t> warp_barrier;
static unsigned long long slots[64][32];
static long votes[3];

static inline void __syncthreads() { pthread_barrier_wait(&block_barrier); }
static inline int lane() { return threadIdx.x % 32; }
static inline void sync_warp() { pthread_barrier_wait(&warp_barrier[threadIdx.x / 32]); }
static inline void __syncwarp() { sync_warp(); }
template <class T> static T exchange(T v, int from) {
  unsigned long long* mine = slots[threadIdx.x / 32];
  unsigned long long bits = 0;
  memcpy(&bits, &v, sizeof v);
  mine[lane()] = bits;
  sync_warp();
  T r;
  memcpy(&r, &mine[from & 31], sizeof r);
  sync_warp();
  return r;
}
template <class T> T __shfl_xor_sync(unsigned, T v, int m) { return exchange(v, lane() ^ m); }
template <class T> T __shfl_up_sync(unsigned, T v, int d) { return exchange(v, lane() - d < 0 ? lane() : lane() - d); }
template <class T> T __shfl_down_sync(unsigned, T v, int d) { return exchange(v, lane() + d > 31 ? lane() : lane() + d); }
template <class T> T __shfl_sync(unsigned, T v, int l) { return exchange(v, l); }
static unsigned __ballot_sync(unsigned, int p) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (unsigned)(exchange(p != 0, i) ? 1 : 0) << i;
  return r;
}
static int __any_sync(unsigned m, int p) { return __ballot_sync(m, p) != 0; }
static int __all_sync(unsigned m, int p) { return __ballot_sync(m, p) == 0xffffffffu; }
static unsigned __activemask() { return 0xffffffffu; }
static long count_votes(int p) {
  __syncthreads();
  if (threadIdx.x == 0) votes[0] = 0;
  __syncthreads();
  __atomic_add_fetch(&votes[0], p != 0, __ATOMIC_SEQ_CST);
  __syncthreads();
  return votes[0];
}
static int __syncthreads_count(int p) { return (int)count_votes(p); }
static int __syncthreads_or(int p) { return count_votes(p) != 0; }
static int __syncthreads_and(int p) { return count_votes(p) == block_threads; }
template <int ID, int THREADS> static void barrier() { pthread_barrier_wait(&named_barrier[ID]); }

// ---- bits and integers
static inline float __uint_as_float(unsigned u) { float f; memcpy(&f, &u, 4); return f; }
static inline unsigned __float_as_uint(float f) { unsigned u; memcpy(&u, &f, 4); return u; }
static inline double __longlong_as_double(long long u) { double f; memcpy(&f, &u, 8); return f; }
static inline long long __double_as_longlong(double f) { long long u; memcpy(&u, &f, 8); return u; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
template <class T> static T min(T a, T b) { return b < a ? b : a; }
template <class T> static T max(T a, T b) { return a < b ? b : a; }
static inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += (int)(signed char)(a >> 8 * i) * (int)(signed char)(b >> 8 * i);
  return c;
}
static inline long long llabs_(long long x) { return x < 0 ? (long long)(0ull - (unsigned long long)x) : x; }

// ---- mathematics
static inline float rsqrtf(float x) { return (float)(1.0 / std::sqrt((double)x)); }
static inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
// approximations: off by an ulp, so that what leans on them is tested
static inline float rcp_fast(float x) { float r = 1.0f / x; return std::isfinite(r) ? std::nextafter(r, 4.0f) : r; }
static inline float rcp(float x) { return rcp_fast(x); }
static inline float divide_fast(float a, float b) { float r = a / b; return std::isfinite(r) && r != 0 ? std::nextafter(r, 9.0f) : r; }
static inline float exp2_fast(float x) { return std::exp2(x); }
static inline float divide(float a, float b) {
  float q = divide_fast(a, b), f = fmaf(fmaf(-b, q, a), rcp_fast(b), q);
  return std::fabs(f) <= 3.4e38f ? f : q;
}

// ---- narrow floats
struct f16 { unsigned short x; };
struct bf16 { unsigned short x; };
struct e4m3 { unsigned char x; };
struct e5m2 { unsigned char x; };
struct e8m0 { unsigned char x; };
static inline float to_f32(f16 h) { _Float16 f; memcpy(&f, &h, 2); return (float)f; }
static inline float to_f32(bf16 h) { return __uint_as_float((unsigned)h.x << 16); }
static inline f16 to_f16(float v) { _Float16 f = (_Float16)v; f16 r; memcpy(&r, &f, 2); return r; }
static inline f16 to_f16(double v) { _Float16 f = (_Float16)v; f16 r; memcpy(&r, &f, 2); return r; }
static inline bf16 to_bf16(float v) {
  unsigned b = __float_as_uint(v);
  if (v != v) return bf16{0x7fc0};
  unsigned kept = b >> 16, rest = b & 0xffff;
  return bf16{(unsigned short)(kept + (rest > 0x8000 || (rest == 0x8000 && (kept & 1))))};
}
static inline float2 __half22float2(unsigned v) {
  return make_float2(to_f32(f16{(unsigned short)v}), to_f32(f16{(unsigned short)(v >> 16)}));
}
static inline unsigned __float22half2_rn(float2 v) { return to_f16(v.x).x | (unsigned)to_f16(v.y).x << 16; }
static inline unsigned __float22bfloat162_rn(float2 v) { return to_bf16(v.x).x | (unsigned)to_bf16(v.y).x << 16; }
static inline float to_tf32(float v) { return __uint_as_float((__float_as_uint(v) + 0x1000) & 0xffffe000u); }

// ---- memory
template <int N> static void copy(void* d, const void* s) { memcpy(d, s, N); }
#define CP_ASYNC(N)                                                                                  \
  static void cp_async_##N(void* d, const void* s) { copy<N>(d, s); }                                \
  static void cp_async_##N##_or_zero(void* d, const void* s, bool p) { p ? copy<N>(d, s) : (void)memset(d, 0, N); }
CP_ASYNC(4) CP_ASYNC(8) CP_ASYNC(16)
static void cp_async_commit() {}
template <int N> static void cp_async_wait() {}
// Matrix m: rows at the addresses of lanes 8m..8m+7; lane l gets 16-bit elements 2(l%4), +1 of row l/4 (or of column l/4).
template <int COUNT, bool TRANS> static void ldmatrix(void* d, const void* s) {
  for (int m = 0; m < COUNT; ++m) {
    unsigned short pair[2];
    for (int i = 0; i < 2; ++i) {
      int row = TRANS ? 2 * (lane() % 4) + i : lane() / 4, column = TRANS ? lane() / 4 : 2 * (lane() % 4) + i;
      const unsigned short* found = nullptr;
      for (int r = 0; r < 8; ++r) {
        const unsigned short* p = (const unsigned short*)exchange(s, 8 * m + r);
        if (r == row) found = p;
      }
      pair[i] = found[column];
    }
    memcpy((char*)d + 4 * m, pair, 4);
  }
}
#define LDMATRIX(N)                                                                    \
  static void ldmatrix_x##N(void* d, const void* s) { ldmatrix<N, false>(d, s); }      \
  static void ldmatrix_x##N##_trans(void* d, const void* s) { ldmatrix<N, true>(d, s); }
LDMATRIX(1) LDMATRIX(2) LDMATRIX(4)

#ifdef WITH_MMA
// ---- mma.sync.m16n8kK: PTX ISA 9.7.14.5. E elements in 4 bytes; g = lane/4, c = lane%4.
// A: element i is at row g + 8*((i/E)%2), column c*E + i%E + 4E*(i/2E). B: row c*E + i%E + 4E*(i/E), column g. C: row g + 8*(i/2), column 2c + i%2.
template <class T> static double wide(T v) { return (double)to_f32(v); }
static inline double wide(float v) { return v; }
static inline double wide(signed char v) { return v; }
static inline double wide(unsigned char v) { return v; }
static inline double wide(int v) { return v; }
template <class D> static D narrow(double v) { return (D)v; }
template <> f16 narrow<f16>(double v) { return to_f16((float)v); }
template <int K, class D, class A, class B> static void mma(void* dp, const void* ap, const void* bp, bool round = false) {
  static double As[64][16][64], Bs[64][64][8];
  const int E = 4 / sizeof(A), g = lane() / 4, c = lane() % 4, w = threadIdx.x / 32;
  const A* a = (const A*)ap;
  const B* b = (const B*)bp;
  D* d = (D*)dp;
  for (int i = 0; i < 16 * K / 32; ++i) {
    double v = wide(a[i]);
    As[w][g + 8 * (i / E % 2)][c * E + i % E + 4 * E * (i / (2 * E))] = round ? to_tf32((float)v) : v;
  }
  for (int i = 0; i < 8 * K / 32; ++i) {
    double v = wide(b[i]);
    Bs[w][c * E + i % E + 4 * E * (i / E)][g] = round ? to_tf32((float)v) : v;
  }
  sync_warp();
  for (int i = 0; i < 4; ++i) {
    double sum = wide(d[i]);
    for (int k = 0; k < K; ++k) sum += As[w][g + 8 * (i / 2)][k] * Bs[w][k][2 * c + i % 2];
    d[i] = narrow<D>(sum);
  }
  sync_warp();
}
using s8 = signed char;
using u8 = unsigned char;
using f32 = float;
using s32 = int;
using tf32 = float;
#define MMA(K, D, A, B) static void mma_m16n8k##K##_##D##_##A##_##B(void* d, const void* a, const void* b) { mma<K, D, A, B>(d, a, b); }
MMA(16, f32, f16, f16) MMA(8, f32, f16, f16) MMA(16, f16, f16, f16) MMA(16, f32, bf16, bf16) MMA(8, f32, bf16, bf16)
MMA(8, f32, tf32, tf32) MMA(4, f32, tf32, tf32) MMA(32, s32, s8, s8) MMA(32, s32, u8, u8) MMA(16, s32, s8, s8)
static void mma_m16n8k8_f32_tf32_tf32_round(void* d, const void* a, const void* b) { mma<8, float, float, float>(d, a, b, true); }

#endif

// ---- atomics
template <class T, class F> static T atomic_with(T* p, F change) {
  T old, fresh;
  __atomic_load(p, &old, __ATOMIC_SEQ_CST);
  do { fresh = change(old); } while (!__atomic_compare_exchange(p, &old, &fresh, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}
template <class T, class V> static T atomicAdd(T* p, V v) { return atomic_with(p, [=](T x) { return (T)(x + v); }); }
template <class T, class V> static T atomicMin(T* p, V v) { return atomic_with(p, [=](T x) { return (T)v < x ? (T)v : x; }); }
template <class T, class V> static T atomicMax(T* p, V v) { return atomic_with(p, [=](T x) { return x < (T)v ? (T)v : x; }); }
template <class T, class V> static T atomicAnd(T* p, V v) { return atomic_with(p, [=](T x) { return (T)(x & v); }); }
template <class T, class V> static T atomicOr(T* p, V v) { return atomic_with(p, [=](T x) { return (T)(x | v); }); }
template <class T, class V> static T atomicXor(T* p, V v) { return atomic_with(p, [=](T x) { return (T)(x ^ v); }); }
template <class T, class V> static T atomicExch(T* p, V v) { return atomic_with(p, [=](T) { return (T)v; }); }
template <class T> static T atomicCAS(T* p, T seen, T fresh) {
  __atomic_compare_exchange(p, &seen, &fresh, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return seen;
}
static inline f16 add_f16(f16* p, f16 v) { return atomic_with(p, [=](f16 x) { return to_f16(to_f32(x) + to_f32(v)); }); }
struct Fences {
  Fences(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
  ~Fences() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
};
#define VECTOR_OF_F16(N)                                                                                      \
  static inline void AtomicAddx##N##Ret(f16* old, f16* p, const f16* v, int order = 0) {                      \
    Fences fences{order};                                                                                     \
    for (int i = 0; i < N; ++i) old[i] = add_f16(p + i, v[i]);                                                \
  }                                                                                                           \
  static inline void AtomicAddx##N(f16* p, const f16* v, int order = 0) {                                     \
    f16 old[N];                                                                                               \
    AtomicAddx##N##Ret(old, p, v, order);                                                                     \
  }
VECTOR_OF_F16(2) VECTOR_OF_F16(4) VECTOR_OF_F16(8)
template <class T> static unsigned long long __cvta_generic_to_global(T* p) { return (unsigned long long)p; }

// ---- folds of two halves in a word
namespace tl {
template <class T> unsigned max2(unsigned a, unsigned b);
template <class T> unsigned min2(unsigned a, unsigned b);
template <class T> unsigned max2_nan(unsigned a, unsigned b);
template <class T> unsigned min2_nan(unsigned a, unsigned b);
template <class F> static unsigned each_half(unsigned a, unsigned b, F fold) {
  return fold((unsigned short)a, (unsigned short)b) | (unsigned)fold((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16;
}
#define PAIR_FOLD(T, OP, ROUND)                                                                               \
  template <> inline unsigned OP##2<T>(unsigned a, unsigned b) {                                              \
    return each_half(a, b, [](unsigned short x, unsigned short y) {                                           \
      return ROUND(f##OP##f(to_f32(T{x}), to_f32(T{y}))).x; });                                               \
  }                                                                                                           \
  template <> inline unsigned OP##2_nan<T>(unsigned a, unsigned b) {                                          \
    return each_half(a, b, [](unsigned short x, unsigned short y) {                                           \
      float p = to_f32(T{x}), q = to_f32(T{y});                                                               \
      return ROUND(p != p ? p : q != q ? q : f##OP##f(p, q)).x; });                                           \
  }
struct MaxOpNan {
  template <class T> static T of(T a, T b) { return a != a ? a : b != b ? b : a < b ? b : a; }
  template <class T> static unsigned pair(unsigned a, unsigned b) { return max2_nan<T>(a, b); }
};
struct MinOpNan {
  template <class T> static T of(T a, T b) { return a != a ? a : b != b ? b : b < a ? b : a; }
  template <class T> static unsigned pair(unsigned a, unsigned b) { return min2_nan<T>(a, b); }
};
PAIR_FOLD(f16, max, to_f16) PAIR_FOLD(f16, min, to_f16) PAIR_FOLD(bf16, max, to_bf16) PAIR_FOLD(bf16, min, to_bf16)
}

[[noreturn]] static void __assertfail(const char* message, const char*, unsigned line, const char*, size_t) {
  fprintf(stderr, "assertion at line %u: %s\n", line, message);
  abort();
}

// ---- a launch
template <class F> static void run_grid(int gx, int gy, int gz, int threads, const int* named, F body) {
  block_threads = threads;
  for (blockIdx.z = 0; blockIdx.z < gz; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < gy; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < gx; ++blockIdx.x) {
        memset(shared_memory, 0xA5, sizeof shared_memory);
        pthread_barrier_init(&block_barrier, nullptr, threads);
        for (int i = 0; i < 16; ++i) pthread_barrier_init(&named_barrier[i], nullptr, named[i] ? named[i] : 1);
        warp_barrier.resize((threads + 31) / 32);
        for (int w = 0; w * 32 < threads; ++w) pthread_barrier_init(&warp_barrier[w], nullptr, threads - w * 32 < 32 ? threads - w * 32 : 32);
        std::vector<std::thread> all;
        for (int t = 0; t < threads; ++t) all.emplace_back([=] { threadIdx.x = t; body(); });
        for (auto& t : all) t.join();
      }
}
