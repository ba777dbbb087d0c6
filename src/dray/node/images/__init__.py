"""Container images: sources of images, unpacking, and the images that this node has.

`reference` (names), `archives` and `registry` (sources), `unpack` (layers to files), `library` (images on this node),
`puller` (pull policies, pull secrets and pauses). Left out: running images, which is the runtime's task.
"""
