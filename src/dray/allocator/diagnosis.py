from dray.allocator.reasons import Reasons
def diagnose(*a): raise NotImplementedError
