/* Marker tokens: those that end a generation or frame a turn, found by their texts because files name few of them. */
#ifndef ORK_TEXT_MARKERS_H
#define ORK_TEXT_MARKERS_H

#include "text/vocabulary.h"

/* Fills `ends` and `eot`, and turns markers into control tokens whatever the file calls them, so that no user text
 * becomes one. Wants texts, index, types, bos and eos (models.md 5.6). */
ork_status ork_vocabulary_mark(struct ork_vocabulary *vocabulary, const ork_meta *meta, ork_error *error);

#endif
