"""gRPC stubs of the sockets between a node agent and DRA drivers, and of Cluster Autoscaler's external provider.

Generated from the .proto files beside them (`make rpc`); names and field numbers are those of the kubelet's APIs and of
Cluster Autoscaler, so programs written in Go understand them.
"""

# Services as drivers name them at registration; the best comes first. The messages of all versions are the same bytes.
PLUGIN_SERVICES = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
HEALTH_SERVICES = ("v1.DRAResourceHealth", "v1beta1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
