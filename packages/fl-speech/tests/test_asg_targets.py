"""What recognisers of criterion asg learn of words."""

from __future__ import annotations

import pytest

from fl_speech.errors import SpeechDataError
from fl_speech.recipe import Recipe
from fl_speech.recogniser import Recogniser
from fl_text import Dictionary, Lexicon


def recogniser(surround: str) -> Recogniser:
    recipe = Recipe(criterion="asg", surround=surround, replabels=1, channels=4, blocks=0)
    return Recogniser(recipe, Dictionary(["|", "e", "s"]), Lexicon({"see": [["s", "e", "e", "|"]]}))


@pytest.mark.parametrize("surround, begin", [("|", ["|"]), ("", [])])
def test_a_separator_before_the_surround_token_is_no_repetition(
    surround: str, begin: list[str]
) -> None:
    made = recogniser(surround)
    spelled = [made.dictionary.get_entry(number) for number in made.targets(["see", "see"])]
    assert spelled == [*begin, "s", "e", "<1>", "|", "s", "e", "<1>", "|"]


def test_a_surround_token_that_is_none() -> None:
    with pytest.raises(SpeechDataError, match="'x' of surround"):
        recogniser("x")
