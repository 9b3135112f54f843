"""Columns: select the wanted ones, and read times, keys and atoms from them."""
