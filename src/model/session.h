/* What the rest of the room may ask of a session beyond the public header. */
#ifndef ORK_MODEL_SESSION_H
#define ORK_MODEL_SESSION_H

#include "ork/ork.h"

/* Whether the timeline begins with the list and there are logits for the list's last position. */
bool ork_session_holds(const ork_session *session, const ork_token *tokens, size_t count);

#endif
