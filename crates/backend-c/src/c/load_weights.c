  {
    void *weights = allocate(WEIGHTS_BYTES), *block;
    FILE *file = fopen(paths[0], "rb");
    if (file == NULL) fail(paths[0], "cannot be read");
    read_bytes(paths[0], file, weights, WEIGHTS_BYTES);
    fclose(file);
    block = allocate(@NAME@_constants_size());
    fault = @NAME@_setup(weights, block);
    constants = block;
    free(weights);
  }
