"""`--codec`: any codec in words, with the recipes it can travel with."""

import pytest

from tightwire.algebra.errors import RecipeError
from tightwire.memories.nothing import Nothing
from tightwire.recipes import dgc, diloco, local_sgd, post_local_sgd, sync_sgd
from tightwire.recipes.compressed import CODECS, codec_of, compressed
from tightwire.recipes.entry import Case
from tightwire.rules.signals import progress
from tightwire.testing.cases import distance, train

TEXTS = {name: f"{name}:0.05" if name in ("topk", "randomk", "threshold", "chunked") else name for name in CODECS}


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("base", [sync_sgd(), local_sgd(3), diloco(3)], ids=lambda recipe: recipe.name)
def test_every_codec_goes_with_gradients_and_with_progress(name: str, base: object) -> None:
    recipe = compressed(base, TEXTS[name])  # type: ignore[arg-type]
    trained = train(Case(recipe, 2, steps=6))
    dense = train(Case(base, 2, steps=6))  # type: ignore[arg-type]
    assert distance(trained, dense) < 1.0


def test_what_is_left_out_is_remembered_and_weights_become_progress() -> None:
    recipe = compressed(local_sgd(4), "topk:0.01")
    assert recipe.send == progress() and not isinstance(recipe.memory, Nothing)
    assert isinstance(compressed(sync_sgd(), "qsgd").memory, Nothing), "right on average: nothing to remember"
    assert recipe.name == "local-sgd+topk"


def test_without_loss_it_is_the_recipe_itself() -> None:
    left = train(Case(compressed(local_sgd(4), "topk:1.0"), 3, steps=12))
    assert distance(left, train(Case(local_sgd(4), 3, steps=12))) < 1e-5


@pytest.mark.parametrize(
    ("text", "says"),
    [("zip", "there are half"), ("topk:0.1:0.2:0.3:0.4", "topk:0.01"), ("topk:2", "density"), ("half:int8", "float16")],
)
def test_what_is_no_codec_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        codec_of(text)


def test_a_codec_that_a_recipe_has_is_replaced() -> None:
    assert compressed(dgc(), "half").codec == codec_of("half")


def test_recipes_with_codecs_in_several_places_refuse() -> None:
    with pytest.raises(RecipeError, match="several places"):
        compressed(post_local_sgd(), "half")
