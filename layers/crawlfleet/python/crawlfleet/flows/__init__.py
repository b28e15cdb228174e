"""The verbs, one a file, to be read top to bottom: each is one journey of the README's table.

A flow is given ``now`` and its ports; it decides through policy and acts through ports.
"""
