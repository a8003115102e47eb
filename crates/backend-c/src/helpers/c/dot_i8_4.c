/* sum + a[0] * b[0] + .. + a[3] * b[3]. The bytes of a word are extended in two pairs, which serve
   all sums that meet the word. */
static inline int32_t tw_dot_i8_4(int32_t sum, const int8_t *a, const int8_t *b)
{
#if defined(__ARM_FEATURE_DSP) && !defined(TILEWRIGHT_STRICT)
  uint32_t x, y, x_even, x_odd, y_even, y_odd;
  __builtin_memcpy(&x, a, 4);
  __builtin_memcpy(&y, b, 4);
  __asm("sxtb16 %0, %1" : "=r"(x_even) : "r"(x));
  __asm("sxtb16 %0, %1, ror #8" : "=r"(x_odd) : "r"(x));
  __asm("sxtb16 %0, %1" : "=r"(y_even) : "r"(y));
  __asm("sxtb16 %0, %1, ror #8" : "=r"(y_odd) : "r"(y));
  __asm("smlad %0, %1, %2, %3" : "=r"(sum) : "r"(x_even), "r"(y_even), "r"(sum));
  __asm("smlad %0, %1, %2, %3" : "=r"(sum) : "r"(x_odd), "r"(y_odd), "r"(sum));
  return sum;
#else
  uint32_t total = (uint32_t)sum;
  int i;
  for (i = 0; i < 4; i++) total += (uint32_t)(a[i] * b[i]);
  return (int32_t)total;
#endif
}
