"""Prints tables as plain text: columns as wide as their widest cell, with dashes below the
headings."""


def _lines(cells, widths):
    """Returns the lines of a row; a cell may have several lines."""
    parts = [str(cell).split("\n") for cell in cells]
    for i in range(max(map(len, parts))):
        texts = [part[i] if i < len(part) else "" for part in parts]
        yield "  ".join(text.ljust(width) for text, width in zip(texts, widths)).rstrip()


def table_text(headings, rows):
    """Returns the table's text, without a final newline."""
    rows = [[str(cell).strip() for cell in row] for row in rows]
    widths = [max([len(heading) + 2, *(len(line) for cell in column for line in cell.split("\n"))])
              for heading, *column in zip(headings, *rows)]
    dashes = ["-" * width for width in widths]
    return "\n".join(line for row in (headings, dashes, *rows) for line in _lines(row, widths))
