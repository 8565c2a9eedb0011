/* What the machine can do: fused multiply-adds in registers, and a stream through memory. One thread each; machine.py
 * compiles this with -O3 -march=native and runs it on as many threads as it measures. */
#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
typedef float vector __attribute__((vector_size(BYTES)));
enum { CHAINS = 12 }; /* more than latency times units asks for, fewer than the registers there are */

/* Returns how many floating-point operations it did, 2 for a multiply-add. */
double fma_loop(long steps) {
  vector sum[CHAINS], a = {0}, b = {0};
  a += 0.999f;
  b += 0.001f;
  for (int i = 0; i < CHAINS; ++i) sum[i] = b * (float)i;
  for (long step = 0; step < steps; ++step)
    for (int i = 0; i < CHAINS; ++i) sum[i] = sum[i] * a + b;
  vector all = sum[0];
  for (int i = 1; i < CHAINS; ++i) all += sum[i];
  volatile float keep = all[0];
  (void)keep;
  return 2.0 * CHAINS * (BYTES / sizeof(float)) * steps;
}

/* out = a + 3 b, as STREAM has it; returns the bytes it read and wrote. */
double triad(float* restrict out, const float* restrict a, const float* restrict b, long n) {
  for (long i = 0; i < n; ++i) out[i] = a[i] + 3 * b[i];
  return 3.0 * sizeof(float) * n;
}
