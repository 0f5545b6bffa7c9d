"""Mistakes in agent_settings."""

from __future__ import annotations

from tests.mutants.mutant import of

CONFIG = "test_config.py"

IN_SETTINGS = (
    *of(
        "agent_settings/names.py",
        CONFIG,
        ("key=lambda pair: pair[0].isupper()", "key=lambda pair: not pair[0].isupper()", "capitals count"),
        ("if name in spellings and found[name] != text:", "if name in spellings:", "the same text twice is no warning"),
        ("if key in both or other_name not in both:", "if other_name not in both:", "our name wins over another one"),
        ('if text is None or key == "GEMINI_API_KEY":', "if text is None:", "GOOGLE_API_KEY is no warning"),
        ("if key not in known and key.upper() not in known", "if key not in known", "another case is no typing error"),
    ),
    *of(
        "agent_settings/sources.py",
        CONFIG,
        ("if has_personas or not set(found)", "if has_personas or set(found)", "a strange folder gets no personas"),
        ('- {*agents, "lost+found"}', "- {*()}", "folders of bots may be empty of files"),
    ),
    *of(
        "agent_settings/fields.py",
        CONFIG,
        ("return NO_LIMIT if _none(value) else value", "return 0 if _none(value) else value", "none is no limit"),
        ('.replace(" ", "-") or DEFAULT_THEME', '.replace(" ", "-") or "debate"', "an id alone is casual"),
    ),
    *of(
        "agent_settings/validation.py",
        CONFIG,
        (
            '{"schedule_min": 0} if settings.schedule_max == 0 else {}',
            "{}",
            "a maximum of 0 alone switches the schedule off",
        ),
        ("if getattr(settings, field) == 0:", "if not getattr(settings, field):", "no limit is no warning of nothing"),
    ),
    *of(
        "agent_settings/build.py",
        CONFIG,
        ("if name.upper() in names", "if name in names", "a coding agent sees no setting in small letters"),
    ),
)
