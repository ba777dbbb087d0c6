"""What would help something that waits: changes that are tried in memory before anybody is told of them.

For each cause some module here offers changes, the most natural first; `offers` applies each to the snapshot and keeps
those after which the pod has a place. Nothing is better than something wrong: where the user may not read what decides,
where time runs out, or where no change passes, there is no suggestion.
"""
