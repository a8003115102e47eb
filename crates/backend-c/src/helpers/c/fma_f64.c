/* a * b + c, rounded once: in integers of 128 bits, as two halves. */
static double tw_fma_f64(double a, double b, double c)
{
#if defined(__FP_FAST_FMA)
  return __builtin_fma(a, b, c);
#else
  union { double number; uint64_t bits; } x[3];
  uint64_t m[3], high, low, other_high, other_low, sticky, negative, carry;
  int exponent[3], unit, shift, top, last, i;
  x[0].number = a;
  x[1].number = b;
  x[2].number = c;
  if (a - a != 0 || b - b != 0 || c - c != 0 || a == 0 || b == 0) return a * b + c;
  if (c == 0) return a * b;
  for (i = 0; i < 3; i++) {
    m[i] = x[i].bits & UINT64_C(0x000fffffffffffff);
    exponent[i] = (int)(x[i].bits >> 52 & 2047);
    if (exponent[i] != 0) {
      m[i] |= UINT64_C(1) << 52;
    } else {
      for (exponent[i] = 1; m[i] >> 52 == 0; exponent[i]--) m[i] <<= 1;
    }
    exponent[i] -= 1075;
  }
  /* The product, in units of 2^unit. */
  unit = exponent[0] + exponent[1];
  carry = (m[0] & 0xffffffffu) * (m[1] & 0xffffffffu);
  low = (m[0] >> 32) * (m[1] & 0xffffffffu) + (carry >> 32);
  high = (m[0] & 0xffffffffu) * (m[1] >> 32) + (low & 0xffffffffu);
  low = (m[0] >> 32) * (m[1] >> 32) + (low >> 32) + (high >> 32);
  carry = (high << 32) | (carry & 0xffffffffu);
  high = low;
  low = carry;
  /* The other summand in the same units; of what falls off below, whether it is zero. */
  shift = exponent[2] - unit;
  other_high = 0;
  other_low = m[2];
  sticky = 0;
  for (; shift > 74; shift--, unit++) {
    sticky |= low & 1;
    low = (low >> 1) | (high << 63);
    high >>= 1;
    if (low == 0 && high == 0) {
      unit += shift - 74;
      shift = 74;
      break;
    }
  }
  low |= sticky;
  if (shift >= 64) {
    other_high = other_low << (shift - 64);
    other_low = 0;
  } else if (shift > 0) {
    other_high = other_low >> (64 - shift);
    other_low <<= shift;
  } else if (shift < 0) {
    sticky = shift <= -64 ? other_low : other_low & ((UINT64_C(1) << -shift) - 1);
    other_low = shift <= -64 ? 0 : other_low >> -shift;
    other_low |= sticky != 0;
  }
  /* The sum or difference. */
  negative = (x[0].bits ^ x[1].bits) >> 63;
  if (negative == x[2].bits >> 63) {
    low += other_low;
    high += other_high + (low < other_low);
  } else {
    if (high < other_high || (high == other_high && low < other_low)) {
      carry = high;
      high = other_high;
      other_high = carry;
      carry = low;
      low = other_low;
      other_low = carry;
      negative = !negative;
    }
    high -= other_high + (low < other_low);
    low -= other_low;
    if (high == 0 && low == 0) return 0;
  }
  /* Rounded to 53 bits, or fewer where the result is subnormal. */
  for (top = 127; top > 63 && high >> (top - 64) == 0; top--) {
  }
  if (high == 0) {
    for (top = 63; low >> top == 0; top--) {
    }
  }
  last = unit + top - 52 > -1074 ? unit + top - 52 : -1074;
  shift = last - unit;
  if (shift <= 0) {
    low <<= -shift;
  } else {
    sticky = 0;
    for (; shift > 1 && (low != 0 || high != 0); shift--) {
      sticky |= low & 1;
      low = (low >> 1) | (high << 63);
      high >>= 1;
    }
    carry = shift == 1 ? low & 1 : 0;
    low = shift == 1 ? (low >> 1) | (high << 63) : 0;
    low += carry != 0 && (sticky != 0 || low % 2 != 0);
  }
  x[0].bits = UINT64_C(2047) << 52;
  if (last + 1075 < 2047) x[0].bits = ((uint64_t)(last + 1074) << 52) + low;
  x[0].bits |= negative << 63;
  return x[0].number;
#endif
}
