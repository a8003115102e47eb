/* Which free extent each axis of an input is, counted from 1; 0 where it is known. */
static const int free_axes[INPUTS + 1][AXES] = {
@FREE@  { 0 }
};

/* The free extents, which inputs have told from left to right. */
static int64_t extents[@FREE_COUNT@ + 1];
static int is_told[@FREE_COUNT@ + 1];

/* Takes the free extents of a file's header that no input has told before; of a tensor in a list
   all extents are free. */
static void read_shape(const char *path, const char *header, Port *port)
{
  const char *text = strstr(header, "'shape': (");
  int axis;
  if (text == NULL) fail(path, "has no shape");
  text += strlen("'shape': (");
  for (axis = 0; axis < port->axes; axis++) {
    int number = free_axes[port - inputs][axis];
    char *end;
    unsigned long extent = strtoul(text, &end, 10);
    if (end == text) fail(path, "has too few axes");
    if (*port->lists != 0) port->shape[axis] = (size_t)extent;
    if (number > 0 && !is_told[number - 1]) {
      extents[number - 1] = (int64_t)extent;
      is_told[number - 1] = 1;
    }
    if (number > 0) port->shape[axis] = (size_t)extents[number - 1];
    text = end;
    while (*text == ',' || *text == ' ') text++;
  }
}

