/* The code of |x| as a short float, ties to even; too large where x is. */
static uint32_t tw_short_magnitude(double x, int mantissa_bits, int bias)
{
  uint64_t bits = tw_bits_f64(x) & INT64_MAX, code, rest, half;
  int exponent = (int)(bits >> 52) - 1023, above = exponent - (1 - bias);
  int dropped = 52 - mantissa_bits - (above < 0 ? above : 0);
  if (exponent == -1023 || dropped > 53) return 0;
  bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(1) << 52;
  code = bits >> dropped;
  rest = bits & ((UINT64_C(1) << dropped) - 1);
  half = UINT64_C(1) << (dropped - 1);
  code += rest > half || (rest == half && code % 2 != 0);
  return (uint32_t)(code + ((uint64_t)(above > 0 ? above : 0) << mantissa_bits));
}
