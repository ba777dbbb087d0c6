"""Reasons as data: codes with numbers and subjects, and one module that turns codes into words.

A decision is made once and travels as codes; sentences are made last, in `wording`, and no program reads one. Left out:
making decisions, which is the part of whoever fills these structs.
"""
