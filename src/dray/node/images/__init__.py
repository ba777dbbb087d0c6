"""Container images: where they come from, how they are unpacked, and which ones this node has.

`reference` (names), `archives` and `registry` (where images come from), `unpack` (layers to files), `library` (what this
node has), `puller` (policies, secrets and pauses). Left out: running them, which is the runtime's.
"""
