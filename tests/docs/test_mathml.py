import pytest
from mathml import mathml


def test_a_formula_is_mathml_for_its_place():
    inline = mathml(r"\hat h(u) = f + (h_0 - f)e^{-ru}", block=False)
    assert inline.startswith("<math")
    assert 'display="inline"' in inline
    assert 'display="block"' in mathml(r"\sum_k \alpha_k", block=True)


def test_an_unknown_command_is_an_error():
    with pytest.raises(ValueError, match=r"no MathML for \\unheardof"):
        mathml(r"\unheardof{x}", block=False)


def test_a_space_at_the_end_of_a_line_is_a_space():
    assert "\\" not in mathml("a,\\\nb", block=True)


def test_functions_are_apart_from_their_arguments():
    assert "<mi>log</mi><mspace" in mathml(r"\log r", block=False)
    assert "<mspace" not in mathml(r"\log(r)", block=False)
    assert "<mspace" in mathml(r"\mathrm{Var}\log(r)", block=False)
