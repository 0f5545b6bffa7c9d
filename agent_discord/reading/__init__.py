"""Gateway events and fetched history that keep the transcripts true. Posts nothing."""
