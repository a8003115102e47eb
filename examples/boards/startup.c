/* What runs before main on a Cortex-M core, and the few words that a program says to its debugger,
   here the emulator. No C library. Compiled with -ffreestanding, and without the pass of the
   compiler that makes calls of memset of loops. */
#include "board.h"

extern uint32_t stack_top[];
extern char bss_start[], bss_end[], data_start[], data_end[], data_load[];
int main(void);
void reset(void);

static int ask_debugger(int operation, const void *argument)
{
  register int r0 __asm("r0") = operation;
  register const void *r1 __asm("r1") = argument;
  __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void say(const char *text)
{
  ask_debugger(4, text);
}

void say_number(uint32_t number)
{
  char digits[11], *first = digits + 10;
  *first = 0;
  do {
    *--first = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  say(first);
}

static void leave(uint32_t status)
{
  const uint32_t argument[2] = { 0x20026, status };
  ask_debugger(0x20, argument);
  for (;;) {}
}

void reset(void)
{
  const char *from = data_load;
  char *to;
  /* Floating point, and vectors where there are any. */
  *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20;
  __asm volatile("dsb\n\tisb");
  for (to = data_start; to < data_end;) *to++ = *from++;
  for (to = bss_start; to < bss_end;) *to++ = 0;
  leave((uint32_t)main());
}

static void fault(void)
{
  say("the core faulted\n");
  leave(1);
}

/* Compilers may call these for structures. */
void *memcpy(void *to, const void *from, size_t count)
{
  unsigned char *destination = to;
  const unsigned char *source = from;
  while (count-- > 0) *destination++ = *source++;
  return to;
}

void *memset(void *to, int value, size_t count)
{
  unsigned char *destination = to;
  while (count-- > 0) *destination++ = (unsigned char)value;
  return to;
}

__attribute__((section(".vectors"), used))
static const void *const vectors[16] = { stack_top, reset, fault, fault, fault, fault, fault };
