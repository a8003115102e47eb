int main(int argc, char **argv)
{
  const char *directory = NULL, *paths[INPUTS + 1] = { NULL };
  const void *in[INPUTS + 1] = { NULL };
  void *results[OUTPUTS + 1] = { NULL }, *weights, *constants, *memory = NULL;
  @NAME@_tensor out[OUTPUTS + 1];
  size_t size = 1 << 20;
  int given = 0, number, axis, fault;
  FILE *file;
  for (number = 1; number < argc; number++) {
    if (strcmp(argv[number], "-o") == 0 && number + 1 < argc) {
      directory = argv[++number];
    } else {
      if (given <= INPUTS) paths[given] = argv[number];
      given++;
    }
  }
  if (given != INPUTS + 1) {
    fprintf(stderr, "usage: %s WEIGHTS [INPUT.npy ...] [-o DIR], with %d input(s)\n", argv[0],
        INPUTS);
    return 2;
  }
  weights = allocate(WEIGHTS_BYTES);
  file = fopen(paths[0], "rb");
  if (file == NULL) fail(paths[0], "cannot be read");
  read_bytes(paths[0], file, weights, WEIGHTS_BYTES);
  fclose(file);
  constants = allocate(@NAME@_constants_size());
  fault = @NAME@_setup(weights, constants);
  free(weights);
  for (number = 0; number < INPUTS; number++) {
    Port *port = &inputs[number];
    void *data = read_npy(paths[number + 1], port);
    in[number] = data;
    if (port->convert != NULL) {
      void *converted = allocate(model_bytes(port));
      memset(converted, 0, model_bytes(port));
      port->convert(converted, data, (ptrdiff_t)elements(port));
      in[number] = converted;
      free(data);
    }
  }
  while (fault == 0) {
    memory = allocate(size);
    fault = @NAME@_run(constants, memory, size, in, out@PASSED@);
    if (fault != @MEMORY@) break;
    /* More of it. */
    fault = 0;
    free(memory);
    if (size > (size_t)-1 / 2) fail("malloc", "out of memory");
    size *= 2;
  }
  if (fault != 0) {
    fprintf(stderr, "error: the model stopped with fault %d, see model.h\n", fault);
    return 1;
  }
  for (number = 0; number < OUTPUTS; number++) {
    Port *port = &outputs[number];
    for (axis = 0; axis < port->axes; axis++) port->shape[axis] = (size_t)out[number].extents[axis];
    /* The elements of an empty tensor may lie nowhere. */
    results[number] = allocate(model_bytes(port));
    if (model_bytes(port) > 0) memcpy(results[number], out[number].data, model_bytes(port));
    if (port->convert != NULL) {
      void *converted = allocate(elements(port) * port->size);
      port->convert(converted, results[number], (ptrdiff_t)elements(port));
      free(results[number]);
      results[number] = converted;
    }
    show(port, results[number]);
    if (directory != NULL) {
      char *path = (char *)allocate(strlen(directory) + strlen(port->file) + 2);
      sprintf(path, "%s/%s", directory, port->file);
      write_npy(path, port, results[number]);
      free(path);
    }
  }
  return 0;
}
