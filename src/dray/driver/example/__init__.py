"""Example drivers, short and simple, to copy from: GPUs of a node, GPUs that are partitioned on demand, network
interfaces that claims share, CPUs of a node, and accelerators behind a network.
"""

from dray.driver.example.bandwidth import BandwidthDriver
from dray.driver.example.cpus import CpuDriver
from dray.driver.example.gpu import GpuDriver
from dray.driver.example.network import NetworkDriver
from dray.driver.example.partitions import PartitionDriver

__all__ = ["BandwidthDriver", "CpuDriver", "GpuDriver", "NetworkDriver", "PartitionDriver"]
