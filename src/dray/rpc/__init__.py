"""gRPC stubs of the sockets between a node agent and DRA drivers.

Generated from the .proto files beside them (`make rpc`); names and field numbers are those of the kubelet's APIs, so
drivers and agents written in Go understand them.
"""

# Services as drivers name them at registration; the best comes first. The messages of all versions are the same bytes.
PLUGIN_SERVICES = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
HEALTH_SERVICES = ("v1.DRAResourceHealth", "v1beta1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
