"""Agents on Signal: their channels there, and their ears. Knows no request of Signal's."""
