"""The only place that knows HTTP: event -> model, result or error -> answer.

``routes`` is the table of everything the API offers; the router's dispatch, the OpenAPI document
and the tests are made from it.
"""
