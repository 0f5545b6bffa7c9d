"""Scripted voices that stand in for models."""
