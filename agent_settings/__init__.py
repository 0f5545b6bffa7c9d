"""Parses and validates settings. Opens only the files it reads; knows neither Redis nor Discord nor a model."""
