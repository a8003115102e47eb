/* The second operands of two sums, which lie side by side from a whole word on: both are one load,
   and are extended once for all sums that meet them. */
typedef struct {
#if defined(__ARM_FEATURE_DSP) && !defined(TILEWRIGHT_STRICT)
  uint32_t even, odd, next_even, next_odd;
#else
  const int8_t *first;
#endif
} tw_i8_4_pair;

static inline tw_i8_4_pair tw_load_i8_4_pair(const int8_t *b)
{
  tw_i8_4_pair pair;
#if defined(__ARM_FEATURE_DSP) && !defined(TILEWRIGHT_STRICT)
  typedef uint64_t __attribute__((may_alias, aligned(4))) words;
  __asm("ldrd %0, %2, %4\n\t"
        "sxtb16 %1, %0, ror #8\n\tsxtb16 %0, %0\n\tsxtb16 %3, %2, ror #8\n\tsxtb16 %2, %2"
        : "=r"(pair.even), "=r"(pair.odd), "=r"(pair.next_even), "=r"(pair.next_odd)
        : "m"(*(const words *)b));
#else
  pair.first = b;
#endif
  return pair;
}

/* sums[0] + a[0] * b[0] + .. + a[3] * b[3], and the same of sums[1] and what follows. */
static inline void tw_dot_i8_4_pair(int32_t *sums, const int8_t *a, tw_i8_4_pair b)
{
#if defined(__ARM_FEATURE_DSP) && !defined(TILEWRIGHT_STRICT)
  uint32_t x, even, odd;
  __builtin_memcpy(&x, a, 4);
  __asm("sxtb16 %0, %1" : "=r"(even) : "r"(x));
  __asm("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(x));
  __asm("smlad %0, %1, %2, %3" : "=r"(sums[0]) : "r"(even), "r"(b.even), "r"(sums[0]));
  __asm("smlad %0, %1, %2, %3" : "=r"(sums[1]) : "r"(even), "r"(b.next_even), "r"(sums[1]));
  __asm("smlad %0, %1, %2, %3" : "=r"(sums[0]) : "r"(odd), "r"(b.odd), "r"(sums[0]));
  __asm("smlad %0, %1, %2, %3" : "=r"(sums[1]) : "r"(odd), "r"(b.next_odd), "r"(sums[1]));
#else
  sums[0] = tw_dot_i8_4(sums[0], a, b.first);
  sums[1] = tw_dot_i8_4(sums[1], a, b.first + 4);
#endif
}
