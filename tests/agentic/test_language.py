"""Tell in which language a text is."""

from agentic.language import language_of


def test_a_short_text_has_no_certain_language():
    assert language_of("Train, please.") is None
    assert language_of("The train is the better choice for the two of you.") == "en"
    assert language_of("Le train est le meilleur choix pour vous deux et pour la planète.") == "fr"
