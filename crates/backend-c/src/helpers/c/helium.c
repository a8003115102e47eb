/* Vectors, where the C compiler has those of the machine. */
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2) && !defined(TILEWRIGHT_STRICT)
#define TW_HELIUM
#include <arm_mve.h>
typedef int32x4_t tw_i32x4 __attribute__((may_alias, aligned(4)));
typedef float32x4_t tw_f32x4 __attribute__((may_alias, aligned(4)));

/* A vector of four numbers, two of which an instruction moves. */
static inline int32x4_t tw_i32x4_of(int32_t a, int32_t b, int32_t c, int32_t d)
{
  int32x4_t all;
  __asm("vmov %q0[2], %q0[0], %1, %3\n\tvmov %q0[3], %q0[1], %2, %4"
        : "=&w"(all) : "r"(a), "r"(b), "r"(c), "r"(d));
  return all;
}

/* Truncated and saturated, in the low bits of each lane; of NaN, 0. */
static inline int32x4_t tw_i16_of_f32x4(float32x4_t x)
{
  int32x4_t whole = vcvtq_s32_f32(x);
  return vreinterpretq_s32_s16(vqmovnbq_s32(vreinterpretq_s16_s32(whole), whole));
}

static inline int32x4_t tw_i8_of_f32x4(float32x4_t x)
{
  int16x8_t part = vreinterpretq_s16_s32(tw_i16_of_f32x4(x));
  return vreinterpretq_s32_s8(vqmovnbq_s16(vreinterpretq_s8_s16(part), part));
}

static inline int32x4_t tw_u8_of_f32x4(float32x4_t x)
{
  int32x4_t whole = vcvtq_s32_f32(x);
  uint16x8_t part = vqmovunbq_s32(vreinterpretq_u16_s32(whole), whole);
  return vreinterpretq_s32_u8(vqmovnbq_u16(vreinterpretq_u8_u16(part), part));
}
#endif
