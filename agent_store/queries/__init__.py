"""Reads the record: functions over a connection of `database.connect`, frozen values out.

Lists are keyset pages, the newest first, and each is read by an index. Knows no page, no JSON and no wording.
"""
