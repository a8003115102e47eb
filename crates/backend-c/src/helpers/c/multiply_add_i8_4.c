/* sums[i] + a[i] * b[i] of four elements: each word is loaded once and extended in two pairs. */
static inline void tw_multiply_add_i8_4(int32_t *sums, const int8_t *a, const int8_t *b)
{
#if defined(__ARM_FEATURE_DSP) && !defined(TILEWRIGHT_STRICT)
  uint32_t x, y, x_even, x_odd, y_even, y_odd;
  __builtin_memcpy(&x, a, 4);
  __builtin_memcpy(&y, b, 4);
  __asm("sxtb16 %0, %1" : "=r"(x_even) : "r"(x));
  __asm("sxtb16 %0, %1" : "=r"(y_even) : "r"(y));
  __asm("smlabb %0, %1, %2, %3" : "=r"(sums[0]) : "r"(x_even), "r"(y_even), "r"(sums[0]));
  __asm("smlatt %0, %1, %2, %3" : "=r"(sums[2]) : "r"(x_even), "r"(y_even), "r"(sums[2]));
  __asm("sxtb16 %0, %1, ror #8" : "=r"(x_odd) : "r"(x));
  __asm("sxtb16 %0, %1, ror #8" : "=r"(y_odd) : "r"(y));
  __asm("smlabb %0, %1, %2, %3" : "=r"(sums[1]) : "r"(x_odd), "r"(y_odd), "r"(sums[1]));
  __asm("smlatt %0, %1, %2, %3" : "=r"(sums[3]) : "r"(x_odd), "r"(y_odd), "r"(sums[3]));
#else
  int i;
  for (i = 0; i < 4; i++) sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)(a[i] * b[i]));
#endif
}
