"""Nibs and what they draw."""


def clamp(value, low, high):
    """Give the value, or the bound that it is beyond."""
    if value < low:
        return low
    if value > high:
        return high
    return value


def dashes(length, dash=3, gap=1):
    """Give the starts and ends of dashes along a line.

    The last one is cut where the line ends.
    """
    found = []
    for at in range(0, length, dash + gap):
        found.append((at, min(at + dash, length)))
    return found


def is_even(count):
    """Tell whether a count is even."""
    return count % 2 == 0
