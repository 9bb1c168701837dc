"""Units, numbers and dates in German, French, Spanish, Italian, Portuguese and Chinese."""

import pytest

from engine.answers.final_answer import answer_text
from engine.answers.verify import verify_answer
from engine.mathematics.quantities.european_numerals import read_european_number
from engine.mathematics.quantities.unit_text import UNITS, read_unit
from engine.mathematics.quantities.unit_values import unit_value
from engine.mathematics.quantities.unit_words import UNIT_WORDS, unit_of_word


@pytest.mark.parametrize(
    ("answer", "truth"),
    [
        ("3 Stunden", "180 Minuten"),
        ("180 Minuten", "3 hours"),
        ("5 heures", "300 min"),
        ("3小时", "180分钟"),
        ("3个小时", "180 min"),
        ("2公里", "2 km"),
        ("5 Euro", "5 €"),
        ("5元", "5 yuan"),
        ("5 美元", "5 dollars"),
        ("500 円", "500 yen"),
        ("2 días", "48 horas"),
        ("2 dias", "48 h"),
        ("3 ore", "180 minuti"),
        ("180 minuti", "3 ore"),
        ("5 ans", "60 mois"),
        ("2 quilômetros", "2000 metros"),
        ("3 chilogrammi", "3 kg"),
        ("3 Kilogramm", "3000 Gramm"),
        ("20 Quadratmeter", "20 m^2"),
        ("20 mètres carrés", "20 m²"),
        ("20 metros cuadrados", "20 m²"),
        ("20平方米", "20 m²"),
        ("3 Kubikmeter", "3000 Liter"),
        ("3立方分米", "3升"),
        ("90 km/h", "90 Kilometer pro Stunde"),
        ("90 km par heure", "25 m/s"),
        ("90 chilometri all'ora", "25 m/s"),
        ("90公里/小时", "25 米每秒"),
        ("25 Grad Celsius", "25 °C"),
        ("25摄氏度", "298.15 K"),
        ("60 Grad", "60°"),
        ("60度", r"\pi/3"),
        ("1 Stunde und 30 Minuten", "90 Minuten"),
        ("1 heure et 30 minutes", "90 minutes"),
        ("1小时30分", "90分钟"),
        ("28 Prozent", "28 %"),
        ("28 pour cent", "28%"),
        ("28 por ciento", "28%"),
        ("3 Stunden", "3"),
    ],
)
@pytest.mark.parametrize("is_turned", [False, True])
def test_units_of_other_languages(answer, truth, is_turned):
    assert verify_answer(*((truth, answer) if is_turned else (answer, truth))).correct is True


@pytest.mark.parametrize(
    ("answer", "truth"),
    [
        ("3 Stunden", "3 Minuten"),
        ("3小时", "3分钟"),
        ("5元", "5美元"),
        ("3月", "3个月"),
        ("5平方米", "5米"),
        ("5 Quadratmeter", "5 Meter"),
        ("28 Prozent", "28"),
        ("25摄氏度", "25华氏度"),
        ("不是3小时", "3小时"),
        ("3小时或4小时", "3小时"),
        ("3小时以上", "3小时"),
        ("nicht 3 Stunden", "3 Stunden"),
        ("3 Stunden oder 4", "3 Stunden"),
        ("2 an", "2"),
        ("3 ans", "3"),
        ("3 ore", "3"),
        ("5 Tag", "5"),
        ("5 mes", "5"),
        ("5 min", "5 m"),
        ("90 grad", "90°"),
        ("2 mille", "2 miles"),
        ("5 livres", "5 pounds"),
    ],
)
def test_words_that_are_no_units_or_other_ones(answer, truth):
    assert verify_answer(answer, truth).correct is False


@pytest.mark.parametrize(
    ("answer", "truth", "is_correct"),
    [
        ("10 Meter pro Sekunde", "36 km/h", True),
        ("10 metri al secondo", "36 km/h", True),
        ("5 牛顿", "5 N", True),
        ("5千瓦时", "18 MJ", True),
        ("5 kg m/s", "5 N s", True),
        ("3 Stunden", "3 Minuten", False),
        ("3小时", "3", False),
        ("3 Meter mehr", "3 m", False),
        ("3 m nicht", "3 m", False),
        ("3 Meter nach links", "3 m nach rechts", False),
        ("5 N pas", "5 N", False),
    ],
)
def test_quantities_in_other_languages(answer, truth, is_correct):
    assert verify_answer(answer, truth, comparison="measured").correct is is_correct


def test_a_unit_after_a_box_may_be_in_another_language():
    assert answer_text(r"\boxed{3} Stunden") == "3 Stunden"
    assert verify_answer(r"所以 $\boxed{3}$ 小时。", "180分钟").correct is True


def test_a_word_names_one_unit_in_all_languages():
    for word in UNITS:
        found = unit_of_word(word)
        assert found in (None, UNITS[word]) or word == "Grad", word
    for word, name in UNIT_WORDS.items():
        assert unit_value(name), word


@pytest.mark.parametrize("word", ["an", "Tag", "dia", "mes", "ano", "mille", "livre", "Pfund", "月", "时"])
def test_words_with_other_meanings_are_no_units(word):
    assert read_unit(word) is None


@pytest.mark.parametrize(
    ("answer", "truth"),
    [
        ("三千二百零五", "3205"),
        ("3200", "三千二百"),
        ("一万二", "12000"),
        ("三百五", "350"),
        ("1.2万", "12000"),
        ("二亿三千万", "230000000"),
        ("3.5亿元", "350000000元"),
        ("１２３．５", "123.5"),
        ("两百公里", "200 km"),
        ("五分之三", "3/5"),
        ("三又二分之一", "3.5"),
        ("百分之五十", "50%"),
        ("百分之28", "28%"),
        ("负三点一四", "-3.14"),
        ("一半", "1/2"),
        ("半小时", "30分钟"),
        ("二〇二四", "2024"),
        ("5个", "5"),
        ("5个", "5个苹果"),
        ("5只鸡", "5"),
        ("十八岁", "18"),
        ("80分", "80"),
        ("80", "80分"),
        ("90分", "1.5小时"),
        ("12块钱", "12"),
        ("7页", "7"),
        ("60 km/h", "60千米/时"),
    ],
)
def test_chinese_numbers(answer, truth):
    assert verify_answer(answer, truth).correct is True


@pytest.mark.parametrize(
    ("answer", "truth"),
    [
        ("三百零五", "350"),
        ("三百五", "305"),
        ("1.5亿", "1.5万"),
        ("五分之三", "5/3"),
        ("百分之五十", "50"),
        ("三点五", "35"),
        ("三或四", "3"),
        ("三角形", "3"),
        ("一次函数", "1"),
        ("千米", "1000"),
        ("5次方", "5"),
        ("5个以上", "5"),
        ("5个百分点", "5"),
        ("5只鸡", "5只鸭"),
        ("5人", "5岁"),
        ("5个", "5 km"),
        ("5个", "$5"),
        ("五月", "5"),
        ("5分之二", "5"),
        ("80分", "80人"),
        ("90分", "1.5"),
        ("第五", "5"),
    ],
)
def test_chinese_texts_that_are_other_numbers(answer, truth):
    assert verify_answer(answer, truth).correct is False


@pytest.mark.parametrize(
    ("answer", "truth", "is_correct"),
    [
        ("4. Juli 1776", "July 4, 1776", True),
        ("le 4 juillet 1776", "1776-07-04", True),
        ("4 de julio de 1776", "1776-07-04", True),
        ("1776年7月4日", "Jul 4, 1776", True),
        ("04.07.1776", "4.7.1776", True),
        ("1776/07/04", "1776-7-4", True),
        ("7月4日", "July 4", True),
        ("17.30 Uhr", "5:30 pm", True),
        ("noon", "12:00 pm", True),
        ("4. Juni 1776", "July 4, 1776", False),
        ("5.3.2024", "2024-05-03", False),
        ("2024-02-03", "2019", False),
        ("2019", "2024-02-03", False),
        ("July 4", "July 4, 1776", False),
        ("5 Uhr", "5 pm", False),
        ("midnight", "12:00 pm", False),
    ],
)
def test_dates_and_times(answer, truth, is_correct):
    assert verify_answer(answer, truth).correct is is_correct


@pytest.mark.parametrize(
    ("answer", "truth", "is_correct"),
    [
        ("etwa 12 Kilometer", "12 km", True),
        ("大约12公里", "12 km", True),
        ("2 Millionen Euro", "2000000 €", True),
        ("1.2 Mrd. €", "1200000000 €", True),
        ("2 Millionen", "2000000000", False),
        ("2 Billion", "2000000000", False),
        ("3 und 5", "5, 3", True),
        ("3 oder 5", "x = 3 or x = 5", True),
        ("3 et 5", "3, 5", True),
        ("3、5", "3, 5", True),
        ("A和C", "A, C", True),
        ("选B", "B", True),
        ("Antwort B", "B", True),
        ("MÜNCHEN", "München", True),
        ("Москва", "москва", True),
        ("Ja", "ja", True),
        ("3 oder 4", "3", False),
        ("A和B", "A", False),
        ("总和", "总", False),
        ("选A", "B", False),
        ("不是", "是", False),
        ("año", "ano", False),
    ],
)
def test_lists_choices_and_words(answer, truth, is_correct):
    assert verify_answer(answer, truth).correct is is_correct


@pytest.mark.parametrize(
    ("answer", "truth", "is_correct"),
    [
        ("1h30", "1.5 h", True),
        ("1h30", "90 min", True),
        ("1 h 05", "65 min", True),
        ("1h30", "130 min", False),
        ("12 Stück", "12", True),
        ("12 pezzi", "12 Stück", True),
        ("12 Stück", "12 kg", False),
        ("12 Stück", "12 rad", False),
        ("7,5 Liter", "7500 ml", True),
        ("2,5 Stunden", "2 h 30 min", True),
        ("7,5 Liter", "7,50 Liter", True),
        ("10025,40 €", "10.025,40 €", True),
        ("7,5 Liter", "75 Liter", False),
        ("7,5 Liter", "5 Liter", False),
        ("R$ 5", "5 reais", True),
        ("R$ 5,50", "5.5 BRL", True),
        ("R$ 5", "US$ 5", False),
        ("€12,50", "12.5 euro", True),
        ("¥5", "5 yen", True),
        ("¥5", "5元", True),
        ("￥5", "5 JPY", True),
        ("¥5", "$5", False),
        ("5 yen", "5元", False),
    ],
)
@pytest.mark.parametrize("comparison", ["exact", "measured"])
def test_hours_pieces_decimal_commas_and_money(answer, truth, is_correct, comparison):
    assert verify_answer(answer, truth, comparison=comparison).correct is is_correct
    assert verify_answer(truth, answer, comparison=comparison).correct is is_correct


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("zwölf", 12),
        ("fuenfundzwanzig", 25),
        ("zweihundertvierunddreißig", 234),
        ("vingt et un", 21),
        ("soixante et onze", 71),
        ("quatre-vingt-dix-neuf", 99),
        ("nonante-neuf", 99),
        ("deux cents", 200),
        ("dieciséis", 16),
        ("treinta y uno", 31),
        ("quinientos", 500),
        ("novecientas", 900),
        ("ventitré", 23),
        ("centoquarantotto", 148),
        ("vinte e um", 21),
        ("cento e dezesseis", 116),
        ("trezentos", 300),
        ("once", None),
        ("due", None),
        ("six cents", None),
        ("e", None),
        ("y", None),
        ("cento e", None),
    ],
)
def test_numbers_in_words(words, number):
    assert read_european_number(words, skips_english=True) == number
    assert verify_answer(rf"\text{{{words}}}", str(number)).correct is (number is not None)


def test_words_that_are_english_too_are_numbers_where_a_number_is_meant():
    spelled = {"once": 11, "due": 2, "elf": 11, "sept": 7, "seize": 16, "cent": 100, "sei": 6, "seis": 6}
    assert {word: read_european_number(word, skips_english=False) for word in spelled} == spelled
