"""Suggestions for waiting objects: changes that are tried in memory before they are shown.

For each cause, a module here offers changes, the most natural first; `offers` applies each change to the snapshot and
keeps those after which the pod can be placed. No suggestion is better than a wrong one: there is none if the user
cannot read relevant objects, if time runs out, or if no change passes.
"""
