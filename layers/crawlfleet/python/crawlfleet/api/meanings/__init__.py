"""Meanings of the fields of bodies and answers, for the OpenAPI document."""
