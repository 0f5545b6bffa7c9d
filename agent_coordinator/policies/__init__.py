"""Policies: who speaks next."""
