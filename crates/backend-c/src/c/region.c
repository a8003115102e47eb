/* A value: its elements, how many bytes they take, its extents. */
typedef struct {
  unsigned char *data;
  int64_t bytes;
  int64_t extents[@AXES@];
} tw_value;

/* The memory that is free: values are made from below, rows of loops from above. */
typedef struct {
  unsigned char *low, *high;
} tw_region;

/* What so many bytes take: a multiple of 64, never nothing, so that no two values begin together. */
static int64_t tw_room(int64_t bytes)
{
  return bytes / 64 * 64 + 64;
}

/* So many bytes from below; nothing where there are not as many. */
static unsigned char *tw_take(tw_region *region, int64_t bytes)
{
  unsigned char *start = region->low;
  if (bytes < 0 || bytes > INT64_MAX - 64 || tw_room(bytes) > region->high - start) return NULL;
  region->low += tw_room(bytes);
  return start;
}

/* The bytes of a dense tensor whose elements have so many bits; -1 where that is no size. */
static int64_t tw_bytes(int64_t bits, int axes, const int64_t *extents)
{
  int64_t count = 1;
  int axis;
  for (axis = 0; axis < axes; axis++) {
    if (extents[axis] < 0) return -1;
    if (extents[axis] > 0 && count > INT64_MAX / 64 / extents[axis]) return -1;
    count *= extents[axis];
  }
  return (count * bits + 7) / 8;
}

/* Memory for a value whose extents are set; whether there is as much. */
static int tw_make(tw_region *region, tw_value *value, int64_t bits, int axes)
{
  value->bytes = tw_bytes(bits, axes, value->extents);
  value->data = tw_take(region, value->bytes);
  return value->data != NULL;
}
