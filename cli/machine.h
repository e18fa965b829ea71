/* What the machine is called. */
#ifndef ORK_CLI_MACHINE_H
#define ORK_CLI_MACHINE_H

#include <stddef.h>

/* The processor, or the board where the processor has no name; "unknown" where neither has. */
void cli_machine_name(char *name, size_t capacity);

#endif
