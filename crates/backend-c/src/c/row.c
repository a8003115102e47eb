/* Copies a row of a value; whether there is memory for it. */
static int tw_row(tw_region *region, tw_value *row, const tw_value *value, int64_t place, int axes)
{
  int64_t rows = value->extents[0];
  int axis;
  if (place < 0 || place >= rows) return 0;
  for (axis = 1; axis < axes; axis++) row->extents[axis - 1] = value->extents[axis];
  row->bytes = value->bytes / rows;
  row->data = tw_take(region, row->bytes);
  if (row->data == NULL) return 0;
  @COPY@(row->data, value->data + place * row->bytes, (size_t)row->bytes);
  return 1;
}
