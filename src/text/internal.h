/* The inside of a tokenizer, for the files of this room. */
#ifndef ORK_TEXT_INTERNAL_H
#define ORK_TEXT_INTERNAL_H

#include "text/chat.h"
#include "text/encoders.h"
#include "text/special.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

struct ork_tokenizer {
    struct ork_vocabulary vocabulary;
    struct ork_special_set specials;
    struct ork_bpe bpe; /* which of the two is filled says vocabulary.kind */
    struct ork_spm spm;
    struct ork_chat_template chat;
    char warning[192];
};

#endif
