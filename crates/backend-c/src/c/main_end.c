
int main(int argc, char **argv)
{
  const char *paths[INPUTS + WEIGHTS_FILES + 1] = { NULL };
  const void *in[INPUTS + 1] = { NULL };
  const void *constants;
  int given = 0, number, fault;
  for (number = 1; number < argc; number++) {
    if (strcmp(argv[number], "-o") == 0 && number + 1 < argc) {
      directory = argv[++number];
    } else {
      if (given < INPUTS + WEIGHTS_FILES) paths[given] = argv[number];
      given++;
    }
  }
  if (given != INPUTS + WEIGHTS_FILES) {
    fprintf(stderr, "usage: %s @WEIGHTS_USAGE@[INPUT.npy ...] [-o DIR], with %d input(s)\n", argv[0],
        INPUTS);
    return 2;
  }
@LOAD@  for (number = 0; number < INPUTS; number++) {
    in[number] = read_input(paths[number + WEIGHTS_FILES], &inputs[number]);
  }
  if (fault == 0) fault = run_model(constants, in);
  if (fault != 0) {
    fprintf(stderr, "error: the model stopped with fault %d, see model.h\n", fault);
    return 1;
  }
  return 0;
}
