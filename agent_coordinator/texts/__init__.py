"""Find in messages what code can see: words, phrases, repetitions. Pure, without lists of endings or models."""
