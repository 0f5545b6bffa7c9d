"""The JSON that the page asks for: a module a subject, each with `routes(parts)`.

Ids of Discord are strings (JavaScript's numbers end at 2^53), times are unix seconds, money is in US dollars. A list is
`{"items": […], "next": cursor or null}`, a failure `{"error": "one plain line"}`.
"""
