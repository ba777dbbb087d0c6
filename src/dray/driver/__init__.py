"""The API for authors of DRA drivers: see docs/driver.md.

```python
class MyDriver:
    name = "gpu.example.com"

    async def devices(self):
        return {"my-node": Pool([device("gpu-0", {"model": "a100"}, {"memory": "40Gi"})])}

    async def prepare(self, claim):
        return [PreparedDevice(one, Edits(env={"GPU": one.name})) for one in claim.devices]

    async def unprepare(self, claim):
        pass


await run(MyDriver(), client, node="my-node")
```
"""

from dray.api.cdi import CdiError
from dray.driver.cdi import DeviceNode, Edits, Hook, Mount
from dray.driver.claims import AllocatedClaim, AllocatedDevice, ClaimReference, DeviceConfig
from dray.driver.contract import DeviceHealth, Driver, PreparedDevice, PrepareError
from dray.driver.metadata import DeviceMetadata, NetworkData
from dray.driver.pools import Pool, Pools, Version, device
from dray.driver.publisher import Publisher
from dray.driver.running import Runner, run
from dray.driver.sharing import consumes, counter_set, portions
from dray.driver.status import DeviceCondition as Condition
from dray.driver.status import DeviceStatus, report
from dray.driver.sysfs import pci_address, pci_attributes

__all__ = [
    "AllocatedClaim",
    "AllocatedDevice",
    "CdiError",
    "ClaimReference",
    "Condition",
    "DeviceConfig",
    "DeviceHealth",
    "DeviceMetadata",
    "DeviceNode",
    "DeviceStatus",
    "Driver",
    "Edits",
    "Hook",
    "Mount",
    "NetworkData",
    "Pool",
    "Pools",
    "PrepareError",
    "PreparedDevice",
    "Publisher",
    "Runner",
    "Version",
    "consumes",
    "counter_set",
    "device",
    "pci_address",
    "pci_attributes",
    "portions",
    "report",
    "run",
]
