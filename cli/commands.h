/* The commands, one file each. They print and return an exit code. */
#ifndef ORK_CLI_COMMANDS_H
#define ORK_CLI_COMMANDS_H

#include "settings.h"

int cli_pack(const cli_settings *settings);
int cli_info(const cli_settings *settings);
int cli_verify(const cli_settings *settings);
int cli_run(const cli_settings *settings);
int cli_chat(const cli_settings *settings);
int cli_bench(const cli_settings *settings);
int cli_perplexity(const cli_settings *settings);
int cli_probe(const cli_settings *settings);
int cli_doctor(const cli_settings *settings);
int cli_npu(const cli_settings *settings);
int cli_explain(const cli_settings *settings);
int cli_calibrate(const cli_settings *settings);
int cli_simulate(const cli_settings *settings);
int cli_completion(const cli_settings *settings);
int cli_help(const cli_settings *settings);
int cli_version(const cli_settings *settings);

#endif
