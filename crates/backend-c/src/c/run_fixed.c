
/* Runs the model, and gives each output memory of its own. */
static int run_model(const void *constants, const void *const in[], void *out[])
{
  void *arena = allocate(@NAME@_arena_size());
  int number, fault;
  for (number = 0; number < OUTPUTS; number++) out[number] = allocate(model_bytes(&outputs[number]));
  fault = @NAME@_run(constants, arena, in, out);
  free(arena);
  return fault;
}
