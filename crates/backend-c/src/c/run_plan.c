
/* Reads a value, which stands in these lists, of the files that a text begins with; what follows. */
static const char *read_value(const char *text, Port *port, const char *lists, @NAME@_tensor *value)
{
  size_t length = strcspn(text, ",]"), count = 1, depth = 0;
  const char *at;
  int axis;
  if (*lists == 0) {
    char *path = (char *)allocate(length + 1);
    memcpy(path, text, length);
    path[length] = 0;
    value->data = read_tensor(path, port);
    value->axes = port->axes;
    for (axis = 0; axis < port->axes; axis++) value->extents[axis] = (int64_t)port->shape[axis];
    free(path);
    return text + length;
  }
  if (*text != '[') fail(text, "is no list, [FILE,...]");
  for (at = text; *at != 0 && !(*at == ']' && depth == 1); at++) {
    if (*at == '[') depth++;
    if (*at == ']') depth--;
    if (*at == ',' && depth == 1) count++;
  }
  value->axes = 1;
  value->extents[0] = 0;
  value->data = allocate(count * sizeof *value);
  for (text++; *text != ']'; text += *text == ',') {
    @NAME@_tensor *held = (@NAME@_tensor *)value->data + value->extents[0]++;
    text = read_value(text, port, lists + 1, held);
    if (*text != ',' && *text != ']') fail(text, "does not end a list");
  }
  return text + 1;
}

/* An input in a file, or a list in several. */
static const void *read_input(const char *path, Port *port)
{
  @NAME@_tensor *value;
  if (*port->lists == 0) return read_tensor(path, port);
  value = (@NAME@_tensor *)allocate(sizeof *value);
  path = read_value(path, port, port->lists, value);
  if (*path != 0) fail(path, "stands behind a list");
  return value;
}

/* Gives the tensors of a value, which stands in these lists, under names made of these. */
static void give_value(Port *port, const @NAME@_tensor *value, const char *lists, const char *name,
    const char *file)
{
  const @NAME@_tensor *values = (const @NAME@_tensor *)value->data;
  int64_t number, axis;
  if (*lists == 0) {
    port->axes = (int)value->axes;
    for (axis = 0; axis < value->axes; axis++) port->shape[axis] = (size_t)value->extents[axis];
    give(port, name, file, value->data);
    return;
  }
  for (number = 0; number < value->extents[0]; number++) {
    char *inner = (char *)allocate(strlen(name) + 24), *path = (char *)allocate(strlen(file) + 24);
    strcpy(inner, name);
    strcpy(path, file);
    if (*lists == 's') {
      sprintf(inner + strlen(inner), "[%ld]", (long)number);
      sprintf(path + strlen(path), "_%ld_", (long)number);
    }
    give_value(port, &values[number], lists + 1, inner, path);
    free(inner);
    free(path);
  }
}

/* Runs the model in as much memory as it takes, and gives its outputs. */
static int run_model(const void *constants, const void *const in[])
{
  @NAME@_tensor out[OUTPUTS + 1];
  size_t size = 1 << 20;
  void *memory;
  int number, fault;
  for (;;) {
    memory = allocate(size);
    fault = @NAME@_run(constants, memory, size, in, out@PASSED@);
    if (fault != @MEMORY@) break;
    free(memory);
    if (size > (size_t)-1 / 2) fail("malloc", "out of memory");
    size *= 2;
  }
  for (number = 0; number < OUTPUTS && fault == 0; number++) {
    Port *port = &outputs[number];
    give_value(port, &out[number], port->lists, port->name, port->file);
  }
  free(memory);
  return fault;
}
