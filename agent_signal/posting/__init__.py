"""Answers as messages of Signal: styled text, its parts, the typing sign. Knows no turn and no envelope."""
