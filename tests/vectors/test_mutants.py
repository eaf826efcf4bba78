"""A policy that decides otherwise is noticed."""

from tests.vectors.mutants import EQUIVALENT, Examination, mutants


def test_no_mutant_of_the_policy_lives():
    """G1.74"""
    examination = Examination()
    found = {mutant.about: examination.noticed_by(mutant) for mutant in mutants()}
    assert len(found) > 60
    assert {about for about, vector in found.items() if vector is None} == set(EQUIVALENT)
