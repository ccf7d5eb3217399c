"""The ledger of the results that this project adds to the papers."""
