"""Names of the columns that Penstock adds between its stages."""

RESERVED = "_penstock"

# Hash of the key.
KEY = "_penstock_key"
# Hash of the whole record: the order of records of equal hashes does not matter.
RECORD = "_penstock_record"
# Size of the record, which its cost follows; null if it is unknown.
SIZE = "_penstock_size"
# Time of arrival in milliseconds since 1970.
ARRIVAL = "_penstock_arrival_ms"
# Whether the record must not be shed.
PROTECTED = "_penstock_protected"
# Number of the partition at this point of the plan. A task has another number if a later step of
# its stage, such as `coalesce` or `union`, merges or renumbers partitions.
PARTITION = "_penstock_partition"
# Number that the routing stage writes.
DESTINATION = "_penstock_destination"
