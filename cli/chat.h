/* A conversation on standard input and output. */
#ifndef ORK_CLI_CHAT_H
#define ORK_CLI_CHAT_H

#include "generate.h"

/* Talks until the end of input, /exit, or one answer with --single-turn. system and first_message may be NULL; the
 * second is answered before anything is read. template_name NULL: the model's own. Exit code. */
int cli_chat_talk(cli_generator *generator, const char *template_name, const char *system, const char *first_message);

#endif
