import pytest

from agentic.agent.roster import AgentName, members_of

SHOWN = {"ann": "Ann", "fox": "🦊", "mary": "Mary", "mary-ann": "Mary-Ann", "ada": "Ada", "countess": "Ada, Countess"}
ENTRIES = [AgentName(key, shown) for key, shown in SHOWN.items()]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("Ann, 🦊", ["ann", "fox"]),
        ("🦊 and Mary", ["fox", "mary"]),
        ("Mary, Ann", ["mary", "ann"]),
        ("mary and ann", ["mary", "ann"]),
        ("Mary-Ann; Ann", ["mary-ann", "ann"]),
        ("Ada, Countess", ["countess"]),
        ("Ada, Countess, Ann", ["countess", "ann"]),
        ("Ada, Ann", ["ada", "ann"]),
        ("Ada vs Ann vs. Mary versus 🦊", ["ada", "ann", "mary", "fox"]),
        ("@Ada @Ann", ["ada", "ann"]),
    ],
)
def test_a_separator_joins_names_only_if_it_is_part_of_a_name(text, keys):
    found, problems = members_of(ENTRIES, text)
    assert ([one.key for one in found], problems) == (keys, [])


def test_a_name_that_nobody_has_is_not_swallowed_by_the_one_beside_it():
    found, problems = members_of(ENTRIES, "Ann, 🎉")
    assert ([one.key for one in found], len(problems)) == (["ann"], 1)
