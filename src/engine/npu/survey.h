/* A survey being made: findings so far and what the parts tell each other. Shared by survey.c, survey_nodes.c and
 * survey_others.c; knows nothing itself. */
#ifndef ORK_ENGINE_NPU_SURVEY_H
#define ORK_ENGINE_NPU_SURVEY_H

#include "ork/ork.h"

enum { SURVEY_FINDINGS_MAX = 64, SURVEY_TEXT_MAX = 32768 };

struct survey {
    const char *root;
    struct survey_item {
        ork_finding_kind kind;
        uint32_t topic, text, advice; /* offsets in `text` */
    } items[SURVEY_FINDINGS_MAX];
    size_t count;
    char text[SURVEY_TEXT_MAX];
    size_t used;

    char soc[32];        /* "" unless a device tree names a Rockchip SoC */
    char kernel[64];     /* "6.1.115-vendor-rk35xx" */
    bool is_rk3588;      /* whose NPU ork drives */
    bool usable;         /* a node that this process may use */
    ork_npu_kind driver; /* of the nodes found, 0: none */
};

/* Adds a finding; what does not fit any more is dropped. advice "": none. */
void survey_add(struct survey *survey, ork_finding_kind kind, const char *topic, const char *advice, const char *format,
                ...) __attribute__((format(printf, 5, 6)));

/* NPU nodes, their drivers, permissions, address translation, who else holds them. Sets usable and driver. */
void survey_nodes(struct survey *survey);
/* Processes and libraries of the vendor's runtime, and who has one of the nodes open. */
void survey_others(struct survey *survey, const char *const *nodes, size_t count);

#endif
