"""The test kit: the only place in tests that names modules of the product.

A module a capability, called as HOUSE calls the capability; a test imports from here and from
nowhere else. When a module of the product moves, lines change here, and in no test.
"""
