"""Answers to number tasks that must not score, by families.

Each states another value than its reference, no value for certain, more than one, or a
calculation that is not carried out. Many have the reference's digits in them.
"""

from benchmarks.verifier.right_forms import Forms

SIGNS: Forms = {
    "5": [
        *("-5", "- 5", "−5", "–5", "‑5", "—5", "(-5)", "minus 5", "negative 5", "-$5"),
        *(
            "$-5",
            "**-5**",
            "-5 dollars",
            "x = -5",
            r"\boxed{-5}",
            "−$5.00",
            "5-",
            "-(5)",
        ),
        *("- -5", "--5", "-(-5)", "minus -5", "±5", r"\pm 5", "+/-5", "5 negative"),
    ],
    "-5": ["5", "+5", "(5)", "+-5", "-+5", "−−5", "±5", "5-", "negative -5"],
    "-0.75": ["3/4", r"-\frac{-3}{4}", r"\frac{3}{4}", "-4/3"],
}

POWERS: Forms = {
    "18": [
        *("18!", "18!!", "18²", "18³", "18⁻¹", "18^2", "18**2", "18^{x}", "(18)²"),
        *(r"\boxed{18}^2", "$18$!", "**18**²", "18₂", "18_2", "18 squared", "18 cubed"),
        *("18 factorial", "18^0", "(18)!", "18\u0338", "18\u20e3"),
    ],
    "182": ["18²", "18₂", "¹82"],
    "1": ["1!", "1²", "1 squared", "18^0"],
}

FRACTIONS: Forms = {
    "18": [
        *("18½", "18 ½", "18 1/2", r"18\frac{1}{2}", "18/x", r"\frac{18}{x}", "18/2"),
        *("36/2", r"\frac{36}{2}", "18/1", r"\frac{18}{1}", "1/18", "18/0", "18÷1"),
        *("18:1", "18 over 1", "18⁄1", "18 0/4", "half of 18", "18 halves", "18//1"),
    ],
    "181/2": ["18½", "18 1/2"],
    "90.5": ["18½", "181⁄2"],
    "0.75": [
        "4/3",
        "3/40",
        "3:4",
        r"\frac{4}{3}",
        "1 3/4",
        "3 4",
        "-3/4",
        "¾¾",
        "3/4/1",
    ],
    "1.75": ["1 + 3/4", "1 1/4", "13/4", "1 7/4", "1 3/0", r"1\frac{-3}{4}"],
}

SCALE: Forms = {
    "18": [
        *("18 thousand", "18 million", "18 billion", "18 zillion", "18 hundred"),
        *("18 dozen", "18 score", "18 gross", "18 lakh", "18 crore", "18 grand"),
        *("18k", "18 k", "18K", "18M", "18B", "$18k", "$18m", "$18 M", "$18 bn"),
        *("18 thousand dollars", "$18 million", "18 dozen eggs", "18 pairs of socks"),
        *(
            "18 tens",
            "18 tenths",
            "18 hundredths",
            "18 thousandths of one",
            "18 thirds",
        ),
        *("18 quarters", "18 half apples", "**18** thousand", r"18\text{ thousand}"),
        *(r"\boxed{18} million", "18 per thousand", "18 a dozen", "18 per dozen"),
        *("18 kilo", "18 Thousand", "18 hundreds of apples", "18 twos", "18fold"),
    ],
    "1": ["1 thousand", "1 dozen", "1 half", "1 third", "1 grand", "1 mil", "1 pair"],
    "-5": ["-5 thousand", "-$5 million", "−5k"],
    "7.5": ["7.5 million", "$7.5 billion", "7.5k"],
}

FUNCTIONS: Forms = {
    "18": [
        *(r"\sin 18", "sin 18", "sin(18)", r"\sqrt{18}", "√18", r"\log 18", "|-18|"),
        *(r"18\pi", "18π", "18 pi", "18e", "18i", "18x", "18 x", "18n", "f(18)"),
        *(r"18\sqrt{2}", "18 mod 5", "18 root", "-(-18)", r"\lfloor 18.5 \rfloor"),
        *("18 pi meters", r"18\infty", "x18", "a18", r"\overline{18}", "18'"),
    ],
    "1": ["1 pi", "1e", "1i", r"\sin 1"],
}

DENIALS: Forms = {
    "18": [
        *("not 18", "anything but 18", r"x \neq 18", "x ≠ 18", "x != 18", "18 not"),
        *("18 is wrong", "18 is not the answer", "The answer is not 18", "!18", "¬18"),
        *("The answer isn't 18", "The wrong answer is 18", "never 18", "no 18"),
        *("~~18~~", r"\cancel{18}", "<s>18</s>", "18?", "18 (wrong)", "except 18"),
        *("18 wrong", "18 isn't right", "18 but no", "The answer is 18, not"),
        *("18 not apples", "the opposite of 18", "x == 18 is false", "x = not 18"),
        *("-x = 18", r"\text{not }18", r"\text{-}18", r"\lnot 18", "$-$18"),
        *(r"-\boxed{18}", "18 not counting tax"),
    ],
    "-5": ["not -5", r"\neq -5", "-5 is wrong"],
}

COMPARISONS: Forms = {
    "18": [
        *("> 18", "< 18", r"\geq 18", "≤18", "x > 18", "x<18", "at least 18", "18+"),
        *("at most 18", "more than 18", "less than 18", "up to 18", "under 18"),
        *("18 or more", "18 or less", "18 plus", "18 to 20", "18-20", "18–20", "17-18"),
        *("between 17 and 18", "above 18", "18 at least", "18 more than x", "(17, 18]"),
        *("18 fewer apples", "18 less", "18 short", "18 below zero", "18 in debt"),
        *("18 degrees below zero", "18 apples too many", "18 dollars of debt"),
    ],
}

APPROXIMATIONS: Forms = {
    "18": [
        *("about 18", "approximately 18", "~18", "≈18", "≈ 18", r"\approx 18", "18ish"),
        *("x ≈ 18", "18 or so", "around 18", "roughly 18", "nearly 18", "18 approx"),
        *("18...", "18…", "18.0…", "maybe 18", "18 maybe", "circa 18", "18 perhaps"),
    ],
    "1/3": ["0.333333", "0.33", "0.3333333333333333", "0.3…", r"0.\overline{3}"],
    "0.333333": ["1/3", "0.3333333"],
}

CHOICES: Forms = {
    "18": [
        *("18 or 19", "17 or 18", "17, 18", "18, 19", "18 and 19", "18; 19", "18 19"),
        *("17 18", "17\n18", "18\n19", "{17, 18}", "[18]", r"\{18\}", "(17, 18)"),
        *(
            "$17$ or $18$",
            r"\boxed{17}\boxed{18}",
            r"\boxed{18}, \boxed{19}",
            "18 = 19",
        ),
        *("x = 17 or x = 18", "$18 and $20", "18 <!-- 19 -->", "18 # 19", "18|19"),
        *("**17** **18**", "17 no 18", "18 apples or pears", "18 apples and 2 pears"),
        *("either 18", "18/19", "A = 18, B = 19", "18 # or nineteen"),
    ],
}

CALCULATIONS: Forms = {
    "18": [
        *("14 + 4", "20 - 2", "9 * 2", "9 × 2", "2·9", "14 + 4 = 18", "18 = 14 + 4"),
        *("18 + 0", "18*1", "18 - 0", "10 + 8 apples", "half of 36", "twice 9", "2(9)"),
        *("9 doubled", "18 percent of 100", "18% of 100", "18 plus 0", "18 minus 2"),
        *("18 times 1", "18 divided by 1", "(18)(1)", "(18) 1", "10^1 + 8", "18 = 18"),
        *("the sum of 9 and 9", r"$9 \cdot 2$", "18 + x", "18 apples minus 2", "18-"),
        *(
            "18 times",
            "18 minus",
            "18 by 1",
            r"18 \div 1",
            "(14 + 4)",
            "18, then 2 more",
        ),
    ],
    "-5": ["5 - 10", "0 - 5", "-10/2", "-5 + 0"],
}

PERCENT: Forms = {
    "0.07": ["7%", r"7\%", "7 percent", "7 per cent", "$7\\%$"],
    "7": ["0.07", "700%", "7% off", "7 percent off", "7‰", "7% of 100", "7%%", "$7%"],
    "7%": ["0.07", "700%", "7/100"],
    "0.5": ["50%", "5%"],
    "50": ["0.5", "1/2", "50 basis points", "50 bps", "50% more", "50 ppm"],
}

SEPARATORS: Forms = {
    "1234": [
        *("1,2,34", "12,34", "1,23,4", "1.234", "1,234,", "1_234", "1'234", "1;234"),
        *("1,234,000", "1 23 4", "1, 234", "1,234 5", "1.234,00", "1,2345", "1 , 234"),
        *("1,234.5", "1 234,000", "12 34", "0,001,234", "1\n234"),
    ],
    "7.2": ["7,2", "72", "7 2", "7. 2", "7.2.0"],
    "18": [
        *("1 8", "1,8", "18,0", "18.0.0", "18..", "18,", "1.8", "180", "18.0000001"),
        *("17.9999999", "18.00000000000000000001", ".18", "8", "118", "18 000"),
    ],
}

DIGITS: Forms = {
    "18": [
        *(
            "１８",
            "١٨",
            "१८",
            "𝟏𝟖",
            "①⑧",
            "⑱",
            "⒙",
            "XVIII",
            "eighteen",
            "0x12",
            "十八",
        ),
        *("0b10010", "0o22", "12_16", "1８", "¹⁸", "₁₈", "", " ", "-", "$", "apples"),
    ],
}

SCIENTIFIC: Forms = {
    "18": [
        *("1.8e2", "1.8e", "1.8e0", "1.8e-1", "1.8e1.0", r"1.8 \times 10", "18e1"),
        *("1.8 x 10^", r"18 \times 10^1", "1e18", "10^18", "1.8e1e1", "1.8 × 10²"),
        *("1.8e1!", "1.8 e1", "18e99999", "1.8^1", "1.8 + 10^1", "18 x 10"),
    ],
}

TIMES_AND_RANKS: Forms = {
    "18": [
        *("18 ft 6 in", "18 hours 30 minutes", "18 dollars and fifty cents", "18 BC"),
        *("18 years ago", "18 out of twenty", "18 in twenty", "18 five cents"),
        *("18:00", "18/11/2026", "18th", "18th place", "No. 18"),
        *("18-11", "18h30"),
    ],
    "6": ["6 pm", "6 am", "6:00", "6 o'clock", "6 p.m.", "6:30"],
    "1": ["1st", "1st place", "1:1", "1 short", "1 off", "1 wrong"],
}

WRONG: dict[str, Forms] = {
    "signs": SIGNS,
    "powers": POWERS,
    "fractions": FRACTIONS,
    "scale": SCALE,
    "functions": FUNCTIONS,
    "denials": DENIALS,
    "comparisons": COMPARISONS,
    "approximations": APPROXIMATIONS,
    "choices": CHOICES,
    "calculations": CALCULATIONS,
    "percent": PERCENT,
    "separators": SEPARATORS,
    "digits": DIGITS,
    "scientific": SCIENTIFIC,
    "times and ranks": TIMES_AND_RANKS,
}
