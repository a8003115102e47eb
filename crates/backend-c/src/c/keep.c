/* Moves the values that were made behind a mark down to it, the lowest first, and gives back what is
   behind them: where that begins. */
static unsigned char *tw_keep(tw_region *region, unsigned char *mark, tw_value *values, int count)
{
  unsigned char *to = mark;
  for (;;) {
    unsigned char *from = NULL;
    int64_t bytes = 0, i;
    int number;
    for (number = 0; number < count; number++) {
      unsigned char *data = values[number].data;
      if (data >= to && data < region->low && (from == NULL || data < from)) {
        from = data;
        bytes = values[number].bytes;
      }
    }
    if (from == NULL) break;
    for (i = 0; i < bytes; i++) to[i] = from[i];
    for (number = 0; number < count; number++) {
      if (values[number].data == from) values[number].data = to;
    }
    to += tw_room(bytes);
  }
  region->low = to;
  return to;
}
