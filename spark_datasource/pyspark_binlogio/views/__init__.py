"""The views of a log: columns and records of `rows`, `events`, `transactions` and `cdf`."""
