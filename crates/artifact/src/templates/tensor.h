/* A value of a plan. */
typedef struct {
  const void *data;
  int64_t bytes; /* of all elements */
  int64_t axes;
  int64_t extents[@AXES@];
} @NAME@_tensor;

