"""The hash of texts is MurmurHash3 as scikit-learn has it, whatever the text."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils import murmurhash3_32

from shoal.data.texts.hashing import buckets_of, murmur3
from shoal.data.texts.many import ManyTexts, packed


def texts() -> list[str]:
    random = np.random.default_rng(0)
    letters = [*"abcXYZ _-", "é", "ß", "日", "\U0001f41f"]
    return ["", "a", "ab", "abc", "abcd", "x" * 1000, "A", " a", *(
        "".join(random.choice(letters, length)) for length in random.integers(0, 130, 500)
    )]  # fmt: skip


def test_hashes_are_those_of_scikit_learn() -> None:
    expected = [murmurhash3_32(text.encode(), seed=0, positive=True) for text in texts()]
    np.testing.assert_array_equal(murmur3(texts()), expected)
    assert len(murmur3([])) == 0


@pytest.mark.parametrize("bits", [1, 10, 18, 30])
def test_a_text_falls_into_the_column_of_scikit_learns_hasher(bits: int) -> None:
    theirs = FeatureHasher(2**bits, input_type="string", alternate_sign=False).transform([[one] for one in texts()])
    starts, columns = buckets_of(texts(), False, bits)
    np.testing.assert_array_equal(columns, theirs.indices)
    np.testing.assert_array_equal(starts, theirs.indptr)


def test_words_fall_into_the_columns_of_scikit_learns_vectoriser() -> None:
    said = ["The cat, the CAT sat_on a mat!", "", "a b c", "Überall Äpfel 12 3", "don't e-mail"]
    theirs = HashingVectorizer(n_features=1024, alternate_sign=False, norm=None).transform(said).toarray()
    starts, columns = buckets_of(said, True, 10)
    ours = np.zeros_like(theirs)
    np.add.at(ours, (np.repeat(np.arange(len(said)), np.diff(starts)), columns), 1.0)
    np.testing.assert_array_equal(ours, theirs)


def test_packed_texts_are_a_sequence_of_them() -> None:
    all_ = texts()
    found = ManyTexts(len(all_), lambda: packed(all_))
    assert [*found] == all_
    assert found[5] == all_[5]
    assert found[-1] == all_[-1]
    assert found[2:5] == tuple(all_[2:5])
    assert "abcd" in found
    assert "abcde" not in found
    with pytest.raises(IndexError):
        found[len(all_)]
