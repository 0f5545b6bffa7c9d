"""Makes a page of a recorded conversation to share: HTML, Markdown or JSON. Whatever it shows of texts, names, topics
and pictures came from outside, and is escaped; a page loads nothing."""
