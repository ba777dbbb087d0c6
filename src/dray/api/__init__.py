"""What travels over the wire: types, defaults, conversion, validation, quantities, feature gates, errors.

Pure: nothing here does input or output, and nothing here imports another part of dray.
"""
