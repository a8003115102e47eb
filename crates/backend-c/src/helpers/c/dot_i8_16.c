#if defined(__ARM_FEATURE_MVE) && !defined(TILEWRIGHT_STRICT)
#include <arm_mve.h>
#endif

/* sum + a[0] * b[0] + .. + a[15] * b[15]. */
static inline int32_t tw_dot_i8_16(int32_t sum, const int8_t *a, const int8_t *b)
{
#if defined(__ARM_FEATURE_MVE) && !defined(TILEWRIGHT_STRICT)
  return vmladavaq_s8(sum, vldrbq_s8(a), vldrbq_s8(b));
#else
  uint32_t total = (uint32_t)sum;
  int i;
  for (i = 0; i < 16; i++) total += (uint32_t)(a[i] * b[i]);
  return (int32_t)total;
#endif
}
