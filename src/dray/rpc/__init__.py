"""gRPC stubs of the sockets between a node agent and DRA drivers.

Generated from the .proto files beside them (`make rpc`); names and field numbers are those of the kubelet's APIs, so
drivers and agents written in Go understand them.
"""
