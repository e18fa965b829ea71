/* Owns `ork doctor`: how the survey of a machine looks. Must not know where a finding comes from. */
#include "commands.h"
#include "json.h"
#include "report.h"

#include <stdio.h>
#include <string.h>

static const char *kind_name(ork_finding_kind kind)
{
    return kind == ORK_FINDING_BAD ? "bad" : kind == ORK_FINDING_NOTE ? "note" : "good";
}

static const char *npu_name(const ork_survey *survey)
{
    if (!survey->npu_usable)
        return NULL;
    return survey->npu_kind == ORK_NPU_RKNPU ? "rknpu" : "rocket";
}

static size_t count_bad(const ork_survey *survey)
{
    size_t count = 0;
    for (size_t i = 0; i < survey->finding_count; i++)
        count += survey->findings[i].kind == ORK_FINDING_BAD;
    return count;
}

static void print_json(const ork_survey *survey)
{
    json_t *object = json_object(), *findings = json_array();
    cli_json_set_boolean(object, "ok", count_bad(survey) == 0);
    cli_json_set_boolean(object, "npu_usable", survey->npu_usable);
    if (npu_name(survey))
        cli_json_set_text(object, "npu", npu_name(survey));
    else
        json_object_set_new(object, "npu", json_null());
    for (size_t i = 0; i < survey->finding_count; i++) {
        json_t *item = json_object();
        cli_json_set_text(item, "kind", kind_name(survey->findings[i].kind));
        cli_json_set_text(item, "topic", survey->findings[i].topic);
        cli_json_set_text(item, "text", survey->findings[i].text);
        cli_json_set_text(item, "advice", survey->findings[i].advice);
        json_array_append_new(findings, item);
    }
    json_object_set_new(object, "findings", findings);
    cli_json_print(object);
}

static void print_text(const ork_survey *survey)
{
    int width = 0;
    for (size_t i = 0; i < survey->finding_count; i++) {
        int length = (int)strlen(survey->findings[i].topic);
        width = length > width ? length : width;
    }
    for (size_t i = 0; i < survey->finding_count; i++) {
        const ork_finding *finding = &survey->findings[i];
        cli_output_format("%-4s  %-*s  ", kind_name(finding->kind), width, finding->topic);
        cli_output_safe(finding->text);
        cli_output_format("\n");
        if (*finding->advice) {
            cli_output_format("%*s-> ", width + 8, "");
            cli_output_safe(finding->advice);
            cli_output_format("\n");
        }
    }
    size_t bad = count_bad(survey);
    if (bad)
        cli_output_format("\n%zu %s in the way of the NPU; the CPU engine works regardless.\n", bad,
                          bad == 1 ? "thing stands" : "things stand");
    else if (survey->npu_usable)
        cli_output_format("\nThe NPU can be used (%s).\n", npu_name(survey));
    else
        cli_output_format("\nNothing is wrong; the CPU engine computes here.\n");
}

int cli_doctor(const cli_settings *settings)
{
    ork_survey *survey;
    ork_error error;
    if (ork_survey_machine(settings->doctor_root ? settings->doctor_root : "/", &survey, &error) != ORK_OK)
        return cli_report_input_error(&error);
    if (settings->json)
        print_json(survey);
    else
        print_text(survey);
    int code = count_bad(survey) ? CLI_DEVICE : CLI_OK;
    ork_free(survey);
    return code;
}
