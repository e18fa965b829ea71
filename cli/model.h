/* From the user's settings to an open model and session, with everything said that differs from what was asked. */
#ifndef ORK_CLI_MODEL_H
#define ORK_CLI_MODEL_H

#include "npu_use.h"
#include "ork/ork.h"
#include "settings.h"

typedef struct cli_model {
    ork_model *model;
    const char *given; /* the path that the user gave */
    char *path;        /* the orkpack that is open */
    double load_seconds;
    cli_npu_use npu;
} cli_model;

/* The one model of -m or the first argument; usage error when there is none or there are two. */
int cli_model_path(const cli_settings *settings, const char *command, const char **path);
/* Opens an orkpack, or the cached pack of a GGUF, and the NPU with its figures if one is asked for. Exit code, message printed. */
int cli_model_open(const cli_settings *settings, const char *path, cli_model *model);
void cli_model_close(cli_model *model);

/* Limits this process to the CPUs of -C and -Cr, or fails. To be called before threads are made. */
int cli_affinity_apply(const cli_settings *settings, const char *command);

/* Parameters as the settings ask, with the interrupt as cancel. context_length: 0 for the model's. */
ork_session_params cli_session_params(const cli_settings *settings, uint32_t context_length);
/* Creates the session, with the model's NPU, and says what is less than wished. *session is NULL after a failure. */
int cli_session_create(const cli_model *model, const ork_session_params *params, ork_session **session);

#endif
