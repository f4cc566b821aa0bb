from binlogio._kernel.memory import Memory

class Presence:
    present: Memory
    present_offsets: Memory
    validity: Memory
    rows: int

class Heads:
    count: int
    pos: Memory
    row: Memory
    timestamp: Memory
    server_id: Memory
    op_offsets: Memory
    op: Memory
    gtid_offsets: Memory
    gtid: Memory
    gtid_validity: Memory
    last_committed: Memory
    sequence_number: Memory
    clock_validity: Memory
    gtid_nulls: int
    clock_nulls: int
