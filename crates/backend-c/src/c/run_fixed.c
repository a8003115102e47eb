
/* An input in a file. */
static const void *read_input(const char *path, Port *port)
{
  return read_tensor(path, port);
}

/* Runs the model, and gives its outputs. */
static int run_model(const void *constants, const void *const in[])
{
  void *arena = allocate(@NAME@_arena_size()), *out[OUTPUTS + 1] = { NULL };
  int number, fault;
  for (number = 0; number < OUTPUTS; number++) out[number] = allocate(model_bytes(&outputs[number]));
  fault = @NAME@_run(constants, arena, in, out);
  free(arena);
  for (number = 0; number < OUTPUTS; number++) {
    const Port *port = &outputs[number];
    if (fault == 0) give(port, port->name, port->file, out[number]);
    free(out[number]);
  }
  return fault;
}
