"""What the curves of a gradient run are called: the loss that it minimises and the score of test rows, by model."""

from __future__ import annotations

from typing import NamedTuple


class CurveWords(NamedTuple):
    """Names for charts and tiles, each with a sentence on what it is."""

    loss: str
    about_loss: str
    score: str
    about_score: str


SQUARES = CurveWords(
    "Loss", "What training minimises: half the mean squared error plus the penalty.",
    "Validation R²", "Share of the target's spread explained on test rows.",
)  # fmt: skip
_EXPLAINED = "Deviance explained, test rows"
_OTHERS = {
    "logistic": CurveWords(
        "Log loss", "What training minimises: the mean log loss plus the penalty.",
        _EXPLAINED, "How much of the baseline's log loss the model removes on test rows; 1 is perfect.",
    ),
    "multinomial": CurveWords(
        "Log loss", "What training minimises: the mean log loss of all classes plus the penalty.",
        _EXPLAINED, "How much of the baseline's log loss the model removes on test rows; 1 is perfect.",
    ),
    "poisson": CurveWords(
        "Half the mean deviance", "What training minimises: half the mean deviance of counts plus the penalty.",
        _EXPLAINED, "How much of the baseline's deviance the model removes on test rows; 1 is perfect.",
    ),
    "gamma": CurveWords(
        "Half the mean deviance", "What training minimises: half the mean gamma deviance plus the penalty.",
        _EXPLAINED, "How much of the baseline's deviance the model removes on test rows; 1 is perfect.",
    ),
    "lognormal": CurveWords(
        "Half the mean square of logarithms", "What training minimises: half the mean squared error of the target's "
        "logarithm plus the penalty.",
        "R² of logarithms, test rows", "How much of the baseline's squared error of logarithms the model removes "
        "on test rows; 1 is perfect.",
    ),
    "huber": CurveWords(
        "Huber loss", "What training minimises: the mean Huber loss at the scale of the exact fit plus the penalty.",
        "Loss explained, test rows", "How much of the baseline's Huber loss the model removes on test rows; 1 is "
        "perfect.",
    ),
    "mlp": CurveWords(
        "Loss", "What training minimises: the mean loss of the rows that the last step looked at, in units of the "
        "target's spread.",
        "Explained, validation rows", "How much of the baseline's loss the network removes on training rows set "
        "aside from every step; the weights that do best there are kept.",
    ),
    "module": CurveWords(
        "Loss", "What training minimises: the mean loss of the rows that the last step looked at.",
        "Score, test rows", "Of rows kept for testing, after each epoch: accuracy or R², 1 is perfect.",
    ),
}  # fmt: skip


def curve_words(model: str) -> CurveWords:
    return _OTHERS.get(model, SQUARES)
