"""Right answers to number tasks, by families, in the grammar of docs/tasks.md.

Each family lists its forms under the reference that all of them equal.
"""

Forms = dict[str, list[str]]

SIGNS: Forms = {
    "-5": [
        *("-5", "- 5", "−5", "− 5", "–5", "‑5", "‐5", "(-5)", "(−5)", "-5.0"),
        *("minus 5", "Minus 5", "negative 5", r"\(-5\)", "$-5$", "−5."),
    ],
    "18": ["+18", "+ 18", "+18.0"],
    "7.5": ["+7.5"],
    "0": ["-0", "0", "0.00", "0 apples"],
    "-1234": ["−1,234", "-1234", "negative 1,234"],
}

DIGITS: Forms = {
    "18": ["18", " 18\n", "18.0", "18.", "018", "18.000000"],
    "7.5": ["7.5", "7.50", "07.5"],
    "0.75": ["0.75", ".75", "0.7500"],
    "123456789012345678901": ["123456789012345678901", "123,456,789,012,345,678,901"],
}

SEPARATORS: Forms = {
    "1234": [
        *("1,234", "1{,}234", r"1\,234", "1 234", "1\u00a0234", "1\u2009234"),
        *("1\u202f234", r"1,\!234", "1,234.00", "$1{,}234$"),
    ],
    "1234567": ["1,234,567", "1 234 567", "1{,}234{,}567", r"1\,234\,567", "1234567.0"],
    "1234.5": ["1,234.5", "1 234.5", "1234.50"],
}

FRACTIONS: Forms = {
    "0.75": [
        *("3/4", "3 / 4", "6/8", "¾", r"\frac{3}{4}", r"\dfrac{3}{4}", r"\tfrac{3}{4}"),
        *(r"\frac34", r"\dfrac34", r"$\frac{3}{4}$", r"\boxed{\frac{ 3 }{ 4 }}"),
    ],
    "1.75": [
        "1 3/4",
        "1¾",
        "1 ¾",
        r"1\frac{3}{4}",
        r"1 \tfrac34",
        "7/4",
        r"\frac{7}{4}",
    ],
    "-0.75": ["-3/4", "−3/4", r"-\frac{3}{4}", r"\frac{-3}{4}", "−¾", "(-3/4)"],
    "1/3": ["1/3", "2/6", "⅓", r"\frac13", r"\frac{1}{3}"],
    "-7/4": ["-1 3/4", "-1¾", "-1.75"],
}

SCIENTIFIC: Forms = {
    "18": [
        *("1.8e1", "1.8E1", "1.8e+01", "180e-1", r"1.8 \times 10^1", "1.8 x 10^1"),
        *(r"1.8\times10^{1}", "1.8 × 10^1", "1.8 * 10^1", "1.8*10**1", "1.8 × 10¹"),
        *(r"1.8 \cdot 10^{1}", r"$1.8 \times 10^{1}$"),
    ],
    "0.075": ["7.5e-2", r"7.5 \times 10^{-2}", "7.5 × 10⁻²", "7.5 × 10^-2", "7.5e−2"],
    "-1234": ["-1.234e3", r"-1.234 \times 10^3"],
}

CURRENCIES: Forms = {
    "18": [
        *("$18", r"\$18", "$18.00", "$ 18", "US$18", "€18", "£18", "¥18", "₹18"),
        *("18€", "18 €", "18$", "USD 18", "18 USD", "$18 USD", "$18 dollars", "18¢"),
        *(r"$\$18$", r"\(\$18\)", "18 dollars", "18 cents", "18 euros"),
    ],
    "1234.5": ["$1,234.50", "€1,234.50", r"\$1{,}234.50", "$1,234.50 a day"],
    "-5": ["-$5", "$-5", r"-\$5", "−€5", "minus $5", "- $5.00"],
}

UNITS: Forms = {
    "18": [
        *("18 apples", "18 people", "18 children", "18 square feet", "18 km", "18km"),
        *("18 km/h", "18 m/s", "18 m/s^2", "18 cm^2", "18 cm²", "18 m^{3}", "18 ft."),
        *("18 sq. ft.", "18 miles per hour", "18 dollars per hour", "$18/hour"),
        *("18 dollars/hour", "18 dollars a day", "$18 per ticket", "18 a day"),
        *("18 gallons of water", "18 cups of brown sugar", "18 red marbles"),
        *("18 more apples", "18 apples left", "18 apples in total", "18 in total"),
        *("18 each", "18 years old", "18 feet long", "18 chocolate chip cookies"),
        *(r"18\text{ dollars}", r"18 \text{ cm}^2", r"18\,\text{km/h}"),
        *(r"18~\mathrm{kg}", "18°", "18°C", r"18^\circ", r"18^{\circ}\text{C}"),
        *("18 degrees Celsius", "18 Apples", "18 hours."),
    ],
    "1": ["1 hour", "1 person", "1 dollar"],
    "0.75": ["3/4 cup", "3/4 cup of sugar", "0.75 miles"],
    "-5": ["-5 degrees", "-5°C", "−5 points"],
}

PERCENT: Forms = {
    "7": ["7%", "7 %", r"7\%", r"$7\%$", "7 percent", "7 per cent", "7 Percent."],
    "7%": ["7%", "7", "7.0%"],
    "0.5": ["0.5%", "1/2%"],
}

MARKUP: Forms = {
    "18": [
        *("**18**", "*18*", "***18***", "__18__", "_18_", "`18`", "```18```"),
        *('"18"', "'18'", "“18”", "‘18’", "(18)", "( 18 )", "$18$", "$$18$$"),
        *(r"\(18\)", r"\[18\]", r"\boxed{18}", r"$\boxed{18}$", r"\fbox{18}"),
        *(r"\text{18}", r"\textbf{18}", r"\mathbf{18}", r"\left(18\right)"),
        *("**$18**", "**18 dollars**", "**18** dollars", r"\boxed{18} dollars"),
        *("$18$ dollars", r"\boxed{18\text{ dollars}}", r"\boxed{\$18}", "**18**."),
        *('"18."', r"\boxed{18}.", r"**\boxed{18}**", r"\[\boxed{18}\]", "**18**%"),
    ],
    "-5": ["**-5**", r"\boxed{-5}", r"$\boxed{−5}$", '"-5"', "`-5`", "**(-5)**"],
    "1234": ["**1,234**", r"\boxed{1{,}234}", "*1 234*"],
    "7.5": ["**7.5**", r"$\boxed{7.5}$", "`7.50`"],
}

LEAD_INS: Forms = {
    "18": [
        *("x = 18", "x=18", "$x = 18$", r"\boxed{x = 18}", r"x = \boxed{18}", "= 18"),
        *("#### 18", "The answer is 18", "The answer is 18.", "The answer is: 18"),
        *("Answer: 18", "answer = 18", "Final answer: 18", "**Answer:** 18"),
        *("**Answer: 18**", "**Final Answer**: 18", "So the answer is 18."),
        *(r"Therefore, the final answer is $\boxed{18}$.", "The answer is **18**."),
        *(
            "The answer is $x = 18$.",
            "Answer: **18**",
            "The answer is $18.",
            "The answer is 18 dollars.",
            "The answer is:\n18",
        ),
        *("The correct answer is 18", "My answer is 18", "THE ANSWER IS 18"),
    ],
    "-5": ["The answer is −5.", "x = -5", "Answer: -$5", "#### -5"],
    "1234": ["#### 1,234", "The answer is $1,234.00."],
    "0.75": [r"x = \frac{3}{4}", "The answer is 3/4."],
}

RIGHT: dict[str, Forms] = {
    "signs": SIGNS,
    "digits": DIGITS,
    "separators": SEPARATORS,
    "fractions": FRACTIONS,
    "scientific": SCIENTIFIC,
    "currencies": CURRENCIES,
    "units": UNITS,
    "percent": PERCENT,
    "markup": MARKUP,
    "lead-ins": LEAD_INS,
}
