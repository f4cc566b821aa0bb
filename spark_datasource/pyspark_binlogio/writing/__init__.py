"""Records to binary logs: what tasks stage, and the commit that makes logs of it. `log_writer` is the way in."""
