"""Units, numbers and dates in Chinese, dates in English, and sums of money."""

from engine.answers.verify import verify_answer
from engine.mathematics.quantities.unit_text import read_unit
from tests.support.table import table


@table(
    ("answer", "truth"),
    [
        ("3小时", "180分钟"),
        ("3个小时", "180 min"),
        ("2公里", "2 km"),
        ("5 Euro", "5 €"),
        ("5元", "5 yuan"),
        ("5 美元", "5 dollars"),
        ("500 円", "500 yen"),
        ("20平方米", "20 m²"),
        ("3立方分米", "3升"),
        ("90公里/小时", "25 米每秒"),
        ("25摄氏度", "298.15 K"),
        ("60度", r"\pi/3"),
        ("1小时30分", "90分钟"),
    ],
)
@table("is_turned", [False, True])
def test_units_in_chinese(answer, truth, is_turned):
    assert verify_answer(*((truth, answer) if is_turned else (answer, truth))).correct is True


@table(
    ("answer", "truth"),
    [
        ("3小时", "3分钟"),
        ("5元", "5美元"),
        ("3月", "3个月"),
        ("5平方米", "5米"),
        ("25摄氏度", "25华氏度"),
        ("不是3小时", "3小时"),
        ("3小时或4小时", "3小时"),
        ("3小时以上", "3小时"),
        ("5 min", "5 m"),
    ],
)
def test_words_that_are_no_units_or_other_ones(answer, truth):
    assert verify_answer(answer, truth).correct is False


@table(
    ("answer", "truth", "is_correct"),
    [
        ("5 牛顿", "5 N", True),
        ("5千瓦时", "18 MJ", True),
        ("5 kg m/s", "5 N s", True),
        ("3小时", "3", False),
    ],
)
def test_quantities_in_chinese(answer, truth, is_correct):
    assert verify_answer(answer, truth, comparison="measured").correct is is_correct


def test_a_unit_after_a_box_may_be_chinese():
    assert verify_answer(r"所以 $\boxed{3}$ 小时。", "180分钟").correct is True


@table("word", ["an", "月", "时"])
def test_words_with_other_meanings_are_no_units(word):
    assert read_unit(word) is None


@table(
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


@table(
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


@table(
    ("answer", "truth", "is_correct"),
    [
        ("1776年7月4日", "Jul 4, 1776", True),
        ("04.07.1776", "4.7.1776", True),
        ("1776/07/04", "1776-7-4", True),
        ("7月4日", "July 4", True),
        ("noon", "12:00 pm", True),
        ("5.3.2024", "2024-05-03", False),
        ("2024-02-03", "2019", False),
        ("2019", "2024-02-03", False),
        ("July 4", "July 4, 1776", False),
        ("midnight", "12:00 pm", False),
    ],
)
def test_dates_and_times(answer, truth, is_correct):
    assert verify_answer(answer, truth).correct is is_correct


@table(
    ("answer", "truth", "is_correct"),
    [
        ("大约12公里", "12 km", True),
        ("3、5", "3, 5", True),
        ("A和C", "A, C", True),
        ("选B", "B", True),
        ("MÜNCHEN", "München", True),
        ("A和B", "A", False),
        ("总和", "总", False),
        ("选A", "B", False),
        ("不是", "是", False),
        ("año", "ano", False),
    ],
)
def test_lists_choices_and_words(answer, truth, is_correct):
    assert verify_answer(answer, truth).correct is is_correct


@table(
    ("answer", "truth", "is_correct"),
    [
        ("1h30", "1.5 h", True),
        ("1h30", "90 min", True),
        ("1 h 05", "65 min", True),
        ("1h30", "130 min", False),
        ("R$ 5", "5 reais", True),
        ("R$ 5", "US$ 5", False),
        ("¥5", "5 yen", True),
        ("¥5", "5元", True),
        ("￥5", "5 JPY", True),
        ("¥5", "$5", False),
        ("5 yen", "5元", False),
    ],
)
@table("comparison", ["exact", "measured"])
def test_hours_pieces_and_money(answer, truth, is_correct, comparison):
    assert verify_answer(answer, truth, comparison=comparison).correct is is_correct
    assert verify_answer(truth, answer, comparison=comparison).correct is is_correct
