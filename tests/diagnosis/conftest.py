"""Event logs for the tests of this folder (`from written import ...`)."""
