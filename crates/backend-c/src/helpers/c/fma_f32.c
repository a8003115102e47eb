/* a * b + c, rounded once: the sum in double precision, rounded to odd, then to a float. */
static float tw_fma_f32(float a, float b, float c)
{
#if defined(__FP_FAST_FMAF)
  return __builtin_fmaf(a, b, c);
#else
  union { double number; uint64_t bits; } sum;
  double product = (double)a * (double)b, other, error;
  sum.number = product + (double)c;
  other = sum.number - product;
  error = (product - (sum.number - other)) + ((double)c - other);
  if ((error < 0 || error > 0) && sum.bits % 2 == 0) {
    sum.bits += (error > 0) == (sum.number > 0) ? (uint64_t)1 : ~(uint64_t)0;
  }
  return (float)sum.number;
#endif
}
