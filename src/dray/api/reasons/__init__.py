"""Reasons of decisions as data: structs of codes, numbers and names, and one module that formats them as text.

Every decision is made once and passed on as codes. Text is generated last, in `wording`; no program parses it.
The callers that fill these structs make the decisions.
"""
