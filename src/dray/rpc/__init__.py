"""gRPC of the sockets between a node agent and DRA drivers, and of Cluster Autoscaler's external provider.

The messages are generated from the .proto files beside them (`make rpc`); names and field numbers are those of the
kubelet's APIs and of Cluster Autoscaler, so programs written in Go understand them. `services` serves and calls them.
"""

# Services as drivers name them at registration; the best comes first. The messages of all versions are the same bytes,
# so one .proto file serves them all.
PLUGIN_SERVICES = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
PLUGIN_PACKAGE = "k8s.io.kubelet.pkg.apis.dra"  # comes before the names of these services when they are called
HEALTH_SERVICES = ("v1.DRAResourceHealth", "v1beta1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
