/* JSON to standard output, by jansson. Strings of any content and numbers of any value are accepted: what JSON cannot
 * hold becomes U+FFFD or null. */
#ifndef ORK_CLI_JSON_H
#define ORK_CLI_JSON_H

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

json_t *cli_json_bytes(const char *bytes, size_t size_bytes);
void cli_json_set_text(json_t *object, const char *key, const char *text);
void cli_json_set_integer(json_t *object, const char *key, uint64_t number);
void cli_json_set_number(json_t *object, const char *key, double number);
void cli_json_set_boolean(json_t *object, const char *key, bool value);
json_t *cli_json_number(double number);
/* Prints on standard output, indented, with a newline, and releases it. */
void cli_json_print(json_t *object);

#endif
