"""Why a run exists, and what became of an event, told from stored rows alone: no later edit changes the answer."""
