/* Runs a model once on recorded inputs, and says whether its outputs are the recorded ones, what it
   took, and how much of the stack. case.c holds the inputs and outputs, one behind the other. */
#include "board.h"
#include "model.h"

/* Of case.c. */
extern const unsigned char case_inputs[], case_outputs[];
extern const uint32_t case_input_ends[MODEL_INPUTS], case_output_ends[MODEL_OUTPUTS];

/* Inputs are in memory, as a sensor leaves them there. */
static unsigned char inputs[INPUT_BYTES] __attribute__((aligned(16)));
static unsigned char outputs[OUTPUT_BYTES] __attribute__((aligned(16)));
static unsigned char arena[MODEL_ARENA_BYTES + 16] __attribute__((aligned(16)));

int main(void)
{
  const void *in[MODEL_INPUTS];
  void *out[MODEL_OUTPUTS];
  uint32_t start, thousands, stack, number, at, wrong = 0, most = 0;
  int status;
  for (at = 0, number = 0; number < MODEL_INPUTS; number++) {
    in[number] = inputs + at;
    for (; at < case_input_ends[number]; at++) inputs[at] = case_inputs[at];
  }
  for (at = 0, number = 0; number < MODEL_OUTPUTS; number++) {
    out[number] = outputs + at;
    at = case_output_ends[number];
  }
  paint_stack();
  start = clock_now();
  status = model_run(model_constants(), arena, in, out);
  thousands = thousands_since(start);
  stack = used_stack();
#ifdef FLOATS
  /* Farthest from the recorded one, in millionths of what that is, or of 1 where it is less. */
  for (at = 0; at < OUTPUT_BYTES / 4; at++) {
    float own = ((const float *)(const void *)outputs)[at];
    float right = ((const float *)(const void *)case_outputs)[at];
    float size = right < 0 ? -right : right, apart = own < right ? right - own : own - right;
    uint32_t parts = (uint32_t)(1e6f * apart / (size < 1 ? 1 : size));
    if (!(parts <= most)) most = parts;
    wrong += !(parts <= FLOATS);
  }
#else
  for (at = 0; at < OUTPUT_BYTES; at++) {
    int apart = (signed char)outputs[at] - (signed char)case_outputs[at];
    if (apart < 0) apart = -apart;
    wrong += apart != 0;
    if ((uint32_t)apart > most) most = (uint32_t)apart;
  }
#endif
  say("status ");
  say_number((uint32_t)status);
  say(" wrong ");
  say_number(wrong);
  say(" most ");
  say_number(most);
  say(" thousands ");
  say_number(thousands);
  say(" stack ");
  say_number(stack);
  say("\n");
  return status != 0 || wrong != 0;
}
