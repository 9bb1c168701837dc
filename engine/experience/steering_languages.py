"""Phrases of other languages than English that steer the reader of a prompt; see :mod:`engine.experience.steering`.

They are plain forms of five demands: to disregard the instructions, to begin anew, to give
one fixed answer, to reveal an answer, or to grade well. Texts are compared without accents and other marks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

_END = r"(?= ?(?:$|[.,;!]| (?:und|et|y|e|i|и)\b))"


class _Language(NamedTuple):
    """Words of a language that stands with spaces, as patterns.

    Args:
        calls_off: imperatives such as ``ignore``, not after a negation.
        orders: what they are about, such as ``previous instructions``.
        anew: ``from now on``, ``you are now``.
        always: ``always``.
        answer: ``answer``, ``result``.
        reveal: imperatives such as ``reveal``.
        grader: who grades.
        gives: imperatives such as ``give``.
        marks: ``full marks``, ``as correct``.
    """

    calls_off: str
    orders: str
    anew: str
    always: str
    answer: str
    reveal: str
    grader: str
    gives: str
    marks: str

    def pattern(self) -> str:
        """One pattern for all phrases."""
        own = self
        return "|".join(
            (
                rf"\b(?:{own.calls_off})\b(?! (?:nicht|pas)\b)[^.;:!]{{0,24}}?\b(?:{own.orders})",
                rf"\b(?:{own.anew})\b",
                rf"\b(?:{own.answer})\b[^.;\d]{{0,12}}\b(?:{own.always})\b[^.;\d]{{0,8}}[-+]?\d+(?=$|[.,;!])",
                rf"\b(?:{own.always})\b[^.;\d]{{0,12}}\b(?:{own.answer})\b[^.;\d]{{0,8}}[-+]?\d+(?=$|[.,;!])",
                rf"(?:^|[.;:!] )(?:{own.reveal})\b[^.;]{{0,24}}\b(?:{own.answer})\b",
                rf"(?:^|[.;!] |\b(?:an|an den|au|al|all') )(?:{own.grader}) ?[:,]",
                rf"\b(?:{own.gives})\b[^.;]{{0,20}}\b(?:{own.answer})\b[^.;]{{0,16}}\b(?:{own.marks})\b",
                rf"\b(?:{own.gives})\b[^.;]{{0,12}}\b(?:{own.marks})\b[^.;]{{0,20}}\b(?:{own.answer})\b",
            )
        )


_LANGUAGES = (
    _Language(  # German
        r"ignorier(?:e|t|en sie)?|missachte\w*|vergiss|vergesst|vergessen sie|ubergehe|umgehe"
        r"|(?:befolge|beachte)\w* (?:keine|nicht)|folge nicht",
        r"(?:vorherig|bisherig|obig|vorig|fruher|vorangehend|vorstehend)e[mnrs]? (?:anweisung|instruktion|regel|vorgabe"
        r"|befehl|hinweis)\w*|alles (?:obige|bisherige|davor|zuvor)|system ?prompt|(?:deine|ihre|alle) (?:anweisung"
        rf"|instruktion|vorgabe)en{_END}",
        r"von (?:jetzt|nun) an|ab (?:jetzt|nun|sofort)|du bist (?:jetzt|nun)|systemanweisung(?:en)?",
        r"immer|stets",
        r"(?:end)?antwort\w*|(?:end)?ergebnis|(?:muster)?losung",
        r"verrate\w*|offenbare\w*|enthulle\w*",
        r"bewerter|prufer|gutachter|korrektor",
        r"gib|vergib|bewerte|werte",
        r"(?:volle|hochste|maximale)\w* (?:punkt|bewertung|note)\w*|als (?:richtig|korrekt)",
    ),
    _Language(  # French
        r"(?<!n['’])(?<!ne )(?:ignore[rz]?|oublie[rz]?|contourne[rz]?)|ne (?:suis|suivez|respecte[rz]?) (?:pas|plus)",
        r"(?:instruction|consigne|regle|directive|ordre)s (?:ci dessus|precedente?s|anterieure?s|du systeme)"
        rf"|tout ce qui precede|(?:tes|vos|toutes les) (?:instructions|consignes){_END}",
        r"a partir de maintenant|dorenavant|tu es maintenant|vous etes maintenant",
        r"toujours|systematiquement",
        r"reponses?|reponds|repondez|resultat|solution",
        r"revele[rz]?|devoile[rz]?|divulgue[rz]?",
        r"correcteur|evaluateur|examinateur",
        r"donne[rz]?|attribue[rz]?|accorde[rz]?|note[rz]?|marque[rz]?",
        r"note maximale|tous les points|comme (?:juste|correcte?|exacte)",
    ),
    _Language(  # Spanish
        r"(?<!no )(?:ignora[dr]?|ignore|olvida[dr]?|olvide|desestima)|no (?:sigas|siga|obedezcas|hagas caso)",
        r"(?:instrucciones|indicaciones|reglas|ordenes|directrices) (?:anteriores|previas|de arriba|del sistema)"
        rf"|(?:todo )?lo anterior{_END}|(?:tus|sus|todas las) (?:instrucciones|indicaciones){_END}",
        r"a partir de ahora|de ahora en adelante|ahora eres",
        r"siempre",
        r"respuestas?|responde|contesta|resultado|solucion",
        r"revela[dr]?|revele|divulga|desvela",
        r"evaluador|calificador|corrector|examinador",
        r"da|dale|otorga|asigna|califica|puntua|marca",
        r"(?:puntuacion|nota|calificacion) maxima|maxima (?:puntuacion|nota|calificacion)|como (?:correcta|valida)",
    ),
    _Language(  # Portuguese
        r"(?<!nao )(?:ignor[ea]|esquec[ea]|desconsidere)|nao (?:siga|sigas|obedeca)",
        r"(?:instrucoes|orientacoes|regras|ordens) (?:anteriores|acima|previas|do sistema)|tudo (?:o que esta )?acima",
        r"a partir de agora|de agora em diante",
        r"sempre",
        r"respostas?|responda|resultado|solucao",
        r"revel[ea]|divulgue",
        r"avaliador|corretor|examinador",
        r"atribua|conceda|marque",
        r"(?:nota|pontuacao) maxima|como (?:correta|certa)",
    ),
    _Language(  # Italian
        r"(?<!non )(?:ignora(?:te)?|dimentica(?:te)?)|non (?:seguire|seguite|obbedire)",
        r"(?:istruzioni|indicazioni|regole|direttive) (?:precedenti|di cui sopra|sopra|del sistema)",
        r"d'ora in (?:poi|avanti)|da (?:ora|adesso) in (?:poi|avanti)",
        r"sempre",
        r"rispost[ae]|rispondi|risultato|soluzione",
        r"rivela(?:te)?|svela(?:te)?|divulga",
        r"valutatore|correttore|esaminatore",
        r"assegna|attribuisci|segna",
        r"(?:punteggio|voto) (?:massimo|pieno)|come (?:corrett|giust)a",
    ),
    _Language(  # Russian
        r"(?<!не )(?<!Не )(?:игнорируй(?:те)?|забудь(?:те)?)|не (?:следуй|выполняй)(?:те)?",
        r"(?:предыдущ|прежн|вышеуказанн|системн)\w* (?:инструкц|указан|правил|команд|требован)\w*"
        r"|все (?:инструкции|указания)",
        r"отныне|с этого момента,? (?:ты|вы|отвечай)|теперь ты|ты теперь",
        r"всегда",
        r"ответ\w*|отвечай(?:те)?|результат|решени[ея]",
        r"раскрой(?:те)?|выдай(?:те)?",
        r"проверяющий|оценщик|экзаменатор",
        r"поставь(?:те)?|оцени(?:те)?",
        r"(?:максимальн|высш|полн)\w* (?:балл|оценк)\w*|как (?:правильн|верн)\w*",
    ),
)

_OTHERS = (
    # English, beside what is in steering.py
    r"(?:^|[.;:!] )(?:reveal|disclose|leak)\b[^.;]{0,24}\b(?:answer|reply|solution|ground truth)\b",
    r"(?:^|[.;!] )(?:judge|evaluator|examiner) ?[:,]",
    r"\b(?:give|award|mark|rate|score)\b[^.;]{0,20}\b(?:answer|reply|solution)s?\b[^.;]{0,16}\b(?:(?:full|top|maximum"
    r"|highest|perfect) (?:marks?|scores?|grade|credit)|as (?:correct|right))\b",
    r"\b(?:give|award)\b[^.;]{0,12}\b(?:full|top|maximum|highest|perfect) (?:marks?|scores?|grade|credit)\b[^.;]{0,20}"
    r"\b(?:answer|reply|solution)s?\b",
    # Chinese
    r"(?:無視|忘記|不要理會).{0,8}(?:以上|之前|前面|上述|先前|系統|所有).{0,8}(?:指令|指示|規則|要求|提示|內容)",
    r"從(?:現在|此刻)(?:起|開始)(?!的)|系統(?:提示|指令)|你現在是|答案(?:總是|永遠)(?:是|為)?\s*[-+]?\d",
    r"(?<!不要)(?<!不可)(?<!不能)(?<!避免)(?<!切勿)(?:透露|泄露|泄漏|洩露).{0,6}(?:答案|真值)",
    r"(?:评分|评卷|阅卷|判分|打分|評分|閱卷)(?:员|者|人|老师|模型|員|老師)(?:请|應|应|必须|必須|[:,，])",
    r"(?:请|直接|一律|必须|务必|請|必須).{0,6}(?:给|打|判|給)(?:予|出|为|為)?.{0,8}(?:满分|最高分|滿分)",
    # Japanese
    r"(?:これまで|以前|上記|前|先|すべて|全て|システム)の?(?:すべての|全ての)?(?:指示|命令|ルール|規則|プロンプト|内容)を?"
    r"(?:すべて|全て)?(?:無視|忘れ)",
    r"今後は(?:必ず|常に)|これからは(?:必ず|常に)|あなたは今から|(?:答え|回答|解答)は(?:常に|いつも|必ず)[-+]?\d",
    r"(?:採点者|評価者|審査員)(?:へ|は|よ|[:、,])|(?:満点|最高点)を(?:与え|つけ|付け)|(?:正解|答え|解答)を(?:漏ら|暴露|明か)",
    # Korean
    r"(?:이전|위(?:의)?|앞(?:의)?|모든|시스템) ?(?:모든 )?(?:지시|명령|규칙|프롬프트|지침)[^.]{0,6}(?:무시|잊)",
    r"지금부터|이제부터|(?:정)?답은 (?:항상|언제나) ?[-+]?\d",
    r"채점자 ?(?:[:,]|는|께)|만점을 (?:주|부여)|(?:정답|답)을 (?:공개|누설|유출)",
)


def phrases(written: Callable[[str], str]) -> str:
    """A pattern for the phrases of all languages.

    Args:
        written: brings a text into the form in which it is compared.
    """
    return written("|".join((*(one.pattern() for one in _LANGUAGES), *_OTHERS)))
