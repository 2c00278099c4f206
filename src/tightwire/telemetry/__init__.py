"""What happened and what it cost: events, sinks, and the ledger of bytes."""
