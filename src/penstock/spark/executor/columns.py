"""Names of the columns that Penstock adds between its stages."""

RESERVED = "_penstock"
KEY = "_penstock_key"
INSTANCE = "_penstock_instance"
ARRIVAL = "_penstock_arrival_ms"
