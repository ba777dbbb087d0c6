"""Two example drivers, short and plain, to copy from: GPUs of a node, and accelerators behind a network."""

from dray.driver.example.gpu import GpuDriver
from dray.driver.example.network import NetworkDriver

__all__ = ["GpuDriver", "NetworkDriver"]
