/* Puts the rows of one of several stacks together, which lie below top turn by turn. */
static void tw_stack(unsigned char *to, const unsigned char *top, const tw_value *rows, int stacks,
    int stack, int64_t count, int reverse)
{
  int64_t turn = 0, below = 0, number, place;
  int other;
  if (count == 0) return;
  for (other = 0; other < stacks; other++) {
    turn += tw_room(rows[other].bytes);
    if (other <= stack) below += tw_room(rows[other].bytes);
  }
  for (number = 0; number < count; number++) {
    place = reverse ? count - 1 - number : number;
    @COPY@(to + place * rows[stack].bytes, top - number * turn - below, (size_t)rows[stack].bytes);
  }
}
