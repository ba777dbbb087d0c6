"""Talk to an API server: one interface, in-process and over HTTP, and what is built on it.

Informers, work queue, controller loop, events and leader election know the interface only.
"""

from dray.client.interface import Batch, Client, Object, Page, Patch, PatchKind, Tree, WatchEvent, resource_of, type_of

__all__ = ["Batch", "Client", "Object", "Page", "Patch", "PatchKind", "Tree", "WatchEvent", "resource_of", "type_of"]
