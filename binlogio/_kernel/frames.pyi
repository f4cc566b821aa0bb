from binlogio._kernel.memory import Memory

class EventIndex:
    offset: Memory
    event_size: Memory
    log_pos: Memory
    timestamp: Memory
    server_id: Memory
    flags: Memory
    type_code: Memory
    end: int
    count: int
    def __len__(self) -> int: ...

def scan_headers(
    buffer: bytes | bytearray | memoryview,
    offset: int = 0,
    *,
    checksum: bool,
    verify: bool = True,
    stop_at_description: bool = True,
) -> EventIndex: ...

class GroupIndex:
    offset: Memory
    committed_us: Memory
    timestamp: Memory
    end: int
    count: int
    def __len__(self) -> int: ...

def scan_groups(buffer: bytes | bytearray | memoryview, offset: int = 0, *, checksum: bool) -> GroupIndex: ...
def pass_events(buffer: bytes | memoryview, offset: int, *, checksum: bool) -> int: ...
def stamp_events(buffer: bytearray | memoryview, offset: int, *, checksum: bool) -> int: ...
def find_group(buffer: bytes | bytearray | memoryview, offset: int, *, checksum: bool) -> tuple[int, int]: ...
