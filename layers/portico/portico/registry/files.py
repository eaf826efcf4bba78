"""Reading a configuration file that may be anything: missing, huge, a directory, not text."""

from pathlib import Path

from portico.registry.document import MAX_BYTES
from portico.registry.problems import Report


def read_text(path: Path, report: Report) -> str | None:
    try:
        if path.exists() and not path.is_file():  # a pipe would keep us waiting
            report.problem("", None, "a file", "a directory" if path.is_dir() else "something else")
            return None
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        report.problem("", None, "a file", "nothing")
        return None
    except OSError as error:
        report.problem("", None, "a file that can be read", error.strerror or "an error")
        return None
    if len(content) > MAX_BYTES:
        report.problem("", None, f"at most {MAX_BYTES} bytes", "more")
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        report.problem("", line, "UTF-8 text", f"the byte 0x{content[error.start]:02x}")
        return None
