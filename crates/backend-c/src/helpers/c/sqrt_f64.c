/* The nearest number to the square root, bit by bit. */
static double tw_sqrt_f64(double x)
{
  uint64_t rest, root = 0, sum = 0, bit, bits = tw_bits_f64(x);
  int exponent = (int)(bits >> 52) - 1023;
  if (!(x > 0) || x - x != 0) {
    return x < 0 ? tw_f64_of_bits(UINT64_C(0x7ff8000000000000)) : x;
  }
  rest = bits & UINT64_C(0x000fffffffffffff);
  if (exponent == -1023) {
    for (exponent = -1022; rest >> 52 == 0; exponent--) rest <<= 1;
  } else {
    rest |= UINT64_C(1) << 52;
  }
  /* Now x is rest * 2^(exponent - 52), and rest is in 2^52 .. 2^53. */
  if (exponent % 2 != 0) {
    rest <<= 1;
    exponent--;
  }
  rest <<= 1;
  for (bit = UINT64_C(1) << 53; bit != 0; bit >>= 1) {
    if (sum + bit <= rest) {
      rest -= sum + bit;
      sum += 2 * bit;
      root += bit;
    }
    rest <<= 1;
  }
  if (rest != 0) root += root & 1;
  return tw_f64_of_bits((root >> 1) + ((uint64_t)(exponent / 2 + 1022) << 52));
}
