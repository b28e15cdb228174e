"""Sources and subscribers: streams that many share (SPEC.md D3 to D10).

1. A filter says in one line what a subscriber wants (``parsing``, ``filters``, ``text``).
"""
