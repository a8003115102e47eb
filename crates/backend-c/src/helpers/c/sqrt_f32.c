/* The nearest number to the square root, by Heron's iteration in double precision. */
static float tw_sqrt_f32(float x)
{
  double wide = x, root;
  if (!(x > 0) || x - x != 0) {
    return x < 0 ? (x - x) / (x - x) : x;
  }
  root = tw_f64_of_bits((tw_bits_f64(wide) >> 1) + UINT64_C(0x1ff7a3bea91d9b1b));
  root = 0.5 * (root + wide / root);
  root = 0.5 * (root + wide / root);
  root = 0.5 * (root + wide / root);
  root = 0.5 * (root + wide / root);
  return (float)root;
}
