/* Keeps a row from above; a fault unless it has the shape of the first and there is memory. */
static int tw_push(tw_region *region, const tw_value *first, const tw_value *row, int axes)
{
  int axis;
  for (axis = 0; axis < axes; axis++) {
    if (row->extents[axis] != first->extents[axis]) return @SHAPE@;
  }
  if (tw_room(row->bytes) > region->high - region->low) return @MEMORY@;
  region->high -= tw_room(row->bytes);
  @COPY@(region->high, row->data, (size_t)row->bytes);
  return 0;
}
