"""gRPC services between a node agent and DRA drivers, and the external provider of Cluster Autoscaler.

The messages are generated from the .proto files beside them (`make rpc`). Names and field numbers are those of the
kubelet's APIs and of Cluster Autoscaler, so programs written in Go understand them. `services` serves and calls them.
"""

# Services as drivers name them at registration, the preferred version first. The messages of all versions have the
# same bytes, so one .proto file serves all.
PLUGIN_SERVICES = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
PLUGIN_PACKAGE = "k8s.io.kubelet.pkg.apis.dra"  # prefix of these service names in calls
HEALTH_SERVICES = ("v1.DRAResourceHealth", "v1beta1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
