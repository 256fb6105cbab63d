STREAMS: dict[str, int]
BLOCK_BYTES: int
PAGE_BYTES: int

class Streams:
    def __init__(self, working_set_bytes: int, threads: int) -> None: ...
    def run(self, operation: str, stream_bytes: int, threads: int, repeats: int) -> float: ...
