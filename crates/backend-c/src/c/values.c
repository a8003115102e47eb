/* A value: its elements, how many bytes and axes they have. A list is a vector of values. */
typedef struct {
  const void *data;
  int64_t bytes;
  int64_t axes;
  int64_t extents[@AXES@];
} @NAME@_tensor;
typedef @NAME@_tensor tw_value;
/* The memory that is free: values are made from below, rows of loops from above. */
typedef struct {
  unsigned char *low, *high;
} tw_region;
/* What stands in front of memory from below: how many bytes both take, where they are to be moved,
   how many values of a list lie there. */
typedef struct {
  int64_t room;
  unsigned char *to;
  int64_t values;
} tw_piece;

/* The memory of a value that was made here, to be written; inputs are only read. */
static void *tw_memory(const tw_value *value)
{
  return (void *)(uintptr_t)value->data;
}

/* What so many bytes take: a multiple of 64, never nothing, so that no two values begin together. */
static int64_t tw_room(int64_t bytes)
{
  return bytes / 64 * 64 + 64;
}

/* So many bytes from below; nothing where there are not as many. */
static unsigned char *tw_take(tw_region *region, int64_t bytes)
{
  unsigned char *start = region->low;
  tw_piece *piece = (tw_piece *)(void *)start;
  if (bytes < 0 || bytes > INT64_MAX - 128 || tw_room(bytes) > region->high - start - 64) return NULL;
  piece->room = 64 + tw_room(bytes);
  piece->to = NULL;
  piece->values = 0;
  region->low += piece->room;
  return start + 64;
}

/* The bytes of a dense tensor whose elements have so many bits; -1 where that is no size. */
static int64_t tw_bytes(int64_t bits, int64_t axes, const int64_t *extents)
{
  int64_t count = 1, axis;
  for (axis = 0; axis < axes; axis++) {
    if (extents[axis] < 0) return -1;
    if (extents[axis] > 0 && count > INT64_MAX / 64 / extents[axis]) return -1;
    count *= extents[axis];
  }
  return (count * bits + 7) / 8;
}

/* Memory for a value whose extents are set; nothing where there is not as much. */
static unsigned char *tw_make(tw_region *region, tw_value *value, int64_t bits, int64_t axes)
{
  unsigned char *data;
  value->axes = axes;
  value->bytes = tw_bytes(bits, axes, value->extents);
  value->data = data = tw_take(region, value->bytes);
  return data;
}

/* What stands in front of memory. */
static tw_piece *tw_piece_of(const void *data)
{
  return (tw_piece *)((uintptr_t)data - 64);
}

/* Whether memory lies between two places. */
static int tw_is_between(const unsigned char *mark, const unsigned char *end, const void *data)
{
  return (const unsigned char *)data >= mark && (const unsigned char *)data < end;
}

/* Marks the memory of a value behind a mark, and that of what it holds. */
static void tw_reach(unsigned char *mark, const unsigned char *end, const tw_value *value)
{
  const tw_value *values = (const tw_value *)value->data;
  int64_t number;
  tw_piece *piece;
  if (!tw_is_between(mark, end, value->data)) return;
  piece = tw_piece_of(value->data);
  if (piece->to != NULL) return;
  piece->to = mark;
  for (number = 0; number < piece->values; number++) tw_reach(mark, end, &values[number]);
}

/* Where a value behind a mark will lie. */
static void tw_follow(const unsigned char *mark, const unsigned char *end, tw_value *value)
{
  if (tw_is_between(mark, end, value->data)) value->data = tw_piece_of(value->data)->to + 64;
}

/* Moves the values that were made behind a mark down to it, the lowest first, and gives back what is
   behind them: where that begins. A list lies behind what it holds, which was there before it. */
static unsigned char *tw_keep(tw_region *region, unsigned char *mark, tw_value *values, int count)
{
  unsigned char *const end = region->low, *to = mark, *at;
  int64_t room, number;
  for (number = 0; number < count; number++) tw_reach(mark, end, &values[number]);
  for (at = mark; at < end; at += room) {
    tw_piece *piece = (tw_piece *)(void *)at;
    tw_value *held = (tw_value *)(void *)(at + 64);
    room = piece->room;
    if (piece->to == NULL) continue;
    piece->to = to;
    to += room;
    for (number = 0; number < piece->values; number++) tw_follow(mark, end, &held[number]);
  }
  for (number = 0; number < count; number++) tw_follow(mark, end, &values[number]);
  for (at = mark; at < end; at += room) {
    tw_piece *piece = (tw_piece *)(void *)at;
    unsigned char *const place = piece->to;
    room = piece->room;
    piece->to = NULL;
    if (place == NULL || place == at) continue;
    for (number = 0; number < room; number++) place[number] = at[number];
  }
  region->low = to;
  return to;
}

/* Copies a row of a value; whether there is memory for it. */
static int tw_row(tw_region *region, tw_value *row, const tw_value *value, int64_t place)
{
  const unsigned char *rows = (const unsigned char *)value->data;
  int64_t count = value->extents[0], axis;
  unsigned char *data;
  if (place < 0 || place >= count) return 0;
  row->axes = value->axes - 1;
  for (axis = 0; axis < row->axes; axis++) row->extents[axis] = value->extents[axis + 1];
  row->bytes = value->bytes / count;
  row->data = data = tw_take(region, row->bytes);
  if (data == NULL) return 0;
  tw_copy(data, rows + place * row->bytes, (size_t)row->bytes);
  return 1;
}

/* Keeps a row from above; a fault unless it has the shape of the first and there is memory. */
static int tw_push(tw_region *region, const tw_value *first, const tw_value *row)
{
  int64_t axis;
  for (axis = 0; axis < row->axes; axis++) {
    if (row->extents[axis] != first->extents[axis]) return @SIZE@;
  }
  if (tw_room(row->bytes) > region->high - region->low) return @MEMORY@;
  region->high -= tw_room(row->bytes);
  tw_copy(region->high, (const unsigned char *)row->data, (size_t)row->bytes);
  return 0;
}

/* Puts the rows of one of several stacks together, which lie below top turn by turn. */
static void tw_stack(const tw_value *whole, const unsigned char *top, const tw_value *rows, int stacks,
    int stack, int64_t count, int reverse)
{
  unsigned char *const to = (unsigned char *)tw_memory(whole);
  int64_t turn = 0, below = 0, number, place;
  int other;
  if (count == 0) return;
  for (other = 0; other < stacks; other++) {
    turn += tw_room(rows[other].bytes);
    if (other <= stack) below += tw_room(rows[other].bytes);
  }
  for (number = 0; number < count; number++) {
    place = reverse ? count - 1 - number : number;
    tw_copy(to + place * rows[stack].bytes, top - number * turn - below, (size_t)rows[stack].bytes);
  }
}

/* Memory for a list of so many values; nothing where there is not as much. */
static tw_value *tw_list(tw_region *region, tw_value *list, int64_t count)
{
  const int64_t each = (int64_t)sizeof(tw_value);
  unsigned char *data;
  if (count < 0 || count > INT64_MAX / each) return NULL;
  list->axes = 1;
  list->extents[0] = count;
  list->bytes = count * each;
  list->data = data = tw_take(region, list->bytes);
  if (data == NULL) return NULL;
  ((tw_piece *)(void *)(data - 64))->values = count;
  return (tw_value *)(void *)data;
}

/* A place among the values of a list, before an end; negative ones count from the last, and -1 says
   that there is none. */
static int64_t tw_place(const tw_value *list, const tw_value *given, int64_t end)
{
  int64_t place = *(const int64_t *)given->data;
  if (place < 0) place += list->extents[0];
  return place >= 0 && place < end ? place : -1;
}

/* The value at a place of a list, or a fault. */
static int tw_at(tw_value *value, const tw_value *list, int64_t place)
{
  if (place < 0) return @INDEX@;
  *value = ((const tw_value *)list->data)[place];
  return 0;
}

/* A list with a value more at a place, or a fault. */
static int tw_insert(tw_region *region, tw_value *longer, const tw_value *list,
    const tw_value *value, int64_t place)
{
  const tw_value *from = (const tw_value *)list->data;
  int64_t count = list->extents[0], number;
  tw_value *to;
  if (place < 0) return @INDEX@;
  to = tw_list(region, longer, count + 1);
  if (to == NULL) return @MEMORY@;
  for (number = 0; number < place; number++) to[number] = from[number];
  to[place] = *value;
  for (number = place; number < count; number++) to[number + 1] = from[number];
  return 0;
}

/* A list without the value at a place, or a fault. */
static int tw_erase(tw_region *region, tw_value *shorter, const tw_value *list, int64_t place)
{
  const tw_value *from = (const tw_value *)list->data;
  int64_t count = list->extents[0], number;
  tw_value *to;
  if (place < 0) return @INDEX@;
  to = tw_list(region, shorter, count - 1);
  if (to == NULL) return @MEMORY@;
  for (number = 0; number < place; number++) to[number] = from[number];
  for (number = place + 1; number < count; number++) to[number - 1] = from[number];
  return 0;
}

/* Copies neighbouring elements of so many bits to behind those that were copied before. */
static void tw_elements(unsigned char *to, int64_t at, const unsigned char *from, int64_t first,
    int64_t count, int bits)
{
  const int mask = (1 << bits % 8) - 1;
  int64_t number;
  if (bits % 8 == 0) {
    tw_copy(to + at * (bits / 8), from + first * (bits / 8), (size_t)(count * (bits / 8)));
    return;
  }
  for (number = 0; number < count; number++) {
    int64_t low = (at + number) * bits, source = (first + number) * bits;
    int element = (from[source / 8] >> source % 8 & mask) << low % 8;
    to[low / 8] = (unsigned char)(low % 8 == 0 ? element : to[low / 8] | element);
  }
}

/* The shape of tensors of a list behind each other along an axis, which may be a new one; a fault
   unless they fit each other. */
static int tw_joined(tw_value *joined, const tw_value *list, int64_t axis, int is_new)
{
  const tw_value *values = (const tw_value *)list->data;
  int64_t count = list->extents[0], number, other;
  if (count == 0) return @INDEX@;
  joined->axes = values[0].axes + is_new;
  if (axis >= joined->axes) return @SIZE@;
  if (joined->axes > (int64_t)(sizeof joined->extents / sizeof *joined->extents)) return @SIZE@;
  joined->extents[axis] = 0;
  for (number = 0; number < count; number++) {
    const tw_value *value = &values[number];
    if (value->axes + is_new != joined->axes) return @SIZE@;
    for (other = 0; other < joined->axes; other++) {
      int64_t extent = value->extents[is_new && other > axis ? other - 1 : other];
      if (other == axis) {
        if (is_new) extent = 1;
        if (joined->extents[axis] > INT64_MAX - extent) return @SIZE@;
        joined->extents[axis] += extent;
      } else if (number == 0) {
        joined->extents[other] = extent;
      } else if (joined->extents[other] != extent) {
        return @SIZE@;
      }
    }
  }
  return 0;
}

/* The tensors of a list behind each other; a fault unless they fit and there is memory. */
static int tw_join(tw_region *region, tw_value *joined, const tw_value *list, int64_t axis,
    int is_new, int bits)
{
  const tw_value *values = (const tw_value *)list->data;
  int64_t outer = 1, inner = 1, number, row, at = 0;
  unsigned char *to;
  int fault = tw_joined(joined, list, axis, is_new);
  if (fault != 0) return fault;
  to = tw_make(region, joined, bits, joined->axes);
  if (to == NULL) return @MEMORY@;
  if (joined->bytes == 0) return 0;
  for (number = 0; number < axis; number++) outer *= joined->extents[number];
  for (number = axis + 1; number < joined->axes; number++) inner *= joined->extents[number];
  for (row = 0; row < outer; row++) {
    for (number = 0; number < list->extents[0]; number++) {
      const unsigned char *from = (const unsigned char *)values[number].data;
      int64_t length = is_new ? inner : values[number].extents[axis] * inner;
      tw_elements(to, at, from, row * length, length, bits);
      at += length;
    }
  }
  return 0;
}

/* A value that the caller gives, whose tensors stand in these lists (s: a sequence, o: an optional
   value); a fault unless it is one and there is memory. */
static int tw_given(tw_region *region, tw_value *value, const tw_value *given, const char *lists,
    int64_t bits, int64_t axes)
{
  int64_t count, number;
  tw_value *values;
  if (given->axes != (*lists == 0 ? axes : 1)) return @SIZE@;
  if (*lists == 0) {
    *value = *given;
    value->bytes = tw_bytes(bits, axes, given->extents);
    return value->bytes < 0 ? @SIZE@ : 0;
  }
  count = given->extents[0];
  if (count < 0 || (*lists == 'o' && count > 1)) return @SIZE@;
  values = tw_list(region, value, count);
  if (values == NULL) return @MEMORY@;
  for (number = 0; number < count; number++) {
    const tw_value *held = (const tw_value *)given->data + number;
    int fault = tw_given(region, &values[number], held, lists + 1, bits, axes);
    if (fault != 0) return fault;
  }
  return 0;
}
