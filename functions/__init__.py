"""The five doors: each opens what its journey needs and calls one flow."""
