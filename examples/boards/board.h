/* A board: what it says to its debugger, the clock and the stack. */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

void say(const char *text);
void say_number(uint32_t number);

/* The timer of the core counts down at CLOCK_MHZ. Where the emulator runs an instruction a
   nanosecond, thousands of ticks over megahertz are thousands of instructions. */
static inline uint32_t clock_now(void)
{
  volatile uint32_t *const timer = (volatile uint32_t *)0xe000e010;
  if ((timer[0] & 1) == 0) {
    timer[1] = 0xffffff;
    timer[2] = 0;
    timer[0] = 5;
  }
  return 0xffffff - timer[2];
}

/* Thousands of instructions since a time of the clock, of fewer than 500 millions. */
static inline uint32_t thousands_since(uint32_t start)
{
  return ((clock_now() - start) & 0xffffff) / CLOCK_MHZ;
}

/* What memory below the stack is filled with, to see how far down it has been. */
#define PAINT 0xa5a5a5a5u

extern uint32_t stack_bottom[], stack_top[];

static inline uint32_t *stack_now(void)
{
  uint32_t *pointer;
  __asm volatile("mov %0, sp" : "=r"(pointer));
  return pointer;
}

static inline void paint_stack(void)
{
  volatile uint32_t *place = stack_now() - 16;
  while (place > stack_bottom) *--place = PAINT;
}

/* Bytes below the caller's own that have been used since the stack was painted. */
static inline uint32_t used_stack(void)
{
  const uint32_t *place = stack_bottom, *now = stack_now();
  while (place < now && *(volatile const uint32_t *)place == PAINT) place++;
  return (uint32_t)((const char *)now - (const char *)place);
}

#endif
