
/* Runs the model in as much memory as it takes, and gives each output memory of its own. */
static int run_model(const void *constants, const void *const in[], void *out[])
{
  @NAME@_tensor made[OUTPUTS + 1];
  size_t size = 1 << 20;
  void *memory;
  int number, axis, fault;
  for (;;) {
    memory = allocate(size);
    fault = @NAME@_run(constants, memory, size, in, made@PASSED@);
    if (fault != @MEMORY@) break;
    free(memory);
    if (size > (size_t)-1 / 2) fail("malloc", "out of memory");
    size *= 2;
  }
  if (fault != 0) return fault;
  for (number = 0; number < OUTPUTS; number++) {
    Port *port = &outputs[number];
    for (axis = 0; axis < port->axes; axis++) port->shape[axis] = (size_t)made[number].extents[axis];
    /* The elements of an empty tensor may lie nowhere. */
    out[number] = allocate(model_bytes(port));
    if (model_bytes(port) > 0) memcpy(out[number], made[number].data, model_bytes(port));
  }
  free(memory);
  return 0;
}
