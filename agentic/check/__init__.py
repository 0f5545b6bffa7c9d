"""--check: a set-up examined without posting."""
