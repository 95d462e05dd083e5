"""Names of the columns that Penstock adds between its stages."""

RESERVED = "_penstock"
KEY = "_penstock_key"
DESTINATION = "_penstock_destination"
ARRIVAL = "_penstock_arrival_ms"
