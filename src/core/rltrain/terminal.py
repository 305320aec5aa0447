"""What reaches a terminal or a page: text of others, without what would control it."""

from rltrain.files.terminal import note, one_line, plain, plain_output, plain_stream, raw

__all__ = ["note", "one_line", "plain", "plain_output", "plain_stream", "raw"]
