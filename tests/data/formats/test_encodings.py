"""Texts in other encodings than UTF-8: recognised from a few lines, and the guess is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tables import column, opened, written

# The encoding that a text is written in, and lines in it.
TEXTS = {
    "shift_jis": ["名前,値段", "東京タワー,100", "大阪城の入口,200", "京都,5"],
    "euc_kr": ["이름,값", "서울특별시,100", "부산,200", "인천,3"],
    "gb18030": ["姓名,价格", "北京市朝阳区,100", "上海,200", "深圳,3"],
    "big5": ["姓名,價格", "臺北市,100", "高雄,200", "臺中,3"],
    "cp1251": ["имя,цена", "Москва,100", "Санкт-Петербург,200", "Тверь,3"],
    "koi8_r": ["имя,цена", "Москва,100", "Санкт-Петербург,200", "Тверь,3"],
    "cp1253": ["όνομα,τιμή", "Αθήνα,100", "Θεσσαλονίκη,200", "Πάτρα,3"],
    "iso8859_7": ["όνομα,τιμή", "Αθήνα,100", "Θεσσαλονίκη,200", "Πάτρα,3"],
    "cp1250": ["miasto,cena", "Łódź,100", "Kraków,200", "Gdańsk,5", "Świętochłowice,6"],
    "latin_1": ["Straße,Größe", "München,100", "Köln,200", "Düsseldorf,3"],
    "cp932": ["アイス,x", "カメラ,1", "ソフト,2", "タワー,3"],
    "mac_roman": ["ville,x", "Béziers,1", "Orléans,2", "Mâcon,3", "Nîmes,4"],
    "cp850": ["Stadt,x", "Köln,1", "München,2", "Nürnberg,3"],
    "cp1254": ["şehir,x", "İstanbul,1", "Diyarbakır,2", "Muğla,3"],
    "cp1252": ["n,s", "“Müller”,1", "‘Schröder’,2", "5 €,7"],
}


CENTRAL = {  # of few letters, which are \xe8, \xf8 and \xec in the West
    "cp1250": ["Číslo,Věk", "Laboratoř,1", "Poměr,2", "29. září,3"],
    "iso8859_2": ["číslo,léto", "pšenice,1", "řeka,2"],
    "cp1252": ["più,così", "è,1", "metà,2"],
    "latin_1": ["sted,høst", "Århus,1", "blåbær,2", "è,3"],
}


@pytest.mark.parametrize("encoding", CENTRAL)
def test_czech_is_not_taken_for_a_western_language(encoding: str, tmp_path: Path) -> None:
    lines = CENTRAL[encoding]
    dataset = opened(written(tmp_path, ("\n".join(lines) + "\n").encode(encoding)))
    assert [",".join(dataset.columns), *column(dataset, lines[0].split(",")[0])] == [
        lines[0], *(line.split(",")[0] for line in lines[1:])
    ]  # fmt: skip


HUNGARIAN = [  # few letters, or signs and names of others beside them
    ["Név,ár", "Győr,1", "Kőszeg,2"],
    ["Megnevezés,x", "Fűtés,1", "Műanyag cső,2"],
    ["Ügyfél,Cím", "Käse GmbH,Győr", "Szűcs,Fő út"],
    ["Törvény,§", "Fűtési díj,§ 5", "Főügyészség,§ 6"],
    ["Termék,Megjegyzés", "Fűnyíró,• jó…", "Szőnyeg,új – „friss”"],
    ["NÉV,VÁROS", "ERDŐS PÁL,GYŐR", "SZŰCS ÁGNES,FÓT"],
    ["Név,Város", "Erdős Pál,Nové Zámky", "Őri,Košice"],
]
NOT_HUNGARIAN = [  # with the same letters as õ and û
    ["Opções,Valor", "Limões,1", "Põe é,2", "Müller,3"],
    ["Região,x", "São Paulo,1", "Aviões às,2"],
    ["Linn,x", "Põlva,1", "Jõgeva,2", "Pärnu,3", "Õ,4"],
    ["Mois,Coût", "Août,sûr", "été,dû", "Gaëlle,mûr"],
]


@pytest.mark.parametrize(
    ("lines", "encoding"),
    [*((lines, "cp1250") for lines in HUNGARIAN), *((lines, "cp1252") for lines in NOT_HUNGARIAN)],
)
def test_hungarian_is_told_from_languages_with_the_same_bytes(lines: list[str], encoding: str, tmp_path: Path) -> None:
    dataset = opened(written(tmp_path, ("\n".join(lines) + "\n").encode(encoding)))
    names, *rows = [line.split(",") for line in lines]
    assert list(dataset.columns) == names
    assert column(dataset, names[0]) == [row[0] for row in rows]


@pytest.mark.parametrize("encoding", TEXTS)
def test_other_encodings_are_recognised_and_said(encoding: str, tmp_path: Path) -> None:
    lines = TEXTS[encoding]
    dataset = opened(written(tmp_path, ("\n".join(lines) + "\n").encode(encoding)))
    names, *rows = [line.split(",") for line in lines]
    assert list(dataset.columns) == names
    assert column(dataset, names[0]) == [row[0] for row in rows]
    assert column(dataset, names[1]) == [float(row[1]) for row in rows]
    assert any("is not UTF-8 and is read as" in note for note in dataset.manifest.notes)


def test_turkish_with_a_dash_and_letters_side_by_side(tmp_path: Path) -> None:
    lines = ["İlanlar — ağırlığı,x", "karşılığı,1", "çalıştığı,2", "Şanlıurfa,3"]
    dataset = opened(written(tmp_path, ("\n".join(lines) + "\n").encode("cp1254")))
    assert column(dataset, "İlanlar — ağırlığı") == ["karşılığı", "çalıştığı", "Şanlıurfa"]


def test_an_encoding_that_was_given_is_no_guess(tmp_path: Path) -> None:
    path = written(tmp_path, "n,s\n1,café\n2,x\n".encode("latin-1"))
    assert opened(path, encoding="latin-1").manifest.notes == ()
    assert opened(written(tmp_path, "n,s\n1,café\n2,x\n", "u.csv")).manifest.notes == ()


def test_a_guess_from_few_letters_says_how_else_they_may_be_read(tmp_path: Path) -> None:
    few = opened(written(tmp_path, "město,x\nPlzeň,1\nBrno,2\n".encode("cp1250")))
    assert "from 2 letters: 'mìsto' may be 'město' (cp1250)" in " ".join(few.manifest.notes)
    many = opened(written(tmp_path, ("k,x\n" + "Müller,1\n" * 60).encode("latin-1"), "many.csv"))
    assert "a guess. If words look wrong" in " ".join(many.manifest.notes)
