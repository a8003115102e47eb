/* sum + a[0] * b[0] + .. + a[15] * b[15], where both begin at a whole word: loads of words reach
   farther from an address in a register than loads of bytes. */
static inline int32_t tw_dot_i8_16_aligned(int32_t sum, const int8_t *a, const int8_t *b)
{
#if defined(TW_HELIUM)
  return vmladavaq_s8(sum, vreinterpretq_s8_s32(*(const tw_i32x4 *)(const void *)a),
      vreinterpretq_s8_s32(*(const tw_i32x4 *)(const void *)b));
#else
  return tw_dot_i8_16(sum, a, b);
#endif
}
