
int main(int argc, char **argv)
{
  const char *paths[INPUTS + 1] = { NULL };
  const void *in[INPUTS + 1] = { NULL };
  void *weights, *constants;
  int given = 0, number, fault;
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
    in[number] = read_input(paths[number + 1], &inputs[number]);
  }
  if (fault == 0) fault = run_model(constants, in);
  if (fault != 0) {
    fprintf(stderr, "error: the model stopped with fault %d, see model.h\n", fault);
    return 1;
  }
  return 0;
}
