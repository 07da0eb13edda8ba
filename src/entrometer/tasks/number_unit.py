"""Text that may follow a number without changing its value: units and remarks.

Units are dropped and never converted, so `7%` is 7 and `18 cents` is 18. Any noun may
be a unit ("18 marbles"), so words are accepted by their shape, except for words that
change the number ("18 thousand marbles", "18 minus marbles").
"""

import re

CURRENCY_CODES = ("USD", "EUR", "GBP", "JPY", "INR", "CNY", "CAD", "AUD", "CHF")
CURRENCY_SYMBOLS = ("US$", r"\$", "$", "€", "£", "¥", "₹", "₩")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MOST_WORDS = 3
"""Most words of a unit before `per` or `of`: two that describe a noun, the noun."""

_LENGTHS = _words("mm cm m km in ft yd mi")

SYMBOLS = _LENGTHS.union(
    CURRENCY_CODES,
    _words(
        """
        mg g kg lb lbs oz ml mL l L gal qt pt ms s sec secs min mins h hr hrs yr yrs mph
        kph W kW kWh V A J N Hz KB MB GB TB
        """
    ),
)
"""Symbols of units, case-sensitive. Without `k`, `K` and `M`, which mean thousands,
kelvins and millions."""

SINGULARS = _words(
    """
    inch foot yard mile meter metre kilometer kilometre centimeter centimetre millimeter
    millimetre ounce pound gram kilogram ton tonne cup pint quart gallon liter litre
    milliliter millilitre teaspoon tablespoon second minute hour day week month year
    dollar cent euro yen rupee penny degree unit point person
    feet teeth mice geese fish sheep deer cattle oxen dice pence people children men
    women money candy fruit water celsius fahrenheit
    """
)
"""Nouns that are units without a final s. Other nouns count in the plural only, since
most words that change a value have no s: `18 squared`, `18 off`, `18 short`."""

REMARKS = _words(
    "left remaining total altogether each more old tall long wide deep high"
)
"""Final words that leave the value as it is; also `in total` and `in all`."""

STOP_WORDS = _words(
    # Scale; words with "illion" in them are refused by their shape.
    """
    hundred hundreds thousand thousands dozen dozens score scores gross grand grands
    lakh lakhs lac lacs crore crores myriad myriads mil mils mill mills mille bn mn tn
    pair pairs couple couples kilo mega giga milli micro nano fold folds percent
    percents permille basis bps th ths thou thous mio mrd bil bils tril googol googols
    """
    # Parts and multiples.
    """
    half halves third thirds quarter quarters fourth fourths fifth fifths sixth sixths
    seventh sevenths eighth eighths ninth ninths tenth tenths eleventh twelfth twelfths
    twentieth twentieths hundredth hundredths thousandth thousandths double doubles
    doubled triple triples tripled treble trebled quadruple quadrupled halved twice
    thrice twofold threefold tenfold hundredfold multiple multiples fraction fractions
    ratio ratios reciprocal reciprocals
    """
    # Numbers in words.
    """
    zero zeros zeroes one ones two twos three threes four fours five fives six sixes
    seven sevens eight eights nine nines ten tens eleven elevens twelve twelves thirteen
    fourteen fifteen sixteen seventeen eighteen nineteen twenty twenties thirty thirties
    forty forties fifty fifties sixty sixties seventy eighty ninety nineties
    """
    # Operators, functions and constants.
    """
    plus pluses minus minuses times time over by divided divides multiplied multiplies
    added adds subtracted subtracts
    mod modulo modulus squared cubed factorial factorials power powers exponent
    exponents root roots sum sums difference differences product products quotient
    quotients remainder remainders inverse inverses log sin sine cos cosine tan exp
    sqrt pi pis tau phi infinity base bases hex hexadecimal binary octal decimal
    decimals imaginary complex
    """
    # Denial and doubt.
    """
    not no non never neither nor none nothing nowhere wrong incorrect false untrue
    except excepting excluding without but unless instead otherwise isnt arent wasnt
    maybe perhaps possibly probably about approximately approx around roughly nearly
    almost circa ish guess guesses
    """
    # Choices, comparisons and sentences.
    """
    and or to too through thru between from than at least most less lesser fewer under
    above below beyond beneath up down off lower higher equals equal is are was were be
    been has have had does do as this that these those it its if when while then else
    versus vs via exceeds means thus yes always sometimes many much few with before
    after until can cannot could may might must should will would
    """
    # A sign in words, and the two halves of a day.
    """
    negative negatives positive positives opposite opposites debt debts deficit deficits
    loss losses short shortage owed owes owing am pm
    """
)
"""Words that change the value and so are never part of a unit."""

_CODES = frozenset(CURRENCY_CODES)
_TEXT = re.compile(r"\\(?:text|textrm|mathrm|mbox)\s?\{([^{}]*)\}")
_TEX_BLANK = re.compile(r"\\[,;: ]|~")
_POWER = re.compile(r"(?:²|³|\^[23]|\^\{[23]\})\Z")
_DEGREES = re.compile(r"(?:°|\^\s?\\circ|\^\{\\circ\})\s*[CF]?")
_WORD = re.compile(r"[A-Za-z]{2,20}")
_PLURAL = re.compile(r"[a-z]+[a-hj-rtv-z]s")  # Neither -is, -ss nor -us.
_PERCENT = ("percent", "per cent")
_SIGNS = ("%", r"\%", "¢", *CURRENCY_SYMBOLS)
_RATES = ("per", "a", "an")
# Square and cubic. Other short words before a noun are scales: `18 mm dollars`.
_SHORT = ("sq", "cu")


def is_unit(text: str, *, currency: bool) -> bool:
    """Return whether `text`, everything after a number, leaves its value as it is."""
    # `$18m` is 18 million, so only words and currency codes may follow a currency.
    text = _TEX_BLANK.sub(" ", _TEXT.sub(r" \1", text))
    words = [_without_point(word) for word in text.split()]
    if not words:
        return True
    sign = " ".join(words)
    if sign in _SIGNS or sign.lower() in _PERCENT or _DEGREES.fullmatch(text.strip()):
        return not currency
    symbols = _CODES if currency else SYMBOLS
    if not text[0].isspace():
        # `18km` and `$18/hour` need no space; `18th` and `18ish` are not quantities.
        symbol, _, _ = words[0].partition("/")
        if not (_is_symbol(symbol, symbols) if symbol else currency):
            return False
    return _is_phrase(_without_remark(words), symbols)


def _is_phrase(words: list[str], symbols: frozenset[str]) -> bool:
    join = next((i for i, w in enumerate(words) if w in (*_RATES, "of")), len(words))
    noun, tail = words[:join], words[join:]
    if tail:
        most = 1 if tail[0] in _RATES else 2
        if not 1 <= len(tail) - 1 <= most or not all(map(_is_plain, tail[1:])):
            return False
    if not noun:
        return not tail or tail[0] in _RATES
    head, slash, rate = noun[-1].partition("/")
    if (
        len(noun) > MOST_WORDS
        or not all(w in _SHORT or (_is_word(w) and len(w) > 2) for w in noun[:-1])
        or (slash and not _is_plain(rate))
    ):
        return False
    if not head:
        return symbols is _CODES and len(noun) == 1
    return _is_symbol(head, symbols) or _is_noun(head)


def _is_noun(word: str) -> bool:
    lower = word.lower()
    known = lower in SINGULARS or _PLURAL.fullmatch(lower) is not None
    return known and _is_word(word) and len(lower) >= 3


def _is_plain(word: str) -> bool:
    return _is_symbol(word, SYMBOLS) or _is_word(word)


def _is_word(word: str) -> bool:
    lower = word.lower()
    known = lower in STOP_WORDS or "illion" in lower
    return _WORD.fullmatch(word) is not None and not known


def _is_symbol(word: str, symbols: frozenset[str]) -> bool:
    base = _POWER.sub("", word)
    # Areas, volumes and accelerations: `cm^2`, `m³`, `m/s^2`.
    return base in symbols and (base == word or base in _LENGTHS or base == "s")


def _without_point(word: str) -> str:
    shorter = word.removesuffix(".")
    return shorter if shorter in SYMBOLS or shorter in _SHORT else word


def _without_remark(words: list[str]) -> list[str]:
    if words[-2:] in (["in", "total"], ["in", "all"]):
        return words[:-2]
    return words[:-1] if words[-1] in REMARKS else words
