import pytest

from agentic.wire.entries import topics_in


@pytest.mark.parametrize(
    ("line", "topic"),
    [
        ("- Tall ships", "Tall ships"),
        ("* **Sourdough   bread**", "Sourdough bread"),
        ("  2. Tea from Assam.", "Tea from Assam"),
        ("12) chess;", "chess"),
        ("3D printing", "3D printing"),
        ("1984", "1984"),
        ("Therapy?", "Therapy?"),
        ("C++", "C++"),
    ],
)
def test_a_topic_is_a_line_without_its_bullet(line: str, topic: str) -> None:
    assert topics_in(line) == (topic,)


def test_each_topic_counts_once_and_empty_lines_are_none() -> None:
    assert topics_in("Ships\n\n-\n- ships.\n*\nBread\nSHIPS") == ("Ships", "Bread")
