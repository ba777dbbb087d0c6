"""Figures, printed and never judged: `python -m bench [NAME …]`.

Every figure stands beside something to compare it with from the same run, since machines differ and are noisy.
"""
